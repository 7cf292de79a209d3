"""Ways to execute runs: they differ in speed, never in meaning."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from crossprop.engines import chunked, scan
from crossprop.engines.gpu import kernel, parts, sliced
from crossprop.engines.protocol import Batch
from crossprop.engines.session import Session
from crossprop.learners.base import CreditRule, Learner
from crossprop.variables import Variable


@runtime_checkable
class Engine(Protocol):
    """The contract of an engine: a module or an object with these functions."""

    def why_unsupported(self, learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
        """Why this engine cannot run the learner there, or None."""
        ...

    def width(self, learner: Learner, platform: str) -> int:
        """How many runs go in one batch."""
        ...

    def start(self, batch: Batch, platform: str) -> Session:
        """Begins the runs of a batch, whose learners have one structure."""
        ...


class WithPrograms(NamedTuple):
    """An engine for any device, with GPU programs for learners that have some."""

    engine: Any
    programs_for: Callable[..., Any]

    def why_unsupported(self, learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
        return self.engine.why_unsupported(learner, platform, observed)

    def width(self, learner: Learner, platform: str) -> int:
        return self.engine.width(learner, platform, self.programs_for(learner, platform))

    def start(self, batch: Batch, platform: str) -> Session:
        programs = self.programs_for(batch.runs[0].learner, platform, batch.options.observed)
        return self.engine.start(batch, platform, programs)


ENGINES: dict[str, Engine] = {
    "scan": WithPrograms(scan, sliced.loop_for),
    "chunked": WithPrograms(chunked, parts.programs_for),
    "kernel": kernel,
}


def choose(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str:
    """The engine for a learner, by device, sizes and rule, never by the number of runs."""
    if kernel.why_unsupported(learner, platform, observed) is None:
        return "kernel"
    is_wide = isinstance(learner, CreditRule) and learner.network.fan_in >= chunked.WIDE
    if is_wide and chunked.why_unsupported(learner, platform, observed) is None:
        return "chunked"
    return "scan"
