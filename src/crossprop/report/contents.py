"""What a report is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossprop.paper.plans import Setting

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Part:
    """An experiment: its records as `crossprop.run` returns them, how it was set, and how long it took."""

    name: str
    title: str
    records: "xarray.Dataset"
    settings: Sequence[Setting]
    seconds: float
