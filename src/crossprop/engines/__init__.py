"""Ways to execute runs: they differ in speed, never in meaning."""

from typing import Protocol, runtime_checkable

from crossprop.engines import chunked, scan
from crossprop.engines.gpu import kernel
from crossprop.engines.protocol import Batch
from crossprop.engines.session import Session
from crossprop.learners.base import Learner
from crossprop.variables import Variable


@runtime_checkable
class Engine(Protocol):
    """A way to execute runs. Engines differ in speed, never in meaning."""

    def why_unsupported(self, learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
        """Why this engine cannot run the learner there, or None."""
        ...

    def width(self, learner: Learner, platform: str) -> int:
        """How many runs go in one batch."""
        ...

    def start(self, batch: Batch, platform: str) -> Session:
        """Begins the runs of a batch, whose learners have one structure."""
        ...


ENGINES: dict[str, Engine] = {"scan": scan, "chunked": chunked, "kernel": kernel}


def choose(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str:
    """The engine for a learner, by device, sizes and rule, never by the number of runs."""
    if kernel.why_unsupported(learner, platform, observed) is None:
        return "kernel"
    if chunked.is_worthwhile(learner) and chunked.why_unsupported(learner, platform, observed) is None:
        return "chunked"
    return "scan"
