"""The columns of a table: what each holds, and the inputs that it becomes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop._support import checks as check

if TYPE_CHECKING:
    import pandas as pd

MOST_TEXTS, MOST_CLASSES = 100, 1000
"""The most texts of an input, and the most classes or tasks."""
MOSTLY = 0.9
"""A column of texts is an error if at least this share of them are numbers."""
DATE_PARTS: list[Callable[[Any], Any]] = [
    lambda dates: (dates.dt.tz_localize(None) - np.datetime64(0, "s")).dt.total_seconds() / 86400,
    lambda dates: dates.dt.hour + dates.dt.minute / 60,
    lambda dates: dates.dt.day_of_week,
    lambda dates: dates.dt.day_of_year,
]
"""The inputs that a date becomes."""


@dataclass
class Column:
    """A column of a table, and what its values so far are."""

    name: str
    is_input: bool
    kind: str | None = None
    """"number", "date", "text", or "mixed" of numbers and texts; None if all values are missing."""
    missing: int = 0
    first_missing: int = 0
    present: int = 0
    numbers_found: int = 0
    first_text: tuple[int, Any] | None = None
    """The row of the first value that is no number, and the value."""
    values: dict[Any, None] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of inputs that it becomes."""
        many = len(self.values)
        widths = {"number": 1, "date": len(DATE_PARTS), "text": many if many <= MOST_TEXTS else 0}
        return widths.get(self.kind or "", 0) * self.is_input

    def add(self, values: "pd.Series", before: int) -> None:
        """Takes note of the next values of the column, which come after `before` rows."""
        present = values.dropna()
        if len(present) < len(values) and not self.missing:
            self.first_missing = before + int(values.isna().to_numpy().argmax()) + 1
        self.missing += len(values) - len(present)
        if len(present) == 0:
            return
        kind = _kind(self.name, present)
        self.present += len(present)
        self.numbers_found += len(present) if kind == "number" else 0
        if kind == "text":
            self._add_texts(values, present, before)
        if {self.kind, kind} == {"number", "text"} and self.first_text is not None:
            kind = "mixed"
        elif self.kind not in (None, kind, "mixed"):
            raise ValueError(
                f"column {self.name!r} must hold {self.kind}s alone, got a {kind} after row {before:,}: ignore it"
            )
        self.kind = "mixed" if self.kind == "mixed" else kind
        if kind == "number":
            check.finite(f"column {self.name!r}", present.to_numpy(float))
        if (kind == "text" or not self.is_input) and len(self.values) <= MOST_CLASSES:
            self.values |= dict.fromkeys(present.unique().tolist())

    def _add_texts(self, values: "pd.Series", present: "pd.Series", before: int) -> None:
        import pandas as pd

        texts = present.astype(str)
        parsed = lambda written: np.asarray(pd.to_numeric(written, errors="coerce"), float)
        self.numbers_found += int((~np.isnan(parsed(texts.str.replace(",", "")))).sum())
        if self.first_text is None:
            places = np.flatnonzero(np.isnan(parsed(texts)))
            if len(places):
                row = before + int(np.flatnonzero(values.notna())[places[0]]) + 1
                self.first_text = row, present.iloc[places[0]]

    def check_numbers(self, path: Path, remedy: str) -> None:
        """A ValueError for texts among numbers: one typing error would turn all numbers into categories or classes."""
        if self.first_text is None or not (self.kind == "mixed" or self.numbers_found >= MOSTLY * self.present):
            return
        row, value = self.first_text
        raise ValueError(
            f"{path}: {self.numbers_found:,} of {self.present:,} values of {self.name!r} are numbers (without their "
            f"commas), but {check.shown(value)} in data row {row:,} is not a number: write numbers as 1234.5, "
            f"or {remedy}"
        )

    def numbers(self, values: "pd.Series") -> np.ndarray:
        """Rows of its inputs, NaN where a number is missing."""
        if self.kind == "text":
            return self.codes(values)[:, None] == np.arange(len(self.values))
        parts = [values] if self.kind == "number" else [part(_dates(values)) for part in DATE_PARTS]
        return np.stack([part.to_numpy(float, na_value=np.nan) for part in parts], axis=1)

    def codes(self, values: "pd.Series") -> np.ndarray:
        """The place of each value among all, sorted; -1 if it is missing."""
        import pandas as pd

        return pd.Index(sorted(self.values)).get_indexer(values)


def _kind(name: str, present: "pd.Series") -> str:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(present) or pd.api.types.is_bool_dtype(present):
        return "number"
    is_date = pd.api.types.is_datetime64_any_dtype(present)
    if not is_date and not isinstance(present.iloc[0], str):
        raise ValueError(f"column {name!r} must hold numbers, dates or texts, got {check.shown(present.iloc[0])}")
    return "date" if is_date or _dates(present).notna().all() else "text"


def _dates(values: "pd.Series") -> Any:
    import pandas as pd

    return pd.to_datetime(values, format="ISO8601", errors="coerce", utc=True)
