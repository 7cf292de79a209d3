"""Flags that `crossprop run` and `crossprop sweep` share, and what they describe."""

from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import UseAppendAction, arg

from crossprop._support import checks as check
from crossprop._support.flags import Unset
from crossprop.engines import ENGINES
from crossprop.experiments.toml import parse_value
from crossprop.learners import LEARNERS
from crossprop.network import ACTIVATIONS
from crossprop.optimizers import NAMES
from crossprop.replacements import replacement_names
from crossprop.specification import LEARNER_FLAGS
from crossprop.streams import STREAMS

STREAM_HELP = (
    f"One of {', '.join(STREAMS)} (crossprop data list tells which data sets are here), or a stream that an imported "
    "module registers."
)
PREFIXES = ("network.", "stream.")
ACTIVATION_HELP = f"Activation of the hidden units: one of {', '.join(ACTIVATIONS)}; unset, tanh."
OPTIMIZER_HELP = (
    f"Optimizer of the learners that do not have one by name: one of {', '.join(NAMES)}; unset, sgd. "
    "--set optimizer.NAME=VALUE sets a hyperparameter of it."
)
REPLACEMENT_HELP = (
    f"Which units are replaced: one of {', '.join(replacement_names())}; unset, none. --set replacement.NAME=VALUE "
    "sets a hyperparameter of it."
)
SET_HELP = (
    "Any other argument of the learners that have it, such as memory_step_size=0.001, or of one learner, such as "
    "foresight:layers=top; or network. or stream. and a field: network.layer_norm=true."
)


@dataclass
class ExperimentFlags:
    """The learners, the network, the stream and the records."""

    learners: Annotated[
        UseAppendAction[tuple[tuple[str, ...], ...]],
        arg(
            metavar="NAME [NAME ...]",
            help=f"all, or some of {', '.join(LEARNERS)}, or learners that an imported module registers.",
        ),
    ] = ()
    imports: Annotated[UseAppendAction[tuple[str, ...]], arg(name="import", metavar="MODULE")] = ()
    """Module to import first, from the current folder or installed, which registers learners or streams of its own."""
    hidden: Annotated[Unset[tuple[int, ...]], arg(metavar="INT [INT ...]")] = None
    """Number of hidden units, or of the units of each hidden layer: --hidden 256 256; unset, 500."""
    activation: Annotated[Unset[str], arg(metavar="NAME", help=ACTIVATION_HELP)] = None
    bias: Unset[bool] = None
    """Add a constant input and a constant feature."""
    step_size: Unset[float] = None
    """Step size of every learner; unset, 0.0005."""
    incoming_step_size: Unset[float] = None
    """Step size of the incoming weights; unset, that of the learner."""
    optimizer: Annotated[Unset[str], arg(metavar="NAME", help=OPTIMIZER_HELP)] = None
    replacement: Annotated[Unset[str], arg(metavar="NAME", help=REPLACEMENT_HELP)] = None
    eta: Unset[float] = None
    """Mix of crossprop (0) and backprop (1), for crossprop and crossprop-approx; unset, 0."""
    ahead: Unset[float] = None
    """How far foresight looks ahead, in sums of past steps; 0 is backprop; unset, 1."""
    horizon: Unset[float] = None
    """Over how many examples the past steps fade that foresight sums; unset, 1000."""
    settings: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help=SET_HELP)] = ()
    tasks: Unset[str] = None
    """Tasks in the order of visits, one letter each: ABC; for permuted-inputs and random-labels also how many."""
    examples: Unset[int] = None
    """Examples per task; unset, 5000 for GEOFF and the whole data set otherwise."""
    record_every: Unset[int] = None
    """Steps per record; unset, 50."""
    engine: Annotated[Unset[str], arg(help=f"One of auto, {', '.join(ENGINES)}; unset, auto.")] = None

    def tables(self) -> dict[str, Any]:
        """The flags that were given, as the tables of a TOML file."""
        if self.engine is not None:
            check.choice("engine", self.engine, ("auto", *ENGINES))
        tasks = int(self.tasks) if self.tasks is not None and self.tasks.isdecimal() else self.tasks
        hidden = self.hidden[0] if self.hidden is not None and len(self.hidden) == 1 else self.hidden
        network = _given({"hidden": hidden, "activation": self.activation, "bias": self.bias})
        return _given(
            {
                "import": list(self.imports),
                "learners": self._learners(),
                "network": network | self._fields("network."),
                "stream": _given({"tasks": tasks, "examples": self.examples}) | self._fields("stream."),
                "record_every": self.record_every,
                "engine": self.engine,
            }
        )

    def learner_flags(self) -> dict[str, Any]:
        """The arguments that were given for the learners that have them."""
        further = {name: value for name, value in self._settings().items() if not name.startswith(PREFIXES)}
        return _given({name: getattr(self, name) for name in LEARNER_FLAGS}) | further

    def _settings(self) -> dict[str, Any]:
        parts = [each.partition("=") for each in self.settings]
        for given, (name, _, value) in zip(self.settings, parts, strict=True):
            if not name or not value:
                raise ValueError(f"--set must be followed by NAME=VALUE, such as memory_step_size=0.001, got {given!r}")
        return {name: parse_value(value) for name, _, value in parts}

    def _fields(self, prefix: str) -> dict[str, Any]:
        settings = self._settings().items()
        return {name.removeprefix(prefix): value for name, value in settings if name.startswith(prefix)}

    def _learners(self) -> list[str]:
        if () in self.learners:
            raise ValueError("learners must be followed by names, such as --learners crossprop backprop")
        return [name for names in self.learners for name in names]


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}
