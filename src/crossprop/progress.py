"""A progress bar with rate and time left: on standard error in a terminal, as an output of its cell in a notebook."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Say = Callable[[str], None]
"""A function that prints one line about what is being done."""
STARTING = "compiling"
"""Shown until the first steps are done: until then it is mostly the compiler that works."""
REFRESH = 0.2
"""Seconds between two updates in a notebook."""


@contextmanager
def bar(
    title: str, total: int | None, show: bool | None = None, unit: str = "run-steps", starting: str = STARTING
) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with how many of `total` were just done. `show=None` draws in a terminal or a notebook
    only. Until the first call the bar says `starting`."""
    if show is not False and (display := _notebook_display()) is not None:
        notebook = NotebookBar(title, total, unit, starting, display)
        try:
            yield notebook.advance
        finally:
            notebook.draw()
    elif show is False or (show is None and not sys.stderr.isatty()):
        yield lambda done: None
    else:
        with _terminal_bar(title, total, unit, starting) as advance:
            yield advance


@contextmanager
def _terminal_bar(title: str, total: int | None, unit: str, starting: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class State(ProgressColumn):
        """The share done, the rate and the time left, once they are known."""

        def render(self, task: Task) -> Text:
            if not task.completed:
                return Text(starting, style="cyan")
            speed = task.finished_speed or task.speed
            share = "" if task.total is None else f"{task.percentage:3.0f}%  "
            return Text(f"{share}{rate_text(speed or 0, unit)}{_left(task.total, task.completed, speed)}", style="cyan")

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn(), State())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)


class NotebookBar:
    """The same in a notebook, in plain HTML: no widgets have to be installed. Each update replaces the last one."""

    def __init__(self, title: str, total: int | None, unit: str, starting: str, display: Callable[..., Any]):
        self.title, self.total, self.unit, self.starting = title, total, unit, starting
        self.done, self.began, self.drawn = 0, time.monotonic(), 0.0
        self.first: tuple[float, int] | None = None
        """When the first steps were done, and how many: the rate counts from there, without compilation."""
        self.handle = display({"text/plain": self.text(), "text/html": self.html()}, raw=True, display_id=True)

    def advance(self, done: int) -> None:
        self.done += done
        now = time.monotonic()
        self.first = self.first or (now, self.done)
        if now - self.drawn > REFRESH:
            self.draw()

    def draw(self) -> None:
        self.drawn = time.monotonic()
        self.handle.update({"text/plain": self.text(), "text/html": self.html()}, raw=True)

    def text(self) -> str:
        elapsed = time.monotonic() - self.began
        if self.first is None:
            return f"{self.title}: {self.starting}, {elapsed:.0f} s"
        (at, before), now = self.first, time.monotonic()
        rate = (self.done - before) / (now - at) if now > at and self.done > before else self.done / max(elapsed, 1e-9)
        share = "" if self.total is None else f"{100 * self.done / self.total:.0f}%, "
        return f"{self.title}: {share}{rate_text(rate, self.unit)}, {elapsed:.0f} s{_left(self.total, self.done, rate)}"

    def html(self) -> str:
        from html import escape

        share = f" value='{self.done}' max='{self.total}'" if self.first is not None and self.total else ""
        return f"<div><progress{share} aria-label='progress'></progress> {escape(self.text())}</div>"


def rate_text(rate: float, unit: str) -> str:
    """A number of `unit` per second."""
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"


def _left(total: float | None, done: float, rate: float | None) -> str:
    if total is None or not rate or done >= total:
        return ""
    seconds = round((total - done) / rate)
    return f", {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in a Jupyter kernel, else None. IPython is not imported where it is not running."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    return display
