# %% [markdown]
# # Sweep, and read it
#
# Learners should be compared at settings that were chosen for each. A sweep runs a grid of settings and keeps every
# result in a folder. The best setting of each learner is then run again on fresh seeds, because the best of many was
# also lucky.

# %%
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt

import crossprop as cp

seeds, fresh, hidden, examples = 3, 20, 50, 1500
store = Path(mkdtemp()) / "sweep"  # a real one goes to a folder that you keep

# %% [markdown]
# ## The grid
#
# Common axes first, then one that crossprop alone has. `eta` mixes backprop (1) and crossprop (0).

# %%
net = cp.Network(inputs=20, hidden=hidden, outgoing_scale=0)
learners = {"crossprop": cp.Crossprop(net, 1e-3), "backprop": cp.Backprop(net, 1e-3), "frozen": cp.Frozen(net, 1e-3)}
grid = {"step_size": cp.logspace(2**-12, 2**-6, base=2), "crossprop": {"eta": [0, 0.5, 0.9]}}
stream = cp.Geoff(examples=examples)
swept = cp.sweep(learners, stream, over=grid, seeds=seeds, store=store, evaluate=fresh)

# %% [markdown]
# Had this been interrupted, the same call would continue. With more seeds or values it would run only what is missing.
#
# ## Read it
#
# Every learner has a Dataset with the axes as dimensions.

# %%
loss = swept["crossprop"].loss.mean(["seed", "step"])
print(loss.to_pandas().round(1).to_string())

# %% [markdown]
# ## The answer, on fresh seeds
#
# `edges` names the axes on which the best setting lies at the edge of the grid: widen the grid there before you trust
# it.

# %%
evaluation = cp.open_evaluation(store)
for name, choice in evaluation.chosen.items():
    print(f"{name:10s} {choice.point} at the edge: {', '.join(choice.edges) or 'none'}")
for each in cp.compare(evaluation.values(), {"crossprop": "backprop", "frozen": "backprop"}):
    interval = f"[{each.difference.low:+.2f}, {each.difference.high:+.2f}]"
    print(f"{each.learner} less {each.reference}: {each.difference.mean:+.2f} {interval}, p = {each.p:.2g}")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, records in swept.items():
    mean = records.loss.mean(["seed", "step"])
    best = mean.min([axis for axis in mean.dims if axis != "step_size"])
    axes.semilogx(best.step_size, best, "o-", color={"frozen": "silver"}.get(name), label=name)
axes.set(title="squared error at the best eta", xlabel="step size")
axes.legend()
plt.show()
