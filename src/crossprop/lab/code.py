"""A setting of the lab as Python, and as a command for the shell."""

import inspect
import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from crossprop import specification
from crossprop.lab.settings import Setting
from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS

NETWORK_FLAGS = ("hidden", "activation", "bias")
STREAM_FLAGS = ("tasks", "examples")
LEARNER_FLAGS = ("step_size", "incoming_step_size")
"""What `crossprop run` has flags for; other settings become a TOML file for `crossprop sweep`."""


def as_python(setting: Setting, imports: tuple[str, ...] = ()) -> str:
    """A script that gives the records of the setting."""
    table, loss = setting.table, setting.learners[next(iter(setting.learners))].network.loss
    sizes = {"inputs": setting.stream.inputs, "hidden": specification.HIDDEN}
    sizes |= {"outputs": setting.stream.outputs} if setting.stream.outputs != 1 else {}
    sizes |= {"loss": loss} if loss != "squared" else {}
    stream = {key: value for key, value in table["stream"].items() if key != "name"}
    learners = [
        f"    {name!r}: {_call('LEARNERS', LEARNERS, own.get('rule', name), ['net'], _arguments(name, own))},"
        for name, own in table["learners"].items()
    ]
    steps = (
        f", steps={setting.steps}" if table.get("steps") is not None or setting.stream.steps != setting.steps else ""
    )
    body = [
        f"stream = {_call('STREAMS', STREAMS, table['stream']['name'], [], stream)}",
        f"net = cp.Network({_keywords(sizes | table.get('network', {}))})",
        "learners = {",
        *learners,
        "}",
        f"records = cp.run(learners, stream, seeds={len(setting.seeds)}, record_every={setting.record_every}{steps})",
        "print(records)",
    ]
    used = "\n".join(body)
    lines = ["import crossprop as cp"]
    lines += ["from crossprop.learners import LEARNERS"] if "LEARNERS[" in used else []
    lines += ["from crossprop.streams import STREAMS"] if "STREAMS[" in used else []
    lines += [f"import {module}  # noqa: F401 (registers learners or streams)" for module in imports]
    return "\n".join([*lines, "", used, ""])


def _call(variable: str, registry: Mapping[str, Any], name: str, first: list[str], own: dict[str, Any]) -> str:
    """A call of the public class that a name stands for, or of the registry's entry."""
    builder = registry[name]
    function = builder.func
    public = getattr(sys.modules["crossprop"], getattr(function, "__name__", ""), None)
    if public is function and not builder.args:
        callee, own = f"cp.{function.__name__}", builder.keywords | own
    else:
        callee = f"{variable}[{name!r}]"
    return f"{callee}({', '.join([*first, *filter(None, [_keywords(own)])])})"


def _keywords(values: dict[str, Any]) -> str:
    tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return ", ".join(f"{name}={value!r}" for name, value in tuples.items())


def _arguments(name: str, own: dict[str, Any]) -> dict[str, Any]:
    """A learner's arguments, with the step size that it needs and was not given."""
    given = {key: value for key, value in own.items() if key != "rule"}
    step_size = inspect.signature(LEARNERS[own.get("rule", name)]).parameters.get("step_size")
    needed = step_size is not None and step_size.default is step_size.empty
    return ({"step_size": specification.STEP_SIZE} if needed else {}) | given


def as_command(setting: Setting, imports: tuple[str, ...] = ()) -> str:
    """A command for the shell: `crossprop run` if it has a flag for everything, else a file for `crossprop sweep`."""
    words = _run_words(setting, imports)
    return _sweep_script(setting, imports) if words is None else shlex.join(words)


def _run_words(setting: Setting, imports: tuple[str, ...]) -> list[str] | None:
    table = setting.table
    network, stream = table.get("network", {}), {k: v for k, v in table["stream"].items() if k != "name"}
    each = [{key: value for key, value in own.items() if key != "rule"} for own in table["learners"].values()]
    renamed = any(own.get("rule", name) != name or name.startswith("-") for name, own in table["learners"].items())
    known = set(network) <= {*NETWORK_FLAGS} and set(stream) <= {*STREAM_FLAGS} and set(each[0]) <= {*LEARNER_FLAGS}
    plain = isinstance(network.get("hidden", 0), int) and not isinstance(stream.get("tasks", ""), list)
    if renamed or not known or not plain or any(own != each[0] for own in each):
        return None
    flags = network | stream | each[0] | {"record_every": setting.record_every, "seeds": len(setting.seeds)}
    flags |= {"steps": setting.steps} if setting.stream.steps != setting.steps else {}
    words = ["crossprop", "run", table["stream"]["name"], "--learners", *table["learners"]]
    for module in imports:
        words += ["--import", module]
    for name, value in flags.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words += [f"--{flag}" if value else f"--no-{flag}"]
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words


def _sweep_script(setting: Setting, imports: tuple[str, ...]) -> str:
    table = setting.table
    lines = [f"import = {_toml(list(imports))}"] if imports else []
    lines += [f"seeds = {len(setting.seeds)}", f"record_every = {setting.record_every}", 'store = "lab-sweep"']
    lines += [f"steps = {setting.steps}"] if setting.stream.steps != setting.steps else []
    for name in ("stream", "network"):
        lines += ["", f"[{name}]", *_entries(table.get(name, {}))]
    for name, own in table["learners"].items():
        lines += ["", f"[learners.{_toml(name)}]", *_entries(own)]
    body = "\n".join(lines)
    end = "EOF"
    while end in body.split("\n"):
        end += "_"
    return f"cat > lab.toml <<'{end}'\n{body}\n{end}\ncrossprop sweep lab.toml"


def _entries(values: dict[str, Any]) -> list[str]:
    return [f"{_toml(name)} = {_toml(value)}" for name, value in values.items() if value is not None]


def _toml(value: Any) -> str:
    """TOML writes numbers, lists and text as JSON does, apart from characters beyond 16 bits, which it takes as they
    are."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
