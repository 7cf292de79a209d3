"""`crossprop card`."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg, subcommand

from crossprop._support import checks as check
from crossprop._support.formats import plural
from crossprop.cli.console import say
from crossprop.cli.flags import Imports
from crossprop.experiments.cards import NEAR, OTHER, SAME, check_card, make_card, read_card
from crossprop.registry import import_modules

STATUS = {SAME: 0, OTHER: 1, NEAR: 3}
"""Exit codes of `crossprop card check`."""


@dataclass
class Make:
    """Write card.json into a folder of results."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """A folder of run --out, reproduce, a sweep with --evaluate, a study or the arena."""
    imports: Imports = ()


@dataclass
class Check:
    """Run seeds of every learner of a card again, and compare their records."""

    file: Annotated[Positional[Path], arg(metavar="FILE.json")]
    """A run card. The command exits with 0 for the same bits, 3 for the same within rounding, 1 for other numbers, and
    2 for a bad card."""
    imports: Imports = ()
    seeds: int = 2
    """Number of seeds of every learner to run again."""


@dataclass
class Card:
    """Make a run card, with which anybody can run results again, or check one.

    Examples:
      crossprop card make comparison
      crossprop card check comparison/card.json --seeds 2
    """

    action: Annotated[Make, subcommand("make")] | Annotated[Check, subcommand("check")]


def handle_card(flags: Card) -> None:
    action = flags.action
    import_module("crossprop.library.controls")  # registers what only the studies of the library have
    import_modules(list(action.imports))
    if isinstance(action, Make):
        path = make_card(action.folder, say)
        say(f"Wrote {path}: {plural(len(read_card(path)), 'learner')}. crossprop card check {path}")
        return
    check.integer("seeds", action.seeds, low=1)
    verdict = check_card(action.file, action.seeds, say)
    say(f"{verdict[0].upper()}{verdict[1:]}.")
    if STATUS[verdict]:
        sys.exit(STATUS[verdict])
