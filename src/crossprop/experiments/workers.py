"""The workers of a Dask cluster that may run blocks: those with the versions and the code of this process."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from crossprop._support.warning import warn

if TYPE_CHECKING:
    from distributed import Client, Future

VERSIONS = ("crossprop", "jax", "python")


class OtherCode(Exception):
    """A worker found that it has other versions, or another version of the user's own code."""

    def __init__(self, where: str, reason: str):
        super().__init__(where, reason)
        self.where, self.reason = where, reason


class Workers:
    """Workers that join with other versions or code are left out, with a warning. The rest get tasks."""

    def __init__(self, client: "Client"):
        self.client = client
        self.threads: dict[str, int] = {}
        self.excluded: dict[str, str] = {}
        self.succeeded = False
        self._allowed: dict[Any, set[str]] = {}
        self._excluded_before: dict[Any, int] = {}
        self._stranded: set[Any] = set()
        self.refresh()

    def refresh(self) -> None:
        """Updates the list of workers, and excludes new ones that have other versions."""
        there: dict[str, int] = self.client.nthreads()  # pyright: ignore[reportAssignmentType]
        if there.keys() - self.threads.keys() - self.excluded.keys():
            versions: Any = self.client.get_versions(packages=list(VERSIONS))
            for where, its in versions["workers"].items():
                reason = isinstance(its, dict) and difference(its["packages"], versions["client"]["packages"])
                if reason and where not in self.excluded:
                    self._exclude(where, reason)
        self.threads = {where: threads for where, threads in there.items() if where not in self.excluded}

    def submit(self, function: Callable[..., Any], *arguments: Any, retries: int = 0) -> "Future":
        """Submits a task to any allowed worker. Dask gets a list of workers only if some are excluded."""
        allowed = sorted(self.threads) if self.excluded else None
        task = self.client.submit(function, *arguments, workers=allowed, retries=retries, pure=False)
        self._excluded_before[task.key] = len(self.excluded)
        self._allowed[task.key] = set(allowed or ())
        return task

    def cancel_stranded(self, tasks: "Iterable[Future]") -> "list[Future]":
        """Cancels the tasks whose workers are all lost, while there are others, and returns them."""
        found = [
            task
            for task in tasks
            if self.threads and (allowed := self._allowed[task.key]) and not allowed & self.threads.keys()
        ]
        self._stranded |= {task.key for task in found}
        self.client.cancel(found)
        return found

    def are_at_fault(self, task: "Future", problem: Exception) -> bool:
        """Whether a task failed because of the worker it was on, so that another one can run it."""
        if isinstance(problem, OtherCode) and problem.where not in self.excluded:
            self._exclude(problem.where, problem.reason)
        self.refresh()
        if not self.threads and not self.succeeded and self.excluded:
            where, reason = next(reversed(self.excluded.items()))
            raise ValueError(f"cluster must have workers with the code of this process, got {where}: {reason}")
        return task.key in self._stranded or len(self.excluded) > self._excluded_before[task.key]

    def _exclude(self, where: str, reason: str) -> None:
        warn(f"the worker {where} of the cluster is left out: {reason}")
        self.excluded[where] = reason
        self.threads.pop(where, None)


def difference(there: Mapping[str, str | None], here: Mapping[str, str | None]) -> str | None:
    """The first version in which a worker differs from this process; of Python's, only the first two numbers count."""
    for name in VERSIONS:
        its, own = (str(each.get(name) or "none") for each in (there, here))
        if name == "python":
            its, own = (".".join(each.split(".")[:2]) for each in (its, own))
        if its != own:
            return f"it has {name} {its}, and this process has {own}"
    return None
