# %% [markdown]
# # Optimizers in plain optax
#
# `cp.optimizers` has optimizers that learn a step size for every weight, or look at the whole network. In crossprop
# they go with every credit rule: `cp.Backprop(net, 0.05, optimizer=cp.optimizers.idbd())`. Each is also an optax
# transformation for any tree of parameters, such as an Equinox model. What it needs besides gradients is given to
# `update`; the learners of crossprop do that themselves.
#
# The task is Sutton's (1992): of 20 inputs five matter, and every 20 examples one of these changes its sign.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import optax

import crossprop as cp

steps, window = 20_000, 1000
stream_key, init_key = cp.keys(0)
stream = cp.Tracking()
_, x, y = stream.deal(stream.begin(stream_key), steps)
model = eqx.tree_at(
    lambda linear: linear.weight, eqx.nn.Linear(20, 1, use_bias=False, key=init_key), jnp.zeros((1, 20))
)

# %% [markdown]
# ## What an optimizer needs
#
# IDBD and Autostep need the `curvature`, the squared slope of the output by each weight; SMD needs products with the
# Hessian of the loss; ObGD needs the error. One function serves them all: each takes what it needs and ignores the
# rest.


# %%
def half_squared_error(model, x, y):
    return jnp.sum((y - model(x)) ** 2) / 2


def online(transformation):
    """Learns from one example after another; the squared errors, and the last state of the optimizer."""

    def example(carry, xy):
        model, state = carry
        gradient = jax.grad(half_squared_error)
        slope = jax.grad(lambda model: model(xy[0])[0])(model)
        step, state = transformation.update(
            gradient(model, *xy),
            state,
            model,
            curvature=jax.tree.map(jnp.square, slope),
            hessian_product=lambda v: jax.jvp(lambda model: gradient(model, *xy), (model,), (v,))[1],
            delta=xy[1] - model(xy[0]),
        )
        return (optax.apply_updates(model, step), state), 2 * half_squared_error(model, *xy)

    (_, state), errors = jax.lax.scan(example, (model, transformation.init(model)), (x, y))
    return errors, state


optimizers = {
    "sgd": optax.with_extra_args_support(optax.sgd(0.035)),
    "idbd": cp.optimizers.idbd(meta_step_size=0.01)(0.05),
    "autostep": cp.optimizers.autostep()(0.05),
    "smd": cp.optimizers.smd(meta_step_size=0.01)(0.05),
    "obgd": cp.optimizers.obgd(kappa=2)(1.0),
}
runs = {name: jax.jit(online, static_argnums=0)(transformation) for name, transformation in optimizers.items()}
for name, (errors, _) in runs.items():
    print(f"{name:20} squared error in the second half: {float(jnp.mean(errors[steps // 2 :])):.2f}")

# %% [markdown]
# ## The same in crossprop
#
# A linear unit with the same optimizer, from the same weights and with the same examples.

# %%
learner = cp.Backprop(cp.Network(20, hidden=(), outgoing_scale=0), 0.05, optimizer=cp.optimizers.idbd(0.01))
_, outcomes = cp.live(learner, learner.init(init_key), x, y)
gap = jnp.max(jnp.abs(outcomes.loss - runs["idbd"][0])[:window])
print(f"idbd in crossprop: {float(jnp.mean(outcomes.loss[steps // 2 :])):.2f}, at most {gap:.0e} apart at first")

# %% [markdown]
# ## Noise, bounds
#
# UPGD draws noise, so it needs a new `key` at each step; weight clipping needs the fan-in of every parameter. They can
# be put upon one another, and a tree of step sizes gives each layer its own.

# %%
mlp = eqx.nn.MLP(20, 1, 32, 2, key=init_key)
params, static = eqx.partition(mlp, eqx.is_array)
fan_in = eqx.tree_at(
    lambda mlp: mlp.layers,
    params,
    tuple(jax.tree.map(lambda _, layer=layer: layer.in_features, layer) for layer in params.layers),
)
clipped = cp.optimizers.clip_weights(kappa=0.8, base=cp.optimizers.upgd(sigma=0.01))(0.02)


@jax.jit
def update(params, state, key, x, y):
    gradient = jax.grad(lambda params: half_squared_error(eqx.combine(params, static), x, y))(params)
    step, state = clipped.update(gradient, state, params, key=key, fan_in=fan_in)
    return optax.apply_updates(params, step), state


state = clipped.init(params)
for t, key in enumerate(jax.random.split(init_key, 50)):
    params, state = update(params, state, key, x[t], y[t])
for layer in params.layers:
    bound = 0.8 / layer.in_features**0.5
    print(f"{layer.in_features} inputs: weights up to {jnp.max(jnp.abs(layer.weight)):.2f}, bound {bound:.2f}")

# %%
figure, (above, below) = plt.subplots(2, figsize=(7, 6), layout="constrained")
for name, (errors, _) in runs.items():
    above.plot(jnp.arange(window, steps + 1, window), errors.reshape(-1, window).mean(axis=1), label=name)
above.set(title="squared error", xlabel="example", ylim=(0, 8))
above.legend(ncols=2)
below.bar(jnp.arange(1, 21), jnp.exp(runs["idbd"][1].log_step_size.weight[0]))
below.set(title="step sizes that IDBD found: the first five inputs matter", xlabel="input", xticks=range(1, 21))
plt.show()
