"""A stream whose pools take their time to make, and that logs when it begins and ends making one."""

# pyright: reportIncompatibleVariableOverride=false
# (sources and streams narrow the types of attributes that never change)

import os
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from crossprop.streams import Pool, PoolStream

STEPS = 40


@dataclass(frozen=True)
class Slow(PoolStream):
    """Random examples. The log has a line for every begin and end, with the process that it was in. A pool that has
    begun waits for the file `gate`, if it has a name."""

    log: str
    seconds: float = 0.05
    gate: str = ""
    inputs: int = 6
    outputs: int = 1
    one_hot: bool = False
    steps: int | None = STEPS

    def pool(self, key):
        self._tell("begin")
        time.sleep(self.seconds)
        while self.gate and not Path(self.gate).exists():
            time.sleep(0.01)
        numbers = np.asarray(jax.random.normal(key, (STEPS, 7)))
        self._tell("end")
        return Pool(numbers[:, 1:], numbers[:, :1])

    def rows(self, index, steps):
        return steps, steps

    def _tell(self, word):
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()} {word}\n")


def told(log, process):
    """The words of a process."""
    lines = [line.split() for line in Path(log).read_text().splitlines()] if Path(log).exists() else []
    return [word for number, word in lines if int(number) == process]


def most_at_a_time(words):
    return int(np.max(np.cumsum([1 if word == "begin" else -1 for word in words])))
