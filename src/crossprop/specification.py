"""Streams, networks and learners built from plain values: what flags of the command line and TOML files describe.

An experiment is a table with the keys `import`, `stream`, `network` and `learners`:

    {"stream": {"name": "geoff", "tasks": "AB"}, "network": {"hidden": 100}, "learners": {"adam": {"step_size": 0.01}}}
"""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from crossprop._support import checks as check
from crossprop.hyperparameters import hyperparameters
from crossprop.learners import LEARNERS, PREDICTORS, WRAPPERS, Learner
from crossprop.network import Network
from crossprop.objectives import OBJECTIVES
from crossprop.optimizers import STEP_SIZES
from crossprop.optimizers.base import as_optimizer
from crossprop.registry import arguments_of, bind, import_modules
from crossprop.streams import STREAMS, SUITED, SUITED_TO, Stream, Suited, is_table, read_table

TRACE = "trace"
HYPERPARAMETERS = {name: known for cls in LEARNERS.classes.values() for name, known in hyperparameters(cls).items()}
"""The hyperparameters of the learners that come with the package."""
LEARNER_FLAGS = (*HYPERPARAMETERS, "optimizer", "replacement")
"""Arguments of learners that `crossprop run` and `crossprop sweep` have a flag for; `--set` takes the others."""


class Experiment(NamedTuple):
    """Learners, and the stream that they learn from."""

    learners: dict[str, Learner]
    stream: Stream


def build(table: Mapping[str, Any], flags: Mapping[str, Any] | None = None) -> Experiment:
    """Builds the experiment that `table` describes.

    **Arguments:**

    - `table`: `import`, modules to import first; `stream`, a name or a table of `name` and arguments; `network`, fields
      of `Network`; `learners`, names, or tables of arguments by name.
    - `flags`: arguments for all learners that have them, which precede those of the table, such as
      `{"step_size": 0.1}`; `{"foresight:horizon": 100}` is for one learner. A name such as `adam` or `crossprop-0.5`
      fixes arguments: those are kept.
    """
    import_modules(table.get("import", []))
    stream = build_stream(table.get("stream"))
    suited = suited_to(table["stream"], stream)
    network = build_network(table.get("network", {}), stream, suited)
    named = learner_tables(table.get("learners"))
    builders = {name: builder_of(name, own) for name, own in named.items()}
    given: dict[str, dict[str, Any]] = {name: {} for name in named}
    for flag, value in (flags or {}).items():
        for name in takers(flag, builders):
            given[name][flag.rpartition(":")[2]] = value
    learners = {
        name: build_learner(name, own, network, suited, given[name], predicts=stream.predicts)
        for name, own in named.items()
    }
    return Experiment(learners, stream)


def build_stream(values: Any) -> Stream:
    """A registered stream from its name, or from a table of its `name` and the arguments of its builder; a name such as
    `data.csv` is that of a file."""
    table = {"name": values} if isinstance(values, str) else as_table("stream", values)
    own = {key: value for key, value in table.items() if key != "name"}
    name = table.get("name")
    if is_table(name) and name not in STREAMS:
        builder = partial(read_table, name)
    else:
        builder = STREAMS.find("the name of stream", name)
    stream = bind(f"stream {name!r}", builder, own)()
    if not isinstance(stream, Stream):
        raise TypeError(f"stream {name!r} must build a stream such as crossprop.Geoff(), got {stream!r}")
    return stream


def suited_to(values: Any, stream: Stream) -> Suited:
    """The network and step size that suit a stream, given by name or by a table of its `name` and arguments."""
    name = values if isinstance(values, str) else values["name"]
    return SUITED.get(name, SUITED_TO[loss_of(stream)])


def loss_of(stream: Stream) -> str:
    """The loss that suits a stream's targets."""
    return "softmax" if stream.one_hot else "squared"


def build_network(values: Any, stream: Stream, suited: Suited) -> Network:
    """A network with the stream's sizes and the suited settings; `values` overrides them."""
    check_keys("network", as_table("network", values), [field.name for field in fields(Network)])
    outputs = stream.outputs // 3 if stream.predicts else stream.outputs
    sizes = {"inputs": stream.inputs, "hidden": suited.hidden, "outputs": outputs, "loss": loss_of(stream)}
    return Network(**sizes | {**suited.network} | values)


def learner_tables(values: Any) -> dict[str, Any]:
    """The arguments of every learner by its name. A list of names stands for learners without arguments, `["all"]` for
    every registered learner; a learner with a list of optimizers or replacements becomes one learner for each."""
    if isinstance(values, list | tuple):
        names = [name for name, _ in LEARNERS.items()] if [*values] == ["all"] else values
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"learners must be names of learners or a table, got {values!r}")
        return {name: {} for name in names}
    return _one_for_each("replacement", _one_for_each("optimizer", as_table("learners", values)))


def _one_for_each(part: str, learners: dict[str, Any]) -> dict[str, Any]:
    """The tables of learners; one with a list of optimizers or replacements becomes one learner for each of them."""
    tables: dict[str, Any] = {}
    for name, own in learners.items():
        listed = own.get(part) if isinstance(own, dict) else None
        if isinstance(listed, list):
            if not listed:
                raise ValueError(f"learners.{name}.{part} must not be empty, got []")
            names = [each.get("name") if isinstance(each, dict) else each for each in listed]
            if repeated := [each for each in names if names.count(each) > 1]:
                raise ValueError(f"learners.{name}.{part} must not repeat a name, got {repeated[0]!r} twice")
            tables |= {
                f"{name}-{label}": {"rule": name} | own | {part: each}
                for label, each in zip(names, listed, strict=True)
            }
        else:
            tables[name] = own
    return tables


def builder_of(name: str, values: Any) -> partial[Learner]:
    """The registered learner named `rule`, which defaults to `name`."""
    table = as_table(f"learners.{name}", values)
    rule = table.get("rule", name)
    registry = PREDICTORS if rule in PREDICTORS else LEARNERS
    return registry.find(f"the rule of learners.{name}" if "rule" in table else "learners", rule)


def takers(flag: str, builders: Mapping[str, partial[Learner]]) -> list[str]:
    """The learners that a flag applies to: those that have the argument, unless their name fixes it."""
    only, _, argument = flag.rpartition(":")
    if only:
        check.choice("a learner with a setting of its own", only, builders)
    reasons = {name: _why_not(argument, name, builders[name]) for name in ([only] if only else builders)}
    found = [name for name, reason in reasons.items() if reason is None]
    if not found:
        written = f"--{argument.replace('_', '-')}" if argument in LEARNER_FLAGS else f"--set {flag}"
        of_one = f"; did you mean {flag.replace('.', ':', 1)}?" if flag.partition(".")[0] in LEARNERS else ""
        raise ValueError(f"{written}: {'; '.join(filter(None, reasons.values()))}{of_one}")
    return found


def _why_not(argument: str, name: str, builder: partial[Learner]) -> str | None:
    """Why a learner does not take an argument, or None if it does."""
    accepted = arguments_of(builder)
    argument, _, field = argument.partition(".")  # optimizer.sigma is the optimizer's
    objective = OBJECTIVES.get(str(builder.keywords.get("objective")))
    if argument == "objective" and objective is not None and field in (arguments_of(objective) or ()):
        return None
    if argument in builder.keywords:
        return f"learner {name!r} has {argument}={builder.keywords[argument]!r} by its name"
    if accepted is not None and argument not in (*accepted[1:], *WRAPPERS, TRACE):  # the first is the network
        return f"learner {name!r} has no {argument}; its arguments: {', '.join(accepted[1:]) or 'none'}"
    return None


def build_learner(
    name: str, values: Any, network: Network, suited: Suited, flags: Mapping[str, Any], *, predicts: bool = False
) -> Learner:
    """A registered learner: the one named `rule`, which defaults to `name`, with a suitable step size if it needs one
    and is not given any. A wrapper is an argument by its name, with true or a table of its own arguments. Where the
    stream `predicts`, `TD` is always one, and takes `trace`."""
    builder, table = builder_of(name, values), as_table(f"learners.{name}", values)
    own = {key: value for key, value in table.items() if key != "rule"}
    fixed = {part: builder.keywords[part] for part in ("objective",) if part in builder.keywords}
    given, accepted = fixed | own | dict(flags), arguments_of(builder)
    network = replace(network, **as_table(f"learners.{name}.network", given.pop("network", {})))
    if TRACE in given and accepted is not None and TRACE not in accepted:
        given["td.trace"] = given.pop(TRACE)
    given = _with_parts(given)
    around = {each: given.pop(each) for each in WRAPPERS if each in given}
    given = default_step_size(builder, given, network, suited) | given
    learner = bind(f"learners.{name}", builder, given, network)()
    if not isinstance(learner, Learner):
        raise TypeError(f"learners.{name} must build a learner such as crossprop.Backprop(...), got {learner!r}")
    if predicts and not learner.predicts:
        around.setdefault("td", True)
    for wrapper, wrap in WRAPPERS.items():
        if (given := around.get(wrapper, False)) is not False:
            owner = f"learners.{name}.{wrapper}"
            learner = bind(owner, partial(wrap), {} if given is True else as_table(owner, given), learner)()
    return learner


def default_step_size(
    builder: partial[Learner], given: Mapping[str, Any], network: Network, suited: Suited
) -> dict[str, float]:
    """The argument `step_size` of a learner that needs one and is not `given` any; empty for other learners."""
    step_size = inspect.signature(builder).parameters.get("step_size")
    if "step_size" in given or step_size is None or step_size.default is not step_size.empty:
        return {}
    optimizer = given.get("optimizer", builder.keywords.get("optimizer", "sgd"))
    return {"step_size": step_size_for(optimizer, network, suited)}


def step_size_for(optimizer: Any, network: Network, suited: Suited) -> float:
    """The step size of an optimizer in this network, where plain steps in the suited one have the suited step size: the
    optimizer's usual one, or less with momentum; and less in a wider network, in inverse proportion to its features."""
    if suited.for_all:
        return suited.step_size
    made = as_optimizer(optimizer)
    made = getattr(made, "base", made)
    plain = suited.step_size * (1 - (made.momentum or 0))
    usual = STEP_SIZES.get(getattr(made, "name", type(made).__name__), plain)
    return usual * min(1.0, (suited.hidden or (network.inputs,))[-1] / network.units)


def _with_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values such as `optimizer.sigma` put into the table of their part, beside its name."""
    found = {name: value for name, value in values.items() if "." not in name}
    for name, value in values.items():
        part, dot, field = name.partition(".")
        if dot:
            table = found.get(part, {} if part in WRAPPERS else None)
            table = {} if table is True and part in WRAPPERS else table
            if table is None:
                raise ValueError(f"{name} needs {part}, the name of one that has it, got {value!r} alone")
            found[part] = (table if isinstance(table, dict) else {"name": table}) | {field: value}
    return found


def as_table(name: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TypeError(f"{name} must be a table, got {values!r}")
    return values


def check_keys(name: str, values: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in values:
        check.choice(f"a key of {name}", key, keys)
