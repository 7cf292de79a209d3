"""Learners and streams of one's own: registered in Python, by an imported module, or by an installed package."""

import sys
from functools import partial
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import crossprop as cp
from crossprop.learners import LEARNERS
from crossprop.registry import Registry, arguments_of
from crossprop.specification import build
from crossprop.streams import STREAMS
from own_learners import Replay
from registered import OWN_STREAMS

pytestmark = pytest.mark.usefixtures("quick_compilation")

MODULE = """
from dataclasses import dataclass

import jax
import jax.numpy as jnp

import crossprop as cp
from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS


class Plain(cp.Learner):
    network: cp.Network
    rate: float = 0.1

    def init(self, key):
        return 0.1 * jax.random.normal(key, (self.network.inputs, self.network.outputs))

    def update(self, state, x, y):
        outputs = x @ state
        return state + self.rate * jnp.outer(x, y - outputs), cp.Outcome(jnp.sum((y - outputs) ** 2), outputs)

    def predict(self, state, x):
        return x @ state

    def weights(self, state):
        return {"all": state}


@dataclass(frozen=True)
class Coins(cp.Stream):
    length: int = 40
    inputs: int = 3
    outputs: int = 1
    one_hot: bool = False

    @property
    def steps(self):
        return self.length

    def begin(self, key):
        return key, 0

    def deal(self, place, count):
        key, step = place
        keys = jax.vmap(lambda at: jax.random.fold_in(key, at))(step + jnp.arange(count))
        x = jax.vmap(lambda key: jax.random.normal(key, (self.inputs,)))(keys)
        return (key, step + count), x, x[:, :1]


LEARNERS["plain"] = Plain
STREAMS["coins"] = Coins
"""
SHORT = ("--hidden", "4", "--seeds", "2", "--record-every", "20")


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch, own_registries):
    """A folder with a user's module, in which the command line is called; what it registers is forgotten again."""
    (tmp_path / "my_module.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import no_such_package_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    modules = set(sys.modules)
    yield tmp_path
    for name in {"my_module", "broken"} - modules:
        sys.modules.pop(name, None)


# --import


def test_run_takes_a_learner_and_a_stream_of_an_imported_module(call):
    answer = call("run", "coins", "--import", "my_module", "--learners", "plain", "backprop", *SHORT)
    assert (answer.code, answer.err) == (0, "")
    assert "plain" in answer.out and "160 run-steps" in answer.out


def test_a_sweep_in_toml_takes_a_learner_and_a_stream_of_an_imported_module(call, user):
    text = 'import = ["my_module"]\nlearners = ["plain"]\nseeds = 2\nrecord_every = 20\nnetwork = {hidden = 4}\n'
    (user / "sweep.toml").write_text(text + 'stream = {name = "coins", length = 60}\nover = {rate = [0.1, 0.2]}\n')
    answer = call("sweep", "sweep.toml", "--store", "kept")
    assert (answer.code, answer.err) == (0, "")
    assert dict(cp.open_sweep("kept")["plain"].sizes) == {"rate": 2, "seed": 2, "step": 3}


def test_a_sweep_of_flags_takes_them_too(call):
    words = ("--stream", "coins", "--learners", "plain", "--over", "rate=0.1,0.2", "--store", "kept")
    assert call("sweep", "--import", "my_module", *words, *SHORT).code == 0
    assert cp.open_sweep("kept")["plain"].sizes["rate"] == 2


def test_modules_of_the_file_and_of_the_flags_are_both_imported(call, user):
    (user / "other.py").write_text("from crossprop.streams import STREAMS\nSTREAMS['again'] = STREAMS['coins']")
    (user / "sweep.toml").write_text(
        'import = "my_module"\nlearners = ["plain"]\nstream = "again"\nover = {rate = [1]}\n'
    )
    try:
        assert call("sweep", "sweep.toml", "--import", "other", "--store", "kept", *SHORT).code == 0
    finally:
        STREAMS.pop("again", None)
        sys.modules.pop("other", None)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (
            "nowhere",
            "crossprop: import: nowhere could not be imported: ModuleNotFoundError: No module named 'nowhere'\n",
        ),
        ("broken", "crossprop: import: broken could not be imported: ModuleNotFoundError: No module named 'no_such"),
        ("my_module.py", "crossprop: import: my_module.py could not be imported: give the module's name, not its file"),
        (
            "./my_module",
            "crossprop: import must name a module, such as my_module or package.module, got './my_module'\n",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_in_one_line(call, module, expected):
    for words in (("run", "geoff"), ("sweep", "--stream", "geoff", "--learners", "backprop", "--store", "kept")):
        answer = call(*words, "--import", module)
        assert answer.code == 2 and not answer.out
        assert answer.err.startswith(expected) and answer.err.count("\n") == 1


# What is given to builders


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--step-size", "0.1"), "--step-size: learner 'plain' has no step_size; its arguments: rate"),
        (("--incoming-step-size", "1"), "--incoming-step-size: learner 'plain' has no incoming_step_size; "),
        (("--examples", "7"), "an argument of stream 'coins' must be one of 'length', 'inputs', "),
        (("--tasks", "AB"), "an argument of stream 'coins' must be one of 'length', 'inputs', "),
    ],
)  # fmt: skip
def test_a_flag_that_the_learner_or_stream_does_not_take_is_refused(call, words, expected):
    answer = call("run", "coins", "--import", "my_module", "--learners", "plain", *SHORT, *words)
    assert answer.code == 2 and answer.err.startswith(f"crossprop: {expected}")


def test_a_builder_that_needs_more_says_what():
    LEARNERS["plain"] = lambda network, *, rate: None
    STREAMS["coins"] = lambda sides: None
    with pytest.raises(ValueError, match=r"learners.plain: missing a required.* argument: 'rate'"):
        build({"stream": "geoff", "learners": ["plain"]})
    with pytest.raises(TypeError, match=r"learners.plain must build a learner such as .* got None"):
        build({"stream": "geoff", "learners": {"plain": {"rate": 1}}})
    with pytest.raises(ValueError, match="stream 'coins': missing a required argument: 'sides'"):
        build({"stream": "coins", "learners": ["backprop"]})
    with pytest.raises(TypeError, match=r"stream 'coins' must build a stream such as .* got None"):
        build({"stream": {"name": "coins", "sides": 2}, "learners": ["backprop"]})


def test_step_size_has_a_default_only_where_the_learner_has_one():
    seen = {}
    LEARNERS["plain"] = lambda network, **own: seen.update(own) or cp.Frozen(network, 0.1)
    learners, _ = build({"stream": "geoff", "learners": {"plain": {"odd": 3}, "backprop": {}}})
    assert seen == {"odd": 3} and learners["backprop"].step_size == 5e-4


def test_streams_by_name_are_those_of_the_paper():
    own = [
        *("geoff", "tracking", "slowly-changing", "permuted-inputs", "random-labels", "class-pairs"),
        *("random-walk", "trace-conditioning", "trace-patterning", "traced", "temperatures", "atari"),
        *("digits", "mnist5k", "mnist", "fashion", "cifar10", "elec2", "covertype"),
    ]
    assert list(OWN_STREAMS) == own
    assert STREAMS["geoff"]() == cp.Geoff()
    digits = STREAMS["digits"](examples=10)
    assert (digits.tasks, digits.examples, digits.shuffle) == ("ABC", 10, True)
    assert arguments_of(STREAMS["digits"]) == ["tasks", "examples", "shuffle"]


# Entry points


def packages(*points):
    registry = Registry("crossprop.tests", {"own": dict})
    registry._entry_points = {name: EntryPoint(name, value, "crossprop.tests") for name, value in points}
    return registry


def test_entry_points_are_listed_and_loaded_when_read(user):
    registry = packages(("theirs", "my_module:Coins"), ("own", "my_module:Coins"))
    assert list(registry) == ["own", "theirs"] and len(registry) == 2 and "theirs" in registry
    assert registry["own"].func is dict and "my_module" not in sys.modules
    sys.path.insert(0, str(user))
    assert registry["theirs"].func is sys.modules["my_module"].Coins
    assert [build.func.__name__ for build in registry.values()] == ["dict", "Coins"]


def test_a_broken_entry_point_is_a_warning_that_names_it():
    registry = packages(("theirs", "nowhere:Coins"))
    with (
        pytest.warns(
            UserWarning, match=r"entry point 'theirs' \(nowhere:Coins\) of an unknown package was skipped: Mod"
        ),
        pytest.raises(ValueError, match="rule must be one of 'own', got 'theirs'"),
    ):
        registry.find("rule", "theirs")
    with pytest.warns(UserWarning, match="theirs"):
        assert [name for name, _ in packages(("theirs", "nowhere:Coins")).items()] == ["own"]


def test_an_installed_package_is_found_and_a_broken_one_is_named(user, monkeypatch):
    info = user / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[crossprop.tests]\ncoins = my_module:Coins\nodd = nowhere:Odd\n")
    monkeypatch.syspath_prepend(str(user))
    registry = Registry("crossprop.tests", {})
    assert registry["coins"](length=2).length == 2
    with pytest.warns(UserWarning, match="entry point 'odd' .* of theirs was skipped"), pytest.raises(KeyError):
        registry["odd"]


@pytest.mark.parametrize(("name", "build"), [("", dict), (3, dict), ("x", "a string")])
def test_what_cannot_be_registered_is_refused(name, build):
    with pytest.raises(TypeError, match=r"crossprop.learners"):
        LEARNERS[name] = build


def test_a_registry_is_a_dict_of_partials():
    registry = Registry("crossprop.tests", {"a": dict, "b": partial(dict, x=1)})
    assert registry["b"]() == {"x": 1} and registry["a"].func is dict
    assert list(registry | {"c": list}) == ["a", "b", "c"]
    del registry["a"]
    assert list(registry) == ["b"] and registry.get("a") is None
    with pytest.raises(KeyError):
        del registry["a"]


def test_a_registered_learner_has_one_name_everywhere(monkeypatch):
    monkeypatch.setitem(LEARNERS._builders, "ring", partial(Replay))
    net, stream = cp.Network(3, 2), cp.Arrays(np.ones((20, 3)), np.linspace(0, 1, 20))
    for learner, name in ((Replay(net), "ring"), (cp.CrosspropApprox(net, 0.1), "crossprop-approx")):
        records = cp.run(learner, stream, seeds=1, progress=False)
        assert records.learner.values.tolist() == records.rule.values.tolist() == [name]
