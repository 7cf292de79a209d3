"""Files of learners and states: any learner, any state, and nothing that is not what `save` wrote."""

import dataclasses
import json
import sys
import types
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop import descriptions
from crossprop._support.array_files import read_arrays, write_arrays
from crossprop.configuration import class_name
from crossprop.learners import LEARNERS
from own_learners import Replay
from same import assert_same_states

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network(inputs=3, hidden=2)


class Sizes(eqx.Module):
    inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    scale: float = 0.25
    loss: str = eqx.field(static=True, default="squared")


class Odd(cp.Learner):
    """A state of many types, fields of many types, and an `__init__` of its own."""

    network: Any
    rates: tuple[float, ...]
    squash: Any = eqx.field(static=True)

    def __init__(self, size, squash=jnp.tanh):
        self.network, self.rates, self.squash = Sizes(size, 1), (0.5, 0.125), squash

    def init(self, key):
        keys = jax.random.split(jax.random.key(1, impl="rbg"), 3)
        small = jnp.ones(2, jnp.bfloat16)
        return {
            "key": key,
            "keys": keys,
            "count": jnp.asarray(3),
            "seen": jnp.zeros(4, bool),
            "small": [small, (small,)],
        }

    def update(self, state, x, y):
        return state | {"count": state["count"] + 1}, cp.Outcome(jnp.sum(y**2), y)

    def predict(self, state, x):
        return jnp.zeros(1)

    def weights(self, state):
        return {}


class Small(cp.Backprop):
    """An `__init__` of its own, and an optimizer by name."""

    def __init__(self, hidden):
        self.network, self.step_size, self.optimizer = cp.Network(3, hidden), 0.1, "adam"
        self.incoming_step_size, self.replacement, self.layers = None, None, "all"


def test_an_optimizer_by_name_comes_back_to_a_learner_with_an_init_of_its_own(tmp_path):
    learner = Small(4)
    state = learner.init(jax.random.key(7))
    cp.save(tmp_path / "small", learner, state)
    loaded, again = cp.load(tmp_path / "small")
    assert loaded == learner and jax.tree.structure(loaded) == jax.tree.structure(learner)
    assert_same_states(again, state)


def test_a_partial_that_is_not_given_again_is_named(tmp_path):
    learner = cp.Backprop(cp.Network(3, 4), 0.1, optimizer=partial(optax.adam, b1=0.5))
    cp.save(tmp_path / "partial", learner, learner.init(jax.random.key(7)))
    with pytest.raises(ValueError, match=r"optimizer was functools:partial, .*: give it as optimizer="):
        cp.load(tmp_path / "partial")


def test_any_state_and_fields_of_many_types_come_back(tmp_path):
    learner = Odd(3)
    state = learner.init(jax.random.key(7))
    cp.save(tmp_path / "odd", learner, state)
    loaded, again = cp.load(tmp_path / "odd", squash=jnp.tanh)
    assert loaded == learner and type(loaded.network) is Sizes
    assert_same_states(again, state)
    assert again["keys"].dtype == state["keys"].dtype
    with pytest.raises(ValueError, match=r"odd cannot be loaded: squash was jax.numpy:tanh, .*: give it as squash="):
        cp.load(tmp_path / "odd")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A part of a learner that is no network, optimizer or replacement."""

    rate: float = 0.5

    def __call__(self, x):
        return self.rate * x


def test_only_learners_and_their_parts_are_built_from_a_file(tmp_path, monkeypatch):
    learner, path = Odd(3, Schedule()), tmp_path / "odd"
    cp.save(path, learner, learner.init(jax.random.key(0)))
    described = json.loads(read_arrays(path).attributes["learner"])
    monkeypatch.setattr(Schedule, "__post_init__", lambda self: pytest.fail("it was built"), raising=False)
    assert described["squash"] == {"type": class_name(Schedule), "rate": 0.5}
    with pytest.raises(ValueError, match=r"odd cannot be loaded: its class .*:Schedule is not .* given as squash="):
        cp.load(path)
    assert cp.load(path, squash=jnp.tanh)[0] == Odd(3)


def test_no_code_of_a_module_runs_while_a_class_is_looked_up(monkeypatch):
    module = types.ModuleType("users_module")
    module.__getattr__ = lambda name: pytest.fail("code ran")
    monkeypatch.setitem(sys.modules, "users_module", module)
    assert descriptions.find_class("users_module:Own") is None
    assert descriptions.find_class("crossprop:Backprop") is None  # its name is that of the module that defines it
    assert descriptions.find_class("Backprop") is cp.Backprop


def test_a_saved_learner_with_a_key_goes_on_as_if_nothing_happened(tmp_path):
    learner, rows = Replay(cp.Network(3, 1), 0.1), np.random.default_rng(0).normal(size=(20, 4))
    state, _ = cp.live(learner, learner.init(jax.random.key(0)), rows[:10, 1:], rows[:10, 0])
    cp.save(tmp_path / "replay", learner, state)
    loaded, again = cp.load(tmp_path / "replay")
    assert_same_states(again, state)
    assert_same_states(
        cp.live(loaded, again, rows[10:, 1:], rows[10:, 0]), cp.live(learner, state, rows[10:, 1:], rows[10:, 0])
    )


def test_a_class_is_found_if_its_module_is_imported_or_it_is_registered(tmp_path, monkeypatch, own_registries):
    module = types.ModuleType("users_module")
    Own = type("Own", (Replay,), {"__module__": "users_module"})
    module.Own = Own
    monkeypatch.setitem(sys.modules, "users_module", module)
    learner = Own(NET, 0.1)
    path = tmp_path / "own"
    cp.save(path, learner, learner.init(jax.random.key(0)))
    assert type(cp.load(path)[0]) is Own
    monkeypatch.delitem(sys.modules, "users_module")
    unknown = r"own cannot be loaded: its class users_module:Own is not known here: import users_module first, or reg"
    with pytest.raises(ValueError, match=unknown):
        cp.load(path)
    (tmp_path / "users_module.py").write_text("raise SystemExit('a file must not be able to import this')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=unknown):
        cp.load(path)
    LEARNERS["own"] = Own
    assert type(cp.load(path)[0]) is Own


def test_damage_anywhere_in_a_file_is_an_error_that_names_it(tmp_path):
    learner, path = Replay(NET, 0.1), tmp_path / "hurt.cp"
    cp.save(path, learner, learner.init(jax.random.key(0)))
    content = path.read_bytes()
    places = np.random.default_rng(0).integers(len(content), size=60).tolist()
    for damaged in [content[:at] for at in places] + [
        content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in places
    ]:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"hurt\.cp"):
            cp.load(path)


@pytest.mark.parametrize("change", ["class", "fields", "keys", "shape", "leaf"])
def test_a_header_that_does_not_fit_is_an_error_that_names_the_file(tmp_path, change):
    learner, path = Replay(NET, 0.1), tmp_path / "odd.cp"
    cp.save(path, learner, learner.init(jax.random.key(0)))
    variables, header = read_arrays(path)
    described, keys = json.loads(header["learner"]), json.loads(header["keys"])
    match change:
        case "class":
            described["type"] = "builtins:dict"
        case "fields":
            del described["network"]
        case "keys":
            keys = {"state.key": "dice"}
        case "shape":
            described["network"]["inputs"] = 4
        case _:
            del variables["state.key"]
    states = {name: (None, values) for name, (_, values) in variables.items()}
    write_arrays(path, states, header | {"learner": json.dumps(described), "keys": json.dumps(keys)})
    with pytest.raises(ValueError, match=r"odd\.cp cannot be loaded: "):
        cp.load(path)


def test_float64_states_need_x64(tmp_path):
    learner = Replay(NET, 0.1)
    with jax.enable_x64(True):
        cp.save(tmp_path / "wide", learner, learner.init(jax.random.key(0)))
        assert cp.load(tmp_path / "wide")[1].weights.dtype == np.float64
    with pytest.raises(ValueError, match=r"wide cannot be loaded: it holds .*64 numbers: turn JAX's x64 on"):
        cp.load(tmp_path / "wide")
