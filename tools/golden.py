"""Records, GPU programs and answers before and after a change that must not alter them.

    python tools/golden.py write FOLDER      # before the change
    python tools/golden.py compare FOLDER    # after it: prints the differences, exit status 1 if there are any

`--only` takes `records`, `gpu` or `answers`. Bits of records hold on one kind of machine and with one version of JAX;
the numbers beside them tell how large a difference is. GPU programs are lowered without a GPU. Their texts go into the
folder `gpu`, and those of a comparison into `now/gpu`, for `diff`.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

SHOWN = 6
"""How many differences of a configuration are printed."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


# What is run.


def rules() -> dict[str, Any]:
    """Every credit rule of the package, as `build(network, step_size, optimizer=..., replacement=...)`."""
    import crossprop as cp

    return {
        "crossprop": partial(cp.Crossprop, eta=0.3),
        "projected": partial(cp.Crossprop, eta=0.3, projections=1),
        "approx": partial(cp.CrosspropApprox, eta=0.3),
        "sum": cp.CrosspropSum,
        "backprop": cp.Backprop,
        "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0),
        "foresight-top": partial(cp.Foresight, ahead=2.0, horizon=20.0, layers="top"),
        "frozen": cp.Frozen,
        "hindsight": partial(cp.Hindsight, delay=10),
        "backprop-replay": partial(cp.BackpropReplay, delay=10),
    }


EXACT = ("crossprop", "projected", "approx", "sum")
"""Rules that follow the top layer alone unless they are told to follow all."""
NOT_CHUNKED = ("hindsight", "backprop-replay")
ON_CHIP = ("crossprop", "projected", "approx", "sum", "backprop", "foresight", "frozen")


def every_layer(rule: str) -> dict[str, str]:
    return {"layers": "all"} if rule in EXACT else {}


def examples(inputs: int, outputs: int, steps: int = 100) -> Any:
    """A stream of classes, or of numbers if there is one output."""
    import numpy as np

    import crossprop as cp

    random = np.random.default_rng(0)
    x = random.normal(size=(steps, inputs)).astype(np.float32)
    return cp.Arrays(x, np.arange(steps) * 7 % outputs if outputs > 1 else np.sin(x.sum(axis=1)))


# Records.


def records(folder: Path) -> dict[str, Any]:
    """The bits and the last numbers of all variables of short runs, by configuration."""
    import jax

    import crossprop as cp

    geoff, classes = cp.Geoff(tasks="AB", examples=50), examples(20, 2)
    one = lambda hidden, **more: cp.Network.paper(20, hidden, 1, **more)
    two = lambda hidden, **more: cp.Network.paper(20, hidden, 2, loss="softmax", **more)
    build, found = rules(), {}

    def run(group: str, engine: str, x64: bool, stream: Any, net: Any, pairs: Any, **more: Any) -> None:
        with jax.enable_x64(x64):
            network = net()
            deep = isinstance(network.hidden, tuple) and len(network.hidden) > 1
            learners = {
                " ".join(each if isinstance(each, str) else type(each).__name__ for each in pair): build[pair[0]](
                    network,
                    5e-3,
                    optimizer=pair[1],
                    **(every_layer(pair[0]) if deep else {}),
                    **({"replacement": pair[2]} if len(pair) > 2 else {}),
                )
                for pair in pairs
            }
            made = cp.run(
                learners, stream, seeds=2, record_every=30, engine=engine, progress=False,
                **{name: value(network) for name, value in more.items()},
            )  # fmt: skip
        print(f"  {group}, {engine}: {len(learners)}", flush=True)
        for name in learners:
            variables = {key: each.sel(learner=name).values for key, each in made.data_vars.items()}
            found[f"{group}, {engine}: {name}"] = {
                key: {"bits": digest(each.tobytes()), "last": each[..., -1].ravel().tolist()}
                for key, each in variables.items()
            }

    chunked = [rule for rule in build if rule not in NOT_CHUNKED]
    add_up = [*itertools.product(chunked, ("sgd", "momentum"))]
    sgd, sgd_chunked = [(rule, "sgd") for rule in build], [(rule, "sgd") for rule in chunked]
    all_of = lambda *optimizers: [*itertools.product(build, optimizers)]
    shallow, deep = partial(one, 7, bias=True), partial(two, (6, 5), activation="relu")
    run("7, float32", "scan", False, geoff, shallow, all_of("sgd", "momentum", "adam", "upgd"))
    run("7, float32", "chunked", False, geoff, shallow, [*add_up, ("frozen", "adam")])
    run("6-5, float64", "scan", True, classes, deep, all_of("sgd", "rmsprop", "adam", "idbd"))
    run("6-5, float64", "chunked", True, classes, deep, add_up)
    run("7, float64", "scan", True, classes, partial(two, 7), sgd)
    run("7, float64", "chunked", True, classes, partial(two, 7), sgd_chunked)
    normalized = partial(one, (6, 5), bias=True, layer_norm=True)
    run("6-5, float32", "scan", False, geoff, normalized, sgd)
    run("6-5, float32", "chunked", False, geoff, normalized, sgd_chunked)
    tuples = [("crossprop", "sgd"), ("backprop", "momentum"), ("foresight", "sgd")]
    run("(7,), float32", "scan", False, classes, partial(two, (7,)), [*tuples, ("hindsight", "adam")])
    run("(7,), float32", "chunked", False, classes, partial(two, (7,)), tuples)

    others = ("autostep", "smd", "l2_init", "shrink_perturb", "clip_weights", "obgd")
    run("6-5, float32", "scan", False, geoff, partial(one, (6, 5)), [("backprop", name) for name in others])

    batch = classes.x[:16]
    surprise = lambda outcome, y: abs(y - outcome.outputs).max()
    probes = lambda network: {
        "rank": cp.probes.effective_rank(network, batch),
        "dormant": cp.probes.dormant(network, batch, 0.1),
        "size": cp.probes.weight_size(network),
    }
    seen = {"probes": probes, "metrics": lambda _: {"surprise": surprise, "plasticity": cp.metrics.plasticity}}
    before = {"probes": probes, "metrics": lambda _: {"surprise": surprise}}
    observed = [("crossprop", "sgd"), ("foresight", "adam"), ("hindsight", "upgd")]
    run("7, float32, observed", "scan", False, classes, partial(two, 7), observed, **seen)
    run("6-5, float64, observed", "scan", True, classes, deep, observed, **seen)
    run("6-5, float32, observed", "chunked", False, classes, deep, tuples, **before)
    replaced = [
        ("backprop", "sgd", cp.ContinualReplacement(rate=0.02, maturity=10)),
        ("crossprop", "momentum", cp.ContinualReplacement(rate=0.02, maturity=10)),
        ("backprop", "adam", cp.ReDo(every=20, threshold=0.5)),
        ("backprop", "sgd", cp.RandomReplacement(rate=0.02, maturity=10)),
        ("backprop", "rmsprop", cp.GenerateAndTest(rate=0.02, maturity=10)),
    ]
    run("7, float32, observed", "scan", False, classes, partial(two, 7), replaced, **seen)
    run("6-5, float64", "scan", True, classes, deep, replaced[:2])
    return found


# GPU programs.


def gpu(folder: Path) -> dict[str, Any]:
    """The hashes of what an H200 would compile, by configuration: every Triton module, and the program around them."""
    lowered = lower_for_cuda()
    import crossprop as cp

    (folder / "gpu").mkdir(parents=True, exist_ok=True)
    build, found = rules(), {}

    def run(group: str, engine: str, hidden: Any, rule: str, optimizer: str, inputs: int = 300, **more: Any) -> None:
        at, deep = len(found), isinstance(hidden, tuple)
        loss, activation = ("softmax", "squared")[at % 2], ("tanh", "relu", "sigmoid")[at % 3]
        network = cp.Network.paper(
            inputs, hidden, 3 if loss == "softmax" else 2, activation=activation, loss=loss, bias=at % 4 > 1, **more
        )
        learner = build[rule](network, 1e-3, optimizer=optimizer, **(every_layer(rule) if deep else {}))
        stream = examples(inputs, 3, 60)
        if loss == "squared":
            stream = cp.Arrays(stream.x, stream.x[:, :2])
        cp.run(learner, stream, seeds=2, record_every=30, engine=engine, progress=False)
        programs, modules = (each.copy() for each in lowered)
        assert len(programs) == 1 and modules, f"{group}: {rule} {optimizer} made {len(programs)} programs"
        for each in lowered:
            each.clear()
        name = f"{group}, {rule} {optimizer}"
        texts = {"program": anonymous(programs[0])}
        texts |= {f"module {number}": anonymous(text) for number, text in enumerate(modules)}
        found[name] = {
            part: {"text": digest(text.encode()), "operations": digest(operations(text).encode())}
            for part, text in texts.items()
        }
        path = folder / "gpu" / (re.sub(r"\W+", "-", name) + ".txt")
        path.write_text("\n".join(f"// {part}\n{text}" for part, text in texts.items()))

    for rule, optimizer in itertools.product(ON_CHIP, ("sgd", "momentum", "adam")):
        run("kernel 5-4", "kernel", 4, rule, optimizer, inputs=5)
    for rule, optimizer in (("foresight", "rmsprop"), ("projected", "sgd"), ("approx", "momentum")):
        run("kernel 5-4-4", "kernel", (4, 4), rule, optimizer, inputs=5, layer_norm=rule == "foresight")
    for rule in ON_CHIP:
        run("parts 300-32", "chunked", 32, rule, "sgd")
    for rule in ("crossprop", "backprop", "foresight"):
        run("parts 300-32", "chunked", 32, rule, "momentum")
    for rule in ("projected", "approx", "sum", "backprop", "foresight"):
        run("parts 300-32-16", "chunked", (32, 16), rule, "sgd", layer_norm=rule == "foresight")
    for rule, optimizer in (("backprop", "adam"), ("projected", "adam"), ("approx", "rmsprop"), ("foresight", "adam")):
        run("slices 300-128", "scan", 128, rule, optimizer)
    for rule, optimizer in (("backprop", "momentum"), ("approx", "sgd"), ("foresight", "momentum")):
        run("shares 300-32-2048", "chunked", (32, 2048), rule, optimizer)
    return found


def anonymous(text: str) -> str:
    """A module's text without the names of functions and of results, and without what Triton programs are, which are
    texts of their own."""
    text = re.sub(r'(?:ir|name) = "(?:[^"\\]|\\.)*",? ?', "", text)
    text = re.sub(r'jax\.(?:result_info|arg_info) = "(?:[^"\\]|\\.)*",? ?', "", text)
    names: dict[str, str] = {}
    return re.sub(r"(?<=[ (])@(?!__gpu)[\w.]+", lambda found: names.setdefault(found[0], f"@f{len(names)}"), text)


def operations(text: str) -> str:
    """The operations in alphabetical order, without the names of their values."""
    return "\n".join(sorted(re.sub(r"%[\w#:]+|\^bb\d+", "%", line).strip() for line in text.splitlines()))


def lower_for_cuda() -> tuple[list[str], list[str]]:
    """From now on crossprop sees one H200. A compiled function that launches Triton programs is not executed but
    lowered, and gives zeros; what is lowered goes into the two lists, programs and Triton modules.

    This has to come before crossprop is imported. It uses no name of crossprop, but one private name of JAX.
    """
    import equinox
    import jax
    import jax.numpy as jnp
    import optax
    from jax._src.pallas.triton import lowering
    from jax.core import Tracer
    from jax.experimental import pallas as pl
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    assert equinox and optax and "crossprop" not in sys.modules  # their own functions stay as they are
    programs: list[str] = []
    modules: list[str] = []
    jit, call, lower, calls = jax.jit, pl.pallas_call, lowering.lower_jaxpr_to_triton_module, itertools.count()
    mesh = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))

    class Device:
        platform, device_kind, core_count, compute_capability = "gpu", "NVIDIA H200", 132, "9.0"

        def memory_stats(self) -> None:
            return None

    def shape(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))
        return leaf

    def zeros(leaf: Any) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.zeros((*leaf.shape, 2), jnp.uint32))
        return jnp.zeros(leaf.shape, leaf.dtype)

    class Compiled:
        def __init__(self, function: Any, **options: Any):
            self.jitted = jit(function, **options)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
                return self.jitted(*args, **kwargs)
            begun = next(calls)
            with use_abstract_mesh(mesh):
                args_shape, kwargs_shape = jax.tree.map(shape, (args, kwargs))
                traced = self.jitted.trace(*args_shape, **kwargs_shape)
                if next(calls) == begun + 1:
                    return self.jitted(*args, **kwargs)
                programs.append(traced.lower(lowering_platforms=("cuda",)).as_text())
            return jax.tree.map(zeros, traced.out_info)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.jitted, name)

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return self if instance is None else partial(self, instance)

    def counted(*args: Any, **kwargs: Any) -> Any:
        next(calls)
        return call(*args, **kwargs)

    def kept(*args: Any, **kwargs: Any) -> Any:
        result = lower(*args, **kwargs)
        assert result.module.operation.verify()
        modules.append(result.module.operation.get_asm(enable_debug_info=False))
        return result

    jax.jit = lambda function=None, **options: (
        partial(Compiled, **options) if function is None else Compiled(function, **options)
    )
    jax.local_devices = lambda *args, **kwargs: [Device()]
    jax.default_device = lambda device: contextlib.nullcontext()
    pl.pallas_call, lowering.lower_jaxpr_to_triton_module = counted, kept
    return programs, modules


# Answers.


ANSWERS = {
    "reproduce": ("reproduce --quick", "claims.json"),
    **{f"reproduce {name}": (f"reproduce {name} --quick", "claims.json") for name in
       ("sutton1992", "dohare2024", "elsayed2024")},
    **{f"study {name}": (f"study {name} --quick", "answers.json") for name in ("geoff", "mnist", "deep", "credit")},
    "arena": ("arena --quick", "answers.json"),
}  # fmt: skip
CHANGING = {"crossprop", "command", "device", "versions", "time"}
"""Keys for versions and the machine, and for times that are measured."""
MEASURED = re.compile(r"[\d.,]+ times \S+ time\b")


def answers(folder: Path) -> dict[str, Any]:
    """The claims of the papers, and the answers of the studies and the arena, all in their quick form."""
    import crossprop

    environment = os.environ | {"PYTHONPATH": str(Path(crossprop.__file__).parents[1])}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (command, _) in ANSWERS.items():
            begun = time.time()
            whole = [sys.executable, "-m", "crossprop", *command.split(), "--out", name.replace(" ", "-")]
            subprocess.run(whole, cwd=scratch, env=environment, check=True, stdout=subprocess.DEVNULL)
            print(f"  crossprop {command}: {time.time() - begun:.0f} s", flush=True)
        return answers_in(Path(scratch))


def answers_in(scratch: Path) -> dict[str, Any]:
    texts = {name: (scratch / name.replace(" ", "-") / file).read_text() for name, (_, file) in ANSWERS.items()}
    return {name: lasting(json.loads(text)) for name, text in texts.items()}


def lasting(value: Any) -> Any:
    """An answer without what changes from one call to the next."""
    if isinstance(value, dict):
        return {key: lasting(each) for key, each in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [*map(lasting, value)]
    return MEASURED.sub("so many times the time", value) if isinstance(value, str) else value


# Before and after.


PARTS = {"records": records, "gpu": gpu, "answers": answers}


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The numbers and texts of a tree by their paths."""
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for at, each in pairs for key, leaf in leaves(each, f"{path}/{at}".strip("/")).items()}


def difference(path: str, one: Any, other: Any) -> str:
    said = f"{path}: {one!r} -> {other!r}"
    if isinstance(one, float) and isinstance(other, float) and one:
        said += f" ({other / one - 1:+.1e})"
    return said


def compared(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Prints the configurations that differ, and returns how many do."""
    count = 0
    for name in {**before, **after}:
        if name not in before or name not in after:
            found = ["is new" if name in after else "is missing"]
        else:
            one, other = leaves(before[name]), leaves(after[name])
            changed = [key for key in {**one, **other} if repr(one.get(key)) != repr(other.get(key))]  # NaN equals NaN
            found = [difference(key, one.get(key), other.get(key)) for key in changed]
        if found:
            count += 1
            more = [f"and {len(found) - SHOWN} more"] * (len(found) > SHOWN)
            print(name, *found[:SHOWN], *more, sep="\n    ", flush=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    if given.only is None:  # a process for each: one of them changes JAX
        command = [sys.executable, __file__, given.action, str(given.folder), "--only"]
        return max(subprocess.run([*command, part], check=False).returncode for part in PARTS)
    begun, file = time.time(), given.folder / f"{given.only}.json"
    if given.action == "compare" and not file.exists():
        parser.error(f"{file} does not exist: write it first, with the code of before the change")
    made = PARTS[given.only](given.folder if given.action == "write" else given.folder / "now")
    about = f"{given.only}: {len(made)} configurations in {time.time() - begun:.0f} s"
    if given.action == "write":
        given.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(made, indent=1))
        print(f"{about}, written to {file}")
        return 0
    count = compared(json.loads(file.read_text()), json.loads(json.dumps(made)))
    print(f"{about}, {count} of them differ")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
