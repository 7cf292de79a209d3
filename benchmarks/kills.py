"""Kills a sweep again and again with SIGKILL, and compares its store with that of a sweep that was never killed.

    python benchmarks/kills.py --minutes 15 --kills 1000 [--seed 0]

The sweep is extended as it goes (more seeds, more values) and has an evaluation. One process imports JAX and forks for
every attempt, so that a kill costs a fraction of a second. Two thirds of the kills are aimed at the inside of a block's
write: a hook reports each file that is written, dawdles between its parts, and the parent kills then. Prints the counts
as JSON; exits with 1 if a number differs, a block is there twice, or a file is damaged.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # of a fork in a process that has imported JAX, which has not started yet

import jax  # noqa: E402
import numpy as np  # noqa: E402

import crossprop as cp  # noqa: E402

DAWDLE = 0.02
VALUES, SEEDS, EVALUATE = 12, 3, 4
MOST_PER_STAGE = 12
"""Kills; then the stage is finished, and the store compared."""


usual_write = Path.write_bytes


def dawdling_write(path: Path, data: bytes) -> None:
    """In the place of `Path.write_bytes`: reports the beginning and the end of a block, and dawdles in between."""
    if path.parent.name != "blocks":
        usual_write(path, data)
        return
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        os.write(log, b"first\n")
        time.sleep(DAWDLE)
        file.write(data[len(data) // 2 :])
        file.flush()
        time.sleep(DAWDLE)
        os.write(log, b"last\n")


def sweep(store: Path, stage: int) -> None:
    """The first stage tunes, the second has more values and seeds, the third evaluates."""
    numbers = np.random.default_rng(0).normal(size=(60, 7))
    stream = cp.Arrays(numbers[:, 1:], numbers[:, 0])
    values = np.geomspace(1e-3, 1e-1, VALUES).tolist()
    learners = {"backprop": cp.Backprop(cp.Network(6, 4), 0.01)}
    over = {"step_size": values if stage else values[: VALUES // 2]}
    evaluate = EVALUATE if stage > 1 else None
    seeds = SEEDS if stage else SEEDS - 1
    cp.sweep(learners, stream, over, seeds, 20, store=store, evaluate=evaluate, progress=False)


def attempt(store: Path, stage: int, hooked: bool = True) -> int:
    child = os.fork()
    if not child:
        if hooked:
            setattr(Path, "write_bytes", dawdling_write)  # noqa: B010
        sweep(store, stage)
        os._exit(0)
    return child


def whole(store: Path) -> None:
    for stage in range(3):
        child = attempt(store, stage, hooked=False)
        if os.waitpid(child, 0)[1]:
            sys.exit("a sweep that nobody killed has failed")


def writes() -> tuple[int, int]:
    told = (folder / "log").read_bytes()
    return told.count(b"first"), told.count(b"last")


def killed_once(store: Path, stage: int, rng: random.Random) -> str | None:
    """Where a kill hit: inside a write or not; None if the sweep was done before."""
    os.truncate(folder / "log", 0)
    child = attempt(store, stage)
    if rng.random() < 2 / 3:
        aim = 1 if stage == 2 else rng.randrange(1, 4)  # an evaluation here is one block
        while writes()[0] < aim and not os.waitpid(child, os.WNOHANG)[0]:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 2 * DAWDLE))
    else:
        time.sleep(rng.uniform(0, 0.7))
    try:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    except (ProcessLookupError, ChildProcessError):
        return None
    if not os.WIFSIGNALED(status):
        return None
    began, ended = writes()
    return "inside" if began > ended and any(store.glob("blocks/.*.part")) else "outside"


def compare(store: Path, expected: dict[str, bytes]) -> bool:
    """In another process, for this one must not start JAX."""
    child = os.fork()
    if not child:
        warnings.simplefilter("error")
        from crossprop.experiments.store import read_store

        blocks = read_store(store)[1]
        runs = [(block.identity, seed) for block in blocks for seed in block.seeds.tolist()]
        found = {name: records.to_netcdf() for name, records in everything(store).items()}
        same = {name: bytes(data) == expected[name] for name, data in found.items()}
        os._exit(0 if all(same.values()) and len(runs) == len(set(runs)) and not (store / "damaged").exists() else 1)
    return os.waitpid(child, 0)[1] == 0


def everything(store: Path) -> dict:
    evaluation = cp.open_evaluation(store)
    return cp.open_sweep(store) | {f"{name} evaluated": each for name, each in evaluation.records.items()}


parser = argparse.ArgumentParser()
parser.add_argument("--kills", type=int, default=1000)
parser.add_argument("--minutes", type=float, default=15)
parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
flags = parser.parse_args()
folder = Path(tempfile.mkdtemp(prefix="crossprop-kills-"))
jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_disable_most_optimizations", True)
log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
whole(folder / "whole")
read, write = os.pipe()
child = os.fork()
if not child:
    expected = {name: records.to_netcdf().hex() for name, records in everything(folder / "whole").items()}
    with os.fdopen(write, "w") as file:
        json.dump(expected, file)
    os._exit(0)
os.close(write)
with os.fdopen(read) as file:
    expected = {name: bytes.fromhex(data) for name, data in json.load(file).items()}
os.waitpid(child, 0)

rng, end = random.Random(flags.seed), time.monotonic() + 60 * flags.minutes
counts = {"kills": 0, "inside a write": 0, "sweeps": 0, "not equal": 0, "by stage": [0, 0, 0]}
while counts["kills"] < flags.kills and time.monotonic() < end:
    store = folder / f"killed-{counts['sweeps']}"
    for stage in range(3):
        for _ in range(MOST_PER_STAGE):
            where = None if time.monotonic() > end else killed_once(store, stage, rng)
            if where is None:
                break
            counts["kills"] += 1
            counts["by stage"][stage] += 1
            counts["inside a write"] += where == "inside"
        os.waitpid(attempt(store, stage, hooked=False), 0)
    counts["sweeps"] += 1
    counts["not equal"] += not compare(store, expected)
    shutil.rmtree(store)
    print(json.dumps(counts), flush=True)
shutil.rmtree(folder)
sys.exit(bool(counts["not equal"]))
