"""Programs for a GPU that is not here: they are lowered, and what Triton would compile is verified. Several that wait
for each other are tried as the places of a `jax.vmap`."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh


@pytest.fixture
def verified(monkeypatch):
    """The Triton programs that are made, each verified: JAX itself leaves that to the compiler."""
    lowering = pytest.importorskip("jax._src.pallas.triton.lowering")
    lower, made = lowering.lower_jaxpr_to_triton_module, []

    def lower_and_verify(*args, **kwargs):
        result = lower(*args, **kwargs)
        assert result.module.operation.verify()
        made.append(str(result.module.operation.attributes["sym_name"]).strip('"'))
        return result

    monkeypatch.setattr(lowering, "lower_jaxpr_to_triton_module", lower_and_verify)
    return made


def lower_for_cuda(function, learner, examples=40):
    """Lowers `function(learner, key, x, y, alive)` of one run, for two runs side by side."""
    several = lambda *shape: jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    learners = jax.tree.map(lambda leaf: several(), learner)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0)))
    x, y = several(examples, learner.network.inputs), several(examples, learner.network.outputs)
    gpu = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))
    with use_abstract_mesh(gpu):
        program = jax.jit(jax.vmap(function)).trace(learners, keys, x, y, jax.ShapeDtypeStruct((2,), jnp.int32))
        program.lower(lowering_platforms=("cuda",))


class Gathered:
    """As `Shares`: the sum over all programs, which are the places of the axis "programs"."""

    def total(self, own):
        return jnp.sum(lax.all_gather(own, "programs"), axis=0)


def split(axis, leaf, programs):
    """For every program its share of an array, along an axis from the end; the whole array if that is 0."""
    if not axis:
        return jnp.broadcast_to(leaf, (programs, *leaf.shape))
    return jnp.stack(jnp.split(leaf, programs, axis))


def joined(axis, leaf):
    return jnp.concatenate([*leaf], axis) if axis else leaf[0]
