"""The command line: `crossprop run`, `sweep`, `status`, `plot`, `study`, `arena`, `card`, `bench` and so on."""

import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, Union

import tyro
from tyro.conf import (
    DisallowNone,
    FlagCreatePairsOff,
    OmitArgPrefixes,
    OmitSubcommandPrefixes,
    PositionalRequiredArgs,
    subcommand,
)

from crossprop._support import checks as check
from crossprop._support.interrupts import interruptible
from crossprop._version import __version__
from crossprop.cli.bench import Bench, time_engines
from crossprop.cli.cards import Card, handle_card
from crossprop.cli.data import Data, manage_data
from crossprop.cli.lab import Lab, open_lab
from crossprop.cli.reproduce import Reproduce, rerun_paper
from crossprop.cli.run import Run, run_experiment
from crossprop.cli.studies import Arena, Study, run_arena, run_study
from crossprop.cli.sweep import Plot, Status, Sweep, draw_plots, run_sweep
from crossprop.cli.tables import print_status
from crossprop.execution import damaged_programs_removed, use_compilation_cache


class Command(NamedTuple):
    """A dataclass whose fields are the flags of a command, and the function that carries it out."""

    flags: type
    act: Callable[[Any], None]
    markers: tuple[Any, ...] = ()
    """Further settings of tyro."""
    compiles: bool = True
    """Whether it compiles programs, which are then kept on disk."""


COMMANDS = {
    "run": Command(Run, run_experiment),
    "sweep": Command(Sweep, run_sweep),
    "status": Command(Status, lambda flags: print_status(flags.store), compiles=False),
    "plot": Command(Plot, draw_plots, compiles=False),
    "study": Command(Study, run_study, (FlagCreatePairsOff,)),
    "arena": Command(Arena, run_arena, (FlagCreatePairsOff,)),
    "card": Command(Card, handle_card),
    "reproduce": Command(Reproduce, rerun_paper),
    "bench": Command(Bench, time_engines, (FlagCreatePairsOff,)),
    "lab": Command(Lab, open_lab),
    "data": Command(Data, manage_data, compiles=False),
}
CONFIG = (OmitArgPrefixes, OmitSubcommandPrefixes, DisallowNone, PositionalRequiredArgs)
DESCRIPTION = (
    "Learn features online.\n\nBegin with crossprop run geoff, with crossprop run data.csv --target price for a table "
    "of your own, or with crossprop lab in the browser. crossprop COMMAND --help explains a command, and crossprop "
    "--version prints the version."
)


def main(args: Sequence[str] | None = None) -> None:
    """Entry point. Exits with 0 on success, 2 if the input is not valid, 130 if interrupted, 141 if
    nobody reads the output any more; `card check` also with 1 and 3."""
    words = list(sys.argv[1:] if args is None else args)
    try:
        _act(words)
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads the output any more, as after `crossprop --help | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at the end
        sys.exit(141)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as problem:
        sys.stderr.write(f"crossprop: {_message(problem)}\n")
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"crossprop: interrupted{': ' * bool(stopped.args)}{stopped}\n")
        sys.exit(130)


def _message(problem: Exception) -> str:
    """The message of an error; of an OSError without its number."""
    if isinstance(problem, OSError) and problem.filename and problem.strerror:
        return f"{problem.filename}: {problem.strerror}"
    return str(problem)


def _act(words: list[str]) -> None:
    if words == ["--version"]:
        sys.stdout.write(f"crossprop {__version__}\n")
    elif words and words[0] in COMMANDS:
        command = COMMANDS[words[0]]
        _introduce(words[1:], inspect.getdoc(command.flags) or "")
        # tyro reports errors of a class's constructor itself, in a box, and leaves those of a function to us.
        made, config = partial(command.flags), CONFIG + command.markers
        flags = tyro.cli(made, prog=f"crossprop {words[0]}", description="", args=words[1:], config=config)
        with interruptible(), damaged_programs_removed():
            if command.compiles:
                use_compilation_cache()
            command.act(flags)
    else:
        given = words or ["--help"]
        if not given[0].startswith("-"):
            check.choice("the command", given[0], COMMANDS)
        _introduce(given, DESCRIPTION)
        tyro.cli(_all_commands(), prog="crossprop", args=given, description="", config=CONFIG)


def _introduce(words: list[str], text: str) -> None:
    """Prints the description of a command above its help, which tyro would not wrap: paragraphs filled to the width of
    the terminal, at most 100 columns; those with indented lines, such as examples, as they are."""
    if {"-h", "--help"} & {*words}:
        fill = partial(textwrap.fill, width=min(shutil.get_terminal_size().columns, 100))
        paragraphs = [each if "\n  " in each else fill(each) for each in text.split("\n\n")]
        sys.stdout.write("\n\n".join(paragraphs) + "\n\n")


def _all_commands() -> Any:
    """All commands as one type: for the help page, and for errors about a command that is missing or unknown."""
    short = {name: (inspect.getdoc(command.flags) or "").split("\n\n")[0] for name, command in COMMANDS.items()}
    types = [Annotated[command.flags, subcommand(name, description=short[name])] for name, command in COMMANDS.items()]
    return Union[tuple(types)]  # noqa: UP007
