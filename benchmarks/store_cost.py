"""What reading and writing a store costs: this version against another checkout, in alternating order.

    python benchmarks/store_cost.py path/to/other/src path/to/this/src

A store of blocks of 30 seeds with the windows of GEOFF's default stream is written by the threads of a sweep, without
running anything, and read by `open_sweep` and by `status`. Prints the least seconds of seven rounds of each, and their
ratio: of the processor, to which other processes add little, and of the clock.
"""

import json
import os
import subprocess
import sys

BLOCKS, ROUNDS = 300, 7
SCRIPT = f"""
import json, shutil, sys, tempfile, time
from pathlib import Path
import numpy as np
import crossprop as cp
from crossprop.engines.protocol import RunResult
from crossprop.experiments.status import status
BLOCKS, SWEEP = sys.modules["crossprop.experiments.blocks"], sys.modules["crossprop.experiments"]
numbers = np.random.default_rng(0).normal(size=(3, 200)).astype(np.float32)

class Instant:
    def __init__(self, cells, *rest, **options):
        self.cells = cells
    def results(self):
        names = ("loss", "incoming_drift", "outgoing_drift")
        for number, _ in enumerate(self.cells):
            yield number, RunResult(dict(zip(names, numbers)), -1, 10_000)

BLOCKS.Executor = Instant
stream = cp.Geoff(tasks="AB", examples=5000)
grid = {{"step_size": np.linspace(0.1, 0.2, {BLOCKS})}}
spec = SWEEP.SweepSpec.of({{"backprop": cp.Backprop(cp.Network(20, 8), 0.1)}}, stream, grid, 30, 50,
                          store=Path(tempfile.mkdtemp(prefix="crossprop-cost-")) / "store")
told = {{}}
for name, work in (("write", lambda: SWEEP.fill(spec, False)), ("open_sweep", lambda: cp.open_sweep(spec.store)),
                   ("status", lambda: status(spec.store))):
    began = time.process_time(), time.perf_counter()
    work()
    told[name] = time.process_time() - began[0]
    told[name + ", wall"] = time.perf_counter() - began[1]
shutil.rmtree(spec.store.parent)
print(json.dumps(told))
"""


def measured(source: str) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


sides = sys.argv[1:3]
found = [{side: measured(side) for side in (sides if turn % 2 else sides[::-1])} for turn in range(ROUNDS)]
for what in found[0][sides[0]]:
    before, after = (min(each[side][what] for each in found) for side in sides)
    print(f"{what:18} {before:8.3f} s {after:8.3f} s   {after / before:.2f}")
