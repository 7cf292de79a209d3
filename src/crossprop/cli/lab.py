"""`crossprop lab`."""

import json
import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import quote

from tyro.conf import Positional, arg

from crossprop._support import checks as check
from crossprop._support import interrupts
from crossprop._support.extras import require
from crossprop.cli.console import say, wrap
from crossprop.cli.flags import Imports, Unset
from crossprop.registry import import_modules
from crossprop.streams import STREAMS, is_table, read_table

SETTING = {
    "learners": {name: {} for name in ("crossprop", "backprop", "frozen")},
    "network": {"hidden": 100},
    "seeds": 4,
}
"""The setting of a page for a file."""


@dataclass
class Lab:
    """Open a page on this machine where learners run live: move a hyperparameter and watch the curves follow.

    The page is served to this machine only, and nothing leaves it. Ctrl-C ends it.

    Examples:
      crossprop lab --import my_learners
      crossprop lab data.csv --target price
    """

    link: Annotated[Positional[Unset[str]], arg(metavar="[LINK or FILE]")] = None
    """A link that was copied from a lab: this one opens with its setting. Or a CSV or Parquet file."""
    target: Unset[str] = None
    """Column of the file to predict."""
    missing: Unset[str] = None
    """mean fills in missing values of the file by the mean of their column so far; default: they are an error."""
    imports: Imports = ()
    port: int = 0
    """Port to listen on; 0 is any free one."""
    open: bool = True
    """Open the page in the browser; otherwise only its address is printed."""


def open_lab(flags: Lab) -> None:
    require("crossprop lab", "starlette", "uvicorn", extra="lab")
    check.integer("port", flags.port, low=0, high=65535)
    _, has_setting, setting = (flags.link or "").partition("#")
    if is_table(flags.link):
        read = partial(read_table, path=flags.link, target=flags.target, missing=flags.missing)
        STREAMS[flags.link] = read
        wrap(read().about, aside=True)
        has_setting, setting = "#", quote(json.dumps({"stream": {"name": flags.link}} | SETTING))
    if flags.link is not None and not setting:
        raise ValueError(
            f"the link must be one copied from a lab, with a setting behind its #, or a file, got {flags.link!r}"
        )
    import_modules(flags.imports)
    from crossprop.lab.server import Lab as Running

    running = Running(flags.port, flags.imports)
    url = running.url + has_setting + setting
    say(f"The lab is at {url}")
    say("Ctrl-C ends it.")
    with _leading_to(url) as page:
        if flags.open:
            webbrowser.open(page)
        try:
            running.serve()
        except KeyboardInterrupt:
            interrupts.handled()
            say("The lab is closed.")
    if not running.has_ended:
        sys.stdout.flush()
        os._exit(0)  # a normal exit would wait for the compilation


@contextmanager
def _leading_to(url: str) -> Iterator[str]:
    """The address of a file that redirects to the lab and that only this user can read. The browser is given that one,
    since its command line is public and the lab's own address has the token."""
    with TemporaryDirectory(prefix="crossprop-lab-") as folder:
        page = Path(folder) / "lab.html"
        page.touch(mode=0o600)
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(url)}">'
        )
        yield page.as_uri()
