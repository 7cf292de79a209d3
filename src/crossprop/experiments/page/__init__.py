"""Pages: sections of text, tables and charts in one self-contained file, without outside requests."""

import base64
import csv
import hashlib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from crossprop._support.files import atomic_write
from crossprop._support.formats import unbroken, upper_first
from crossprop.experiments.charts import Chart, to_json

WORDS = tomllib.loads((files("crossprop.experiments.page") / "words.toml").read_text(encoding="utf-8"))
QUICK, NOTHING = WORDS["quick"], WORDS["nothing"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str
    title: str = ""
    anchor: str = ""
    muted: bool = True


@dataclass(frozen=True)
class Command:
    """A command to copy."""

    kind: ClassVar = "command"
    command: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table: words, in a pill of a class `yes`, `part`, `no` or `open` if one is given, then tags, a note,
    lines below, and more that is folded away: titles, and the lines below each."""

    text: str = ""
    pill: str | None = None
    note: str = ""
    tags: Sequence[str] = ()
    lines: Sequence[str] = ()
    fold: str = ""
    folded: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table whose rows begin with their titles. `style` is `numeric` if cells are numbers, which do not wrap, `words`
    if they are words, which are below one another on a phone, and `facts` for names and values."""

    kind: ClassVar = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    style: str = "numeric"
    anchors: str = ""
    """Prefix of the rows' anchors, which have none without it."""

    @property
    def cells(self) -> list[list[Cell]]:
        """All cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A chart under a title, or one of several, which the reader chooses.

    Figures that are `linked` hide lines, zoom and choose together.
    """

    kind: ClassVar = "figure"
    title: str
    charts: Mapping[str, Chart]
    choose: str = ""
    """The kind of the charts, such as `phase`."""
    linked: str = ""
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Groups of lines that the reader can show alone, by what they are called."""

    @classmethod
    def of(cls, chart: Chart, title: str = "", linked: str = "") -> "Figure":
        """The figure of one chart."""
        return cls(upper_first(title or chart.title), {"": chart}, linked=linked)

    @property
    def first(self) -> Chart:
        """The chart that is shown first."""
        return next(iter(self.charts.values()))


@dataclass(frozen=True)
class Section:
    """A section, which the contents name unless it has no title. A list among its elements is of sentences to quote,
    of which the first stands out; a dict is of words and their meanings, folded."""

    anchor: str
    title: str
    elements: Sequence[Any]


@dataclass(frozen=True)
class Page:
    """A page: what it is about, what the reader should know first, and its sections."""

    title: str
    intro: str
    sections: Sequence[Section]
    banner: str = ""
    quick: bool = False
    """Whether these are the results of a tiny version; every figure and table then says so."""

    @property
    def figures(self) -> Iterator[Figure]:
        """All figures, in order."""
        return (each for section in self.sections for each in section.elements if isinstance(each, Figure))

    def write(self, path: Path) -> None:
        """Writes the page."""
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs

        scripts = [get_plotlyjs(), _resource("page.js")]
        figures = [{"charts": each.charts, "linked": each.linked, "filters": each.filters} for each in self.figures]
        text = _template().render(
            page=self,
            number=count().__next__,
            data={"figures": to_json(figures), "quick": self.quick},
            policy=Markup(" ".join(map(_source, scripts))),
            style=Markup(_resource("page.css")),
            scripts=[Markup(script) for script in scripts],
        )
        with atomic_write(Path(path)) as scratch:
            scratch.write_text(text, encoding="utf-8", newline="\n")


def short(number: float) -> str:
    """A number with three digits, or without a fraction."""
    if math.isnan(number):
        return "not timed"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows, by column, with every digit as CSV."""
    with atomic_write(path) as scratch, scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


def conclusion(sentences: Sequence[str], *elements: Any) -> Section:
    """The first section: what was found, and what shows it."""
    return Section("conclusion", "Conclusion", [sentences, *elements])


def rerun(command: str, facts: Mapping[str, str], caption: str, *, same: bool = True, before: str = "") -> Section:
    """The last section: the command that writes the page, and what a reader needs to judge its numbers."""
    elements: list[Any] = [Text(before)] if before else []
    elements.append(Command(command))
    if facts:
        elements.append(Table(caption, (), [[*fact] for fact in facts.items()], "facts"))
    if same:
        elements.append(Text(WORDS["same"], "Reproducibility", "same", muted=False))
    return Section("rerun", "Run it again", elements)


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("crossprop.experiments", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `tojson` escapes `<`, so no text in the data can end the script element.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"unbroken": unbroken, "upper_first": upper_first}
    return environment.get_template("page.html.jinja")


def _resource(name: str) -> str:
    return (files("crossprop.experiments.page") / name).read_text(encoding="utf-8")


def _source(script: str) -> str:
    """The entry in a content security policy that allows exactly this inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
