"""Peak memory of a run over a memory-mapped file: `python benchmarks/memory.py [gigabytes, 4 by default]`.

The file is sparse, so it takes no room on the disk; its zeros are read as any other numbers are.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import crossprop as cp

INPUTS = 1024


def peak() -> float:
    """Peak memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    examples = int(gigabytes * 2**30 / INPUTS / 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.lib.format.open_memmap(path, "w+", np.float32, (examples, INPUTS)).flush()
        x, y = np.load(path, mmap_mode="r"), np.zeros(examples, np.float32)
        began, before = time.perf_counter(), peak()
        cp.run(cp.Backprop(cp.Network(INPUTS, 16), 1e-3), cp.Arrays(x, y), seeds=1, record_every=4096)
        seconds = time.perf_counter() - began
    print(f"{examples:,} examples of {gigabytes:g} GB: {seconds:.0f} s, peak {peak():.2f} GiB, {before:.2f} before")


if __name__ == "__main__":
    main()
