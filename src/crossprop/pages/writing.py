"""Writes tables, and self-contained pages: text, numbers and the library that draws them in one file, without outside
requests."""

import base64
import csv
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from crossprop._support.files import atomic_write
from crossprop._support.formats import duration, interval, unbroken, upper_first


def write_page(path: Path, template: str, *, data: Any, **context: Any) -> None:
    """Writes a page to `path`.

    **Arguments:**

    - `template`: path of the Jinja2 template within this package, such as `"report/report.html.jinja"`. It extends
      `pages/base.html.jinja`.
    - `data`: what `page.js` draws, as JSON.
    - `context`: the template's variables. Every page has a `title` and its `contents`: anchors and titles of sections.
    """
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), _resource("page.js")]
    page = (
        _environment()
        .get_template(template)
        .render(
            context,
            data=data,
            policy=Markup(" ".join(_source(script) for script in scripts)),
            style=Markup(_resource("page.css")),
            scripts=[Markup(script) for script in scripts],
        )
    )
    with atomic_write(Path(path)) as scratch:
        scratch.write_text(page, encoding="utf-8", newline="\n")


def write_table(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table with every digit as CSV."""
    with atomic_write(path) as scratch, scratch.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("crossprop", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `tojson` escapes `<`, so no text in the data can end the script element.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"duration": duration, "unbroken": unbroken, "upper_first": upper_first}
    environment.globals["interval"] = interval
    return environment


def _resource(name: str) -> str:
    return (files("crossprop.pages") / name).read_text(encoding="utf-8")


def _source(script: str) -> str:
    """The entry in a content security policy that allows exactly this inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
