"""Checks of learners."""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.configuration import class_name
from crossprop.descriptions import find_class
from crossprop.engines import ENGINES
from crossprop.engines.protocol import Batch, Run, RunOptions
from crossprop.execution import devices
from crossprop.hyperparameters import given_for
from crossprop.learners import Learner, Outcome
from crossprop.network import float_type
from crossprop.optimizers.base import Optax
from crossprop.passes import live, predict
from crossprop.running import run
from crossprop.saving import load, save
from crossprop.seeds import keys
from crossprop.streams import Arrays
from crossprop.testing.promises import Check, named, promise, require, require_close, require_floats, require_same
from crossprop.variables import drift

STEPS, CUT, EVERY = 12, 8, 4
"""Examples of a run, where it is interrupted or a segment ends, and the length of its windows."""
LEARNER_CHECKS: dict[str, Check] = {}


@promise(LEARNER_CHECKS, "fields")
def _fields(learner: Learner) -> None:
    """A learner has a `network` with sizes and a loss; its numbers are leaves, its other fields are static."""
    network = learner.network
    for size in ("inputs", "outputs"):
        value = getattr(network, size, None)
        require(type(value) is int and value > 0, f"network.{size} is {value!r}")
    loss = getattr(network, "loss", None)
    require(loss in ("squared", "softmax"), f"network.loss is {loss!r}, neither 'squared' nor 'softmax'")
    for field, value in _all_fields(learner):
        static = field.metadata.get("static", False)
        require(not (static and isinstance(value, float)), f"the number {field.name}={value!r} is static")
    for path, leaf in jax.tree_util.tree_leaves_with_path(learner):
        number = isinstance(leaf, int | float | np.generic | np.ndarray | jax.Array) and not isinstance(leaf, bool)
        name = jax.tree_util.keystr(path).removeprefix(".")
        require(number and np.shape(leaf) == (), f"the leaf {name}={leaf!r}, which needs eqx.field(static=True)")


@promise(LEARNER_CHECKS, "init")
def _init(learner: Learner) -> None:
    """`init(key)` is a pure function of its key and returns a pytree of arrays."""
    state = _state(learner)
    for name, leaf in named(state).items():
        require(isinstance(leaf, jax.Array | np.ndarray), f"{name} is {leaf!r}, a {type(leaf).__name__}")
    require_same(state, _state(learner), "two calls with the same key")


@promise(LEARNER_CHECKS, "pure")
def _pure(learner: Learner) -> None:
    """`update(state, x, y)` is a pure function: it changes nothing, and gives the same result when called again."""
    (x, y), state = _examples(learner, 1), _state(learner)
    before = jax.tree.map(lambda leaf: np.array(leaf) if isinstance(leaf, np.ndarray) else leaf, state)
    first = learner.update(state, x[0], y[0])
    require_same(state, before, "the state that was given, after and before the call")
    require_same(learner.update(state, x[0], y[0]), first, "two calls with the same arguments")


@promise(LEARNER_CHECKS, "state")
def _kept(learner: Learner) -> None:
    """`update` returns a state with the structure, shapes and types of the one that it was given."""
    (x, y), state = _examples(learner, 1), _state(learner)
    new, _ = learner.update(state, x[0], y[0])
    structures = jax.tree.structure(state), jax.tree.structure(new)
    require(structures[0] == structures[1], f"{structures[1]} after {structures[0]}")
    for (name, old), leaf in zip(named(state).items(), jax.tree.leaves(new), strict=True):
        kinds = [f"{jnp.result_type(each)}{list(np.shape(each))}" for each in (old, leaf)]
        require(kinds[0] == kinds[1], f"{name} is {kinds[1]} after {kinds[0]}")


@promise(LEARNER_CHECKS, "outcome")
def _outcome(learner: Learner) -> None:
    """`update` returns a `crossprop.Outcome` with a scalar loss and the outputs from before learning."""
    (x, y), state = _examples(learner, 2), _state(learner)
    for one_x, one_y in zip(x, y, strict=True):
        new, outcome = learner.update(state, one_x, one_y)
        require(isinstance(outcome, Outcome), f"a {type(outcome).__name__}")
        require_floats("loss", outcome.loss, ())
        require_floats("outputs", outcome.outputs, (learner.network.outputs,))
        require_close(outcome.outputs, learner.predict(state, one_x), "outputs and predict on the state before")
        state = new


@promise(LEARNER_CHECKS, "predict")
def _predict(learner: Learner) -> None:
    """`predict(state, x)` returns the linear outputs, `(outputs,)`, and so does `crossprop.predict`."""
    (x, _), state = _examples(learner, 2), _state(learner)
    outputs = [learner.predict(state, each) for each in x]
    require_floats("what it returns", outputs[0], (learner.network.outputs,))
    require_close(predict(learner, state, x), np.stack(outputs), "crossprop.predict and predict")


@promise(LEARNER_CHECKS, "weights")
def _weights(learner: Learner) -> None:
    """`weights(state)` is a dict of float arrays by name; their shapes never change, the names are identifiers."""
    (x, y), state = _examples(learner, 1), _state(learner)
    weights = learner.weights(state)
    require(isinstance(weights, dict), f"{weights!r}")
    for name, value in weights.items():
        require(isinstance(name, str) and name.isidentifier(), f"the name {name!r}")
        require_floats(f"weights[{name!r}]", value, None)
    later = learner.weights(learner.update(state, x[0], y[0])[0])
    shapes = [{name: np.shape(value) for name, value in each.items()} for each in (weights, later)]
    require(shapes[0] == shapes[1], f"{shapes[1]} after {shapes[0]}")


@promise(LEARNER_CHECKS, "features")
def _features(learner: Learner) -> None:
    """`features(state, x)`, if the learner has it, returns `(units,)`, or a tuple of these by layer."""
    (x, _), state = _examples(learner, 1), _state(learner)
    found = learner.features(state, x[0])
    for at, layer in enumerate(() if found is None else found if isinstance(found, tuple) else (found,)):
        require_floats(f"layer {at}", layer, np.shape(layer)[:1] or (1,))


@promise(LEARNER_CHECKS, "compiled")
def _compiled(learner: Learner) -> None:
    """`init`, `update` and `predict` can be compiled by `jax.jit`, with the learner as an argument."""
    (x, y), state = _examples(learner, 1), _state(learner)
    require_close(
        jax.jit(lambda learner, key: learner.init(key))(learner, jax.random.key(0)), state, "init compiled and not"
    )
    require_close(_update(learner, state, x[0], y[0]), learner.update(state, x[0], y[0]), "update compiled and not")
    outputs = jax.jit(lambda learner, state, x: learner.predict(state, x))(learner, state, x[0])
    require_close(outputs, learner.predict(state, x[0]), "predict compiled and not")


@promise(LEARNER_CHECKS, "mapped")
def _mapped(learner: Learner) -> None:
    """`jax.vmap` can map `init` and `update` over seeds, examples and the learner's numbers."""
    (x, y), chosen = _examples(learner, 2), jax.random.split(jax.random.key(0), 2)
    leaves, structure = jax.tree.flatten(learner)
    learners = jax.tree.unflatten(structure, [np.stack([leaf, leaf]).astype(float_type()) for leaf in leaves])

    @jax.jit
    @jax.vmap
    def after_one(learner: Learner, key: Any, x: Any, y: Any) -> Any:
        return learner.update(learner.init(key), x, y)

    mapped = after_one(learners, chosen, x, y)
    for i, key in enumerate(chosen):
        alone = learner.update(learner.init(key), x[i], y[i])
        require_close(jax.tree.map(lambda leaf, i=i: leaf[i], mapped), alone, "update mapped and not")


@promise(LEARNER_CHECKS, "run")
def _run(learner: Learner) -> None:
    """`crossprop.run` gives what a loop of `update` gives: losses, drift of the weights, and the last state."""
    records, states = _records(learner, [0])
    found = {name: values.values[0, 0] for name, values in records.data_vars.items() if "step" in values.dims}
    _require_loop(learner, "the run", found, states["learner"][0])


@promise(LEARNER_CHECKS, "engines")
def _engines(learner: Learner) -> None:
    """Every engine that supports a learner gives what a loop of `update` gives, over several windows and segments."""
    platform = devices()[0].platform
    batch = Batch([Run(learner, _stream(learner), 0)], RunOptions(EVERY, STEPS), segment=CUT)
    for name, engine in ENGINES.items():
        if engine.why_unsupported(learner, platform) is not None:
            continue
        session = engine.start(batch, platform)
        for count in (CUT, STEPS - CUT):
            session.advance(count)
        _require_loop(learner, name, session.results()[0].records, session.states()[0])


def _require_loop(learner: Learner, what: str, records: Any, last: Any) -> None:
    """Requires that these records, by name, and the last state are those of a loop of `update`."""
    (x, y), state = _examples(learner, STEPS), learner.init(keys(0)[1])
    first, losses, drifts = learner.weights(state), [], {name: [] for name in learner.weights(state)}
    for step in range(STEPS):
        state, outcome = _update(learner, state, x[step], y[step])
        losses.append(float(outcome.loss))
        require(np.isfinite(losses[-1]), f"the loss {losses[-1]} at example {step}: try a smaller step size")
        for name, value in learner.weights(state).items() if (step + 1) % EVERY == 0 else ():
            drifts[name].append(np.linalg.norm(np.ravel(value - first[name])))
    means = np.reshape(losses, (-1, EVERY)).mean(1)
    require_close(records["loss"], means, f"loss of {what} and of the loop")
    for name, values in drifts.items():
        variable = drift(name).name
        require_close(records[variable], np.array(values), f"{variable} of {what} and of the loop")
    require_close(last, state, f"last states of {what} and of the loop")


@promise(LEARNER_CHECKS, "seeds")
def _seeds(learner: Learner) -> None:
    """A seed gives the same numbers alone and among others, bit for bit."""
    alone, among = _records(learner, [1]), _records(learner, [0, 1, 2])
    for name, values in alone[0].data_vars.items():
        require_same(values.values, among[0][name].sel(seed=[1]).values, f"{name} alone and among three seeds")
    require_same(alone[1]["learner"][1], among[1]["learner"][1], "last states alone and among three seeds")


@promise(LEARNER_CHECKS, "continued")
def _continued(learner: Learner) -> None:
    """A run that goes on from `return_states` gives what an uninterrupted one gives."""
    whole, states = _records(learner, [0])
    _, half = _records(learner, [0], steps=CUT)
    rest, last = _records(learner, [0], start=half)
    for name, values in rest.data_vars.items():
        if "step" in values.dims:
            require_close(values.values, whole[name].sel(step=rest.step).values, f"{name} continued and whole")
    require_close(last["learner"][0], states["learner"][0], "last states continued and whole")


@promise(LEARNER_CHECKS, "saved")
def _saved(learner: Learner) -> None:
    """`crossprop.save` and `crossprop.load` give back the same learner and state."""
    parts = [learner, *(value for _, value in _all_fields(learner) if dataclasses.is_dataclass(value))]
    if any(find_class(class_name(type(part))) is not type(part) for part in parts):
        return  # such as a class that was defined in a function
    functions = {
        field.name: given
        for field, value in _all_fields(learner)
        if callable(given := given_for(value)) and not dataclasses.is_dataclass(given)
    }
    (x, y), state = _examples(learner, 1), _state(learner)
    state, _ = _update(learner, state, x[0], y[0])
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "learner", learner, state)
        loaded, loaded_state = load(Path(folder) / "learner", **functions)
    require(jax.tree.structure(loaded) == jax.tree.structure(learner), f"{loaded!r} after {learner!r}")
    require_same(loaded, learner, "numbers of the learner loaded and saved")
    require_same(loaded_state, state, "states loaded and saved")


@promise(LEARNER_CHECKS, "learns")
def _learns(learner: Learner) -> None:
    """300 updates with the same example at least halve its loss."""
    x, y = _examples(learner, 1)
    _, outcomes = live(learner, _state(learner), np.repeat(x, 300, axis=0), np.repeat(y, 300, axis=0))
    first, last = float(outcomes.loss[0]), float(outcomes.loss[-1])
    require(last <= first / 2, f"the loss {last:g} at the last update, {first:g} at the first")


def _state(learner: Learner) -> Any:
    return learner.init(jax.random.key(0))


@jax.jit
def _update(learner: Learner, state: Any, x: Any, y: Any) -> Any:
    return learner.update(state, x, y)


def _examples(learner: Learner, count: int) -> tuple[jax.Array, jax.Array]:
    """The first examples of the stream that `_records` uses."""
    _, x, y = (stream := _stream(learner)).deal(stream.begin(jax.random.key(0)), count)
    return x, y


def _stream(learner: Learner) -> Arrays:
    network, numbers = learner.network, np.random.default_rng(0)
    x = numbers.normal(size=(STEPS, network.inputs))
    if network.loss == "softmax":
        return Arrays(x, numbers.integers(network.outputs, size=STEPS), classes=network.outputs)
    if learner.predicts:
        triples = numbers.uniform(size=(STEPS, network.outputs, 3))
        triples[5, :, 1], triples[7, :, 2] = 0, np.nan  # an end, and a return that is not known
        return Arrays(x, triples.reshape(STEPS, -1), kind="prediction")
    return Arrays(x, numbers.normal(size=(STEPS, network.outputs)))


def _records(learner: Learner, seeds: list[int], **options: Any) -> Any:
    stream, quiet = _stream(learner), {"progress": False, "return_states": True}
    if isinstance(start := options.get("start"), dict):
        stream = start.stream  # pyright: ignore[reportAttributeAccessIssue]
    return run({"learner": learner}, stream, seeds, EVERY, "scan", **quiet, **options)


def _all_fields(thing: Any) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    """The fields of a dataclass and of dataclasses in them, without those in static fields and functions of optax."""
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        yield field, value
        is_module = dataclasses.is_dataclass(value) and not isinstance(value, type | Optax)
        if is_module and not field.metadata.get("static", False):
            yield from _all_fields(value)
