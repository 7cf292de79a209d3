"""`crossprop study`, `crossprop arena`, `crossprop reproduce` and `crossprop bench`: what they print."""

import shlex
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from crossprop._support.formats import upper_first
from crossprop.arena import Arena
from crossprop.bench import Benchmark
from crossprop.experiments.questions import Answer
from crossprop.library import veeriah2017
from crossprop.reproduce import PAPERS, Reproduction, Rerun
from crossprop.study import Study


def run_study(study: Study) -> None:
    _print_answers(study.run(_say, _command()), study.quick)


def run_arena(arena: Arena) -> None:
    if arena.show:
        sys.stdout.write(arena.text)
        return
    _print_answers(arena.run(_say, _command()), arena.quick)


def _print_answers(answers: Sequence[Answer], quick: bool) -> None:
    if quick:
        _wrap(
            "\nThis was the quick version: it shows that everything works and proves nothing. Its runs are too short "
            "and its seeds too few to answer these questions."
        )
    for each in answers:
        _wrap(f"\n{each.question} {upper_first(each.verdict)}.\n{each.why}")


def run_reproduction(reproduction: Reproduction | Rerun) -> None:
    verdicts = reproduction.run(_say, _command())
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    table.add_column("claim")
    table.add_column("verdict", min_width=max((len(verdict.verdict) for verdict in verdicts), default=0))
    for verdict in verdicts:
        table.add_row(verdict.id, verdict.question, verdict.verdict)
    Console().print(table)
    _say(f"The report is {reproduction.folder / 'report.html'}.")
    if reproduction.quick:
        _wrap("This was the quick version, smaller than the paper's settings: its verdicts prove nothing.")


def list_papers() -> None:
    """Prints the papers that can be rerun."""
    table = Table("command", "paper", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_row("crossprop reproduce", f"{veeriah2017.PAPER.source}.")
    for name, paper in PAPERS.items():
        table.add_row(f"crossprop reproduce {name}", f"{paper.source}.")
    Console().print(table)


def run_benchmark(benchmark: Benchmark) -> None:
    benchmark.run(_command())


def _wrap(text: str) -> None:
    """Prints sentences, wrapped between words."""
    Console().print(text, markup=False, highlight=False)


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def _command() -> str:
    """The command line that was typed."""
    return shlex.join(["crossprop", *sys.argv[1:]])
