"""Loops as one compiled function: the same numbers, and only where XLA can."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import crossprop as cp
from crossprop.engines import one_function
from crossprop.engines.fold import Fold, Window
from crossprop.engines.one_function import as_one_function, as_own_function
from crossprop.engines.protocol import Rows
from crossprop.engines.scan import ExampleLoop
from crossprop.engines.session import plain_numbers
from crossprop.learners.base import Credit, Shapes
from crossprop.replacements.base import first, least
from crossprop.variables import of_examples

MARK = "xla_cpu_small_call"


def lowered(function, *arguments):
    return jax.jit(lambda *given: as_one_function(function, *given)).lower(*arguments)


def every_operation(key, steps, unused, x, w):
    """Uses what learners use."""
    del unused

    def body(at, carry):
        key, x, w = carry
        key, own = jax.random.split(key)
        z = jnp.matmul(x, w, precision=lax.Precision.HIGHEST) + jax.random.normal(jax.random.fold_in(own, at), x.shape)
        u = jax.random.uniform(own, x.shape, minval=0.1)
        z = jnp.tanh(z) + lax.erf(u) + jnp.exp(-u) + jnp.log(u) + jnp.log1p(u) + jnp.expm1(u) + u**1.5 + lax.rsqrt(u)
        z = z + jax.nn.sigmoid(u) + jnp.sqrt(u) + jnp.sign(z) + jnp.round(z) + jnp.floor(z) + jnp.cos(u) + jnp.sin(u)
        z = jnp.where(jnp.isfinite(z) & (z != 3), z, 0) / jnp.maximum(1, jnp.max(jnp.abs(z)))
        z = z + jnp.cumsum(u) + jnp.argmax(u) - jnp.argmin(z) + jnp.any(u > 2) + jnp.all(u > 0) + jnp.min(z)
        z = lax.cond(at % 2 == 0, lambda z: z * 0.1, lambda z: jnp.concatenate([z[1:], z[:1]]) * 0.2, z)
        return key, jnp.clip(z, -1, 1), lax.dynamic_update_index_in_dim(w, z, at % 3, 1).T

    return lax.fori_loop(0, steps, body, (key, x, w))


def test_one_function_computes_what_the_list_of_functions_does():
    arguments = jax.random.key(3), 20, jnp.ones(7), jnp.linspace(-1, 1, 9), jnp.eye(9)
    program = lowered(every_operation, *arguments)
    assert (MARK in program.as_text()) == one_function.IS_NEEDED
    for one, other in zip(program.compile()(*arguments)[1:], jax.jit(every_operation)(*arguments)[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (jnp.sort, np.ones(8)),
        (lambda a: jnp.linalg.solve(a, a[0]), np.eye(4)),
        (jnp.sum, np.ones(one_function.MOST_SUMMED + 1)),
        (lambda a: a @ a, np.eye(4)),
        (lambda a: a + 1, np.ones(one_function.MOST_NUMBERS + 1)),
        (lambda a: jax.random.uniform(jax.random.key(0, impl="rbg"), a.shape), np.ones(4)),
    ],
)
def test_what_needs_a_library_or_all_cores_is_left_to_xla(function, argument):
    loop = lambda a: lax.fori_loop(0, 2, lambda _, carry: (function(a), carry[0]), (function(a), function(a)))
    assert MARK not in lowered(loop, argument).as_text()


def test_a_result_that_is_an_argument_has_no_mark():
    def program(a):
        b = jnp.sin(a)
        return as_own_function(lambda a, b: (b, a + b), a, b)

    a = jnp.arange(3.0)
    b, both = jax.jit(program)(a)
    np.testing.assert_allclose([b, both], [jnp.sin(a), a + jnp.sin(a)], rtol=1e-6)


class Sorting(cp.CreditRule):
    """A rule that XLA calls a library for."""

    def credit(self, units, delta):
        return Credit(from_input=jnp.sort(self.network.weigh(delta, units.outgoing) * units.slope))

    def shapes(self):
        return Shapes()


@pytest.mark.usefixtures("quick_compilation")
def test_a_rule_of_any_operations_runs():
    stream = cp.Arrays(np.ones((20, 3)), np.ones(20))
    records = cp.run(Sorting(cp.Network.paper(3, 5), 0.01), stream, seeds=1, record_every=20, progress=False)
    assert np.isfinite(records.loss.values).all()


@pytest.mark.long
def test_windows_of_any_length_leave_the_same_state():
    net = cp.Network.paper(4, (6, 5), activation="relu", bias=True)
    learner = cp.Foresight(net, 0.01, replacement=cp.ContinualReplacement(rate=0.02, maturity=5))
    x = np.random.default_rng(0).normal(size=(60, 4))
    stream = cp.Arrays(x, x.sum(1))
    run = lambda every: cp.run(
        learner, stream, seeds=1, record_every=every, engine="scan", progress=False, return_states=True
    )
    states = [run(every)[1]["foresight"][0] for every in (1, 60)]
    jax.tree.map(np.testing.assert_array_equal, *(jax.tree.map(plain_numbers, state) for state in states))


@pytest.mark.parametrize("size", [1, 5, 16, 50])
def test_least_and_first_are_argmin_and_argmax(size):
    random = np.random.default_rng(size)
    for values in [random.integers(0, 4, size).astype(float), random.normal(size=size), np.full(size, np.inf)]:
        assert least(jnp.asarray(values)) == np.argmin(values)
        assert first(jnp.asarray(values >= values.max())) == np.argmax(values)
    values = np.where(np.arange(size) == size // 2, np.nan, 1.0)
    assert least(jnp.asarray(values)) == size // 2


def test_a_step_of_a_deep_network_changes_its_weights_in_place():
    """The weights above the first move after errors have gone down through them: XLA would copy them otherwise."""
    learner = cp.Foresight(cp.Network.paper(4, (6, 5), 2), 1e-3)
    loop = ExampleLoop(whole=True)
    work = loop.enter(learner, learner.init(jax.random.key(0)))
    window, fold = Window({"loss": jnp.zeros(())}, jnp.int32(0)), Fold("squared", of_examples("squared"))
    rows = Rows(jnp.zeros((8, 4)), jnp.zeros((8, 2)), 0, 8, 0)
    advance = lambda work, rows: loop.advance(learner, work, window, rows, fold)
    program = jax.jit(advance, donate_argnums=0).lower(work, rows).compile().as_text()
    copied = re.findall(r"= (f32\[\d+,\d+\])\S* copy\(%(?!transpose)", program)
    assert "f32[6,5]" in program and not copied
