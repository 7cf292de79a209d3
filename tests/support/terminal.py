"""The command line as a terminal of 80 columns sees it."""

from typing import NamedTuple

import pytest


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys, monkeypatch):
    """Calls the command line, and returns its exit code and what it said."""
    from crossprop.cli import main

    monkeypatch.setenv("COLUMNS", "80")

    def call(*words) -> Answer:
        code = 0
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
        return Answer(code, *capsys.readouterr())

    return call
