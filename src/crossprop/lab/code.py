"""A setting of the lab as Python, and as a command for the shell."""

import sys
from collections.abc import Mapping
from typing import Any

from crossprop import optimizers, specification
from crossprop.experiments.toml import to_toml, toml_entries, toml_key
from crossprop.lab.settings import Setting
from crossprop.learners import LEARNERS
from crossprop.replacements import REPLACEMENTS
from crossprop.streams import STREAMS, Suited, is_table


def as_python(setting: Setting, imports: tuple[str, ...] = ()) -> str:
    """A script that gives the records of the setting."""
    table, loss, suited = setting.table, setting.network.loss, _suited(setting)
    sizes = {"inputs": setting.stream.inputs, "hidden": suited.hidden}
    sizes |= {"outputs": setting.stream.outputs} if setting.stream.outputs != 1 else {}
    sizes |= {"loss": loss} if loss != "squared" else {}
    stream = {key: value for key, value in table["stream"].items() if key != "name"}
    learners = [
        f"    {name!r}: {_call('LEARNERS', LEARNERS, own.get('rule', name), ['net'], _arguments(name, own, setting))},"
        for name, own in table["learners"].items()
    ]
    steps = (
        f", steps={setting.steps}" if table.get("steps") is not None or setting.stream.steps != setting.steps else ""
    )
    body = [
        f"stream = {_call('STREAMS', STREAMS, table['stream']['name'], [], stream)}",
        f"net = cp.Network({_keywords(sizes | {**suited.network} | table.get('network', {}))})",
        "learners = {",
        *learners,
        "}",
        f"records = cp.run(learners, stream, seeds={len(setting.seeds)}, record_every={setting.record_every}{steps})",
        "print(records)",
    ]
    used = "\n".join(body)
    lines = ["import crossprop as cp"]
    lines += ["from crossprop.learners import LEARNERS"] if "LEARNERS[" in used else []
    lines += ["from crossprop.replacements import REPLACEMENTS"] if "REPLACEMENTS[" in used else []
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
    return ", ".join(f"{name}={_expression(name, value)}" for name, value in values.items())


def _expression(argument: str, value: Any) -> str:
    """A value in Python; a table of a name and arguments is a call."""
    if not isinstance(value, dict):
        return repr(tuple(value) if isinstance(value, list) else value)
    name, own = str(value.get("name")), {key: each for key, each in value.items() if key != "name"}
    if argument == "replacement" and name in REPLACEMENTS:
        return _call("REPLACEMENTS", REPLACEMENTS, name, [], own)
    if argument in ("optimizer", "base") and hasattr(optimizers, name):
        return f"cp.optimizers.{name}({_keywords(own)})"
    return repr(value)


def _suited(setting: Setting) -> Suited:
    return specification.suited_to(setting.table["stream"], setting.stream)


def _arguments(name: str, own: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """A learner's arguments, with the step size that it needs and was not given."""
    given = {key: value for key, value in own.items() if key != "rule"}
    builder = LEARNERS[own.get("rule", name)]
    return specification.default_step_size(builder, given, setting.network, _suited(setting)) | given


def as_command(setting: Setting, imports: tuple[str, ...] = ()) -> str:
    """A command for the shell that writes a file for `crossprop sweep` and runs it."""
    table = setting.table
    lines = [f"import = {to_toml(list(imports))}"] if imports else []
    lines += [f"seeds = {len(setting.seeds)}", f"record_every = {setting.record_every}", 'store = "lab-sweep"']
    lines += [f"steps = {setting.steps}"] if setting.stream.steps != setting.steps else []
    for name, values in (("stream", _stream(table)), ("network", table.get("network", {}))):
        lines += ["", f"[{name}]", *toml_entries(values)]
    for name, own in table["learners"].items():
        lines += ["", f"[learners.{toml_key(name)}]", *toml_entries(own)]
    body = "\n".join(lines)
    end = "EOF"
    while end in body.split("\n"):
        end += "_"
    return f"cat > lab.toml <<'{end}'\n{body}\n{end}\ncrossprop sweep lab.toml"


def _stream(table: Mapping[str, Any]) -> dict[str, Any]:
    """The stream's table; that of a file with the flags of `crossprop lab`."""
    name = table["stream"]["name"]
    whole = {**STREAMS[name].keywords, **table["stream"]} if is_table(name) else table["stream"]
    return {name: value for name, value in whole.items() if name != "path"}
