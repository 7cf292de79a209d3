"""Our engines beside loops in C and beside plain JAX in its best form: the time of a run-step on one core.

python benchmarks/floor/floor.py [--steps 15000] [--repeats 9] [--quick]

`floor.c` is compiled by `cc -O3 -march=native -ffast-math`, with vectors of 512 bits where the CPU has them. Plain JAX
is one compiled `fori_loop` of formulas written for the case. All record the loss and both drifts every 50 steps. Times
are of whole calls, the process's own on all cores, which other work on the machine disturbs less. Contenders take
turns. For the rows with GEOFF each makes its own examples, with 1,000 features.
"""

import argparse
import ctypes
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

sys.path.insert(0, str(Path(__file__).parent.parent))
from turns import clock, take_turns

import crossprop as cp
from crossprop._support import xla

INPUTS, HIDDEN, FEATURES, EVERY, STEP_SIZE = 20, 500, 1000, 50, 5e-4
LEARNERS = {
    "crossprop": cp.Crossprop(cp.Network.paper(INPUTS, HIDDEN), STEP_SIZE),
    "backprop": cp.Backprop(cp.Network.paper(INPUTS, HIDDEN), STEP_SIZE),
    "adam": cp.Backprop(cp.Network.paper(INPUTS, HIDDEN), STEP_SIZE, optimizer="adam"),
}
Calls = dict[str, Callable[[], Any]]


def compiled(folder: str) -> ctypes.CDLL | None:
    """The loops in C, or None without a compiler."""
    sizes = {"INPUTS": INPUTS, "HIDDEN": HIDDEN, "FEATURES": FEATURES, "RECORD_EVERY": EVERY}
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *(f"-D{name}={n}" for name, n in sizes.items())]
    flags += ["-mprefer-vector-width=512"] if xla.has_wide_vectors() else []
    source, library = Path(__file__).with_name("floor.c"), Path(folder) / "floor.so"
    try:
        subprocess.run(["cc", *flags, source, "-o", library, "-lm"], check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"no loops in C: {problem}")
        return None
    return ctypes.CDLL(str(library))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def run_c(library: ctypes.CDLL, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    state = LEARNERS[name].init(cp.keys(0)[1])
    weights = [np.ascontiguousarray(each) for each in (state.layers[0].weights, state.outgoing)]
    records = np.empty((len(x) // EVERY, 3), np.float32)
    run = getattr(library, f"run_{name}")
    run(address(x), address(y), len(x), ctypes.c_float(STEP_SIZE), *map(address, (*weights, records)))
    return records


def geoff_c(library: ctypes.CDLL, steps: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.empty((steps, INPUTS), np.float32), np.empty((steps, 1), np.float32)
    least = INPUTS - int(0.6 * INPUTS + 1e-9)
    library.geoff(ctypes.c_uint64(1), steps, ctypes.c_uint32(least), address(x), address(y))
    return x, y


@partial(jax.jit, static_argnums=0)
def run_jax(name: str, x: jax.Array, y: jax.Array, u: jax.Array, w: jax.Array) -> jax.Array:
    """Plain JAX: a loop of windows of examples, with U, W and what the rule keeps."""

    def adam(g: Any, kept: Any, t: Any) -> Any:
        mean, square = kept
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        return STEP_SIZE * mean / (1 - 0.9**t) / (jnp.sqrt(square / (1 - 0.999**t)) + 1e-8), mean, square

    def example(t: Any, carry: Any) -> Any:
        (u, w, kept), loss = carry
        phi = jnp.tanh(x[t] @ u)
        delta = y[t, 0] - phi @ w
        slope, step = 1 - phi**2, STEP_SIZE * delta
        if name == "crossprop":
            u = u + kept * (step * phi)[None]
            kept = kept * (1 - STEP_SIZE * phi**2)[None] + x[t][:, None] * (step * slope)[None]
            w = w + step * phi
        elif name == "backprop":
            u, w = u + x[t][:, None] * (step * w * slope)[None], w + step * phi
        else:
            move_u, *of_u = adam(x[t][:, None] * (delta * w * slope)[None], kept[:2], t + 1.0)
            move_w, *of_w = adam(delta * phi, kept[2:], t + 1.0)
            u, w, kept = u + move_u, w + move_w, (*of_u, *of_w)
        return (u, w, kept), loss + delta**2

    def window(number: Any, carry: Any) -> Any:
        state, records = carry
        state, loss = lax.fori_loop(number * EVERY, (number + 1) * EVERY, example, (state, 0.0))
        drifts = (jnp.linalg.norm(now - before) for now, before in zip(state, (u, w), strict=False))
        return state, records.at[number].set(jnp.stack([loss / EVERY, *drifts]))

    zero_u, zero_w = jnp.zeros_like(u), jnp.zeros_like(w)
    kept = {"crossprop": zero_u, "backprop": ()}.get(name, (zero_u, zero_u, zero_w, zero_w))
    count = len(x) // EVERY
    return lax.fori_loop(0, count, window, ((u, w, kept), jnp.zeros((count, 3))))[1]


def run_ours(name: str, stream: cp.Stream) -> np.ndarray:
    records = cp.run(LEARNERS[name], stream, seeds=1, record_every=EVERY, progress=False)
    return np.stack(
        [np.asarray(records[each]).ravel() for each in ("loss", "incoming_drift", "outgoing_drift")], axis=1
    )


def cases(steps: int, library: ctypes.CDLL | None) -> dict[str, Calls]:
    geoff = cp.Geoff(features=FEATURES, tasks="ABC", examples=steps // 3)
    x, y = (np.asarray(each, np.float32) for each in geoff.sample(cp.keys(0)[0])[:2])
    found: dict[str, Calls] = {}
    for name, learner in LEARNERS.items():
        state = learner.init(cp.keys(0)[1])
        weights = state.layers[0].weights, state.outgoing[0]
        calls: Calls = {
            "ours": partial(run_ours, name, cp.Arrays(x, y)),
            "plain JAX": lambda name=name, weights=weights: np.asarray(run_jax(name, x, y, *weights)),
        }
        if library is not None:
            calls["C"] = partial(run_c, library, name, x, y)
        results = {contender: call() for contender, call in calls.items()}
        for contender, records in results.items():  # they must do the same work
            np.testing.assert_allclose(records[:20], results["ours"][:20], rtol=1e-3, err_msg=f"{name}, {contender}")
        found[f"20-500-1, {name}"] = calls
    found["GEOFF's examples"] = {"ours": lambda: geoff.pool(cp.keys(0)[0])}
    if library is not None:
        found["GEOFF's examples"]["C"] = partial(geoff_c, library, steps)
    for name in ("crossprop", "backprop"):
        calls = {"ours": partial(run_ours, name, geoff)}
        if library is not None:
            calls["C"] = lambda name=name: run_c(library, name, *geoff_c(library, steps))
        found[f"both, {name}"] = calls
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a few steps, to check that everything works")
    options = parser.parse_args(arguments)
    steps, repeats = (3 * EVERY, 1) if options.quick else (options.steps // (3 * EVERY) * 3 * EVERY, options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        print(f"JAX {jax.__version__}, {platform.machine()}, CPU time of a step in us: median [least, greatest]")
        for name, calls in cases(steps, library).items():
            seconds = take_turns(calls, repeats, clock(cpu=True))
            micro = {each: sorted(1e6 * s / steps for s in taken) for each, taken in seconds.items()}
            words = [f"{each} {median(s):.3f} [{s[0]:.3f}, {s[-1]:.3f}]" for each, s in micro.items()]
            others = [f"{median(micro['ours']) / median(s):.2f}x {each}" for each, s in micro.items() if each != "ours"]
            print(f"{name:22} {', '.join(words)}; ours is {', '.join(others)}", flush=True)


if __name__ == "__main__":
    main()
