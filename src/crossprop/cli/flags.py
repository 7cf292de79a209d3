"""Flags that `crossprop run` and `crossprop sweep` share, and what they describe."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from crossprop import _checks as check
from crossprop.engines import ENGINES
from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS

STREAM_HELP = (
    f"One of {', '.join(STREAMS)}: GEOFF, or label-shifted digits (8x8 pixels), 5,000 images of MNIST, or MNIST; or a "
    "stream that an imported module registers."
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
    hidden: int | None = None
    """Number of hidden units; unset, 500."""
    activation: Literal["tanh", "sigmoid", "relu"] | None = None
    """Activation of the hidden units; unset, tanh."""
    bias: bool | None = None
    """Add a constant input and a constant feature."""
    step_size: float | None = None
    """Step size of every learner; unset, 0.0005."""
    incoming_step_size: float | None = None
    """Step size of the incoming weights; unset, that of the learner."""
    tasks: str | None = None
    """Tasks in the order of visits, one letter each; unset, the stream's default, ABC."""
    examples: int | None = None
    """Examples per task; unset, 5000 for GEOFF and the whole data set otherwise."""
    record_every: int | None = None
    """Steps per record; unset, 50."""
    engine: Annotated[str | None, arg(help=f"One of auto, {', '.join(ENGINES)}; unset, auto.")] = None

    def tables(self) -> dict[str, Any]:
        """The flags that were given, as the tables of a TOML file."""
        if self.engine is not None:
            check.choice("engine", self.engine, ("auto", *ENGINES))
        return _given(
            {
                "import": list(self.imports),
                "learners": self._learners(),
                "network": _given({"hidden": self.hidden, "activation": self.activation, "bias": self.bias}),
                "stream": _given({"tasks": self.tasks, "examples": self.examples}),
                "record_every": self.record_every,
                "engine": self.engine,
            }
        )

    def learner_flags(self) -> dict[str, float]:
        """The arguments that were given for every learner."""
        return _given({"step_size": self.step_size, "incoming_step_size": self.incoming_step_size})

    def _learners(self) -> list[str]:
        if () in self.learners:
            raise ValueError("learners must be followed by names, such as --learners crossprop backprop")
        return [name for names in self.learners for name in names]


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}
