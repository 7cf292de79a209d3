"""Do networks lose plasticity on pairs of classes? Held-out accuracy in the first tasks and in the last ones.

`python benchmarks/class_pairs.py` takes about 20 minutes on two busy cores. A run has 1.7 million examples.
"""

import time

import crossprop as cp

STREAM = cp.ClassPairs(cp.datasets.mnist5k(), tasks=200, passes=10)
NETWORK = cp.Network(784, (50, 50), 2, "relu", "softmax", True, "kaiming", "kaiming")
CONTINUAL = cp.ContinualReplacement(rate=1e-4, maturity=100)
LEARNERS = {
    **{f"backprop {size:g}": cp.Backprop(NETWORK, size) for size in (0.001, 0.01, 0.03)},
    **{f"continual {size:g}": cp.Backprop(NETWORK, size, replacement=CONTINUAL) for size in (0.01, 0.03)},
    "linear 0.003": cp.Backprop(cp.Network(784, (), 2, loss="softmax", bias=True), 0.003),
}

if __name__ == "__main__":
    for name, learner in LEARNERS.items():
        start = time.perf_counter()
        probes = {"held_out": STREAM.held_out(learner)}
        records = cp.run({name: learner}, STREAM, seeds=2, record_every=STREAM.examples, probes=probes)
        right = STREAM.accuracy(records).mean(["learner", "seed"]).values
        seconds = time.perf_counter() - start
        print(f"{name}: first {right[1:21].mean():.4f}, last {right[-20:].mean():.4f}, {seconds:.0f} s", flush=True)
