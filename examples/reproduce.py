# %% [markdown]
# # Reproduce the paper's first experiment
#
# Veeriah, Zhang and Sutton (2017) compare crossprop and backprop on GEOFF, "generic online feature finding": the
# targets come from a random network, half of whose outgoing weights are drawn anew when the task changes from A to B to
# C. Each example is seen once, and the learner is not told about the change.
#
# `crossprop reproduce` does all of this, with nine learners, MNIST and a report. Here is the core of it by hand.

# %%
import matplotlib.pyplot as plt

import crossprop as cp

seeds, hidden, examples = 30, 500, 5000

# %% [markdown]
# ## The learners
#
# All have the paper's step size. `frozen` is a control that the paper does not have: it learns the outgoing weights W
# and leaves the incoming weights U, which make the features, where they began.

# %%
net = cp.Network.paper(inputs=20, hidden=hidden)
learners = {
    "crossprop": cp.Crossprop(net, step_size=5e-4),
    "backprop": cp.Backprop(net, step_size=5e-4),
    "frozen": cp.Frozen(net, step_size=5e-4),
}
stream = cp.Geoff(tasks="ABC", examples=examples)
records = cp.run(learners, stream, seeds=seeds)

# %% [markdown]
# ## The paper's claim: similar errors at the end
#
# A seed gives all learners the same examples and the same initial weights, so they can be compared pair by pair. We
# take the last fifth of every task, as the reproduction does, and one mean per seed.

# %%
position = (records.step - 1) % examples
late = records.loss.where(position >= 0.8 * examples, drop=True).mean("step")
values = {name: late.sel(learner=name) for name in learners}
for each in cp.compare(values, {"crossprop": "backprop", "frozen": "crossprop"}):
    scale = 100 / float(values[each.reference].mean())
    mean, low, high = (scale * part for part in (each.difference.mean, each.difference.low, each.difference.high))
    print(f"{each.learner}'s error is {mean:+.1f}% [{low:+.1f}, {high:+.1f}] against {each.reference}'s")

# %% [markdown]
# ## Where did the features go?
#
# The left panel is the error, the right one how far U moved. Crossprop moves its features least, as the paper says; the
# grey curve says how much that is worth.

# %%
figure, (error, moved) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, colour, width in (("frozen", "silver", 5), ("crossprop", "tab:blue", 1.5), ("backprop", "tab:red", 1.5)):
    one = records.sel(learner=name).mean("seed")
    error.plot(one.step, one.loss, color=colour, linewidth=width, label=name)
    moved.plot(one.step, one.incoming_drift, color=colour, linewidth=width, label=name)
error.set(title="squared error", xlabel="examples seen", ylim=(30, 150))
moved.set(title="how far U moved", xlabel="examples seen")
moved.legend()
plt.show()
