"""Colours and strokes of learners: crossprop in blues, backprop in reds, controls grey and behind the others."""

from collections.abc import Mapping
from itertools import cycle
from typing import NamedTuple

from crossprop.records import LearnerInfo

CONTROLS = ("frozen",)
"""Credit rules that others are compared with."""
# On a dark page, the same hues in brighter shades; crossprop, backprop and the control stay apart when simulated
# for colour-blind eyes.
DARK = {
    "#08306b": "#4b9bff",
    "#4292c6": "#a9d6ff",
    "#41b6c4": "#5fd0dd",
    "#02818a": "#2fae95",
    "#67000d": "#ff5252",
    "#cb181d": "#ff9b7d",
    "#fb6a4a": "#ffd2b8",
    "#8f8f8f": "#7d838a",
    "#2171b5": "#6db1ff",
    "#a50f15": "#ff6b6b",
    "#238b45": "#5fcf86",
    "#6a51a3": "#b39ddb",
    "#d94801": "#ff8a4a",
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
    "crossprop": look("#08306b"),
    "crossprop-0.5": look("#08306b", "dash"),
    "crossprop-approx": look("#4292c6"),
    "crossprop-approx-0.5": look("#4292c6", "dash"),
    "crossprop-projected": look("#41b6c4"),
    "crossprop-sum": look("#02818a", "dot"),
    "backprop": look("#67000d"),
    "momentum": look("#cb181d"),
    "rmsprop": look("#cb181d", "dash"),
    "adam": look("#fb6a4a"),
    "foresight": look("#238b45"),
    "foresight-top": look("#238b45", "dash"),
    "hindsight": look("#6a51a3"),
    "backprop-replay": look("#d94801"),
    "frozen": look("#8f8f8f"),
}
STYLES = {"sgd": "solid", "momentum": "dash", "rmsprop": "dot", "adam": "dashdot"}
"""Dashes by optimizer."""
OTHERS = ("#238b45", "#6a51a3", "#d94801", "#74c476", "#9e9ac8", "#fdae6b")
"""Colours for learners without one of their own, if no other learner has it."""
SHADES = ("#08306b", "#2171b5", "#4ba3c7", "#41ab5d", "#a6a000", "#d94801", "#a50f15")
"""The colours of one learner's lines, in the order of their values."""
LABELS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#8c96a0")
"""The colours of classes."""


def is_control(info: LearnerInfo) -> bool:
    """Whether a learner is a control."""
    return info.rule in CONTROLS


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
    return {name: chosen[name]._replace(control=is_control(info)) for name, info in learners.items()}
