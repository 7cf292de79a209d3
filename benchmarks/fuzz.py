"""Odd arguments, odd runs and damaged files, at random.

Each ends in success or in a ValueError, TypeError or OSError that names what is wrong; nothing else is raised, the
process lives on, and memory stays bounded.

python benchmarks/fuzz.py [--calls 100000] [--runs 5000] [--files 5000] [--seed 0]

Every part runs in a process of its own, as on a machine with 512 MiB free, so that an abort is seen.
"""

import argparse
import gzip
import inspect
import multiprocessing
import os
import random
import re
import resource
import shutil
import tarfile
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("CROSSPROP_CACHE", tempfile.mkdtemp(prefix="crossprop-fuzz-"))

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray

import crossprop as cp
from crossprop import datasets, metrics, probes
from crossprop._support import memory
from crossprop.datasets.fetching import Archive, Origin, sha256
from crossprop.datasets.images import MNIST
from crossprop.experiments import SweepSpec
from crossprop.experiments.toml import read_spec
from crossprop.learners import LEARNERS
from crossprop.library.arena import read_arena
from crossprop.optimizers import OPTIMIZERS
from crossprop.record_files import read_records, write_records
from crossprop.replacements import REPLACEMENTS

FREE = 2**29
NAMED = (ValueError, TypeError, OSError)
PARTS = ("calls", "runs", "files")


class Outcome(NamedTuple):
    """How many tries ended how, and what should not have happened, with the call that did it."""

    counts: Counter[str]
    complaints: list[str]
    megabytes: int


def odd_values() -> list[Any]:
    """Values of all kinds, most of which fit nowhere."""
    whole = [-1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**400, 10**5000, -(10**20)]
    real = [0.0, -0.0, 0.5, 1.0, 1e-50, 1e-40, 1e39, 1e308, -2.5, np.nan, np.inf, -np.inf]
    numpy = [
        np.uint8(3),
        np.int64(5),
        np.float32(0.1),
        np.float16(2),
        np.longdouble(1),
        np.bool_(True),
        np.complex64(1),
    ]
    arrays = [np.array(3), np.array(0.5), np.array(True), np.array("a"), np.array(b"a"), np.array(None), np.array(1j)]
    arrays += [np.array([]), np.array([1, 2]), np.zeros((2, 3)), np.array(["tanh"]), np.array([[1], [2]]), np.eye(3)]
    arrays += [np.array("2020-01-01", "M8[D]"), np.timedelta64(3, "s"), jnp.array(3), jnp.array(0.5), jnp.ones(2)]
    arrays += [jax.random.key(0), jax.random.PRNGKey(1), np.ma.masked_equal([1, 2], 2), np.zeros(3, "f2,i4")]
    texts = ["", "a", "tanh", "softmax", "adam", "sgd", "ABC", "A" * 30, "\0", "\ud800", "kaiming", "0**-1", "../x"]
    others = [None, True, False, 1j, Fraction(1, 3), b"ab", bytearray(3), (), [], [1, 2], [[1], [2, 3]], (3, 4), {}]
    others += [{"a": 1}, {1, 2}, range(3), range(10**12), object(), int, len, lambda *_: None, optax.adam, ..., [None]]
    others += [cp.Network(3, 4), cp.Backprop(cp.Network(3, 4), 0.1), cp.Geoff(3, 5), Path("x"), [10**5000], ["a", 1]]
    others += [cp.Network(3, (4, 2), layer_norm=True), cp.optimizers.idbd(), cp.optimizers.obgd(), cp.ReDo(), "upgd"]
    others += [{"name": "redo"}, {"name": "redo", "every": "x"}, {"name": 3}, cp.Tracking(steps=9), cp.SlowlyChanging()]
    return [*whole, *real, *numpy, *arrays, *texts, *others]


def constructors() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """What is called, with arguments that fit, one or two of which are then replaced."""
    network, data = cp.Network(3, 4), datasets.DataSet("two", np.zeros((4, 3)), np.array([0, 1, 0, 1]), 2)
    examples = {"x": np.zeros((4, 3)), "y": np.zeros(4)}
    learner = cp.Backprop(network, 0.1)
    targets: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "Network": (cp.Network, {"inputs": 3, "hidden": 4}),
        "Geoff": (cp.Geoff, {"inputs": 3}),
        "Tracking": (cp.Tracking, {}),
        "SlowlyChanging": (cp.SlowlyChanging, {}),
        "LabelShift": (cp.LabelShift, {"data": data}),
        "PermutedInputs": (cp.PermutedInputs, {"data": data}),
        "RandomLabels": (cp.RandomLabels, {"data": data, "images": 4}),
        "Arrays": (cp.Arrays, examples),
        "Iterator": (cp.Iterator, {"iterable": [([1, 2, 3], 1)], "inputs": 3, "outputs": 1}),
        "DataSet": (datasets.DataSet, {"name": "a", **examples, "y": np.array([0, 1, 0, 1]), "classes": 2}),
        "logspace": (cp.logspace, {"start": 0.1, "stop": 10}),
        "keys": (cp.keys, {"seed": 3}),
        "saturated": (probes.saturated, {"network": network, "batch": np.zeros((2, 3))}),
        "dormant": (probes.dormant, {"network": network, "batch": np.zeros((2, 3))}),
        "weight_size": (probes.weight_size, {"network": network}),
        "effective_rank": (probes.effective_rank, {"network": network, "batch": np.zeros((2, 3))}),
        "compare": (cp.compare, {"values": {}, "against": {}}),
        "sweep": (SweepSpec.of, {"learners": learner, "stream": cp.Geoff(3, 5, examples=10), "over": {}, "seeds": 2}),
    }
    targets |= {name: (build, {}) for name, build in (*OPTIMIZERS.items(), *REPLACEMENTS.items())}
    return targets | {name: (build, {"network": network, "step_size": 0.1}) for name, build in LEARNERS.items()}


def fuzz_calls(count: int, generator: random.Random) -> Outcome:
    targets, values = constructors(), odd_values()
    names = {name: _parameters(call, fitting) for name, (call, fitting) in targets.items()}

    def attempt() -> tuple[str, Callable[[], Any], list[str]]:
        name = generator.choice([*targets])
        call, fitting = targets[name]
        replaced = generator.sample(names[name], k=min(len(names[name]), generator.choice([1, 1, 2])))
        arguments = fitting | {argument: generator.choice(values) for argument in replaced}
        return f"{name}({_brief({each: arguments[each] for each in replaced})})", lambda: call(**arguments), names[name]

    return _tried(count, attempt)


def fuzz_runs(count: int, generator: random.Random) -> Outcome:
    values, network = odd_values(), cp.Network(3, 4)
    rules = [
        cp.Backprop(network, 0.1),
        cp.Crossprop(network, 0.1),
        cp.Frozen(network, 0.1, optimizer="adam"),
        cp.Backprop(network, 0.1, optimizer=cp.optimizers.idbd(), replacement="redo"),
        cp.CrosspropApprox(cp.Network(3, (4, 2)), 0.1, optimizer="upgd", replacement=cp.ContinualReplacement(0.1)),
        cp.Hindsight(network, 0.1),
    ]
    x = np.random.default_rng(0).normal(size=(12, 3))
    streams = [cp.Geoff(3, 5, tasks="A", examples=12), cp.Arrays(x, x[:, 0]), cp.Tracking(3, 2, steps=12)]
    streams += [cp.SlowlyChanging(3, slow=1, change_every=5, features=4, steps=12)]
    states = [rule.init(jax.random.key(0)) for rule in rules]
    arguments = {
        "run": ["learners", "stream", "seeds", "record_every", "engine", "probes", "metrics", "steps", "start"],
        "sweep": ["learners", "stream", "over", "seeds", "record_every", "engine", "store", "steps", "evaluate"],
        "live": ["learner", "state", "x", "y"],
        "predict": ["learner", "state", "x"],
        "update": ["state", "x", "y"],
    }
    folder = tempfile.mkdtemp()
    rows = [[1, 2, 3], [0.5] * 3, x[0], x[0].tolist(), jnp.ones(3), np.ones(2), [1, "a", 2], np.full(3, np.nan)]

    def attempt() -> tuple[str, Callable[[], Any], list[str]]:
        which, at = generator.choice([*arguments]), generator.randrange(len(rules))
        stream = generator.choice(streams)
        base: dict[str, Any] = {"learners": rules[at], "stream": stream, "seeds": 1, "record_every": 6}
        base |= {"metrics": {"plasticity": metrics.plasticity}} if which == "run" and generator.random() < 0.1 else {}
        if which == "sweep":
            base |= {"over": {"step_size": [0.1, 0.2]}}
        elif which != "run":
            base = {"learner": rules[at], "state": states[at], "x": x, "y": x[:, 0]}
            base = {name: base[name] for name in arguments[which] if name in base}
            base |= {"x": x[0], "y": x[0, :1]} if which == "update" else {}
        changed = generator.sample(arguments[which], k=generator.choice([0, 1, 1, 2]))
        pool = lambda name: rows if name in "xy" and generator.random() < 0.5 else values
        odd = {name: generator.choice(pool(name)) for name in changed}
        if isinstance(odd.get("store"), str | Path):
            odd["store"] = Path(folder) / str(generator.randrange(9))
        calls = {"run": cp.run, "sweep": cp.sweep, "live": cp.live, "predict": cp.predict, "update": rules[at].update}
        return f"{which}({_brief(odd)})", lambda: calls[which](**base | odd), [*arguments[which], "stream"]

    return _tried(count, attempt)


def fuzz_files(count: int, generator: random.Random) -> Outcome:
    folder = Path(tempfile.mkdtemp())
    learner, network = cp.Crossprop(cp.Network(3, 4), 0.1, optimizer="adam"), cp.Network(3, 4)
    stream = cp.Geoff(3, 5, tasks="A", examples=12)
    cp.save(folder / "whole.npz", learner, learner.init(jax.random.key(0)))
    records = cp.run(cp.Backprop(network, 0.1), stream, seeds=2, record_every=6)
    write_records(folder / "records.nc", records)
    over = {"step_size": [0.1, 0.2]}
    swept = cp.sweep({"backprop": cp.Backprop(network, 0.1)}, stream, over, 2, 6, store=folder / "store")["backprop"]
    (block, _) = sorted((folder / "store" / "blocks").glob("*.nc"))
    packed = {"train.npz": folder / "whole.npz", "test.json": folder / "store" / "store.json"}
    hashes = {name: sha256(path.read_bytes()) for name, path in packed.items()}
    with tarfile.open(folder / "two.tgz", "w:gz") as tar:
        for name, path in packed.items():
            tar.add(path, f"package/{name}")
    toml = b'stream = { name = "geoff", inputs = 3 }\nlearners = ["backprop", "crossprop"]\nseeds = 2\n'
    toml += b'[over]\nstep_size = "2**-9..2**-3"\neta = [0, 0.5]\n[network]\nhidden = 4\n'
    arena = b'seeds = 2\nevaluate = 2\n[learners.backprop]\n[learners.upgd]\nrule = "backprop"\noptimizer = "upgd"\n'
    arena += b'[learners.redo]\nrule = "backprop"\nreplacement = { name = "redo", every = 9 }\n[network]\nhidden = 4\n'
    arena += b'[over]\nstep_size = [0.1, 0.2]\n"redo" = { "replacement.threshold" = [0.1] }\n'
    arena += b'[streams.tracking]\nsteps = 50\nstream = { name = "tracking", inputs = 4, relevant = 2 }\n'
    arena += (
        b'[streams.slow]\nsteps = 50\nrecord_every = 10\nstream = { name = "slowly-changing", inputs = 4, slow = 2 }\n'
    )
    (folder / "labels").mkdir()
    contents = {
        "saved.npz": (folder / "whole.npz").read_bytes(),
        "sweep.toml": toml,
        "arena.toml": arena,
        "package.tgz": (folder / "two.tgz").read_bytes(),
        "labels/train-labels-idx1-ubyte.gz": gzip.compress(bytes(999)),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    readers: dict[str, Callable[[Path], Any]] = {
        "saved.npz": cp.load,
        "sweep.toml": lambda path: read_spec(path).grids,
        "arena.toml": lambda path: read_arena(path, folder / "arena"),
        "package.tgz": lambda path: _fetched(path, hashes),
        "labels/*": lambda path: MNIST.fetch(path.parent),
        "records.nc": lambda path: _same(read_records(path), records),
        "store/store.json": lambda path: cp.open_sweep(folder / "store"),
        f"store/blocks/{block.name}": lambda path: _same(cp.open_sweep(folder / "store")["backprop"], swept),
    }
    files = {kind: [each for each in sorted(folder.glob(kind)) if each.is_file()] for kind in readers}

    def attempt() -> tuple[str, Callable[[], Any], list[str]]:
        kind = generator.choice([*readers])
        path = generator.choice(files[kind])
        content = path.read_bytes()
        damaged = _damaged(content, generator)

        def call() -> None:
            path.write_bytes(damaged)
            try:
                readers[kind](path)
            finally:
                path.write_bytes(content)

        # A TOML file may ask for anything: its errors name the key or the argument, any of which will do.
        names = [] if kind.endswith(".toml") else [path.name.removesuffix(".gz")]
        return f"{path.name}: {damaged[:60]!r}", call, names

    return _tried(count, attempt)


def _fetched(path: Path, hashes: dict[str, str]) -> None:
    """A data set from an archive: all of its files, or an error."""
    origin = Origin(path.name, lambda archive, folder: shutil.copy(path, folder) and None)
    archive = Archive("fuzzed", "Fuzzed", hashes, 2**20, (origin,), examples="", inputs=1)
    shutil.rmtree(archive.folder(), ignore_errors=True)
    archive.fetch()
    assert archive.is_cached()


def _same(found: xarray.Dataset, expected: xarray.Dataset) -> None:
    """That what is there has the numbers that were written: a block that was left out is NaN."""
    for name, values in expected.data_vars.items():
        there = ~np.isnan(found[name]) if found[name].dtype.kind == "f" else found[name] != -2
        assert found[name].dims == values.dims and (found[name] == values).where(there, True).all(), name


def _damaged(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice([1, 1, 2, 5])):
        at = generator.randrange(len(changed) or 1)
        match generator.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = generator.randbytes(generator.choice([1, 3, 40]))
            case 3:
                del changed[at : at + generator.choice([1, 5, 50])]
            case _:
                digits = generator.choice([b"9", b"99999999", b"-", b"1e308", b"[", b'"', b"x", b"\xff"])
                changed[at : at + len(digits)] = digits
    return bytes(changed)


def _tried(count: int, attempt: Callable[[], tuple[str, Callable[[], Any], list[str]]]) -> Outcome:
    counts, complaints = Counter(), []
    for _ in range(count):
        what, call, names = attempt()
        try:
            call()
            counts["success"] += 1
        except NAMED as problem:
            counts[_kind(problem)] += 1
            if names and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(problem)) for name in names):
                complaints.append(f"{what}: names no argument: {_line(problem)}")
        except Exception as problem:
            counts[type(problem).__name__] += 1
            place = traceback.extract_tb(problem.__traceback__)[-1]
            complaints.append(f"{what}: {_line(problem)} at {Path(place.filename).name}:{place.lineno}")
    return Outcome(counts, complaints, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def _kind(problem: Exception) -> str:
    return next(kind.__name__ for kind in NAMED if isinstance(problem, kind))


def _line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


def _brief(arguments: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        try:
            return repr(value)[:60]
        except ValueError:
            return f"an int of {value.bit_length()} bits" if isinstance(value, int) else f"{type(value).__name__}(...)"

    return ", ".join(f"{name}={text(value)}" for name, value in arguments.items())


def _parameters(call: Callable[..., Any], fitting: dict[str, Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    own = (each.name for each in inspect.signature(call).parameters.values() if each.kind in kinds)
    return [*dict.fromkeys([*fitting, *own])]


def fuzz(part: str, count: int, seed: int) -> Outcome:
    """So many tries of a part, here and now."""
    warnings.simplefilter("ignore")
    parts = {"calls": fuzz_calls, "runs": fuzz_runs, "files": fuzz_files}
    usual, memory.free_memory = memory.free_memory, lambda device=None: FREE
    try:
        return parts[part](count, random.Random(seed))
    finally:
        memory.free_memory = usual


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part, count in zip(PARTS, (100_000, 5000, 5000), strict=True):
        parser.add_argument(f"--{part}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    failed = 0
    for part in PARTS:
        count, began = getattr(options, part), time.perf_counter()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            try:
                outcome = pool.submit(fuzz, part, count, options.seed).result()
            except BrokenProcessPool:
                print(f"{part}: the process died")
                return 1
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in outcome.counts.most_common())
        print(f"{part}: {count:,} in {time.perf_counter() - began:.0f} s: {kinds}; at most {outcome.megabytes:,} MB")
        for complaint, number in Counter(outcome.complaints).most_common(40):
            print(f"  {number} x {complaint}")
        print(f"  {len(outcome.complaints):,} complaints")
        failed += len(outcome.complaints)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
