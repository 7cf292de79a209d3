"""Colours and strokes of learners: crossprop in blues, backprop in reds, controls grey and behind the others."""

from collections.abc import Mapping
from itertools import cycle
from typing import NamedTuple

from crossprop.records import LearnerInfo

CONTROLS = ("frozen",)
"""Credit rules that others are compared with."""
# On a dark page, the same hues in brighter shades. Crossprop, backprop and the control stay apart in thin lines, in
# grey print, and when simulated for colour-blind eyes.
DARK = {
    "#1764d0": "#4b9bff",
    "#63a9e0": "#a9d6ff",
    "#35a8b8": "#5fd0dd",
    "#02695f": "#2fae95",
    "#a50f15": "#ff5252",
    "#e0592a": "#ff8f6b",
    "#f58a5b": "#ffcfae",
    "#2f9b4c": "#5fcf86",
    "#7a52b8": "#b99cf0",
    "#b8860b": "#e0b040",
    "#8f8f8f": "#7d838a",
    "#40108a": "#a184ff",
    "#2a76d2": "#58a6ff",
    "#169a8c": "#2fd3c0",
    "#7fae14": "#a8dc4a",
    "#d9a000": "#ffd24d",
    "#e8601c": "#ff9a5c",
    "#a80f35": "#ff5f7e",
    "#737373": "#9a9a9a",
}


class Look(NamedTuple):
    """The colours of a line on a light and on a dark page, its dashes, and whether it is a control: wide, and behind
    the others, so that a learner that does no better stays visible on it."""

    light: str
    dark: str
    dash: str = "solid"
    control: bool = False


def look(colour: str, dash: str = "solid") -> Look:
    """The look of a line with this colour on a light page."""
    return Look(colour, DARK.get(colour, colour), dash)


LOOKS = {
    "crossprop": look("#1764d0"),
    "crossprop-0.5": look("#1764d0", "dash"),
    "crossprop-approx": look("#63a9e0"),
    "crossprop-approx-0.5": look("#63a9e0", "dash"),
    "crossprop-projected": look("#35a8b8"),
    "crossprop-sum": look("#02695f", "dot"),
    "backprop": look("#a50f15"),
    "momentum": look("#e0592a"),
    "rmsprop": look("#e0592a", "dash"),
    "adam": look("#f58a5b"),
    "foresight": look("#2f9b4c"),
    "foresight-top": look("#2f9b4c", "dash"),
    "correlation": look("#74c476", "dot"),
    "hindsight": look("#7a52b8"),
    "backprop-replay": look("#b8860b"),
    "frozen": look("#8f8f8f"),
}
STYLES = {"sgd": "solid", "momentum": "dash", "rmsprop": "dot", "adam": "dashdot"}
"""Dashes by optimizer."""
OTHERS = ("#2f9b4c", "#7a52b8", "#b8860b", "#74c476", "#9e9ac8", "#fdae6b")
"""Colours for learners without one of their own, if no other learner has it."""
SHADES = ("#40108a", "#2a76d2", "#169a8c", "#7fae14", "#d9a000", "#e8601c", "#a80f35")
"""The colours of one learner's lines, in the order of their values."""
LABELS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#8c96a0")
"""The colours of classes."""


def looks(learners: Mapping[str, LearnerInfo]) -> dict[str, Look]:
    """The look of each learner: its own in `LOOKS`, or its rule's colour with its optimizer's dashes.

    A learner that has neither, or would look like one before it, gets the next colour of `OTHERS`.
    """
    others = [look(colour, dash) for dash in STYLES.values() for colour in OTHERS]
    again = cycle(others)
    chosen = {name: LOOKS[name] for name in learners if name in LOOKS}
    for name, info in learners.items():
        if name in chosen:
            continue
        known = info.rule in LOOKS and info.optimizer in STYLES
        wanted = [LOOKS[info.rule]._replace(dash=STYLES[info.optimizer])] if known else []
        free = (each for each in wanted + others if each not in chosen.values())
        chosen[name] = next(free, None) or next(again)
    return {name: chosen[name]._replace(control=info.rule in CONTROLS) for name, info in learners.items()}
