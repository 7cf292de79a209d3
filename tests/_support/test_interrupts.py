"""Ctrl-C is never lost, wherever Python is when it comes; and a process can compile any number of programs."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop._support import programs
from crossprop.engines import segments
from own_streams import Noise

NET = cp.Network(inputs=3, hidden=4)


class Swallows:
    """Whose `__del__` is interrupted: Python prints the KeyboardInterrupt and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        sum(range(100))


@dataclass(frozen=True)
class Interrupted(Noise):
    """A stream in whose `task` an interrupt gets lost."""

    def task(self, steps):
        Swallows()
        return np.zeros(np.shape(steps), int)


@pytest.fixture
def lost(monkeypatch):
    """The exceptions that Python printed and lost."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: found.append(info.exc_type))
    return found


CALLS = {
    "run": lambda learner, stream: cp.run(learner, stream, seeds=1, steps=20),
    "sweep": lambda learner, stream: cp.sweep(learner, stream, {"step_size": [0.1, 0.2]}, seeds=1, steps=20),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_that_python_loses_ends_the_call(call, lost):
    with pytest.raises(KeyboardInterrupt):
        CALLS[call](cp.Backprop(NET, 0.01), Interrupted())
    assert KeyboardInterrupt in lost
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_users_is_kept():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        cp.run(
            cp.Backprop(NET, 0.01), Noise(), seeds=1, steps=20, progress=lambda _: signal.raise_signal(signal.SIGINT)
        )
        assert heard and signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_within_asyncio_ends_a_run_at_once():
    seen = []

    def interrupt(_):
        seen.append(1)
        if len(seen) == 1:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.05)

    async def work():
        before = signal.getsignal(signal.SIGINT)
        try:
            cp.run(cp.Backprop(NET, 0.01), Noise(), seeds=40, steps=20, progress=interrupt)
        finally:
            assert signal.getsignal(signal.SIGINT) is before

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert len(seen) < 40


def test_work_in_a_process_forked_after_runs_is_refused_and_says_what_to_use():
    learner, stream = cp.Backprop(NET, 0.01), Noise()
    state, x = learner.init(jax.random.key(0)), np.ones((4, 3))
    calls = [
        lambda: cp.run(learner, stream, seeds=1, steps=20),
        lambda: cp.live(learner, state, x, np.ones(4)),
        lambda: cp.predict(learner, state, x),
    ]
    calls[0]()
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of JAX and of Python, which say that it is risky
            child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                call()
            except RuntimeError as problem:
                os._exit(0 if '"spawn" or "forkserver"' in str(problem) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    calls[0]()


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 2, 3])
def test_an_interrupt_ends_a_process_that_makes_millions_of_examples(seconds):
    code = "import crossprop as cp; print('go', flush=True); cp.run(cp.Backprop(cp.Network(20, 5), 0.01), "
    code += "cp.Geoff(tasks='ABCDEF', examples=2_000_000), seeds=4)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"go\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]


def test_programs_are_let_go_when_there_are_many(monkeypatch):
    learner, stream = cp.Backprop(NET, 0.01), Noise()
    records = cp.run(learner, stream, seeds=2, steps=20)
    cleared, clear = [], programs.xla.free
    monkeypatch.setattr(programs.xla, "free", lambda program: (cleared.append(program), clear(program)))
    monkeypatch.setattr(programs, "MOST", 1)
    programs._compiled.append(None)
    again = cp.run(learner, stream, seeds=2, steps=20)
    assert segments._compiled_segment("cpu") in cleared
    np.testing.assert_array_equal(records.loss, again.loss)


def test_programs_are_kept_while_there_are_few():
    programs._compiled.clear()
    learner, stream = cp.Backprop(NET, 0.01), Noise()
    cp.run(learner, stream, seeds=1, steps=20)
    compiled = len(programs._compiled)
    for _ in range(2):
        cp.run(learner, stream, seeds=1, steps=20)
    assert len(programs._compiled) == compiled
