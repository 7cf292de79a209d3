"""Figures of records: curves with bootstrap bands, crossprop blue, backprop red, the control grey."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

Transform = Callable[[np.ndarray], np.ndarray]

LOOKS = {
    "crossprop": ("#08306b", "-"),
    "crossprop-0.5": ("#08306b", "--"),
    "crossprop-approx": ("#4292c6", "-"),
    "crossprop-approx-0.5": ("#4292c6", "--"),
    "crossprop-projected": ("#41b6c4", "-"),
    "crossprop-sum": ("#02818a", ":"),
    "backprop": ("#67000d", "-"),
    "momentum": ("#cb181d", "-"),
    "rmsprop": ("#cb181d", "--"),
    "adam": ("#fb6a4a", "-"),
    "frozen": ("#a8a8a8", "-"),
}
OTHERS = ("#238b45", "#6a51a3", "#d94801", "#74c476", "#9e9ac8", "#fdae6b")

STYLES = {"sgd": "-", "momentum": "--", "rmsprop": ":", "adam": "-."}

TITLES = {
    "squared": "squared error",
    "softmax": "cross-entropy",
    "error": "share misclassified",
    "incoming_drift": "change of incoming weights, |U − U₀|",
    "outgoing_drift": "change of outgoing weights, |W − W₀|",
}


def look(name: str, others: list[str]) -> tuple[str, str]:
    """The colour and line style of a learner; a rule with an optimizer behind it has the rule's colour and the
    optimizer's style, and those without one of their own go round a few."""
    rule, _, optimizer = name.rpartition("-")
    if name not in LOOKS and rule in LOOKS and optimizer in STYLES:
        return LOOKS[rule][0], STYLES[optimizer]
    return LOOKS.get(name) or (OTHERS[others.index(name) % len(OTHERS)], "-")


def curves(records: "xarray.Dataset", path: str | Path, note: str = "") -> None:
    """Draws every curve of `records` over the steps, a panel each, to a file."""
    from matplotlib.figure import Figure

    names = [name for name in ("loss", "error", "incoming_drift", "outgoing_drift") if name in records]
    figure = Figure(figsize=(4.6 * len(names), 4.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        panel(axes, records, name)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    seeds = records.sizes["seed"]
    band = "mean and 95% bootstrap band" if seeds > 1 else "one run"
    figure.suptitle(f"{note}{': ' * bool(note)}{band}, {seeds} seed{'s' * (seeds > 1)}", fontsize=10, color="#555555")
    figure.savefig(path, dpi=150)


def panel(axes: Any, records: "xarray.Dataset", name: str, transform: Transform = np.asarray) -> None:
    """One variable's curves, a band around each where there are seeds enough, task switches marked.

    `transform` is applied to every run before the mean over seeds.
    """
    step = records.step.values
    others = [str(learner) for learner in records.learner.values if str(learner) not in LOOKS]
    estimate = mean_interval(transform(records[name].transpose("seed", "learner", "step").values))
    for index, learner in enumerate(map(str, records.learner.values)):
        colour, style = look(learner, others)
        # The control lies under the others, and wider, so that a learner that does no better is seen on top of it.
        under = {"linewidth": 3, "zorder": 1.5} if learner == "frozen" else {"linewidth": 1.3}
        axes.plot(step, estimate.mean[index], style, color=colour, label=learner, **under)
        axes.fill_between(step, estimate.low[index], estimate.high[index], color=colour, alpha=0.15, linewidth=0)
    switches = np.flatnonzero(np.diff(records.task.values))
    for switch in step[switches]:
        axes.axvline(switch, color="#999999", linewidth=0.7, linestyle=":")
    for start in [0, *(switches + 1)]:
        letter = chr(ord("A") + int(records.task.values[start]))
        axes.annotate(letter, (step[start], 1.01), xycoords=("data", "axes fraction"), color="#777777", fontsize=9)
    if name == "loss" and (estimate.mean > 0).any():
        axes.set_yscale("log")
    axes.set_title(_title(records, name), fontsize=10, pad=16)
    axes.set_xlabel("examples")
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)


def paper_curves(records: "xarray.Dataset", letter: str, folder: Path, *, scripts: bool, note: str) -> list[Path]:
    """Figures 1, 2 and 3 of the paper for one experiment (`letter` a or b), each as PNG and PDF.

    The authors' scripts draw half the squared error and squared drifts, squared per run, then averaged.
    """
    square = np.square if scripts else np.asarray
    halved = (lambda values: values / 2) if scripts and "error" not in records else np.asarray
    losses = [("loss", halved), ("error", np.asarray)] if "error" in records else [("loss", halved)]
    written = []
    for number, panels in enumerate((losses, [("incoming_drift", square)], [("outgoing_drift", square)]), start=1):
        figure = _figure(len(panels))
        for axes, (name, transform) in zip(figure.axes, panels, strict=True):
            panel(axes, records, name, transform)
            if transform is square and scripts:
                axes.set_title(axes.get_title() + "²", fontsize=10, pad=16)
            if transform is halved and halved is not np.asarray:
                axes.set_title("half the " + axes.get_title(), fontsize=10, pad=16)
        _finish(figure, f"{number}{letter}", records.sizes["seed"], note)
        written += _save(figure, folder / f"figure-{number}{letter}")
    return written


def paper_maps(features: "xarray.Dataset", folder: Path, note: str) -> list[Path]:
    """Figure 4: the features of backprop (a) and crossprop-approx (b), and beside them the control and the pixels."""
    written = []
    for letter, names in (("a", ["backprop", "frozen"]), ("b", ["crossprop-approx", "pixels"])):
        figure = _figure(2)
        for axes, name in zip(figure.axes, names, strict=True):
            one = features.sel(representation=name)
            style = {"cmap": "tab10", "vmin": -0.5, "vmax": 9.5, "s": 5, "linewidths": 0}
            axes.scatter(*one.tsne.values.T, c=features.label, **style)
            same, apart = one.neighbours.mean().item(), one.silhouette.mean().item()
            axes.set_title(f"{name}: neighbours alike {same:.2f}, silhouette {apart:.2f}", fontsize=10)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_aspect("equal", "datalim")
        figure.colorbar(figure.axes[0].collections[0], ax=figure.axes, ticks=range(10), label="label", shrink=0.7)
        figure.suptitle(f"figure 4{letter}: t-SNE of the hidden units after task A, one run{note}", fontsize=10)
        written += _save(figure, folder / f"figure-4{letter}")
    return written


def _figure(panels: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * panels, 4.6), layout="constrained")
    figure.subplots(1, panels)
    return figure


def _finish(figure: Any, number: str, seeds: int, note: str) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3 * len(figure.axes), frameon=False, fontsize=8)
    runs = f"{seeds} seeds, 95% bootstrap bands" if seeds > 1 else "one run"
    figure.suptitle(f"figure {number}: {runs}{note}", fontsize=10, color="#555555")


def _save(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _title(records: "xarray.Dataset", name: str) -> str:
    return TITLES["softmax" if "error" in records else "squared"] if name == "loss" else TITLES[name]
