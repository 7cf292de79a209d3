"""What commands print besides tables."""

import shlex
import sys
import textwrap

from rich.console import Console

from crossprop._support.formats import unbroken


def say(text: str) -> None:
    """Prints a line as it is."""
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def wrap(text: str) -> None:
    """Prints sentences, wrapped between words, but not inside an interval or a p-value."""
    width, space = Console().width, "\N{NO-BREAK SPACE}"
    for line in text.splitlines():
        say(textwrap.fill(unbroken(line), width, break_on_hyphens=False).replace(space, " "))


def command_line() -> str:
    """The command line that was typed."""
    return shlex.join(["crossprop", *sys.argv[1:]])
