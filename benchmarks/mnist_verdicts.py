"""The paper's MNIST experiment on JAX's default device, and its verdicts, to compare one machine with another.

python benchmarks/mnist_verdicts.py [FOLDER with MNIST's four files] [--exact]
"""

import sys
import time

import jax

import crossprop as cp
from crossprop.datasets.mnist_files import fetch
from crossprop.papers.veeriah2017.claims import decide
from crossprop.papers.veeriah2017.plans import mnist_plan


def main() -> None:
    folders = [word for word in sys.argv[1:] if word != "--exact"]
    fetch(*folders)
    plan = mnist_plan("paper", 1, False, cp.datasets.mnist(), exact="--exact" in sys.argv)
    began = time.perf_counter()
    records = cp.run(plan.learners, plan.stream, plan.seeds, plan.record_every, progress=True)
    seconds = time.perf_counter() - began
    final = records.isel(step=slice(-24, None)).mean(["seed", "step"])
    print(f"{jax.devices()[0].device_kind}: {len(plan.learners)} learners in {seconds:.1f} s, compilation included")
    for name in records.learner.values:
        one = final.sel(learner=name)
        values = (float(one[key]) for key in ("loss", "error", "incoming_drift", "outgoing_drift"))
        print(f"{name:22}", *(f"{value:10.5f}" for value in values))
    for verdict in decide(None, records, None):
        print(f"{verdict.id:4} {verdict.verdict:24} {verdict.why}")


if __name__ == "__main__":
    main()
