# %% [markdown]
# # Foresight in a deep network
#
# Backprop sends the error down through the weights above a unit, as they are. Foresight sends it through the weights as
# they will be, if they keep going where they have been going: `W + ahead * v`, with `v` a fading sum of the steps that
# W took over the last `horizon` examples. `ahead=0` is backprop; a negative `ahead` looks back, which serves as a
# control.
#
# Does looking ahead help two hidden layers to learn digits whose labels shift with every task?

# %%
import matplotlib.pyplot as plt

import crossprop as cp

seeds, hidden, aheads = 5, (50, 50), [-0.5, 0, 1, 2, 4]
net = cp.Network(
    64, hidden, 10, activation="relu", loss="softmax", bias=True, incoming_scale="kaiming", outgoing_scale=0
)
stream = cp.LabelShift(cp.datasets.digits(), tasks="ABC", shuffle=True)

# %% [markdown]
# ## One axis, and the step size beside it
#
# Looking ahead also changes the size of the error that arrives below, so every `ahead` gets the choice among the same
# step sizes. Numbers are not compiled into the program: the whole grid shares one.

# %%
grid = {"ahead": aheads, "step_size": cp.logspace(2**-8, 2**-3, base=2)}
swept = cp.sweep(cp.Foresight(net, 0.01, horizon=300), stream, over=grid, seeds=seeds)["foresight"]
error = swept.error.mean("step")
print(error.mean("seed").to_pandas().round(3).to_string())

# %% [markdown]
# ## Against backprop, seed by seed
#
# The best step size of each `ahead`, by its mean over seeds; differences are paired by seed. These seeds chose the step
# sizes too, so take the result for a hint: `cp.sweep(..., evaluate=60)` would run fresh ones.

# %%
best = {
    ahead: error.sel(ahead=ahead).isel(step_size=error.sel(ahead=ahead).mean("seed").argmin("step_size"))
    for ahead in aheads
}
for ahead in aheads:
    difference = 100 * (best[ahead] - best[0])
    points, won = float(difference.mean()), int((difference < 0).sum())
    print(f"ahead {ahead:4}: {points:+.2f} points misclassified against backprop, better in {won} of {seeds} seeds")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for ahead in aheads:
    style = "k--" if ahead == 0 else "o-"
    axes.semilogx(swept.step_size, 100 * error.sel(ahead=ahead).mean("seed"), style, label=f"ahead {ahead}")
axes.set(title="% misclassified, over all examples", xlabel="step size")
axes.legend()
plt.show()
