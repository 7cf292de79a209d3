"""A progress bar with rate and time left, on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(
    title: str, total: int | None, show: bool | None = None, unit: str = "run-steps"
) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with how many of `total` were just done. `show=None` draws in a terminal only."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda done: None
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
            return Text(f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s", style="cyan")

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"), Rate())
    with Progress(
        *columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
