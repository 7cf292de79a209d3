"""Measurements that need a GPU: `python benchmarks/gpu.py`.

Prints, for every engine, a digest of one run's records alone and beside other runs (run the script twice: two processes
must print the same digests), the kernel's own rate, the seconds of a sweep of 10,020 whole GEOFF runs, and the device
memory of one of 4,096. Other measurements instead:

- `--calls`: the seconds of whole calls of `cp.run` with 1,056 runs, examples included.
- `--arrival`: two learners beside each other, 200 times, each time with a large table that is sent anew, and how
  many calls give other bits than the first.
- `ncu --set full -k regex:live -c 1 python benchmarks/gpu.py --kernel` profiles the kernel; with `adam` added, that of
  backprop with adam.
"""

import hashlib
import sys
import tempfile
import time

import jax
import numpy as np

import crossprop as cp
from crossprop.engines.gpu import kernel
from crossprop.engines.protocol import Batch, Run, RunOptions

GEOFF = cp.Geoff(tasks="AB", examples=1000)
NET = cp.Network.paper(20, 500)
CROSSPROP = cp.Crossprop(NET, 5e-4)
ADAM = cp.Backprop(NET, 5e-4, optimizer="adam")


def digest(records, learner, seed):
    one = records.sel(learner=learner, seed=seed)
    return hashlib.sha256(b"".join(one[name].values.tobytes() for name in sorted(one.data_vars))).hexdigest()[:16]


def identity(engine, learner, wild, stream, crowd):
    run = lambda learners, seeds: cp.run(learners, stream, seeds, engine=engine, progress=False)
    both = {"wild": wild, "it": learner}
    digests = {
        "alone": digest(run({"it": learner}, [7]), "it", 7),
        "among 5": digest(run({"it": learner}, range(5, 10)), "it", 7),
        f"among {crowd}": digest(run({"it": learner}, range(crowd)), "it", 7),
        "beside diverging runs": digest(run(both, [6, 7, 8]), "it", 7),
    }
    same = len({*digests.values()}) == 1
    print(f"{engine:8} {'same bits' if same else 'DIFFERENT'}: {digests}", flush=True)
    return same


def all_identities():
    wide = cp.Network.paper(784, 256, 10, loss="softmax")
    generator = np.random.default_rng(0)
    images = cp.Arrays(generator.random((500, 784), np.float32), generator.integers(10, size=500))
    return all(
        [
            identity("kernel", CROSSPROP, cp.Crossprop(NET, 1e5), GEOFF, 300),
            identity("scan", CROSSPROP, cp.Crossprop(NET, 1e5), GEOFF, 300),
            identity("chunked", cp.Crossprop(wide, 5e-4), cp.Crossprop(wide, 1e25), images, 20),
        ]
    )


def kernel_alone(learner, runs=1056, steps=30_000, every=50):
    """Run-steps per second of one segment of the kernel, with everything that it needs on the device beforehand."""
    stream = cp.Geoff(tasks="ABCABC")
    batch = Batch([Run(learner, stream, i % 32) for i in range(runs)], RunOptions(every, steps), segment=steps)
    seconds = []
    for _ in range(4):
        session = kernel.KernelSession(batch, interpret=False)
        shared = jax.block_until_ready((session.examples(steps), session.progress))[0]
        began = time.perf_counter()
        jax.block_until_ready(session.execute(shared, steps))
        seconds.append(time.perf_counter() - began)
    return runs * steps / min(seconds)


def calls(steps=30_000):
    """Whole calls of 1,056 runs, whose examples are made in the call: each run its own seed, or 32 seeds for all."""
    settings = {str(number): cp.Crossprop(NET, 5e-4 * 1.01**number) for number in range(33)}
    six, two = cp.Geoff(tasks="ABCABC", examples=steps // 6), cp.Geoff(tasks="AB", examples=steps // 2)
    for learners, stream, seeds in ((CROSSPROP, two, 1056), (CROSSPROP, six, 1056), (settings, six, 32)):
        seconds = []
        for _ in range(7):
            began = time.perf_counter()
            cp.run(learners, stream, seeds, record_every=50, progress=False)
            seconds.append(time.perf_counter() - began)
        first, *others = (f"{each:.3f}" for each in seconds)
        print(
            f"{seeds} seeds, tasks {stream.tasks}: {', '.join(others)} s, the first with compilation {first}",
            flush=True,
        )


def arrival(times=200, examples=60_000, steps=1000):
    """How many of some equal calls give other records than the first."""
    wide, random = cp.Network.paper(784, 256, 10, loss="softmax", incoming_scale=0.03), np.random.default_rng(0)
    learners = {name: cp.Backprop(wide, 1e-3, optimizer=name) for name in ("sgd", "adam")}
    x, y = random.random((examples, 784), np.float32), random.integers(10, size=examples)
    data = cp.datasets.DataSet("random", x, y, 10)
    stream = cp.LabelShift(data, tasks="A", examples=steps, shuffle=True)
    run = lambda: cp.run(learners, stream, 10, record_every=100, progress=False)
    found = [tuple(digest(records, name, 7) for name in learners) for records in (run() for _ in range(times))]
    wrong = sum(each != found[0] for each in found)
    print(f"{wrong} of {times} calls gave other bits than the first", flush=True)
    return wrong == 0


def sweep(settings, seeds, record_every):
    over = {"step_size": np.geomspace(1e-5, 1e-3, settings).tolist()}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        cp.sweep(
            CROSSPROP, cp.Geoff(tasks="ABCABC"), over, seeds, record_every, store=f"{folder}/store", progress=False
        )
        return time.perf_counter() - began


if __name__ == "__main__":
    print(jax.devices(), "JAX", jax.__version__, flush=True)
    if "--kernel" in sys.argv:
        kernel_alone(ADAM if "adam" in sys.argv else CROSSPROP, 264, 1000)
        sys.exit()
    if "--calls" in sys.argv:
        sys.exit(calls())
    if "--arrival" in sys.argv:
        sys.exit(not arrival())
    same = all_identities()
    if "--identity" not in sys.argv:
        for name, learner in (("crossprop", CROSSPROP), ("adam", ADAM)):
            print(f"kernel alone, {name}: {kernel_alone(learner) / 1e6:.0f} million run-steps/s", flush=True)
        sweep(16, 256, 500)
        gigabytes = jax.devices()[0].memory_stats()["peak_bytes_in_use"] / 1e9
        print(f"peak device memory of a sweep of 4,096 runs, 256 seeds: {gigabytes:.2f} GB", flush=True)
        sweep(334, 30, 500)
        seconds = [sweep(334, 30, 500) for _ in range(2)]
        print(f"10,020 GEOFF runs of 30,000 steps, a record every 500: {min(seconds):.2f} s after compilation")
    sys.exit(not same)
