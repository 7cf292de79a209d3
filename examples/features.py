# %% [markdown]
# # Look at the features
#
# The error says how well a network does; this notebook looks at what its hidden units became. The task is to tell
# handwritten digits apart, while their labels shift by one with every task: the same images call for the same features,
# and only the outgoing weights W have to be learned anew.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import crossprop as cp

seeds, hidden, tasks = 3, 40, "ABC"
digits = cp.datasets.digits()
stream = cp.LabelShift(digits, tasks=tasks, shuffle=True)
net = cp.Network(inputs=64, hidden=hidden, outputs=10, loss="softmax", incoming_scale=0.1, outgoing_scale=0)

# %% [markdown]
# ## Watch them while they learn
#
# Probes are computed from the state at the end of every window of 50 examples. The effective rank counts the directions
# in which the features differ; `stuck` is the share of units that are saturated for all of these images.

# %%
images = digits.x[:300]
probes = {"rank": cp.probes.effective_rank(net, images), "stuck": cp.probes.saturated(net, images)}
learners = {
    "backprop": cp.Backprop(net, 0.05),
    "crossprop": cp.Crossprop(net, 0.05, eta=0.5, projections=1),
    "frozen": cp.Frozen(net, 0.05),
}
records, states = cp.run(learners, stream, seeds=seeds, probes=probes, return_states=True)
table = records[["error", "incoming_drift", "rank", "stuck"]].isel(step=slice(-10, None)).mean(["seed", "step"])
print(table.to_dataframe().drop(columns=["rule", "optimizer", "replacement"], errors="ignore").round(3).to_string())

# %% [markdown]
# ## Are they good for a task that has not come yet?
#
# A linear readout, fitted to the features of half of the images, and tested on the other half.


# %%
def readout(features, labels):
    half = len(features) // 2
    weights = np.linalg.lstsq(features[:half], np.eye(10)[labels[:half]], rcond=1e-3)[0]
    return float(np.mean(np.argmax(features[half:] @ weights, axis=1) == labels[half:]))


for name in learners:
    features = np.asarray(net.activations(states[name][0].incoming, jnp.asarray(digits.x))[-1].phi)
    print(f"{name:10s} {readout(features, digits.y):.1%} of unseen images read correctly")

# %% [markdown]
# ## See them
#
# The incoming weights of a hidden unit are an image of what it responds to. Frozen features stay noise; learned ones
# have patches and strokes.

# %%
figure, rows = plt.subplots(len(learners), 10, figsize=(10, 3.4), layout="constrained")
for row, name in zip(rows, learners, strict=True):
    incoming = np.asarray(states[name][0].incoming[0])
    strongest = np.argsort(-np.linalg.norm(incoming, axis=0))
    for axes, unit in zip(row, strongest, strict=False):
        axes.imshow(incoming[:64, unit].reshape(8, 8), cmap="RdBu")  # without the bias
        axes.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()
