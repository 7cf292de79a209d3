"""Draws docs/figures/geoff-three.png, the figure of the README: `python tools/readme_figure.py`.

Runs crossprop, backprop and the control with the paper's settings on GEOFF, 30 seeds each.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

import crossprop as cp
from crossprop.statistics import mean_interval

OUT = Path(__file__).parent.parent / "docs" / "figures" / "geoff-three.png"
LOOKS: dict[str, Any] = {
    "frozen": {"color": "#b0b0b0", "linewidth": 5, "solid_capstyle": "butt"},
    "crossprop": {"color": "#08519c", "linewidth": 1.6},
    "backprop": {"color": "#b2182b", "linewidth": 1.6},
}
TEXTS = {
    "loss": {"backprop": (7000, 43.5), "crossprop": (5300, 98), "over frozen": (8300, 98)},
    "incoming_drift": {"backprop": (6000, 10.1), "crossprop": (6000, 2.9), "frozen never moves": (6000, 0.4)},
}
TITLES = {"loss": "squared error", "incoming_drift": "how far the hidden layer moved, |U − U₀|"}
CONCLUSION = "At the paper's settings crossprop hardly moves its features, and does no better than frozen ones."
CAPTION = """\
Mean of 30 seeds with 95% bands; each example is seen once. At a dotted line the task changes without notice: half of
the weights that make the targets are redrawn. All three learn the output weights W; frozen never moves the hidden
layer's weights U. All have the paper's step size and initial weights; see the studies for tuned ones."""
SMOOTHED = 10
"""Windows of 50 examples per point of the curve of the error."""


def main() -> None:
    net = cp.Network.paper(inputs=20, hidden=500)
    kinds = {"crossprop": cp.Crossprop, "backprop": cp.Backprop, "frozen": cp.Frozen}
    records = cp.run({name: kind(net, 5e-4) for name, kind in kinds.items()}, cp.Geoff(), seeds=30)
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    for axes, (variable, title) in zip(figure.subplots(1, 2), TITLES.items(), strict=True):
        values = records[variable]
        if variable == "loss":
            values = values.coarsen(step=SMOOTHED).mean()
            axes.set_yscale("log")
            axes.set_yticks([50, 75, 100, 150], ["50", "75", "100", "150"])
            axes.yaxis.set_minor_locator(NullLocator())
        for name, look in LOOKS.items():
            estimate = mean_interval(values.sel(learner=name).transpose("seed", "step").values)
            axes.plot(values.step, estimate.mean, **look)
            axes.fill_between(values.step, estimate.low, estimate.high, color=look["color"], alpha=0.2, linewidth=0)
        for text, place in TEXTS[variable].items():
            colour = "#707070" if "frozen" in text else LOOKS[text]["color"]
            axes.text(*place, text, color=colour, fontsize=10.5, fontweight="bold")
        for start, task in zip((0, 5000, 10000), "ABC", strict=True):
            axes.axvline(start, color="#888888", linewidth=0.8, linestyle=":")
            axes.annotate(f" task {task}", (start, 1.01), xycoords=("data", "axes fraction"), color="#555555")
        axes.set_title(title, fontsize=11, pad=18)
        axes.set_xlabel("examples seen")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlim(0, 15_000)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(CONCLUSION, fontsize=12, fontweight="bold", x=0.012, ha="left")
    figure.supxlabel(CAPTION, fontsize=9.5, color="#444444", x=0.012, ha="left")
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
