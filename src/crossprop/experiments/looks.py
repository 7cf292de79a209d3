"""Colours and strokes of learners: crossprop in blues, backprop in reds, controls grey and behind the others."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from itertools import cycle
from typing import NamedTuple

from crossprop.records import LearnerInfo

CONTROLS = ("frozen",)
"""Credit rules that others are compared with."""
TABLES = tomllib.loads((files("crossprop.experiments") / "looks.toml").read_text(encoding="utf-8"))
DARK, STYLES = TABLES["dark"], TABLES["dashes"]
OTHERS, SHADES, LABELS = TABLES["others"], TABLES["shades"], TABLES["labels"]


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


LOOKS = {name: look(*its) for name, its in TABLES["learners"].items()}


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
