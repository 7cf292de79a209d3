"""Flags that commands share, and the tables that flags of `crossprop run` and `crossprop sweep` stand for."""

from dataclasses import MISSING, dataclass, field, make_dataclass
from typing import Annotated, Any, TypeVar

from tyro.conf import UseAppendAction, arg

from crossprop._support import checks as check
from crossprop._support.formats import listed
from crossprop.engines import ENGINES
from crossprop.experiments.toml import parse_value
from crossprop.hyperparameters import hyperparameters
from crossprop.learners import LEARNERS
from crossprop.network import ACTIVATIONS
from crossprop.optimizers import OPTIMIZERS
from crossprop.replacements import replacement_names
from crossprop.specification import HYPERPARAMETERS
from crossprop.streams import STREAMS

T = TypeVar("T")

QUIET = arg(help_behavior_hint="")
"""For a flag whose help says what happens without it: tyro would add "(default: None)"."""
Unset = Annotated[T | None, QUIET]
"""A flag that is None unless given: `seeds: Unset[int] = None`."""
STREAM_HELP = (
    f"One of {', '.join(STREAMS)} (crossprop data list tells which data sets are here), or a stream that an imported "
    "module registers; or a CSV or Parquet file, with --target."
)
IMPORT_HELP = (
    "Module to import first, from the current folder or installed, which registers learners or streams of its own."
)
Imports = Annotated[UseAppendAction[tuple[str, ...]], arg(name="import", metavar="MODULE", help=IMPORT_HELP)]
PREFIXES = ("network.", "stream.")
ACTIVATION_HELP = f"Activation of the hidden units: one of {', '.join(ACTIVATIONS)}; default: tanh."
OPTIMIZER_HELP = (
    f"Optimizer of the learners that do not have one by name: one of {', '.join(OPTIMIZERS)}; default: sgd. "
    "--set optimizer.NAME=VALUE sets a hyperparameter of it."
)
REPLACEMENT_HELP = (
    f"Which units are replaced: one of {', '.join(replacement_names())}; default: none. --set replacement.NAME=VALUE "
    "sets a hyperparameter of it."
)
SET_HELP = (
    "Any other argument of the learners that have it, such as optimizer.sigma=0.001, or an argument of one learner, "
    "such as foresight:layers=top; or network. or stream. and a field: network.layer_norm=true."
)


def _flag(name: str) -> tuple[str, Any, Any]:
    """The name, the type and the default of a hyperparameter's flag."""
    known = HYPERPARAMETERS[name]
    everywhere = {learner: hyperparameters(cls) for learner, cls in LEARNERS.classes.items()}
    owners = {learner: facts[name].default for learner, facts in everywhere.items() if name in facts}
    defaults = {"one that suits the stream" if default is MISSING else default for default in owners.values()}
    default = "" if None in defaults else f"; default: {' or '.join(f'{each}' for each in sorted(defaults))}"
    default += ", by learner" * (len(defaults) > 1)
    whose = "" if len(owners) == len(everywhere) else f" (of {listed([*owners])})"
    text = f"{known.help}{default}{whose}."
    kind = str if known.choices else int if known.whole else float
    return name, Annotated[Unset[kind], arg(help=text)], field(default=None)


Hyperparameters = make_dataclass("Hyperparameters", map(_flag, HYPERPARAMETERS))
"""A flag for each hyperparameter of the learners that come with the package."""


@dataclass
class ExperimentFlags:
    """The learners, the network, the stream and the records."""

    learners: Annotated[
        UseAppendAction[tuple[tuple[str, ...], ...]],
        arg(
            metavar="NAME [NAME ...]",
            help=f"all, or some of {', '.join(LEARNERS)}, or learners that an imported module registers; default: "
            "crossprop, backprop and frozen, and for a sweep those of the file.",
        ),
    ] = ()
    imports: Imports = ()
    hidden: Annotated[Unset[tuple[int, ...]], arg(metavar="INT [INT ...]")] = None
    """Number of hidden units, or of those of each hidden layer: --hidden 256 256; default: 100, and 500 for geoff."""
    activation: Annotated[Unset[str], arg(metavar="NAME", help=ACTIVATION_HELP)] = None
    bias: Unset[bool] = None
    """A constant input and a constant feature; default: yes, except for geoff."""
    optimizer: Annotated[Unset[str], arg(metavar="NAME", help=OPTIMIZER_HELP)] = None
    replacement: Annotated[Unset[str], arg(metavar="NAME", help=REPLACEMENT_HELP)] = None
    hyperparameters: Annotated[Any, arg(name="", constructor=Hyperparameters)] = field(default_factory=Hyperparameters)
    """Hyperparameters, for the learners that have them."""
    settings: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help=SET_HELP)] = ()
    tasks: Unset[str] = None
    """Tasks in the order of visits, one letter each: ABC; for permuted-inputs and random-labels a number does."""
    examples: Unset[int] = None
    """Examples per task; default: 5000 for GEOFF and the whole data set otherwise."""
    game: Unset[str] = None
    """Game of Atari; default: pong. --set stream.seed=0 is for a random player, which needs no recorded actions."""
    target: Unset[str] = None
    """Column of a file to predict; --set stream.time=COLUMN, stream.task= and stream.ignore= name others."""
    missing: Unset[str] = None
    """mean fills in missing values of a file by the mean of their column so far; default: they are an error."""
    record_every: Unset[int] = None
    """Number of examples that each recorded value is the mean of; default: 50."""
    engine: Annotated[Unset[str], arg(help=f"One of auto, {', '.join(ENGINES)}; default: auto.")] = None

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
                "stream": _given(
                    {name: getattr(self, name) for name in ("examples", "game", "target", "missing")} | {"tasks": tasks}
                )
                | self._fields("stream."),
                "record_every": self.record_every,
                "engine": self.engine,
            }
        )

    def learner_flags(self) -> dict[str, Any]:
        """The arguments that were given for the learners that have them."""
        further = {name: value for name, value in self._settings().items() if not name.startswith(PREFIXES)}
        parts = {"optimizer": self.optimizer, "replacement": self.replacement}
        return _given(vars(self.hyperparameters) | parts) | further

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


def check_sizes(flags: Any, **lowest: int) -> None:
    """Checks the flags that a study, an arena and a reproduction share; `lowest` has minima of whole numbers."""
    check.choice("engine", flags.engine, ("auto", *ENGINES))
    if flags.full and flags.quick:
        raise ValueError("full and quick must not both be given: they are two sizes of one experiment")
    for name, low in lowest.items():
        if getattr(flags, name) is not None:
            check.integer(name, getattr(flags, name), low=low)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}
