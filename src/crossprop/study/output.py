"""What a study leaves: a table, a figure and a page."""

import csv
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from crossprop._files import atomic_write
from crossprop.figures import LOOKS
from crossprop.plot.numbers import Sweep
from crossprop.plot.page import best, pictures
from crossprop.report.page import section, write_page
from crossprop.report.sections import interval, table
from crossprop.study.answers import (
    BACKPROP,
    COLUMNS,
    FROZEN,
    IN_WORDS,
    PHASES,
    Answer,
    Row,
    markdown,
    p_text,
    percent,
    verdict,
)
from crossprop.sweeps.evaluate import Comparison

PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
INTRO = (
    "Crossprop credits the incoming weights U through their past effect on the outgoing ones; backprop through the "
    "example at hand; the control, <em>frozen</em>, leaves U alone. Each credit rule was tuned with each optimizer on "
    "one set of seeds, and its best setting run again on fresh seeds, the same for all. Differences are paired over "
    "seeds, with 95% intervals of Student's t; p-values have Holm's correction for all learners that are compared with "
    "the same reference in the same phase."
)


def write_tables(rows: Sequence[Row], measure: str, folder: Path) -> None:
    with atomic_write(folder / "table.csv") as path, path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([column(row) for column in COLUMNS.values()] for row in rows)
    with atomic_write(folder / "table.md") as path:
        path.write_text(markdown(list(rows), measure))


EDGE = {"ha": "right", "va": "center", "fontsize": 8.5}


def draw_differences(rows: Sequence[Row], measure: str, path: Path, note: str) -> None:
    """The relative difference of every rule to backprop with the same optimizer, a panel for each phase. Where frozen
    features are so far off that they would press all else together, their mean is written at the edge."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if BACKPROP in row.versus]
    figure = Figure(figsize=(12, 0.27 * len(shown) + 1.9), layout="constrained")
    panels = figure.subplots(1, len(PHASES), sharey=True)
    for axes, phase in zip(panels, PHASES, strict=True):
        spans = [percent(row.versus[BACKPROP][phase])[:3] for row in shown]
        near = [span for span, row in zip(spans, shown, strict=True) if row.rule != FROZEN] or spans
        least, most = min(0, *(low for _, low, _ in near)), max(0, *(high for *_, high in near))
        axes.set_xlim(least - 0.08 * (most - least), most + 0.25 * (most - least))
        for at, (row, (mean, low, high)) in enumerate(zip(shown, spans, strict=True)):
            colour = LOOKS.get(row.rule, ("#555555", "-"))[0]
            if mean > axes.get_xlim()[1]:
                axes.text(0.99, at, f"{mean:+.0f}% →", transform=axes.get_yaxis_transform(), color=colour, **EDGE)
                continue
            axes.plot([low, high], [at, at], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot(mean, at, "o", color=colour, markersize=5)
        for at in range(1, len(shown)):
            if shown[at].optimizer != shown[at - 1].optimizer:
                axes.axhline(at - 0.5, color="#dddddd", linewidth=0.8)
        axes.axvline(0, color="#67000d", linewidth=1)
        axes.set_title(IN_WORDS[phase], fontsize=10)
        axes.xaxis.set_major_formatter("{x:+g}%")
        axes.locator_params(axis="x", nbins=5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(shown)), [row.learner for row in shown], fontsize=8.5)
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    seeds = shown[0].versus[BACKPROP]["all"].difference.pairs
    figure.suptitle(
        f"{measure} against tuned backprop with the same optimizer (line at 0): mean and 95% interval over {seeds} "
        f"fresh seeds; left is better{note}",
        fontsize=10,
        color="#555555",
    )
    figure.savefig(path, dpi=150)


def write_study(
    path: Path,
    title: str,
    sweep: Sweep,
    rows: Sequence[Row],
    found: Sequence[Answer],
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    drawn = pictures(sweep)
    tables = [_means(rows, sweep.measure), *(_versus(rows, reference) for reference in (BACKPROP, FROZEN))]
    sections = [
        ("answers", "The answers", _answers(found)),
        ("comparisons", "Every rule with every optimizer", "\n".join(tables)),
        ("best", "The best settings", best(sweep)),
        *drawn.sections,
        ("again", "Make it again", _again(command, facts)),
    ]
    banner = "quick version: tiny, it shows that all works and nothing else"
    write_page(
        path,
        title=title,
        contents=[(name, entry) for name, entry, _ in sections],
        banner=f'<p class="banner" role="note"><strong>{banner}</strong></p>' if quick else "",
        intro=INTRO,
        body=[section(*each) for each in sections],
        data=drawn.data,
    )


def _answers(found: Sequence[Answer]) -> str:
    lines = "\n".join(
        f'<li><span class="id">{at}</span><div><p class="claim">{escape(each.question)}</p>'
        f'<p class="said">{escape(each.why)}</p></div>'
        f'<span class="pill {PILLS[each.verdict]}">{each.verdict}</span></li>'
        for at, each in enumerate(found, start=1)
    )
    return f'<ul class="summary">\n{lines}\n</ul>'


def _means(rows: Sequence[Row], measure: str) -> str:
    lines = []
    for row in rows:
        estimates = [*(row.estimates[phase] for phase in PHASES), row.moved]
        cells = "".join(f"<td>{interval(*map(float, estimate))}</td>" for estimate in estimates)
        lines.append(f'<tr><th scope="row">{escape(row.learner)}</th>{cells}</tr>')
    caption = f"{_upper(measure)} on fresh seeds, mean [95% bootstrap interval]"
    return table("numeric", caption, _head("U moved, at the end"), "\n".join(lines), False)


def _versus(rows: Sequence[Row], reference: str) -> str:
    lines = []
    for row in rows:
        if reference in row.versus:
            cells = "".join(f"<td>{_compared(row.versus[reference][phase])}</td>" for phase in PHASES)
            lines.append(f'<tr><th scope="row">{escape(row.learner)}</th>{cells}</tr>')
    caption = f"Against tuned {reference} with the same optimizer, in percent of its error; lower is better"
    return table("numeric", caption, _head(), "\n".join(lines), False)


def _head(*further: str) -> str:
    titles = "".join(f"<th>{escape(_upper(title))}</th>" for title in (*IN_WORDS.values(), *further))
    return f"<tr><th>Learner</th>{titles}</tr>"


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _compared(comparison: Comparison) -> str:
    mean, low, high, won, pairs = percent(comparison)
    if not np.isfinite(mean):
        return "diverged"
    kind = {"yes": "yes", "no": "no", "open": ""}[verdict(comparison)]
    text = f"{mean:+.1f}% [{low:+.1f}, {high:+.1f}]".replace("-", "\N{MINUS SIGN}")
    return (
        f'<span class="pill {kind}">{text}</span><br>'
        f'<span class="muted">{won} of {pairs} won, {p_text(comparison.p)}</span>'
    )


def _again(command: str, facts: Mapping[str, str]) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in facts.items()
    )
    return f'<div class="scroll" tabindex="0"><pre><code>{escape(command)}</code></pre></div>\n' + table(
        "facts", "What was run, and on what", "", rows, False
    )
