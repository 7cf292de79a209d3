"""Results are never served for other code: what a user writes is identified by what it computes."""

import importlib
import json
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
from crossprop.configuration import configuration
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
doubled = lambda outcome, y: mine_helpers.scaled(2 * outcome.loss)
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
    ("old", "new", "users"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0", {"stream"}),
        ("by + 0.5", "by - 0.5", {"stream"}),
        ("[1, 2]", "[2, 2]", {"stream", "table"}),
        ("np.arange(3)", "np.arange(4)", {"stream", "table"}),
        ("value * 0.5", "value * 0.25", {"rule"}),
        ("def scaled(x): return x", "def scaled(x): return -x", {"rule"}),
        ("def inner(x): return 3 * x", "def inner(x): return 4 * x", {"optimizer"}),
        ("optimizer, other = made(2)", "optimizer, other = made(4)", {"optimizer"}),
        ("momentum=0.5", "momentum=0.6", {"optimizer"}),
        ("metric = Callable(2)", "metric = Callable(3)", {"metric"}),
        ("def late(x): return x + 1", "def late(x): return x + 2", {"cached"}),
        ("class Rule(cp.Backprop)", "class Rule(cp.Frozen)", {"rule"}),
        ("def unused(x): return x", "def unused(x): return 1", set()),
    ],
)
def test_an_edit_of_a_module_changes_the_identity_of_all_that_uses_it(mine, old, new, users):
    before, after = identities(mine()), identities(mine((old, new)))
    assert {name for name in before if before[name] != after[name]} == users


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # a comment", "  # another\n        # comment"),
        ("def shift(self, by):", "def shift(\n        self,\n        by,\n    ):"),
        ("Says what it does.", "Says something else."),
        ('"""A stream."""', '"""Another docstring."""'),
    ],
)
def test_comments_docstrings_and_formatting_are_no_code(mine, old, new):
    assert identities(mine()) == identities(mine((old, new)))


DECORATED = """
import contextlib, dataclasses, functools
import equinox as eqx, jax, jax.numpy as jnp, numpy as np
from jaxtyping import jaxtyped
"""
"""What the code below imports."""


@pytest.mark.parametrize("as_script", [False, True], ids=["module", "script"])
@pytest.mark.parametrize(
    "code",
    [
        "@jax.vmap\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(outcome.loss[None])[0]",
        "@functools.partial(jax.vmap, in_axes=0)\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(y)",
        "@jax.grad\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(outcome.loss)",
        "@jax.jit\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(outcome.loss)",
        "@jax.named_scope('h')\ndef metric(outcome, y): return outcome.loss * {}",
        "@jaxtyped(typechecker=None)\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(outcome.loss)",
        "@contextlib.contextmanager\ndef h(): yield {}\ndef metric(outcome, y):\n    with h() as f: return f",
        "@jax.custom_jvp\ndef h(x): return x\n@h.defjvp\ndef j(x, t): return x[0], t[0] * {}\n"
        "metric = lambda outcome, y: jax.grad(h)(outcome.loss)",
        "@np.vectorize\ndef h(x): return x * {}\nmetric = lambda outcome, y: h(1.0)",
        "@functools.singledispatch\ndef h(x): return x\n@h.register\ndef _(x: float): return x * {}\n"
        "metric = lambda outcome, y: h(1.0)",
        "@dataclasses.dataclass\nclass C:\n    rate: float = {}\nmetric = lambda outcome, y: C().rate",
        "class C(eqx.Module):\n    rate: float = {}\nmetric = lambda outcome, y: C().rate",
        "def h(): return 0\nh.rate = {}\nmetric = lambda outcome, y: h.rate",
        "class C:\n    def __init__(self, by): self.by = by\n    def __call__(self, o, y): return o.loss * self.by\n"
        "metric = functools.partial(lambda c, o, y: c(o, y), C({}))",
        "class C:\n    def __init__(self, by): self.by = by\n    def m(self, o, y): return o.loss * self.by\n"
        "metric = C({}).m",
        "class C:\n    def __init__(self, func): self.func = func\n"
        "    def __call__(self, outcome, y): return self.func(outcome.loss) * {}\nmetric = C(abs)",
        "class C:\n    @property\n    def by(self): return {}\nmetric = lambda outcome, y: C().by",
        "M = np.ma.array([1.0, 2.0], mask=[True, {} > 0])\nmetric = lambda outcome, y: M.sum()",
    ],
)
def test_edits_beneath_decorators_and_in_defaults_are_noticed(tmp_path, monkeypatch, code, as_script):
    def metric(factor):
        text = DECORATED + code.format(factor)
        if as_script:
            scope = {"__name__": "__main__"}
            exec(compile(text, "<cell>", "exec"), scope)
            return scope["metric"]
        (tmp_path / "decorated.py").write_text(text)
        sys.modules.pop("decorated", None)
        importlib.invalidate_caches()
        return importlib.import_module("decorated").metric

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before, after, again = (code_identity(metric(factor)) for factor in (2.0, -3.0, 2.0))
    sys.modules.pop("decorated", None)
    assert before == again != after and before is not None and not before.unknown


def test_of_a_script_only_what_is_used_counts(tmp_path):
    def identity(text):
        scope = {"__name__": "__main__"}
        exec(compile("def scaled(x): return 2 * x\n" + text, "script", "exec"), scope)
        return code_identity(scope["metric"])

    before = identity("def metric(outcome, y): return scaled(outcome.loss)\nseeds = 2")
    assert before == identity("seeds = 30\n\ndef metric(outcome, y): return scaled(outcome.loss)\ndef draw(): pass")
    assert before != identity("def metric(outcome, y): return scaled(outcome.loss) + 1\nseeds = 2")


PACKAGE = {
    "__init__": "",
    "used": "from . import within\nimport my_package.scaling as scaling\n"
    "def by_chain(outcome, y): return within.scaling.slope(outcome.loss)\n"
    "def by_name(outcome, y): return getattr(scaling, 'slope')(outcome.loss)\n"
    "def late(outcome, y):\n    from .later import shifted\n    return shifted(outcome.loss)\n",
    "within": "import my_package.scaling as scaling",
    "scaling": "def slope(x): return 2 * x",
    "later": "from .scaling import slope\ndef shifted(x): return slope(x) + 1",
}


@pytest.mark.parametrize("name", ["by_chain", "by_name", "late"])
def test_code_is_followed_through_modules_that_it_names_and_imports(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def identity(factor):
        for module in [each for each in sys.modules if each.startswith("my_package")]:
            del sys.modules[module]
        importlib.invalidate_caches()
        for module, text in PACKAGE.items():
            path = tmp_path / "my_package" / f"{module}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("2 * x", f"{factor} * x"))
        return code_identity(getattr(importlib.import_module("my_package.used"), name))

    before, after, again = map(identity, (2, 3, 2))
    assert before == again != after and before is not None and not before.unknown


HELD = """
import functools, operator
import mine_helpers
def closed(module): return lambda outcome, y: module.scaled(outcome.loss)
class Holder:
    module = mine_helpers
    def __call__(self, outcome, y): return self.module.scaled(outcome.loss)
class Partial:
    def by(self, factor, outcome, y): return factor * outcome.loss
    __call__ = functools.partialmethod(by, 2)
metrics = [closed(mine_helpers), Holder(), functools.partial(lambda module, o, y: module.scaled(o.loss), mine_helpers)]
metrics += [lambda o, y: vars(mine_helpers)["scaled"](o.loss), lambda o, y: mine_helpers.__dict__["scaled"](o.loss)]
pick = operator.attrgetter("scaled")
metrics += [lambda o, y: pick(mine_helpers)(o.loss), Partial()]
"""


def test_all_of_a_module_counts_that_is_handed_on(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def sources(factor):
        for name, text in (("held", HELD.replace("by, 2", f"by, {factor}")), ("mine_helpers", HELPERS)):
            (tmp_path / f"{name}.py").write_text(text.replace("scaled(x): return x", f"scaled(x): return {factor} * x"))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return [code_identity(each) for each in importlib.import_module("held").metrics]

    before, after, again = map(sources, (2, 3, 2))
    for name in ("held", "mine_helpers"):
        del sys.modules[name]
    assert before == again and all(one != other for one, other in zip(before, after, strict=True))
    assert not any(source is None or source.unknown for source in before)


def test_code_that_is_found_while_it_runs_is_named():
    source = code_identity(lambda outcome, y: outcome.loss * globals()["FACTOR"])
    assert source is not None and source.unknown == ("globals()",)


def test_arrays_of_another_type_are_other_data():
    x = np.arange(256, dtype=np.uint8)
    assert configuration(x) != configuration(x.view(np.int8))
    assert configuration(x.view("<u2")) != configuration(x.view(">u2"))


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


class Odd:
    """A value that raises whenever it is looked into."""

    def __reduce_ex__(self, protocol):
        raise SystemError("no")


def test_no_value_makes_the_identity_of_code_an_error(monkeypatch):
    deep, odd, number = [], Odd(), 10**5000
    for _ in range(5000):
        deep = [deep]
    monkeypatch.setattr("sys.path_importer_cache", {})
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda *_: {}["no such path"])
    source = code_identity(lambda outcome, y: (outcome.loss, deep, odd, number))
    assert source is not None and {*source.unknown} == {f"{__name__}:a Odd", "builtins:a list"}
    assert source != code_identity(lambda outcome, y: (outcome.loss, deep, odd, -number))


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
    np.testing.assert_allclose(records["b"]["m"], records["b"].loss + 2, rtol=1e-5)


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


# In one process, after an edit.


def test_code_edited_in_this_process_is_traced_anew(mine, tmp_path):
    """After `importlib.reload`, and after a variable of a module is bound anew, for the same objects."""
    module = mine()
    rule, factor = module.Rule(NET, 0.1), 1.0
    state, x = rule.init(jax.random.key(0)), np.ones((1, 6))

    def results():
        records = cp.run(rule, STREAM, 1, 20, metrics={"m": module.doubled}, progress=False)
        moved = rule.update(state, x[0], 1.0)[0], cp.live(rule, state, x, np.ones(1))[0]
        sums = [float(jnp.abs(each.incoming[0] - state.incoming[0]).sum()) for each in moved]
        return *sums, float(records.loss[0, 0, -1]), float((records.m / records.loss)[0, 0, 0])

    def edit(new):
        (tmp_path / "mine_helpers.py").write_text(HELPERS.replace("return x\ndef late", f"return {new} * x\ndef late"))
        importlib.reload(module.mine_helpers)

    first = results()
    for factor in (3.0, 2.0):
        edit(factor)
        found = results()
        np.testing.assert_allclose(found[:2], np.multiply(first[:2], factor), rtol=1e-5)
        np.testing.assert_allclose(found[3] / first[3], factor, rtol=1e-5)
        assert found[2] != first[2]
    module.mine_helpers.scaled = lambda x: x
    assert results() == first


FACTOR = 1.0


@jax.jit
def jitted(x):
    return FACTOR * x


def body(x, _):
    return FACTOR * x, None


def test_parts_of_new_code_are_traced_anew(monkeypatch):
    """JAX keeps the programs of a jitted helper and of the body of a loop, which a new function may call."""

    def factors():
        metrics = {
            "by_jit": lambda outcome, y: jitted(outcome.loss),
            "by_scan": lambda outcome, y: jax.lax.scan(body, outcome.loss, length=1)[0],
        }
        records = cp.run(cp.Frozen(NET, 0.1), STREAM, 1, 20, metrics=metrics, progress=False)
        return [float((records[name] / records.loss)[0, 0, 0]) for name in metrics]

    for factor in (1.0, 2.0, 1.0):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        np.testing.assert_allclose(factors(), factor, rtol=1e-5)


def test_the_engine_is_chosen_by_the_code_of_now(monkeypatch):
    """A rule that moved nothing needs no memory of its optimizer; once it moves, the chunked engine cannot run it."""

    class Rule(cp.Backprop):
        def credit(self, units, delta):
            return cp.Frozen.credit(self, units, delta)

    learner, wide = Rule(cp.Network(128, 3), 0.01, optimizer="adam"), cp.Geoff(128, 10, tasks="A", examples=40)
    results = lambda: cp.run(learner, wide, 1, 20, progress=False)
    frozen = results()
    assert frozen.engine == "chunked" and (frozen.incoming_drift == 0).all()
    monkeypatch.setattr(Rule, "credit", cp.Backprop.credit)
    moving = results()
    assert moving.engine == "scan"
    expected = cp.run(cp.Backprop(learner.network, 0.01, optimizer="adam"), wide, 1, 20, progress=False)
    assert moving.loss.equals(expected.loss.assign_coords(moving.loss.coords)) and (moving.incoming_drift > 0).all()


def test_a_sweep_after_an_edit_in_this_process_stores_numbers_of_the_new_code(mine, tmp_path):
    module = mine()
    sweep(tmp_path / "store", module.Rule(NET, 0.1))
    module.mine_helpers.scaled = lambda x: -x
    with pytest.warns(UserWarning, match="other code"):
        stored = sweep(tmp_path / "store", module.Rule(NET, 0.1))
    edited = mine(("def scaled(x): return x", "def scaled(x): return -x"))
    assert stored.equals(sweep(None, edited.Rule(NET, 0.1)))


# Settings of JAX and of its compiler.


def test_a_seed_has_the_same_numbers_whatever_the_settings_of_random_numbers(monkeypatch):
    script = (
        "import crossprop as cp, numpy as np\n"
        "net = cp.Network(inputs=6, hidden=8)\n"
        "stream = cp.Geoff(inputs=6, features=10, tasks='A', examples=40)\n"
        "print(cp.run(cp.Backprop(net, 0.1), stream, 2, 20, progress=False).loss.values.tolist())"
    )
    monkeypatch.setenv("JAX_THREEFRY_PARTITIONABLE", "0")
    monkeypatch.setenv("JAX_RANDOM_SEED_OFFSET", "5")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = cp.run(cp.Backprop(NET, 0.1), STREAM, 2, 20, progress=False)
    np.testing.assert_allclose(json.loads(done.stdout), here.loss, rtol=1e-6)


def test_flags_of_the_compiler_are_part_of_what_a_store_holds(tmp_path, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    first = sweep(tmp_path / "store", cp.Backprop(NET, 0.1))
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    assert sweep(tmp_path / "store", cp.Backprop(NET, 0.1)).identical(first)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with pytest.raises(ValueError, match="xla_flags"):
        sweep(tmp_path / "store", cp.Backprop(NET, 0.1))
