"""Ways to execute runs: they differ in speed, never in meaning."""

from types import ModuleType

from crossprop.engines import chunked, kernel, scan
from crossprop.engines.segments import Probes
from crossprop.learners import Learner

ENGINES: dict[str, ModuleType] = {"scan": scan, "chunked": chunked, "kernel": kernel}


def choose(learner: Learner, platform: str, probes: Probes) -> str:
    """The engine for a job, by device, sizes and rule, never by the number of runs."""
    if kernel.why_unsupported(learner, platform, probes) is None:
        return "kernel"
    if chunked.is_worthwhile(learner) and chunked.why_unsupported(learner, platform, probes) is None:
        return "chunked"
    return "scan"
