"""`run`: learners, a stream and seeds in; labelled records out."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from crossprop import _checks as check
from crossprop._files import cache_folder
from crossprop._version import __version__
from crossprop.configuration import configuration
from crossprop.engines import scan
from crossprop.learners import Learner
from crossprop.progress import bar
from crossprop.streams.base import Life, Stream

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
ENGINES = ("auto", "scan")
SUMMED = ("loss", "error")


class Heard(NamedTuple):
    """What a `progress` function hears after every compiled segment of a run."""

    learner: str
    seed: int
    steps: int
    seconds: float


def keys(seed: int) -> tuple[jax.Array, jax.Array]:
    """All that a seed means: `(stream_key, initial_key)`, for `stream.sample` and for `learner.init`."""
    check.integer("seed", seed, low=0, high=2**32 - 1)
    stream_key, initial_key = jax.random.split(jax.random.key(seed, impl="threefry2x32"))
    return stream_key, initial_key


def run(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    seeds: int | Sequence[int] = 30,
    record_every: int = 50,
    engine: str = "auto",
    probes: Mapping[str, scan.Probe] | None = None,
    progress: bool | Callable[[Heard], None] | None = None,
) -> "xarray.Dataset":
    """Lets every learner live through the stream with every seed, on all cores, and returns what happened.

    **Arguments:**

    - `learners`: learners by name, or one alone.
    - `stream`: where the examples come from. A seed gives every learner the same stream and the same initial weights.
    - `seeds`: how many, from 0 on, or which.
    - `record_every`: the steps of a window; each gives one record.
    - `engine`: `"auto"` picks; the records' attribute `engine` says which it was.
    - `probes`: `f(initial_state, state) -> scalar` by name, each a further variable, taken at the windows' ends.
    - `progress`: a bar (True), none (False), a bar where a terminal shows it (None), or a function of a `Heard`.

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
    named = _checked_learners(learners)
    chosen = _checked_seeds(seeds)
    check.integer("record_every", record_every, low=1)
    check.choice("engine", engine, ENGINES)
    _check_fit(named, stream)
    probe_items = _checked_probes(probes, named)
    _use_compilation_cache()
    with _listener(progress, len(named), len(chosen), len(stream.schedule)) as hear:
        results = _live_all(named, stream, chosen, record_every, probe_items, hear)
    return _records(results, named, stream, chosen, record_every)


def _live_all(
    learners: dict[str, Learner],
    stream: Stream,
    seeds: list[int],
    record_every: int,
    probes: scan.Probes,
    hear: Callable[[Heard], None],
) -> dict[tuple[str, int], scan.Progress]:
    """Every run in a thread of its own, as many at once as there are cores.

    XLA works outside of Python's lock, so whole runs side by side keep all cores busy with one compiled program, and a
    run's numbers cannot depend on its neighbours.
    """
    lives = _Lives(stream, seeds, uses=len(learners))
    stop = threading.Event()

    # What the caller set with JAX's context managers holds for its own thread alone; the workers are told of it.
    wide, device = jax.config.values["jax_enable_x64"], jax.config.values["jax_default_device"]

    def live(name: str, seed: int) -> scan.Progress:
        with jax.enable_x64(wide), jax.default_device(device):
            return live_here(name, seed)

    def live_here(name: str, seed: int) -> scan.Progress:
        began = time.perf_counter()

        def after_segment(steps: int) -> None:
            nonlocal began
            if stop.is_set():
                raise _Stopped
            now = time.perf_counter()
            hear(Heard(name, seed, steps, now - began))
            began = now

        done = scan.live(learners[name], lives.take(seed), keys(seed)[1], record_every, probes, after_segment)
        return done._replace(state=None, records=jax.device_get(done.records))  # pyright: ignore[reportArgumentType]

    with ThreadPoolExecutor(cores()) as pool:
        futures: dict[tuple[str, int], Future[scan.Progress]] = {}
        try:
            for seed in seeds:
                for name in learners:
                    futures[name, seed] = pool.submit(live, name, seed)
            wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in futures.values():
                if future.done() and (problem := future.exception()) is not None:
                    raise problem
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return {job: future.result() for job, future in futures.items()}


class _Stopped(Exception):
    """Another run failed, or the user interrupted: this one ends at its segment."""


class _Lives:
    """The life of each seed: sampled once, lent to all learners, let go after the last of them."""

    def __init__(self, stream: Stream, seeds: list[int], uses: int):
        self.stream = stream
        self.locks = {seed: threading.Lock() for seed in seeds}
        self.left = dict.fromkeys(seeds, uses)
        self.lives: dict[int, Life] = {}

    def take(self, seed: int) -> Life:
        with self.locks[seed]:
            if seed not in self.lives:
                self.lives[seed] = self._sample(seed)
            self.left[seed] -= 1
            return self.lives[seed] if self.left[seed] else self.lives.pop(seed)

    def _sample(self, seed: int) -> Life:
        life, steps = self.stream.sample(keys(seed)[0]), len(self.stream.schedule)
        check.shape("the stream's x", life.pool[:1], (1, self.stream.inputs))
        check.shape("the stream's order", life.order, (steps,))
        check.shape("the stream's y", life.y, (steps, self.stream.outputs))
        check.finite("the stream's x", life.pool)
        check.finite("the stream's y", life.y)
        return life


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _records(
    results: dict[tuple[str, int], scan.Progress],
    learners: dict[str, Learner],
    stream: Stream,
    seeds: list[int],
    record_every: int,
) -> "xarray.Dataset":
    import xarray

    steps = len(stream.schedule)
    ends = np.append(np.arange(record_every, steps, record_every), steps)
    lengths = np.diff(ends, prepend=0)
    diverged_at = np.array([[int(results[name, seed].diverged_at) for seed in seeds] for name in learners])
    gone = (diverged_at[..., None] >= 0) & (ends > diverged_at[..., None])
    missing = np.full(len(ends), np.nan)
    variables = dict.fromkeys(variable for result in results.values() for variable in result.records)
    data = {}
    for variable in variables:
        rows = [[results[name, seed].records.get(variable, missing) for seed in seeds] for name in learners]
        values = np.array(rows) / (lengths if variable in SUMMED else 1)
        data[variable] = (("learner", "seed", "step"), np.where(gone, np.nan, values).astype(np.array(rows).dtype))
    data["diverged_at"] = (("learner", "seed"), diverged_at)
    return xarray.Dataset(
        data,
        coords={"learner": list(learners), "seed": seeds, "step": ends, "task": ("step", stream.schedule[ends - 1])},
        attrs=experiment(learners, stream, seeds, record_every)
        | {
            "schema": SCHEMA,
            "crossprop": __version__,
            "jax": jax.__version__,
            "engine": "scan",
            "device": jax.devices()[0].device_kind,
        },
    )


def experiment(learners: Mapping[str, Learner], stream: Stream, seeds: list[int], record_every: int) -> dict[str, str]:
    """What is run, as it stands in the records' attributes: with the same values, the numbers are the same."""
    return {
        "learners": json.dumps({name: configuration(learner) for name, learner in learners.items()}),
        "stream": json.dumps(configuration(stream)),
        "seeds": json.dumps(seeds),
        "record_every": json.dumps(record_every),
    }


def _checked_learners(learners: Any) -> dict[str, Learner]:
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


def _checked_seeds(seeds: Any) -> list[int]:
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


def _check_fit(learners: dict[str, Learner], stream: Any) -> None:
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


def _checked_probes(probes: Any, learners: dict[str, Learner]) -> scan.Probes:
    if probes is None:
        return ()
    if not isinstance(probes, Mapping):
        raise TypeError(f"probes must be a dict of functions by name, got {probes!r}")
    taken = {*SUMMED, "incoming_drift", "outgoing_drift", "diverged_at", "learner", "seed", "step", "task"}
    for name, probe in probes.items():
        if not isinstance(name, str) or name in taken:
            raise ValueError(f"probes must have names of their own, got {name!r}")
        if not callable(probe):
            raise TypeError(f"probes[{name!r}] must be a function f(initial_state, state), got {probe!r}")
        for learner in learners.values():
            state = jax.eval_shape(learner.init, jax.random.key(0))
            check.shape(f"what probes[{name!r}] returns", jax.eval_shape(probe, state, state), ())
    return tuple(probes.items())


@contextmanager
def _listener(
    progress: bool | Callable[[Heard], None] | None, learners: int, seeds: int, steps: int
) -> Iterator[Callable[[Heard], None]]:
    if progress is not None and not isinstance(progress, bool):
        yield progress
    else:
        with bar(f"{learners} x {seeds} runs", learners * seeds * steps, progress) as advance:
            yield lambda heard: advance(heard.steps)


def _use_compilation_cache() -> None:
    """Keeps compiled programs from one process to the next, unless the user has a cache of their own."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        compilation_cache.reset_cache()
