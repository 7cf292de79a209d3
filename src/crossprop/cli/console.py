"""What commands print besides tables."""

import shlex
import sys

from rich.console import Console


def say(text: str) -> None:
    """Prints a line as it is."""
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def wrap(text: str) -> None:
    """Prints sentences, wrapped between words."""
    Console().print(text, markup=False, highlight=False)


def command_line() -> str:
    """The command line that was typed."""
    return shlex.join(["crossprop", *sys.argv[1:]])
