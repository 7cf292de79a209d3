"""What a paper consists of, to be rerun: experiments, claims, and the words of its page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from crossprop.datasets import DataSet
from crossprop.experiments.questions import Answer, Headline, Leads, Question
from crossprop.library.plans import Plan

Size = Literal["quick", "small", "full"]
T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """How large a rerun is: `quick` shows that everything works, `small` suits two cores, `full` is the paper's size.

    `mnist` returns the images to use. The other fields are flags of the command line, where None leaves the choice to
    the paper; those from `tasks` on only apply to some papers.
    """

    size: Size
    mnist: Callable[[], DataSet]
    seeds: int | None = None
    tasks: int | None = None
    mnist_seeds: int | None = None
    exact_mnist: bool | None = None
    preset: str = "paper"

    @property
    def is_quick(self) -> bool:
        """Whether it only shows that everything works."""
        return self.size == "quick"

    def pick(self, quick: T, small: T, full: T) -> T:
        """The value for this size."""
        return {"quick": quick, "small": small, "full": full}[self.size]

    def why(self, small: str = "small version, for two cores") -> str:
        """Why a setting differs from the paper's; nothing in the full version."""
        return self.pick("quick version", small, "")

    def why_not(self, paper: int, value: int) -> str:
        """Why a number that the command line can give is not the paper's."""
        return "" if value == paper else self.why() or "as given on the command line"


@dataclass(frozen=True)
class Paper:
    """A paper that can be rerun."""

    source: str
    """Authors, year and title."""
    title: str
    intro: str
    claims: Sequence[Question]
    leads: Leads
    terms: Mapping[str, str]
    headline: Callable[[Sequence[Answer]], Headline | None]
    plans: Mapping[str, Callable[[Version], Plan]]
    """How to plan each experiment, by its name."""
    small: str = ""
    """What the default version is, where it is not the paper's: shown at the top of its page."""
    own: Sequence[str] = ()
    """Claims of ours, not of the paper."""
    takes_tasks: bool = False
    """Whether the number of tasks can be limited."""
