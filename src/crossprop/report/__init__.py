"""`report.html`: a paper rerun, on one self-contained page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crossprop.experiments.questions import Answer
from crossprop.library.plans import Plan
from crossprop.pages.writing import write_page
from crossprop.report.sections import MEASURES, PILLS, Story, sections_of

if TYPE_CHECKING:
    import xarray

QUICK = "quick version: small, not the paper's full settings"


def write_report(
    path: Path,
    *,
    story: Story,
    experiments: "Sequence[tuple[Plan, xarray.Dataset]]",
    features: "xarray.Dataset | None",
    answers: Sequence[Answer],
    command: str,
    quick: bool,
    facts: Mapping[str, str],
    banner: str = "",
) -> None:
    """Writes the report of a reproduction to `path`, one self-contained file.

    **Arguments:**

    - `story`: the title, the introduction, the conclusions, the chart at the top, and the words that need explaining.
    - `experiments`: plans and their records, in the page's order; the attribute `seconds` says how long they took.
    - `features`: `tsne`, `neighbours` and `silhouette` of each `representation` by `example`, with `label`.
    - `answers`: the answers on the claims, in the order of their table.
    - `command`: the command that writes this report.
    - `quick`: whether this is the small version; every figure and table then says so.
    - `banner`: what the reader should know first, if anything; a quick version says that it is one.
    - `facts`: versions, machine, engine, data: whatever else a reader needs to judge the numbers.
    """
    sections = sections_of(story, experiments, features, answers)
    write_page(
        path,
        "report/report.html.jinja",
        data=sections.data | {"quick": quick},
        title=story.title,
        contents=sections.contents,
        banner=QUICK if quick else banner,
        story=story,
        sections=sections,
        measures=list(MEASURES.values()),
        command=command,
        facts=facts,
        pills=PILLS,
        quick=quick,
    )
