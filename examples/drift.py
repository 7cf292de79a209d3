# %% [markdown]
# # Your own data, with drift
#
# A sensor's readings depend on its surroundings in a way that changes: slowly all the time, and suddenly when the
# device is moved. A model that was trained once goes stale. An online learner keeps up; how well depends on its step
# size.
#
# Any arrays will do in the place of the ones made here.

# %%
import matplotlib.pyplot as plt
import numpy as np

import crossprop as cp

seeds, readings = 5, 6000

# %% [markdown]
# ## Data
#
# Six inputs, one target: a nonlinear function whose weights turn slowly, and jump once in the middle.

# %%
rng = np.random.default_rng(0)
x = rng.normal(size=(readings, 6))
turn = np.linspace(0, np.pi, readings)[:, None]
weights = np.cos(turn) * rng.normal(size=6) + np.sin(turn) * rng.normal(size=6)
weights[readings // 2 :] = weights[readings // 2 :, ::-1]
y = np.tanh(np.sum(weights * x, axis=1)) + 0.5 * x[:, 0] * x[:, 1] + 0.1 * rng.normal(size=readings)
stream = cp.Arrays(x, y)

# %% [markdown]
# ## Learners
#
# `steady` learns for the first fifth of the data and then only answers: the model that was trained once. The others go
# on.

# %%
net = cp.Network(inputs=6, hidden=50, activation="tanh", bias=True, incoming_scale="lecun", outgoing_scale=0)
learners = {
    "sgd": cp.Backprop(net, step_size=0.02),
    "adam": cp.Backprop(net, step_size=0.003, optimizer="adam"),
    "frozen": cp.Frozen(net, step_size=0.02),
}
records = cp.run(learners, stream, seeds=seeds)

first = readings // 5
learner = learners["adam"]
state, _ = cp.live(learner, learner.init(cp.keys(0)[1]), x[:first], y[:first])
steady = (np.asarray(cp.predict(learner, state, x[first:]))[:, 0] - y[first:]) ** 2

# %% [markdown]
# ## Who keeps up?
#
# Every prediction is made before its target is seen, so the error is an honest forecast error all the way.

# %%
print(records.loss.isel(step=records.step > first).mean(["seed", "step"]).to_series().round(3).to_string())
print(f"steady   {steady.mean():.3f}")

# %%
window = 50
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for name in learners:
    axes.plot(records.step, records.loss.sel(learner=name).mean("seed").rolling(step=4).mean(), label=name)
whole = steady[: len(steady) // (4 * window) * 4 * window].reshape(-1, 4 * window).mean(axis=1)
axes.plot(first + 4 * window * np.arange(1, len(whole) + 1), whole, "k--", label="trained once")
axes.axvline(readings // 2, color="silver", linestyle=":")
axes.set(title="squared error, before learning from each reading", xlabel="readings", yscale="log")
axes.legend()
plt.show()
