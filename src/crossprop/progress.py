"""A progress bar with rate and time left, on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, run_steps: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Gives a function that takes the run-steps just done; None shows the bar where a terminal does."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda run_steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            rate = task.finished_speed or task.speed or 0
            return Text(f"{rate:,.0f} run-steps/s", style="cyan")

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"), Rate())
    with Progress(
        *columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task(title, total=run_steps)
        yield lambda run_steps: progress.advance(task, run_steps)
