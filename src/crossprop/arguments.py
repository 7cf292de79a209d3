"""Checks of the arguments that runs and sweeps share, before any work is done."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support.formats import listed
from crossprop._support.memory import check_memory
from crossprop.configuration import class_name
from crossprop.descriptions import name_of
from crossprop.engines import ENGINES
from crossprop.engines.protocol import Probe, RunOptions
from crossprop.engines.segments import steps_per_call
from crossprop.execution import DevicePool, devices
from crossprop.hyperparameters import by_structure
from crossprop.learners.base import CreditRule, Learner, Outcome, innermost
from crossprop.learners.states import check_state, state_bytes, state_shapes
from crossprop.metrics import sees_after
from crossprop.network import float_type
from crossprop.streams.base import Stream
from crossprop.variables import DRIFT, VARIABLES, Variable, of_examples, probed

MOST_STEPS = 2**31 - 1
LONGEST_WINDOW = 1_000_000
"""Engines sum in the float type of the loss. In float32, sums of this many equal values were within 2e-4 of the true
ones, and sums of a quarter as many within 1e-4."""
BYTES_PER_RUN = 2048
"""The least memory for the bookkeeping of a run."""
LABELS = {"rule", "optimizer", "replacement"}
"""Coordinates of `learner`; as axes of a sweep they are dims of their own."""
COORDINATES = {"learner", "seed", "step", "task", "window"}
TAKEN = LABELS | COORDINATES | {*VARIABLES, "diverged_at"}
"""Names in the records that probes and metrics cannot have."""


def checked_learners(learners: Any) -> dict[str, Learner]:
    """Learners by name; each has a network, and numbers where its hyperparameters are."""
    if isinstance(learners, Learner):
        learners = {name_of(class_name(type(learners))).lower(): learners}
    if not isinstance(learners, Mapping) or not learners:
        raise TypeError(
            "learners must be a learner, such as crossprop.Backprop(net, 1e-3) or an object of your own subclass of "
            f"crossprop.Learner, or a dict of learners by name, got {check.shown(learners)}"
        )
    for name, learner in learners.items():
        if not isinstance(name, str) or not name or not check.is_text(name):
            raise TypeError(f"learners must have names, got {check.shown(name)}")
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners[{name!r}] must be a learner such as crossprop.Backprop(net, 1e-3), "
                f"got {check.shown(learner)}"
            )
        for field in ("inputs", "outputs"):
            check.integer(f"learners[{name!r}].network.{field}", getattr(learner.network, field, None), low=1)
        check.choice(f"learners[{name!r}].network.loss", getattr(learner.network, "loss", None), ("squared", "softmax"))
        for path, leaf in jax.tree_util.tree_leaves_with_path(learner):
            _check_field(f"learners[{name!r}]{jax.tree_util.keystr(path)}", leaf)
        if not isinstance(learner, CreditRule):
            _check_methods(f"learners[{name!r}]", learner)
    return dict(learners)


def _check_field(what: str, value: Any) -> None:
    """A field that is not static is a number."""
    if not isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array):
        raise TypeError(
            f"{what} must be a number, or declared as eqx.field(static=True) in its class, got {check.shown(value)}"
        )
    if np.shape(value):
        raise ValueError(
            f"{what} must be a number, got an array of shape {np.shape(value)}: arrays belong in the state that init "
            "returns"
        )


def _check_methods(which: str, learner: Learner) -> None:
    """The `update` of a user's learner returns a state like `init` and an `Outcome`, and `weights` arrays by name."""
    what, state = f"{which}.update", jax.eval_shape(lambda: learner.init(jax.random.key(0)))
    x, y = (jax.ShapeDtypeStruct((size,), float_type()) for size in (learner.network.inputs, learner.targets))
    try:
        found = jax.eval_shape(learner.update, state, x, y)
    except (TypeError, ValueError) as problem:  # JAX's errors do not name the learner
        raise TypeError(f"{what}: {problem}") from problem
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], Outcome):
        raise TypeError(f"{what} must return a state and a crossprop.Outcome, got {check.shown(found)}")
    check_state(learner, found[0], f"what {what} returns", types=True)
    check.shape(f"the loss that {what} returns", found[1].loss, ())
    check.shape(f"the outputs that {what} returns", found[1].outputs, (learner.network.outputs,))
    weights = jax.eval_shape(learner.weights, state)
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        raise TypeError(
            f"{which}.weights must return a dict of arrays by name ({{}} for none), got {check.shown(weights)}"
        )


def checked_seeds(seeds: Any) -> list[int]:
    """The seeds as a list."""
    seeds = check.plain(seeds)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        check.integer("seeds", seeds, low=1)
        check_count("seeds", check.integer("seeds", seeds, low=1, high=2**32))
        return list(range(seeds))
    if isinstance(seeds, jax.Array) and (
        jnp.issubdtype(seeds.dtype, jax.dtypes.prng_key) or (seeds.dtype == np.uint32 and seeds.shape == (2,))
    ):
        raise TypeError(f"seeds must be a number of seeds or a list of them, got a key of JAX, {check.shown(seeds)}")
    is_array = isinstance(seeds, np.ndarray | jax.Array) and seeds.ndim == 1
    listed: Any = np.asarray(seeds).tolist() if is_array else seeds
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes | bytearray):
        raise TypeError(f"seeds must be a number of seeds or a list of them, got {check.shown(seeds)}")
    if not check.length(listed):
        raise ValueError(f"seeds must not be empty, got {check.shown(seeds)}")
    check_count("seeds", check.length(listed))
    chosen = [check.integer("a seed in seeds", seed, low=0, high=2**32 - 1) for seed in listed]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must not repeat, got {check.shown(seeds)}")
    return chosen


def check_count(name: str, count: int) -> None:
    """A ValueError if the bookkeeping of this many runs alone does not fit into memory."""
    check_memory(f"{name}: {count:,} runs", count * BYTES_PER_RUN)


def checked_steps(steps: Any, stream: Stream) -> int | None:
    """The number of steps of a run, at most those of the stream; an endless stream needs one."""
    if steps is None and stream.steps is None:
        raise ValueError("steps must be given for an endless stream, such as steps=10_000, got None")
    return None if steps is None else check.integer("steps", steps, low=1, high=stream.steps)


def check_steps(steps: int | None, record_every: int, first: int = 0) -> None:
    """Engines count steps and windows in 32 bits, and sums over long windows lose precision. A run goes from step
    `first` to `steps`, None if that is not known."""
    longest = record_every if steps is None else min(record_every, steps - first)
    steps = first if steps is None else steps
    if steps + record_every > MOST_STEPS and record_every < steps:
        raise ValueError(f"steps plus record_every must be at most {MOST_STEPS}, got {steps} and {record_every}")
    if steps > MOST_STEPS:
        raise ValueError(f"steps must be at most {MOST_STEPS}, got {steps}")
    if longest > LONGEST_WINDOW:
        raise ValueError(
            f"record_every must be at most {LONGEST_WINDOW:,}, since sums over longer windows lose precision, got "
            f"{record_every:,}: average shorter windows with the weights records.window"
        )


def check_run_memory(learners: dict[str, Learner], stream: Stream, seeds: int, options: RunOptions) -> None:
    """A ValueError if the states, examples and records of a call cannot fit into memory."""
    place, size = devices()[0], float_type().itemsize
    threads = DevicePool().count
    steps = (stream.steps if options.steps is None else options.steps) or 0
    windows = -(-steps // options.record_every)
    records = examples = 0
    alike: dict[Any, list[str]] = {}
    for name, learner in learners.items():
        alike.setdefault(jax.tree.structure(learner), []).append(name)
    for names in alike.values():
        learner = learners[names[0]]
        side_by_side = min(seeds, threads * ENGINES["chunked"].width(learner, place.platform))
        states = state_bytes(learner) * max(2 * side_by_side, seeds if options.return_states else 0)
        check_memory(f"the states of learners[{names[0]!r}]", states, place)
        numbers = len(of_examples(learner.network.loss, learner.predicts)) + _drifts(learner)
        numbers += sum(math.prod(_shape(variable, learner)) for variable in options.observed)
        records += len(names) * 2 * seeds * windows * numbers * size
        rows = min(steps, steps_per_call(learner, 1))
        examples = max(examples, side_by_side * rows * (stream.inputs + stream.outputs) * size)
    total = f"of {seeds:,} seeds and {windows:,} windows (steps / record_every)"
    check_memory(f"the records {total}", records + seeds * len(learners) * BYTES_PER_RUN)
    check_memory(f"the examples of a segment, with {stream.inputs:,} inputs and {stream.outputs:,} outputs,", examples)


def check_fit(learners: dict[str, Learner], stream: Any) -> None:
    """The stream is one, and has the sizes of the learners' networks."""
    if not isinstance(stream, Stream):
        raise TypeError(
            "stream must be a crossprop.Stream, such as crossprop.Geoff(), crossprop.Arrays(x, y) for arrays and "
            f"tables, or crossprop.Iterator(pairs, inputs, outputs) for any iterable, got {check.shown(stream)}"
        )
    for size in ("inputs", "outputs"):
        check.integer(f"stream.{size}", getattr(stream, size, None), low=1)
    check.flag("stream.one_hot", getattr(stream, "one_hot", None))
    if not hasattr(stream, "steps"):
        raise TypeError(
            f"stream.steps must be a number of examples, or None for an endless stream, got {check.shown(stream)}"
        )
    if stream.steps is not None:
        check.integer("stream.steps", stream.steps, low=1)
    check.shape(
        "what stream.task returns for two steps",
        stream.task(np.arange(min(2, stream.steps or 2))),
        (min(2, stream.steps or 2),),
    )
    for name, learner in learners.items():
        network = learner.network
        if network.loss == "softmax" and not stream.one_hot:
            raise ValueError(
                f"learners[{name!r}] has loss='softmax', which needs classes; this stream's y are numbers (if they are "
                'classes, say so: crossprop.Arrays(x, y, kind="classification"), or crossprop.Iterator(pairs, inputs, '
                "classes=10))"
            )
        if learner.predicts != stream.predicts:
            raise ValueError(
                f"learners[{name!r}] must be a learner that predicts, such as crossprop.TD(learner): this stream's y "
                "are cumulants, discounts and returns"
                if stream.predicts
                else f"learners[{name!r}] predicts, which needs a stream of cumulants, discounts and returns: this "
                "stream's y are targets"
            )
        for size in ("inputs", "outputs"):
            has, gives = getattr(network, size), getattr(stream, size)
            gives = gives // 3 if stream.predicts and size == "outputs" else gives
            if has != gives:
                is_class = size == "outputs" and stream.one_hot and network.loss == "squared"
                hint = is_class * (
                    '; its y are classes, for which a network has loss="softmax" (if they are numbers, say so: '
                    'crossprop.Arrays(x, y, kind="regression"))'
                )
                raise ValueError(
                    f"{size} of learners[{name!r}].network must be {gives}, as the stream has, got {has}{hint}"
                )


@by_structure
def _drifts(learner: Learner) -> int:
    """The number of drifts that are recorded of a learner."""
    return len(jax.eval_shape(learner.weights, state_shapes(learner)))


def checked_variables(probes: Any, metrics: Any, learners: dict[str, Learner]) -> tuple[Variable, ...]:
    """Probes and metrics by name, each tried on the shapes of every learner."""
    for kind, functions in (("probes", probes), ("metrics", metrics)):
        if functions is not None and not isinstance(functions, Mapping):
            raise TypeError(f"{kind} must be a dict of functions by name, got {check.shown(functions)}")
        for name, function in (functions or {}).items():
            if not isinstance(name, str) or not name or name in TAKEN or name.startswith(DRIFT):
                raise ValueError(f"{kind} must have names that the records do not use, got {check.shown(name)}")
            if not callable(function):
                call = "f(initial_state, state)" if kind == "probes" else "f(outcome, y)"
                raise TypeError(f"{kind}[{name!r}] must be a function {call}, got {check.shown(function)}")
            try:
                hash(function)  # by which its compiled programs are found
            except TypeError as problem:
                raise TypeError(f"{kind}[{name!r}] must be hashable, got {check.shown(function)}: {problem}") from None
    if both := sorted({*(probes or {})} & {*(metrics or {})}):
        raise ValueError(f"probes and metrics must have different names, got {both[0]!r} in both")
    observed = [Variable(name, probe, "state") for name, probe in (probes or {}).items()]
    observed += [Variable(name, metric, after=sees_after(metric)) for name, metric in (metrics or {}).items()]
    for variable in observed:
        shapes = {which: _shape(variable, learner) for which, learner in learners.items()}
        if len(set(shapes.values())) > 1:
            raise ValueError(f"probes[{variable.name!r}] must return one shape for all learners, got {shapes}")
    return tuple(observed)


def warn_without_features(probes: Mapping[str, Probe], learners: dict[str, Learner]) -> None:
    """A warning if probes look at features that a learner does not show."""
    asking = [name for name, probe in probes.items() if getattr(probe, "of_features", False)]
    lacking = [name for name, each in learners.items() if type(innermost(each)).features is Learner.features]
    if asking and lacking:
        without = f"without a method features(state, x): {', '.join(lacking)}"
        warnings.warn(f"{listed([f'probes[{name!r}]' for name in asking])} will be NaN {without}", stacklevel=3)


def _shape(variable: Variable, learner: Learner) -> tuple[int, ...]:
    """The shape of a probe's or a metric's values; an error if they are no numbers."""
    is_probe = variable.reads == "state"
    what = f"{'probes' if is_probe else 'metrics'}[{variable.name!r}]"
    wanted = "a number or an array" if is_probe else "a number"
    if variable.after and learner.predicts:
        raise ValueError(f"{what} sees the outcome after learning, which a prediction has not yet")
    try:
        if is_probe:
            leaves, structure = jax.tree.flatten(learner)
            found = _probed(variable.of, structure, tuple(map(np.shape, leaves)), float_type())
        else:
            sizes = learner.network.outputs, learner.targets
            outputs, y = (jax.ShapeDtypeStruct((size,), float_type()) for size in sizes)
            outcome = Outcome(jax.ShapeDtypeStruct((), float_type()), outputs)  # pyright: ignore[reportArgumentType]
            found = jax.eval_shape(variable.of, outcome, y, *([outcome] if variable.after else []))
    except TypeError as problem:
        raise TypeError(f"{what} must return {wanted}: {problem}") from problem
    if not hasattr(found, "shape"):
        raise TypeError(f"what {what} returns must be {wanted}, got {check.shown(found)}")
    # Records are of one float type, to which real numbers and truth values are converted.
    if not any(jnp.issubdtype(found.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        raise TypeError(f"what {what} returns must be real, got {found.dtype}")
    if not is_probe:
        check.shape(f"what {what} returns", found, ())
    return found.shape


@lru_cache(1024)
def _probed(probe: Probe, structure: Any, shapes: tuple[tuple[int, ...], ...], dtype: np.dtype) -> Any:
    """The shape of a probe for a learner of this structure, cached, since sweeps ask for every growing grid."""
    learner = jax.tree.unflatten(structure, [np.ones(shape, dtype) if shape else 1.0 for shape in shapes])
    state = jax.eval_shape(lambda: learner.init(jax.random.key(0)))
    return jax.eval_shape(partial(probed, probe), state, state, learner)


def checked_start(start: Any, learners: dict[str, Learner], seeds: list[int]) -> dict[tuple[str, int], Any]:
    if start is None:
        return {}
    if not isinstance(start, Mapping) or not all(isinstance(each, Mapping) for each in start.values()):
        raise TypeError(
            f"start must be states by learner and seed, as run(..., return_states=True), got {check.shown(start)}"
        )
    for name, learner in learners.items():
        for seed in seeds:
            if name not in start or seed not in start[name]:
                raise ValueError(f"start must have a state for every learner and seed, got none for {name!r}, {seed}")
            check_state(learner, start[name][seed], f"start[{name!r}][{seed}]", types=True)
    return {(name, seed): start[name][seed] for name in learners for seed in seeds}
