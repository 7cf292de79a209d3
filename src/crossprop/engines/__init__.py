"""Ways to execute runs: they differ in speed, never in meaning."""

from crossprop.engines import chunked, scan
from crossprop.engines.gpu import kernel
from crossprop.engines.protocol import Engine
from crossprop.learners.base import Learner
from crossprop.variables import Variable

ENGINES: dict[str, Engine] = {"scan": scan, "chunked": chunked, "kernel": kernel}


def choose(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str:
    """The engine for a learner, by device, sizes and rule, never by the number of runs."""
    if kernel.why_unsupported(learner, platform, observed) is None:
        return "kernel"
    if chunked.is_worthwhile(learner) and chunked.why_unsupported(learner, platform, observed) is None:
        return "chunked"
    return "scan"
