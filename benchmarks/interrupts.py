"""Ctrl-C at random moments of a run, a sweep and the making of examples: how many are lost, and how long they take.

python benchmarks/interrupts.py [--times 80] [--seed 0]

Each try is a process of its own, which is sent SIGINT once after it has begun. It must end with KeyboardInterrupt.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

# A shell lets what it starts in the background ignore Ctrl-C, and so would the process.
START = (
    "import gc, signal, crossprop as cp; gc.set_threshold(50); net = cp.Network(20, 30); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); print('go', flush=True); "
)
LEARNERS = "{'a': cp.Crossprop(net, 1e-4), 'b': cp.Backprop(net, 1e-4)}"
CALLS = {
    "run": f"cp.run({LEARNERS}, cp.Geoff(examples=20_000), seeds=30)",
    "sweep": f"cp.sweep({LEARNERS}, cp.Geoff(examples=5000), {{'step_size': [1e-4, 1e-5, 1e-6]}}, seeds=30)",
    "examples": f"cp.run({LEARNERS}, cp.Geoff(tasks='ABCDEF', examples=2_000_000), seeds=9)",
}
"""The collector of garbage runs often, since JAX's callback there is where interrupts used to be lost."""
LONGEST = 120


def interrupt(call: str, after: float) -> tuple[bool, float]:
    """Whether the process was ended by the interrupt, and the seconds that it took."""
    command = [sys.executable, "-c", START + CALLS[call]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            errors = process.communicate(timeout=LONGEST)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return False, LONGEST
        return process.returncode != 0 and "KeyboardInterrupt" in errors, time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=6.0, help="the latest moment, in seconds after the start")
    options = parser.parse_args(arguments)
    generator = random.Random(options.seed)
    os.environ.setdefault("CROSSPROP_CACHE", tempfile.mkdtemp(prefix="crossprop-interrupts-"))
    heard, seconds = 0, []
    for _ in range(options.times):
        call, after = generator.choice([*CALLS]), generator.uniform(0, options.longest)
        was_heard, took = interrupt(call, after)
        heard += was_heard
        seconds.append(took)
        if not was_heard:
            print(f"{call} after {after:.2f} s: lost", flush=True)
    ordered = sorted(seconds)
    print(f"{heard} of {options.times} heard; median {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s")
    return int(heard < options.times)


if __name__ == "__main__":
    raise SystemExit(main())
