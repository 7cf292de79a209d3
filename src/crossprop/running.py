"""`run`: learners, a stream and seeds in; labelled records out."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import jax
import numpy as np

from crossprop._support import checks as check
from crossprop._support.interrupts import interruptible
from crossprop._version import __version__
from crossprop.arguments import (
    MOST_STEPS,
    check_fit,
    check_run_memory,
    check_steps,
    checked_learners,
    checked_seeds,
    checked_start,
    checked_steps,
    checked_variables,
    warn_without_features,
)
from crossprop.checkpoints import open_checkpoints
from crossprop.configuration import configuration
from crossprop.descriptions import learner_info
from crossprop.engines.protocol import Metric, Probe, Run, RunOptions, RunResult
from crossprop.execution import Executor, compiler_flags, device_kind, engine_for
from crossprop.learners.base import Learner
from crossprop.network import float_type
from crossprop.progress import bar
from crossprop.records import info_coordinates
from crossprop.source_identity import code_identity, warn_unknown
from crossprop.streams.base import Stream
from crossprop.streams.iterator import Iterator as IteratorStream
from crossprop.variables import functions, window_ends, window_lengths

if TYPE_CHECKING:
    import xarray

SCHEMA = 1


class ProgressEvent(NamedTuple):
    """The argument of a `progress` function, called after every compiled segment of a run."""

    learner: str
    seed: int
    steps: int
    seconds: float


class States(dict[str, dict[int, Any]]):
    """`states[learner][seed]`, as `run` returned them after `steps` examples of a stream."""

    def __init__(self, states: Mapping[str, dict[int, Any]], stream: Stream, steps: int):
        super().__init__(states)
        self.stream, self.steps = stream, steps


@overload
def run(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    seeds: int | Sequence[int] = ...,
    record_every: int = ...,
    engine: str = ...,
    probes: Mapping[str, Probe] | None = ...,
    progress: bool | Callable[[ProgressEvent], None] | None = ...,
    *,
    metrics: Mapping[str, Metric] | None = ...,
    steps: int | None = ...,
    start: Mapping[str, Mapping[int, Any]] | None = ...,
    checkpoint: str | Path | None = ...,
    return_states: Literal[False] = ...,
) -> "xarray.Dataset": ...


@overload
def run(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    seeds: int | Sequence[int] = ...,
    record_every: int = ...,
    engine: str = ...,
    probes: Mapping[str, Probe] | None = ...,
    progress: bool | Callable[[ProgressEvent], None] | None = ...,
    *,
    metrics: Mapping[str, Metric] | None = ...,
    steps: int | None = ...,
    start: Mapping[str, Mapping[int, Any]] | None = ...,
    checkpoint: str | Path | None = ...,
    return_states: Literal[True],
) -> "tuple[xarray.Dataset, States]": ...


@interruptible()
def run(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    seeds: int | Sequence[int] = 30,
    record_every: int = 50,
    engine: str = "auto",
    probes: Mapping[str, Probe] | None = None,
    progress: bool | Callable[[ProgressEvent], None] | None = None,
    *,
    metrics: Mapping[str, Metric] | None = None,
    steps: int | None = None,
    start: Mapping[str, Mapping[int, Any]] | None = None,
    checkpoint: str | Path | None = None,
    return_states: bool = False,
) -> "xarray.Dataset | tuple[xarray.Dataset, States]":
    """Runs every learner on the stream with every seed, on all cores, and returns records.

    **Arguments:**

    - `learners`: learners by name, or one alone.
    - `stream`: where the examples come from. A seed gives every learner the same examples and the same initial weights.
    - `seeds`: how many, from 0 on, or a list of them.
    - `record_every`: the steps of a window, at most a million; each gives one record.
    - `engine`: `"auto"` picks by device, sizes and rule; the records' attribute `engine` says which it was.
    - `probes`: `f(initial_state, state)` by name, a number or an array, evaluated at the end of every window; see
      `crossprop.probes`.
    - `metrics`: `f(outcome, y) -> number` by name, evaluated at every example and averaged over every window, in
      the float type of the loss; or such as `metrics.plasticity`, which also see the outcome after learning.
    - `steps`: how many examples to learn from; an endless stream needs it, a finite one may be cut short.
    - `start`: states to start from, `start[learner][seed]`. With states of `return_states` and the same stream, the run
      continues after the examples that those states have seen (from the first one if none are left); drift is still
      measured from the seed's initial weights.
    - `checkpoint`: a folder in which long runs are saved from time to time. The same call continues from there.
    - `return_states`: return the last states too.
    - `progress`: a bar (True), none (False), a bar in a terminal (None), or a function of a `ProgressEvent`.

    **Returns:** an `xarray.Dataset` with dims `learner`, `seed`, `step`. `loss`: the mean over the window, from before
    learning; `error` (softmax only): the share misclassified in it; `incoming_drift`, `outgoing_drift`: the Euclidean
    norm of the change of the weights from the start, without biases, at the window's end, and `drift_NAME` for other
    weights that a learner names; `diverged_at`: the first step with a non-finite loss, or -1, and records from then on
    are NaN. `step` counts the examples learned from at the window's end; the coordinate `window` is the number of
    examples in it, and `task` the task's number at its end, 0 for A. With `return_states`, also
    `states[learner][seed]`.

    ```python
    net = Network(inputs=20, hidden=100)
    records = run({"crossprop": Crossprop(net, 5e-4), "backprop": Backprop(net, 5e-4)}, Geoff(), seeds=4)
    records.loss.mean("seed")
    ```
    """
    named = checked_learners(learners)
    chosen = checked_seeds(seeds)
    record_every = check.integer("record_every", record_every, low=1, high=MOST_STEPS)
    check.flag("return_states", return_states)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False, None or a function, got {check.shown(progress)}")
    if checkpoint is not None:
        checkpoint = check.path("checkpoint", checkpoint, "a folder")
    check_fit(named, stream)
    observed = checked_variables(probes, metrics, named)
    warn_without_features(probes or {}, named)
    engines = {name: engine_for(engine, learner, observed, f"learners[{name!r}]") for name, learner in named.items()}
    stop, first = _bounds(stream, steps, start)
    check_steps(stop, record_every, first)
    states = checked_start(start, named, chosen)
    options = RunOptions(record_every, stop, first, observed, return_states)
    check_run_memory(named, stream, len(chosen), options)
    jobs = [(name, seed) for seed in chosen for name in named]
    runs = [Run(named[name], stream, seed, states.get((name, seed))) for name, seed in jobs]
    if checkpoint is not None and isinstance(stream, IteratorStream):
        raise ValueError("checkpoint must be None for a crossprop.Iterator, whose examples cannot be given again")
    with ThreadPoolExecutor(1) as aside:  # the stream's data are hashed while the runs are under way
        described = aside.submit(experiment, named, stream, chosen, options.record_every)
        call: dict[str, str] = {}
        if checkpoint is not None:
            call = described.result() | {"steps": str(stop), "first": str(first), "start": _fingerprint(states)}
            call |= {name: str(value) for name, value in provenance(engines).items()}
            call |= {"float_type": str(float_type()), "variables": json.dumps(configuration(observed))}
            call |= _code(
                f"checkpoint={str(checkpoint)!r}",
                {"learners": named, "stream": stream, "variables": functions(observed)},
            )
        with (
            _listener(progress, jobs, None if stop is None else stop - first) as on_progress,
            open_checkpoints(checkpoint, call) as checkpoints,
            closing(
                Executor(
                    runs,
                    [engines[name] for name, _ in jobs],
                    options,
                    on_progress=on_progress,
                    checkpoints=checkpoints,
                ).results()
            ) as done,
        ):
            results = {jobs[number]: result for number, result in done}
        attributes = described.result() | provenance(engines)
    records = _records(results, named, stream, chosen, options, attributes)
    if not return_states:
        return records
    last = {name: {seed: results[name, seed].state for seed in chosen} for name in named}
    return records, States(last, stream, next(iter(results.values())).steps)


def _bounds(stream: Stream, steps: Any, start: Any) -> tuple[int | None, int]:
    """The step to stop at, None if it is not known, and the one to begin with."""
    if steps is not None or not isinstance(stream, IteratorStream):
        steps = checked_steps(steps, stream)
    first = 0
    if isinstance(start, States) and not isinstance(stream, IteratorStream) and _is_same(start.stream, stream):
        first = start.steps if stream.steps is None or start.steps < stream.steps else 0
    if steps is None:
        return stream.steps, first
    if first + steps > (stream.steps or np.inf):
        left = (stream.steps or 0) - first
        raise ValueError(f"steps must be at most the {left} examples that the stream has left, got {steps}")
    return first + steps, first


def _code(where: str, given: dict[str, Any]) -> dict[str, str]:
    """The identity of the user's code. A warning names code that could not be read."""
    sources = {name: source for name, value in given.items() if (source := code_identity(value)) is not None}
    warn_unknown(sources, where)
    return {f"the code of {name}": source.sha256 for name, source in sources.items()}


def _fingerprint(states: dict[tuple[str, int], Any]) -> str:
    """A hash of the states."""
    described = {repr(which): configuration(jax.tree.leaves(state)) for which, state in states.items()}
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _is_same(one: Stream, other: Stream) -> bool:
    """Whether two streams have the same examples; a ValueError if that cannot be known."""
    if one is other:
        return True
    if configuration(one) != configuration(other):
        return False
    source = code_identity(one)
    if source != code_identity(other):
        return False
    if source is not None and source.unknown:
        raise ValueError(
            f"start must come from a run on the same object as stream, since nothing tells whether another {other!r} "
            "has the same examples: give that stream, or dict(start) to begin with the first example"
        )
    return True


def _records(
    results: dict[tuple[str, int], RunResult],
    learners: dict[str, Learner],
    stream: Stream,
    seeds: list[int],
    options: RunOptions,
    attributes: dict[str, Any],
) -> "xarray.Dataset":
    import xarray

    ends = window_ends(next(iter(results.values())).steps, options.record_every, options.first)
    shapes: dict[str, tuple[int, ...]] = {}
    for result in results.values():
        shapes |= {name: values.shape for name, values in result.records.items()}
    data = {}
    for variable, shape in shapes.items():
        missing = np.full(shape, np.nan, float_type())
        rows = [[results[name, seed].records.get(variable, missing) for seed in seeds] for name in learners]
        data[variable] = (("learner", "seed", "step", *further_dims(variable, len(shape) - 1)), np.array(rows))
    diverged_at = np.array([[results[name, seed].diverged_at for seed in seeds] for name in learners])
    data["diverged_at"] = (("learner", "seed"), diverged_at)
    return xarray.Dataset(data, coordinates(learners, stream, seeds, ends, options.first), attributes)


def coordinates(
    learners: Mapping[str, Learner], stream: Stream, seeds: list[int], ends: np.ndarray, first: int = 0
) -> dict[str, Any]:
    """The coordinates of records whose windows end at these steps."""
    infos = {name: learner_info(configuration(learner)) for name, learner in learners.items()}
    by_step = {"task": np.asarray(stream.task(ends - 1)), "window": window_lengths(ends, first)}
    return (
        {"learner": list(learners), "seed": seeds, "step": ends}
        | {name: ("step", values) for name, values in by_step.items()}
        | info_coordinates(infos)
    )


def further_dims(variable: str, count: int) -> tuple[str, ...]:
    """The names of the axes of a probe's arrays."""
    return tuple(f"{variable}_{axis}" for axis in range(count))


def provenance(engines: Mapping[str, str]) -> dict[str, Any]:
    """Versions, engines and device of the records. `engine` is a name if all learners share it, else a JSON object."""
    names = set(engines.values())
    made_with = {
        "schema": SCHEMA,
        "crossprop": __version__,
        "jax": jax.__version__,
        "engine": names.pop() if len(names) == 1 else json.dumps(dict(engines)),
        "device": device_kind(),
    }
    return made_with | ({"xla_flags": flags} if (flags := compiler_flags()) else {})


def experiment(learners: Mapping[str, Learner], stream: Stream, seeds: list[int], record_every: int) -> dict[str, str]:
    """Learners, stream, seeds and windows, as attributes of the records."""
    return {
        "learners": json.dumps({name: configuration(learner) for name, learner in learners.items()}),
        "stream": json.dumps(configuration(stream)),
        "seeds": json.dumps(seeds),
        "record_every": json.dumps(record_every),
    }


@contextmanager
def _listener(
    progress: bool | Callable[[ProgressEvent], None] | None, jobs: list[tuple[str, int]], steps: int | None
) -> Iterator[Callable[[int, int, float], None]]:
    if progress is not None and not isinstance(progress, bool):
        yield lambda run, steps, seconds: progress(ProgressEvent(*jobs[run], steps, seconds))
    else:
        learners, seeds = ({*column} for column in zip(*jobs, strict=True))
        total = None if steps is None else len(jobs) * steps
        with bar(f"{len(learners)} x {len(seeds)} runs", total, progress) as advance:
            yield lambda run, steps, seconds: advance(steps)
