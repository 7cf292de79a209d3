"""`report.html`: a reproduction on one page, which needs nothing but a browser."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crossprop.paper.claims import Verdict
from crossprop.paper.plans import Setting
from crossprop.report import charts, sections
from crossprop.report.contents import Part
from crossprop.report.page import section, write_page

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
    figures = {part.name: charts.curves(part.records) for part in parts}
    clouds = charts.clouds(features) if features is not None else []
    write_page(
        path,
        title="Crossprop, reproduced",
        contents=sections.contents(parts, features, verdicts),
        banner=sections.banner() if quick else "",
        intro=sections.intro(),
        body=[
            section("summary", "What holds, and what does not", sections.summary(verdicts)),
            *sections.experiments(parts, figures, features, clouds, verdicts, quick),
            section("again", "Make it again", sections.again(command, facts, quick)),
        ],
        data={"parts": figures, "clouds": clouds, "quick": quick},
    )
