"""`crossprop study`, `crossprop arena` and `crossprop bench`: what they print."""

import sys
from collections.abc import Sequence

from crossprop._support.formats import upper_first
from crossprop.arena import Arena
from crossprop.bench import Benchmark
from crossprop.cli.console import command_line, say, wrap
from crossprop.experiments.questions import Answer
from crossprop.study import Study


def run_study(study: Study) -> None:
    _print_answers(study.run(say, command_line()), study.quick)


def run_arena(arena: Arena) -> None:
    if arena.show:
        sys.stdout.write(arena.text)
        return
    _print_answers(arena.run(say, command_line()), arena.quick)


def _print_answers(answers: Sequence[Answer], quick: bool) -> None:
    if quick:
        wrap(
            "\nThis was the quick version: it shows that everything works and proves nothing. Its runs are too short "
            "and its seeds too few to answer these questions."
        )
    for each in answers:
        wrap(f"\n{each.question} {upper_first(each.verdict)}.\n{each.why}")


def run_benchmark(benchmark: Benchmark) -> None:
    benchmark.run(command_line())
