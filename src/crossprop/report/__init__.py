"""`report.html`: a reproduction on one page, which needs nothing but a browser."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from crossprop._files import whole
from crossprop.paper.claims import Verdict
from crossprop.paper.plans import Setting
from crossprop.report import charts, sections
from crossprop.report.contents import Part

if TYPE_CHECKING:
    import xarray

__all__ = ["Part", "Setting", "Verdict", "write_report"]


def write_report(
    path: Path,
    *,
    parts: Sequence[Part],
    features: "xarray.Dataset | None",
    verdicts: Sequence[Verdict],
    command: str,
    quick: bool,
    facts: Mapping[str, str],
) -> None:
    """Writes the report of a reproduction to `path`, one self-contained file.

    **Arguments:**

    - `parts`: the experiments with curves, in the page's order.
    - `features`: what `representation`s look like: `tsne`, `neighbours` and `silhouette` by `example`, with `label`.
    - `verdicts`: the claims, decided, in the summary's order.
    - `command`: what makes the report again.
    - `quick`: whether this is the small version; every figure and table then says so.
    - `facts`: versions, machine, engine, data: whatever else a reader needs to judge the numbers.
    """
    from plotly.offline import get_plotlyjs

    figures = {part.name: charts.curves(part.records) for part in parts}
    clouds = charts.clouds(features) if features is not None else []
    library, script = get_plotlyjs(), _resource("page.js")
    data = {"parts": figures, "clouds": clouds, "quick": quick}
    page = Template(_resource("page.html")).substitute(
        policy=" ".join(_allowance(text) for text in (library, script)),
        style=_resource("page.css"),
        contents=sections.contents(parts, features, verdicts),
        banner=sections.banner() if quick else "",
        intro=sections.intro(),
        summary=sections.summary(verdicts),
        body="\n".join(sections.experiments(parts, figures, features, clouds, verdicts, quick)),
        again=sections.again(command, facts, quick),
        data=_embedded(data),
        library=library,
        script=script,
    )
    with whole(Path(path)) as scratch:
        scratch.write_text(page, encoding="utf-8", newline="\n")


def _resource(name: str) -> str:
    return (files(__package__ or "crossprop.report") / name).read_text(encoding="utf-8")


def _allowance(script: str) -> str:
    """The word in a content security policy by which this script runs, and no other on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _embedded(data: Any) -> str:
    """JSON that no text in it can end: inside a script element only `<` could."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
