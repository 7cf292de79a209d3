"""Results are never served for other code: what a user writes is identified by what it computes."""

import importlib
import pickle
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop import probes
from crossprop.source_identity import code_identity

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network(inputs=6, hidden=8)
STREAM = cp.Geoff(inputs=6, features=10, tasks="A", examples=40)

MINE = '''
from dataclasses import dataclass
from functools import lru_cache, partial
import jax, jax.numpy as jnp, numpy as np, optax
import crossprop as cp
import mine_helpers
from mine_helpers import slope

FACTOR = 2.0
TABLE = {"a": [1, 2], "b": np.arange(3)}

@dataclass(frozen=True)
class Stream(cp.Stream):
    """A stream."""
    inputs: int = 6
    outputs: int = 1
    one_hot: bool = False
    steps: int = 40
    def begin(self, key):
        return key
    def deal(self, place, count):
        x = jnp.ones((count, self.inputs)) * FACTOR
        return place, x, x[:, :1] + self.shift(TABLE["a"][0])
    def shift(self, by):  # a comment
        return by + 0.5

class Rule(cp.Backprop):
    def credit(self, units, delta):
        def halved(value):
            return value * 0.5
        return cp.Backprop.credit(self, units, halved(mine_helpers.scaled(delta)))

class Callable:
    def __init__(self, power):
        self.power = power
    def __call__(self, outcome, y):
        return outcome.loss ** self.power

@partial(jax.jit, static_argnums=0)
def jitted(x):
    return x in {"one", "two", "three"}

@lru_cache
def cached(x):
    from mine_helpers import late
    return late(x)

def made(by):
    def optimizer(step_size, *, momentum=0.5):
        """Says what it does."""
        return optax.sgd(slope(step_size) * by, momentum)
    return optimizer

optimizer, other = made(2), made(3)
metric = Callable(2)
short = lambda outcome, y: outcome.loss + 1
table = lambda outcome, y: outcome.loss + TABLE["b"].sum()
'''
HELPERS = """
def slope(x): return inner(x)
def inner(x): return 3 * x
def scaled(x): return x
def late(x): return x + 1
def unused(x): return x
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """`mine(old, new)`: the user's module, imported anew after an edit."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(*edits):
        for name, text in (("mine", MINE), ("mine_helpers", HELPERS)):
            for old, new in edits:
                text = text.replace(old, new)
            (tmp_path / f"{name}.py").write_text(text)
        return load()

    def load():
        for name in ("mine", "mine_helpers"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module("mine")
        importlib.import_module("mine_helpers")
        return module

    yield imported
    for name in ("mine", "mine_helpers"):
        sys.modules.pop(name, None)


def things(module):
    given = {name: getattr(module, name) for name in ("jitted", "cached", "optimizer", "metric", "short", "table")}
    return given | {"stream": module.Stream(), "rule": module.Rule(NET, 0.1)}


def identities(module):
    found = {name: code_identity(value) for name, value in things(module).items()}
    assert all(source is not None and not source.unknown for source in found.values()), found
    return {name: source.sha256 for name, source in found.items() if source is not None}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0", {"stream"}),
        ("by + 0.5", "by + 0.25", {"stream"}),
        ("by + 0.5", "by - 0.5", {"stream"}),
        ("[1, 2]", "[2, 2]", {"stream", "table"}),
        ("np.arange(3)", "np.arange(4)", {"stream", "table"}),
        ("value * 0.5", "value * 0.25", {"rule"}),
        ("def scaled(x): return x", "def scaled(x): return -x", {"rule"}),
        ("def inner(x): return 3 * x", "def inner(x): return 4 * x", {"optimizer"}),
        ("optimizer, other = made(2)", "optimizer, other = made(4)", {"optimizer"}),
        ("momentum=0.5", "momentum=0.6", {"optimizer"}),
        ("metric = Callable(2)", "metric = Callable(3)", {"metric"}),
        ("outcome.loss ** self.power", "outcome.loss * self.power", {"metric"}),
        ("outcome.loss + 1", "outcome.loss + 2", {"short"}),
        ('"three"}', '"four"}', {"jitted"}),
        ("def late(x): return x + 1", "def late(x): return x + 2", {"cached"}),
        ("class Rule(cp.Backprop)", "class Rule(cp.Frozen)", {"rule"}),
        ("jnp.ones", "jnp.zeros", {"stream"}),
        ("def unused(x): return x", "def unused(x): return 1", set()),
        ("  # a comment", "  # another\n        # comment", set()),
        ("def shift(self, by):", "def shift(\n        self,\n        by,\n    ):", set()),
        ("Says what it does.", "Says something else.", set()),
        ('"""A stream."""', '"""Another docstring."""', set()),
        ("inputs: int = 6", "inputs: int = 6 or 7", set()),
    ],
)
def test_an_edit_changes_the_identity_of_all_that_uses_it_and_of_nothing_else(mine, old, new, changed):
    before = identities(mine())
    after = identities(mine((old, new)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_an_identity_is_the_same_in_every_process_and_however_often_code_has_run(mine, tmp_path, monkeypatch):
    module = mine()
    before = identities(module)
    for _ in range(50):  # enough for the interpreter to specialise its instructions
        module.Stream().shift(1)
        module.cached(1)
    pickle.loads(pickle.dumps([module.Stream(), module.metric]))  # notes something in the classes
    assert identities(module) == before
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert identities(mine()) == identities(mine()) == before  # the second is loaded from the bytecode of the first
    assert list(tmp_path.glob("__pycache__/mine.*"))
    script = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(tmp_path)!r}]\n"
        "import mine, mine_helpers, test_source_identity as test\n"
        "print(test.identities(mine))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(before)


def test_what_the_package_defines_is_known_by_name_unless_it_closes_over_values():
    assert code_identity(cp.Crossprop(NET, 0.1)) is None and code_identity(STREAM) is None
    ones = [code_identity(probes.saturated(NET, np.ones((2, 6)))) for _ in range(2)]
    other = code_identity(probes.saturated(NET, np.zeros((2, 6))))
    assert ones[0] == ones[1] != other and ones[0] is not None


def test_numbers_of_a_learner_are_no_code(mine):
    rule = mine().Rule
    assert code_identity(rule(NET, 0.1)) == code_identity(rule(cp.Network(6, 9), 0.2))


def test_functions_of_libraries_are_known_by_name_and_by_what_they_hold():
    one, two, same = (code_identity(partial(optax.adamw, weight_decay=value)) for value in (0.1, 0.2, 0.1))
    assert one == same != two
    assert code_identity(optax.adamw) != code_identity(optax.adam)
    assert code_identity(jax.vmap(jnp.sin, in_axes=0)) != code_identity(jax.vmap(jnp.sin, in_axes=1))
    transformations = [code_identity(optax.chain(optax.sgd(rate))) for rate in (0.1, 0.2, 0.1)]
    assert transformations[0] == transformations[2] != transformations[1]


def test_what_cannot_be_told_is_named():
    lock = threading.Lock()
    source = code_identity(lambda outcome, y: outcome.loss + lock.locked())
    assert source is not None and source.unknown == ("_thread:a lock",)


# In a store, and in a checkpoint.


def sweep(store, learner, **options):
    return cp.sweep({"mine": learner}, STREAM, {}, 1, 20, store=store, **options)["mine"]


def test_a_store_never_serves_results_of_code_that_was_edited(mine, tmp_path):
    store, edit = tmp_path / "store", ("value * 0.5", "value * 0.25")
    first = sweep(store, mine().Rule(NET, 0.1))
    with pytest.warns(UserWarning, match=r"was written by other code of learners\['mine'\]"):
        edited = sweep(store, mine(edit).Rule(NET, 0.1))
    assert edited.identical(sweep(None, mine(edit).Rule(NET, 0.1))) and not edited.equals(first)
    assert cp.open_sweep(store)["mine"].identical(edited)
    assert len(list((store / "blocks").iterdir())) == 2
    with pytest.warns(UserWarning, match="other code"):
        assert sweep(store, mine().Rule(NET, 0.1)).identical(first)
    assert len(list((store / "blocks").iterdir())) == 2


def test_learners_of_an_earlier_call_are_not_left_beside_others_with_other_metrics(mine, tmp_path):
    both = {name: cp.Frozen(NET, 0.1) for name in "ab"}
    call = partial(cp.sweep, stream=STREAM, over={}, seeds=1, record_every=20, store=tmp_path / "store")
    call(both, metrics={"m": mine().short})
    edited = mine(("outcome.loss + 1", "outcome.loss + 2")).short
    with pytest.raises(ValueError, match=r"learners\['b'\] was run with other code of metrics\['m'\]"):
        call({"a": both["a"]}, metrics={"m": edited})
    with pytest.warns(UserWarning, match="other code"):
        records = call(both, metrics={"m": edited})
    np.testing.assert_allclose(records["b"]["m"], records["b"].loss * 20 + 40, rtol=1e-5)


def test_lambdas_and_closures_are_kept_in_stores_and_checkpoints(tmp_path):
    def learner(factor):
        return cp.Backprop(NET, 0.01, optimizer=lambda step_size: optax.sgd(factor * step_size))

    first = sweep(tmp_path / "store", learner(2))
    assert sweep(tmp_path / "store", learner(2)).identical(first)
    call = partial(cp.run, stream=STREAM, seeds=1, checkpoint=tmp_path / "checkpoint", progress=False)
    records = call(learner(2))
    assert call(learner(2)).identical(records)
    with pytest.raises(ValueError, match="belongs to another call, which is kept: the code of learners is"):
        call(learner(3))


def test_a_store_warns_once_of_code_that_it_cannot_know(tmp_path):
    lock = threading.Lock()
    metrics = {"m": lambda outcome, y: outcome.loss + lock.locked()}
    with pytest.warns(UserWarning, match=r"cannot tell .* metrics\['m'\] uses _thread:a lock") as told:
        sweep(tmp_path / "store", cp.Frozen(NET, 0.1), metrics=metrics)
    assert len(told) == 1
