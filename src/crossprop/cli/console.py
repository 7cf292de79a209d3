"""Output of commands besides tables."""

import shlex
import sys
import textwrap

from rich import box
from rich.console import Console
from rich.table import Table

from crossprop._support.formats import unbroken


def say(text: str) -> None:
    """Prints a line as it is."""
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def new_table(*columns: str) -> Table:
    """A table without a frame, of these columns at its left."""
    table = Table(*columns, box=box.SIMPLE_HEAD, show_edge=False)
    table.columns[0].no_wrap = True
    return table


def wrap(text: str, aside: bool = False) -> None:
    """Prints sentences, wrapped between words, but not inside an interval or a p-value; `aside` on standard error."""
    console, space = Console(stderr=aside), "\N{NO-BREAK SPACE}"
    for line in text.splitlines():
        filled = textwrap.fill(unbroken(line), console.width, break_on_hyphens=False)
        console.print(filled.replace(space, " "), soft_wrap=True, markup=False, highlight=False)


def command_line() -> str:
    """The command line that was typed."""
    return shlex.join(["crossprop", *sys.argv[1:]])
