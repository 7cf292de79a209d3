"""`crossprop study`, `crossprop reproduce` and `crossprop bench`: what they print."""

import shlex
import sys

from rich import box
from rich.console import Console
from rich.table import Table

from crossprop.bench import Benchmark
from crossprop.reproduce import Reproduction
from crossprop.study import Study


def run_study(study: Study) -> None:
    for question, verdict, why in study.run(_say, _command()):
        Console().print(f"{question} {verdict}. {why}", markup=False, highlight=False)


def run_reproduction(reproduction: Reproduction) -> None:
    verdicts = reproduction.run(_say, _command())
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    for column in ("", "claim", "verdict"):
        table.add_column(column, overflow="fold")
    for verdict in verdicts:
        table.add_row(verdict.id, verdict.claim, verdict.verdict)
    Console().print(table)
    _say(f"The report is {reproduction.out / 'report.html'}.")
    if reproduction.quick:
        _say("This was the quick version, smaller than the paper's settings.")


def run_benchmark(benchmark: Benchmark) -> None:
    benchmark.run(_command())


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def _command() -> str:
    """The command line that was typed."""
    return shlex.join(["crossprop", *sys.argv[1:]])
