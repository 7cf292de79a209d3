"""Predictions of the rewards of Atari games."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop.datasets.atari import GAMES, INPUTS, Frames, played
from crossprop.network import float_type
from crossprop.streams.base import Stream, check_left, set_fields
from crossprop.streams.returns import discounted

ACTIONS = 18


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
    - `sees`: `"ccn"`, the screen in 16 x 16 pixels of grey, or `"ram"`, the 128 bytes of the console's memory.
    - `seed`: of a random player, whose emulator repeats one action in four; None replays what was recorded.
    - `discount`: of the return.

    ```python
    stream = Atari("pong", frames=20_000, seed=0)
    ```

    Bellemare, Naddaf, Veness and Bowling (2013), "The Arcade Learning Environment". Javed, Shah, Sutton and White
    (2023), "Scalable Real-Time Recurrent Learning Using Columnar-Constructive Networks". Javed, Sharifnassab and Sutton
    (2024), "SwiftTD: A Fast and Robust Algorithm for Temporal Difference Learning".
    """

    game: str = "pong"
    frames: int = 210_000
    sees: str = "ccn"
    seed: int | None = None
    discount: float = 0.98

    outputs = 3
    one_hot = False
    predicts = True

    def __post_init__(self):
        check.choice("game", self.game, GAMES)
        check.choice("sees", self.sees, INPUTS)
        frames = check.integer("frames", self.frames, low=2, high=250_000 if self.seed is None else None)
        set_fields(
            self,
            frames=frames,
            steps=frames,
            inputs=INPUTS[self.sees] + ACTIONS + 1,  # what is seen, the actions and the reward
            seed=None if self.seed is None else check.integer("seed", self.seed, low=0, high=2**31 - 1),
            discount=check.scalar("discount", self.discount, low=0, high=1),
        )

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
        x[:, : seen.shape[1]] = seen[rows] / 256
        x[:, seen.shape[1] : -1] = action[rows, None] == np.arange(ACTIONS)
        x[:, -1] = reward[rows]
        return place + count, x, y[rows].astype(float_type())
