"""What a person sees of progress and of objects: in a terminal, and in a notebook without widgets."""

import io
import sys
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from crossprop.progress import bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_screen(monkeypatch, *steps):
    """What a terminal of 80 columns shows of a bar that advances by these steps."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as screen, bar("270 runs", 1000) as advance:
        for count in steps:
            advance(count)
    return screen.getvalue()


def test_the_bar_says_compiling_until_the_first_steps_are_done(monkeypatch):
    before = on_screen(monkeypatch)
    assert "compiling" in before and "%" not in before
    last = on_screen(monkeypatch, 400, 600).splitlines()[-2]
    assert "100%" in last and "run-steps/s" in last and "compiling" not in last


def test_no_bar_is_drawn_where_nobody_looks(capsys):
    with bar("runs", 10) as advance:
        advance(10)
    with bar("runs", 10, show=False) as advance:
        advance(10)
    assert capsys.readouterr().err == ""


@pytest.fixture
def notebook(monkeypatch):
    """What the output of a cell of a notebook shows, one after the other."""
    shown = []

    def display(data, raw, display_id):
        shown.append(data)
        return SimpleNamespace(update=lambda data, raw: shown.append(data))

    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="a kernel"))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return shown


def test_a_notebook_shows_a_bar_in_plain_html_which_is_updated(notebook, capsys):
    with bar("<b> runs", 200) as advance:
        for _ in range(20):
            advance(5)
    first, last = notebook[0], notebook[-1]
    assert first["text/plain"].startswith("<b> runs: compiling")
    assert "<progress aria-label" in first["text/html"] and "&lt;b&gt; runs" in first["text/html"]
    assert "50%" in last["text/plain"] and "run-steps/s" in last["text/plain"] and "left" in last["text/plain"]
    assert "value='100' max='200'" in last["text/html"]
    assert len(notebook) < 20, "updates are throttled"
    assert capsys.readouterr() == ("", "")


def test_a_notebook_is_told_where_an_interrupted_run_stopped(notebook):
    def interrupted():
        with bar("runs", 100) as advance:
            advance(30)
            advance(40)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "70%" in notebook[-1]["text/plain"]
