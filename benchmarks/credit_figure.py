"""Draws docs/figures/credit.png: the path of one outgoing weight with what each rule credits an example with, and the
error of each rule in the deep study.

    python benchmarks/credit_figure.py study-deep/table.csv docs/figures/credit.png
"""

import csv
import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import crossprop as cp
from crossprop._support.formats import minus_signs

EXAMPLES, MOMENT, DELAY, AHEAD, HORIZON = 600, 690, 150, 2.0, 100.0
COLOURS = {
    "backprop": "#67000d",
    "foresight": "#238b45",
    "crossprop": "#08306b",
    "crossprop-projected": "#08306b",
    "crossprop-approx": "#4292c6",
    "hindsight": "#6a51a3",
    "backprop-replay": "#d94801",
}
RULES = {
    "crossprop-projected": "crossprop, 4 projections",
    "crossprop-approx": "crossprop-approx, all layers",
    "foresight-top": "foresight, output layer",
    "foresight": "foresight, all layers",
    "backprop-replay": "replay (sees examples twice)",
    "hindsight": "hindsight (sees examples twice)",
}


def path():
    """The outgoing weights at every step of one run of foresight at its best setting, and its sums of last steps."""
    stream = cp.LabelShift(cp.datasets.mnist5k(), tasks="AB", examples=EXAMPLES, shuffle=True)
    net = cp.Network.paper(784, (64, 64), 10, loss="softmax", incoming_scale="kaiming", outgoing_scale=0.0)
    learner = cp.Foresight(net, 2**-4, ahead=AHEAD, horizon=HORIZON, layers="top", incoming_step_size=2**-7)
    stream_key, learner_key = cp.keys(0)
    sample = stream.sample(stream_key)

    def example(state, xy):
        after, _ = learner.update(state, *xy)
        return after, (state.outgoing.T, state.layers[-1].memory.T)

    _, kept = jax.lax.scan(example, learner.init(learner_key), (sample.x, sample.y))
    return map(np.asarray, kept)


def draw_path(axes):
    weights, sums = path()
    moved = weights[MOMENT + DELAY] - weights[MOMENT]
    unit, output = np.unravel_index(np.abs(moved).argmax(), moved.shape)
    w, v = weights[:, unit, output], sums[MOMENT, unit, output]
    steps = np.arange(EXAMPLES - 60, MOMENT + DELAY + 60)
    axes.plot(steps, w[steps], color="#888888", linewidth=1.2)
    now, guess, later = w[MOMENT], w[MOMENT] + AHEAD * v, w[MOMENT + DELAY]
    axes.axvline(MOMENT, color="#cccccc", linewidth=0.8)
    axes.axvline(EXAMPLES, color="#999999", linewidth=0.7, linestyle=":")
    axes.plot([MOMENT, MOMENT + DELAY], [now, now], ":", color=COLOURS["backprop"], linewidth=0.9)
    for x, end, rule in ((MOMENT, guess, "foresight"), (MOMENT + DELAY, later, "crossprop")):
        arrow = {"arrowstyle": "->", "color": COLOURS[rule], "lw": 1.6}
        axes.annotate("", (x, end), (x, now), arrowprops=arrow)
    axes.plot(MOMENT, now, "o", color=COLOURS["backprop"], markersize=8)
    axes.plot(MOMENT, guess, "o", color=COLOURS["foresight"], markersize=8)
    axes.plot(MOMENT + DELAY, later, "o", color=COLOURS["hindsight"], markersize=8)
    texts = [
        (MOMENT, now, (8, 8), "left", "backprop", "backprop: the weight as it is"),
        (MOMENT, guess, (-8, 14), "right", "foresight", "foresight: where\nit is going, by its\nlast steps"),
        (MOMENT + DELAY, (now + later) / 2, (8, 0), "left", "crossprop", "crossprop: how far\nit moves from here"),
        (MOMENT + DELAY, later, (8, -12), "left", "hindsight", "hindsight: the weight\nsome time later"),
    ]
    for x, y, offset, side, rule, text in texts:
        style = {"color": COLOURS[rule], "fontsize": 9, "ha": side, "va": "center"}
        axes.annotate(text, (x, y), offset, textcoords="offset points", **style)
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.05 * (high - low), high)
    axes.set_xlim(EXAMPLES - 60, MOMENT + DELAY + 140)
    axes.set_xticks(range(EXAMPLES, MOMENT + DELAY + 60, 100))
    axes.set_title("what an example is credited with: one outgoing weight", fontsize=10)
    axes.set_xlabel(f"examples (the example in question is {MOMENT}; the task changed at {EXAMPLES})")
    axes.set_ylabel("outgoing weight")


def draw_errors(axes, table):
    lines = csv.DictReader(Path(table).read_text().splitlines())
    rows = {row["learner"]: row for row in lines if row["column"] == "main"}
    for at, (rule, _) in enumerate(RULES.items()):
        for optimizer, shift, style in (("sgd", -0.17, "o"), ("adam", 0.17, "s")):
            row, whole = rows[f"{rule}-{optimizer}"], float(rows[f"backprop-{optimizer}"]["all mean"]) / 100
            mean, low, high = (float(row[f"all minus backprop {part}"]) / whole for part in ("mean", "low", "high"))
            colour = COLOURS[rule.removesuffix("-top")]
            axes.plot([low, high], [at + shift] * 2, color=colour, linewidth=2.2, solid_capstyle="butt")
            filled = colour if optimizer == "sgd" else "white"
            axes.plot(mean, at + shift, style, color=colour, markerfacecolor=filled, markersize=6)
    axes.axvline(0, color=COLOURS["backprop"], linewidth=1.2)
    axes.text(-0.3, -0.65, "backprop", color=COLOURS["backprop"], fontsize=9, ha="right")
    axes.set_yticks(range(len(RULES)), RULES.values(), fontsize=9)
    axes.set_ylim(len(RULES) - 0.5, -0.9)
    axes.xaxis.set_major_formatter(lambda percent, _: minus_signs(f"{percent:+g}%") if percent else "0%")
    axes.set_title(
        "error against tuned backprop, two hidden layers\n(● sgd, □ adam; mean and 95% interval)", fontsize=10
    )


def main(table, out):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(1.15, 1))
    draw_path(left)
    draw_errors(right, table)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
