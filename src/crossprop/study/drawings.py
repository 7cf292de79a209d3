"""The figure of a study: every rule against backprop with the same optimizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossprop._support.formats import minus_signs
from crossprop.figures import LOOKS
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, FROZEN, Row

TEXT = {"ha": "right", "va": "center", "fontsize": 8.5}


def draw_differences(rows: Sequence[Row], measure: str, path: Path, note: str) -> None:
    """Draws the relative difference of every rule to backprop with the same optimizer, one panel per phase."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if BACKPROP in row.versus]
    figure = Figure(figsize=(12, 0.27 * len(shown) + 1.9), layout="constrained")
    phases = [phase for phase in PHASES if phase in shown[0].versus[BACKPROP]]
    panels = figure.subplots(1, len(phases), sharey=True)
    for axes, phase in zip(panels, phases, strict=True):
        _panel(axes, shown, phase)
    panels[0].set_yticks(range(len(shown)), [row.learner for row in shown], fontsize=8.5)
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    seeds = shown[0].versus[BACKPROP]["all"].pairs
    figure.suptitle(
        f"{measure} against tuned backprop with the same optimizer (line at 0): mean and 95% interval over {seeds} "
        f"fresh seeds; left is better{note}",
        fontsize=10,
        color="#555555",
    )
    figure.savefig(path, dpi=150)


def _panel(axes: Any, rows: Sequence[Row], phase: str) -> None:
    """One phase. Frozen features do not set the limits of the axis: where they are far off, all else would be squeezed
    together, so their mean is written at the edge instead."""
    spans = [row.versus[BACKPROP][phase].percent for row in rows]
    near = [span for span, row in zip(spans, rows, strict=True) if row.rule != FROZEN] or spans
    least, most = min(0, *(low for _, low, _ in near)), max(0, *(high for *_, high in near))
    axes.set_xlim(least - 0.08 * (most - least), most + 0.25 * (most - least))
    for at, (row, (mean, low, high)) in enumerate(zip(rows, spans, strict=True)):
        colour = LOOKS.get(row.rule, ("#555555", "-"))[0]
        if mean > axes.get_xlim()[1]:
            axes.text(0.99, at, f"{mean:+.0f}% →", transform=axes.get_yaxis_transform(), color=colour, **TEXT)
            continue
        axes.plot([low, high], [at, at], color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(mean, at, "o", color=colour, markersize=5)
    for at in range(1, len(rows)):
        if rows[at].optimizer != rows[at - 1].optimizer:
            axes.axhline(at - 0.5, color="#dddddd", linewidth=0.8)
    axes.axvline(0, color=LOOKS[BACKPROP][0], linewidth=1)
    axes.set_title(PHASES[phase], fontsize=10)
    axes.xaxis.set_major_formatter(lambda percent, _: minus_signs(f"{percent:+g}%") if percent else "0%")
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right"]].set_visible(False)
