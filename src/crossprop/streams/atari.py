"""Predictions of the rewards of Atari games."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop.datasets.atari import CELLS, GAMES, GREYS, SIZES, Frames, played
from crossprop.hyperparameters import check_parameters, parameter
from crossprop.network import float_type
from crossprop.streams.base import Stream, check_left, set_fields
from crossprop.streams.returns import discounted

ACTIONS = 18
REWARDS = (-1, 0, 1)
RECORDED = 250_000
"""Frames of each game for which actions were recorded."""


@dataclass(frozen=True)
class Atari(Stream):
    """An Atari game, frame by frame: which rewards will follow?

    The actions are those of agents that were trained before, as recorded by the authors of SwiftTD: `crossprop data
    fetch atari` gets them. With a `seed` they are random, and need no file. The emulator, `pip install
    'crossprop[atari]'`, plays a game once; its frames are kept in the cache, and all runs and learners share them.

    The inputs are what is seen, between 0 and 1, which of 18 actions was the last, and the reward, clipped to -1 to 1,
    which is the cumulant. A new game goes on from the last one's end without a cut.

    **Arguments:**

    - `game`: such as `"pong"` or `"ms_pacman"`.
    - `frames`: how many, at most 250,000 of those recorded.
    - `sees`: `"ccn"`, the screen in 16 x 16 pixels of grey; `"ram"`, the 128 bytes of the console's memory; or
      `"swifttd"`, which of 32 shades of grey each of 105 x 80 cells has and which of three values the reward, one-hot:
      268,821 inputs, a megabyte an example, for linear learners. Its cells are the means of 2 x 2 pixels; the authors'
      program takes pixels that are three apart.
    - `seed`: of a random player, whose emulator repeats one action in four; None replays what was recorded.
    - `discount`: of the return.

    ```python
    stream = Atari("pong", frames=20_000, seed=0)
    ```

    Bellemare, Naddaf, Veness and Bowling (2013), "The Arcade Learning Environment". Javed, Shah, Sutton and White
    (2023), "Scalable Real-Time Recurrent Learning Using Columnar-Constructive Networks". Javed, Sharifnassab and Sutton
    (2024), "SwiftTD: A Fast and Robust Algorithm for Temporal Difference Learning".
    """

    game: str = parameter("pong", choices=tuple(GAMES))
    frames: int = parameter(210_000, whole=True, low=2)
    sees: str = parameter("ccn", choices=tuple(SIZES))
    seed: int | None = parameter(None, whole=True, low=0, high=2**31 - 1)
    discount: float = parameter(0.98, low=0, high=1)

    outputs = 3
    one_hot = False
    predicts = True

    def __post_init__(self):
        check_parameters(self)
        if self.seed is None:
            check.integer("frames", self.frames, low=2, high=RECORDED)
        # An input is a part of the frame, an action, or the reward.
        inputs = CELLS * GREYS + ACTIONS + len(REWARDS) if self.sees == "swifttd" else SIZES[self.sees] + ACTIONS + 1
        set_fields(self, steps=self.frames, inputs=inputs)

    @cached_property
    def _table(self) -> tuple[Frames, np.ndarray]:
        found = played(self.game, self.frames, self.sees, self.seed)
        return found, discounted(found.reward, self.discount)[: self.frames]

    def begin(self, key: Key[Array, ""]) -> Any:
        del key
        return 0

    def deal(self, place: Any, count: int) -> tuple[Any, np.ndarray, np.ndarray]:
        check_left(self, place, count)
        (seen, action, reward), y = self._table
        rows = slice(int(place), int(place) + count)
        x = np.zeros((count, self.inputs), float_type())
        if self.sees == "swifttd":
            screen, rewards = x[:, : CELLS * GREYS], reward[rows, None] == REWARDS
            np.put_along_axis(screen.reshape(count, CELLS, GREYS), seen[rows, :, None].astype(int), 1, axis=2)
        else:
            screen, rewards = x[:, : seen.shape[1]], reward[rows, None]
            screen[:] = seen[rows] / 256
        last = screen.shape[1]
        x[:, last : last + ACTIONS] = action[rows, None] == np.arange(ACTIONS)
        x[:, last + ACTIONS :] = rewards
        return place + count, x, y[rows].astype(float_type())
