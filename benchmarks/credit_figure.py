"""Draws docs/figures/credit.png: the path of one outgoing weight with what each rule credits an example with, and the
errors of the rules with constant steps and with a step for U that fades, from the run card of `crossprop study why`.

    python benchmarks/credit_figure.py docs/tables/why.json docs/figures/credit.png
"""

import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import crossprop as cp
from crossprop._support.formats import minus_signs
from crossprop.experiments.cards import read_card

EXAMPLES, MOMENT, DELAY, AHEAD, HORIZON = 600, 690, 150, 2.0, 100.0
COLOURS = {
    "backprop": "#67000d",
    "foresight": "#238b45",
    "crossprop": "#08306b",
    "hindsight": "#6a51a3",
    "replay": "#d94801",
}
STAGES = ("sweep-zero", "sweep-memory")
"""Of the same stream, network and seeds."""


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


def draw_errors(axes, card):
    ran = {each.learner: each for each in read_card(Path(card)) if each.stage in STAGES}
    errors = {name: np.array([seed.mean for _, seed in sorted(each.seeds.items())]) for name, each in ran.items()}
    plain = errors["backprop"]
    for at, rule in enumerate(COLOURS):
        for name, is_fading in ((rule, False), (f"{rule}-fading", True)):
            if name == "backprop" or name not in errors:
                continue
            percent = 100 * (errors[name] - plain) / plain.mean()
            half = stats.t.ppf(0.975, len(percent) - 1) * stats.sem(percent)
            y = at + (0.17 if is_fading else -0.17)
            axes.plot([percent.mean() - half, percent.mean() + half], [y] * 2, color=COLOURS[rule], linewidth=2.2)
            filled = "white" if is_fading else COLOURS[rule]
            marker = "s" if is_fading else "o"
            axes.plot(percent.mean(), y, marker, color=COLOURS[rule], markerfacecolor=filled, markersize=6)
    axes.axvline(0, color=COLOURS["backprop"], linewidth=1.2)
    axes.text(-0.4, -0.65, "backprop, constant steps", color=COLOURS["backprop"], fontsize=9, ha="right")
    axes.set_yticks(range(len(COLOURS)), COLOURS, fontsize=9)
    axes.set_ylim(len(COLOURS) - 0.5, -0.9)
    axes.xaxis.set_major_formatter(lambda percent, _: minus_signs(f"{percent:+g}%") if percent else "0%")
    axes.set_title(
        "error on label-shifted digits, three tasks\n(● constant steps, □ step for U fading; 95% intervals)",
        fontsize=10,
    )


def main(card, out):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(1.15, 1))
    draw_path(left)
    draw_errors(right, card)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
