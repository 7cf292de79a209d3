"""`run`: learners, a stream and seeds in; labelled records out."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from crossprop import _checks as check
from crossprop._version import __version__
from crossprop.configuration import configuration
from crossprop.engines.segments import Probe, Probes, RunResult, window_ends
from crossprop.execution import Cell, devices, engine_for, execute
from crossprop.learners import Learner
from crossprop.network import float_type
from crossprop.progress import bar
from crossprop.streams.base import Stream

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
TAKEN = {"loss", "error", "incoming_drift", "outgoing_drift", "diverged_at", "learner", "seed", "step", "task"}


class ProgressEvent(NamedTuple):
    """What a `progress` function hears after every compiled segment of a run."""

    learner: str
    seed: int
    steps: int
    seconds: float


def run(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    seeds: int | Sequence[int] = 30,
    record_every: int = 50,
    engine: str = "auto",
    probes: Mapping[str, Probe] | None = None,
    progress: bool | Callable[[ProgressEvent], None] | None = None,
) -> "xarray.Dataset":
    """Lets every learner live through the stream with every seed, on all cores, and returns what happened.

    **Arguments:**

    - `learners`: learners by name, or one alone.
    - `stream`: where the examples come from. A seed gives every learner the same stream and the same initial weights.
    - `seeds`: how many, from 0 on, or which.
    - `record_every`: the steps of a window; each gives one record.
    - `engine`: `"auto"` picks by device, sizes and rule; the records' attribute `engine` says which it was.
    - `probes`: `f(initial_state, state) -> scalar` by name, each a further variable, taken at the windows' ends.
    - `progress`: a bar (True), none (False), a bar in a terminal (None), or a function of a `ProgressEvent`.

    **Returns:** an `xarray.Dataset` with dims `learner`, `seed`, `step`. `loss`: the mean over the window, from before
    learning; `error` (softmax only): the share misclassified in it; `incoming_drift`, `outgoing_drift`: the Euclidean
    norm of the change of U and W from the start, without biases, at the window's end; `diverged_at`: the first step
    with a non-finite loss, or -1, and records from then on are NaN. `step` counts the examples learned from at the
    window's end, and the coordinate `task` tells the task at that step, 0 for A.

    ```python
    net = Network(inputs=20, hidden=100)
    records = run({"crossprop": Crossprop(net, 5e-4), "backprop": Backprop(net, 5e-4)}, Geoff(), seeds=4)
    records.loss.mean("seed")
    ```
    """
    named = checked_learners(learners)
    chosen = checked_seeds(seeds)
    check.integer("record_every", record_every, low=1)
    check_fit(named, stream)
    probe_items = _checked_probes(probes, named)
    engines = {name: engine_for(engine, learner, probe_items, f"learners[{name!r}]") for name, learner in named.items()}
    jobs = [(name, seed) for seed in chosen for name in named]
    cells = [Cell(named[name], stream, seed) for name, seed in jobs]
    with _listener(progress, jobs, len(stream.schedule)) as hear:
        lived = execute(cells, record_every, [engines[name] for name, _ in jobs], probe_items, hear)
        results = {jobs[number]: result for number, result in lived}
    return _records(results, named, stream, chosen, record_every, engines)


def _records(
    results: dict[tuple[str, int], RunResult],
    learners: dict[str, Learner],
    stream: Stream,
    seeds: list[int],
    record_every: int,
    engines: dict[str, str],
) -> "xarray.Dataset":
    import xarray

    ends = window_ends(len(stream.schedule), record_every)
    missing = np.full(len(ends), np.nan, float_type())
    variables = dict.fromkeys(variable for result in results.values() for variable in result.records)
    data = {}
    for variable in variables:
        rows = [[results[name, seed].records.get(variable, missing) for seed in seeds] for name in learners]
        data[variable] = (("learner", "seed", "step"), np.array(rows))
    diverged_at = np.array([[results[name, seed].diverged_at for seed in seeds] for name in learners])
    data["diverged_at"] = (("learner", "seed"), diverged_at)
    return xarray.Dataset(
        data,
        coords={"learner": list(learners), "seed": seeds, "step": ends, "task": ("step", stream.schedule[ends - 1])},
        attrs=experiment(learners, stream, seeds, record_every) | provenance(engines),
    )


def provenance(engines: dict[str, str]) -> dict[str, Any]:
    """What the records were made with. `engine` is one name where all learners had the same, else a JSON object."""
    names = set(engines.values())
    return {
        "schema": SCHEMA,
        "crossprop": __version__,
        "jax": jax.__version__,
        "engine": names.pop() if len(names) == 1 else json.dumps(engines),
        "device": devices()[0].device_kind,
    }


def experiment(learners: Mapping[str, Learner], stream: Stream, seeds: list[int], record_every: int) -> dict[str, str]:
    """What is run, as it stands in the records' attributes: with the same values, the numbers are the same."""
    return {
        "learners": json.dumps({name: configuration(learner) for name, learner in learners.items()}),
        "stream": json.dumps(configuration(stream)),
        "seeds": json.dumps(seeds),
        "record_every": json.dumps(record_every),
    }


def checked_learners(learners: Any) -> dict[str, Learner]:
    if isinstance(learners, Learner):
        learners = {type(learners).__name__.lower(): learners}
    if not isinstance(learners, Mapping) or not learners:
        raise TypeError(f"learners must be a learner or a dict of learners by name, got {learners!r}")
    for name, learner in learners.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"learners must have names, got {name!r}")
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners[{name!r}] must be a learner such as crossprop.Backprop(net, 1e-3), got {learner!r}"
            )
        for path, leaf in jax.tree_util.tree_leaves_with_path(learner):
            check.shape(f"learners[{name!r}]{jax.tree_util.keystr(path)}", leaf, ())
    return dict(learners)


def checked_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, str | bytes) or not (np.ndim(seeds) == 1 or isinstance(seeds, int | np.integer)):
        raise TypeError(f"seeds must be a number of seeds or a list of them, got {seeds!r}")
    if np.ndim(seeds) == 0:
        check.integer("seeds", seeds, low=1)
    chosen = list(range(seeds)) if isinstance(seeds, int | np.integer) else list(seeds)
    if not chosen:
        raise ValueError(f"seeds must not be empty, got {seeds!r}")
    for seed in chosen:
        check.integer("a seed in seeds", seed, low=0, high=2**32 - 1)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must not repeat, got {seeds!r}")
    return [int(seed) for seed in chosen]


def check_fit(learners: dict[str, Learner], stream: Any) -> None:
    if not isinstance(stream, Stream):
        raise TypeError(f"stream must be a stream such as crossprop.Geoff(), got {stream!r}")
    for name, learner in learners.items():
        network = learner.network
        for size in ("inputs", "outputs"):
            has, gives = getattr(network, size), getattr(stream, size)
            if has != gives:
                raise ValueError(f"{size} of learners[{name!r}].network must be {gives}, as the stream has, got {has}")
        if network.loss == "softmax" and not stream.one_hot:
            raise ValueError(f"learners[{name!r}] has loss='softmax', which needs classes; this stream's y are numbers")


def _checked_probes(probes: Any, learners: dict[str, Learner]) -> Probes:
    if probes is None:
        return ()
    if not isinstance(probes, Mapping):
        raise TypeError(f"probes must be a dict of functions by name, got {probes!r}")
    for name, probe in probes.items():
        if not isinstance(name, str) or name in TAKEN:
            raise ValueError(f"probes must have names of their own, got {name!r}")
        if not callable(probe):
            raise TypeError(f"probes[{name!r}] must be a function f(initial_state, state), got {probe!r}")
        for learner in learners.values():
            state = jax.eval_shape(learner.init, jax.random.key(0))
            check.shape(f"what probes[{name!r}] returns", jax.eval_shape(probe, state, state), ())
    return tuple(probes.items())


@contextmanager
def _listener(
    progress: bool | Callable[[ProgressEvent], None] | None, jobs: list[tuple[str, int]], steps: int
) -> Iterator[Callable[[int, int, float], None]]:
    if progress is not None and not isinstance(progress, bool):
        yield lambda cell, steps, seconds: progress(ProgressEvent(*jobs[cell], steps, seconds))
    else:
        learners, seeds = ({*column} for column in zip(*jobs, strict=True))
        with bar(f"{len(learners)} x {len(seeds)} runs", len(jobs) * steps, progress) as advance:
            yield lambda cell, steps, seconds: advance(steps)
