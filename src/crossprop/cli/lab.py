"""`crossprop lab`."""

import webbrowser
from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from crossprop import _checks as check
from crossprop import _interrupts as interrupts
from crossprop._extras import require
from crossprop._flags import Unset
from crossprop.registry import import_modules


@dataclass
class Lab:
    """Open a page on this machine where learners run live: move a hyperparameter and watch the curves follow.

    The page is served to this machine only, and nothing leaves it. Ctrl-C ends it.

    Example: crossprop lab --import my_learners
    """

    link: Annotated[Positional[Unset[str]], arg(metavar="[LINK]")] = None
    """A link that was copied from a lab: this one opens with its setting."""
    imports: Annotated[UseAppendAction[tuple[str, ...]], arg(name="import", metavar="MODULE")] = ()
    """Module to import first, from the current folder or installed, which registers learners or streams of its own."""
    port: int = 0
    """Port to listen on; 0 is any free one."""
    open: bool = True
    """Open the page in the browser; otherwise only its address is printed."""


def open_lab(flags: Lab) -> None:
    require("crossprop lab", "starlette", "uvicorn", extra="lab")
    check.integer("port", flags.port, low=0, high=65535)
    _, has_setting, setting = (flags.link or "").partition("#")
    if flags.link is not None and not setting:
        raise ValueError(f"the link must be one copied from a lab, with a setting behind its #, got {flags.link!r}")
    import_modules(flags.imports)
    from crossprop.lab.server import Lab as Running

    running = Running(flags.port, flags.imports)
    url = running.url + has_setting + setting
    say = Console().print
    say(f"The lab is at {url}", soft_wrap=True, markup=False, highlight=False)
    say("Ctrl-C ends it.")
    if flags.open:
        webbrowser.open(url)
    try:
        running.serve()
    except KeyboardInterrupt:
        interrupts.handled()
        say("The lab is closed.")
