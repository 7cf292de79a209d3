"""Two Dask workers on one GPU machine against a sweep in one process there: the records must be the same bits.

python benchmarks/gpu_workers.py

Both workers share the GPU; JAX is told not to reserve its whole memory.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
from distributed import Client, LocalCluster

import crossprop as cp

NETWORK = cp.Network.paper(20, 500)
GRID = {"step_size": [2**-k for k in range(7, 13)], "eta": [0.0, 0.5, 0.9]}


def sweep(folder: Path, **options):
    began = time.perf_counter()
    learners = {"crossprop": cp.Crossprop(NETWORK, 1e-3)}
    records = cp.sweep(learners, cp.Geoff(), over=GRID, seeds=30, store=folder, progress=False, **options)
    return records["crossprop"], time.perf_counter() - began


def main() -> None:
    print(jax.devices())
    with tempfile.TemporaryDirectory() as folder:
        alone, alone_took = sweep(Path(folder) / "alone")
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        )
        with cluster, Client(cluster) as client:
            where: Any = client.run(lambda: (os.getpid(), [str(device) for device in jax.devices()]))
            shared, shared_took = sweep(Path(folder) / "shared", cluster=client)
        for worker, (pid, devices) in where.items():
            print(f"worker {worker.rsplit(':', 1)[-1]}: process {pid}, {devices}")
        differing = [name for name in alone.data_vars if not np.array_equal(alone[name], shared[name], equal_nan=True)]
        print(f"one process {alone_took:.1f} s, two workers {shared_took:.1f} s, {dict(alone.sizes)}")
        print("bit-equal" if not differing else f"DIFFERENT: {differing}")


if __name__ == "__main__":
    main()
