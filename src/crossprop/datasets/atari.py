"""Atari games, replayed by recorded actions or played by random ones, as tables that all runs share."""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossprop._support.extras import require
from crossprop._support.files import atomic_write, cache_folder
from crossprop.datasets.fetching import archive, sha256
from crossprop.progress import bar

ENDING = "NoFrameskip-v4.txt"
ATARI = archive("atari")
GAMES = {re.sub(r"(?<=.)([A-Z])", r"_\1", name.removesuffix(ENDING)).lower(): name for name in ATARI.files}
"""The file of recorded actions by the name of its game."""
SEED = 1731038949
"""Of the emulator, where actions were recorded."""
STICKY = 0.25
"""Probability that the emulator of a random player repeats the last action."""
SIDE = 16
NO_ACTION = 255
LATER = 1000
"""Further frames that are played, since their rewards enter the returns of the last ones."""
CELLS, GREYS = 105 * 80, 32
"""Cells of 2 x 2 pixels, and their shades of grey."""
SIZES = {"ccn": SIDE * SIDE, "swifttd": CELLS, "ram": 128}
"""Bytes of an observation: the screen in 16 x 16 pixels of grey, the shades of its cells, or the console's memory."""
FORMAT = 2


class Frames(NamedTuple):
    """The frames of a game: observations `(frames, size)`, the action before each (255 for none), and clipped rewards,
    also of later frames."""

    seen: np.ndarray
    action: np.ndarray
    reward: np.ndarray


def played(game: str, frames: int, inputs: str, seed: int | None) -> Frames:
    """The frames of a game by recorded actions, or with a `seed` by random ones. They are made once, and kept in a file
    of the cache that is mapped into memory."""
    require("crossprop.Atari", "ale_py", extra="atari")
    actions = None if seed is not None else ATARI.content(GAMES[game])
    count = frames + LATER if actions is None else min(frames + LATER, len(actions))
    player = f"seed-{seed}" if actions is None else sha256(actions)[:12]
    path = cache_folder() / "atari-frames" / f"{game}-{inputs}-{player}-{count}-{version('ale-py')}-{FORMAT}.npy"
    if not _is_whole(path):
        with atomic_write(path) as file:
            table = np.lib.format.open_memmap(file, "w+", np.uint8, (count, SIZES[inputs] + 2))
            with bar(game, count, unit="frames", starting="starting") as advance:
                for at, (seen, action, reward) in enumerate(_frames(game, inputs, actions, seed, count)):
                    table[at, :-2], table[at, -2], table[at, -1] = seen, action, reward + 1
                    advance(1000 * (at % 1000 == 999))
            table.flush()
        with atomic_write(_sum_of(path)) as file:
            file.write_text(_sum(path))
    table = np.load(path, mmap_mode="r")
    return Frames(table[:, :-2], table[:, -2], table[:, -1].astype(float) - 1)


def _sum_of(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _checked(path: Path, changed: int) -> bool:
    return _sum(path) == _sum_of(path).read_text()


def _is_whole(path: Path) -> bool:
    """Whether the file is there with the right hash, which is computed again only after a change."""
    return path.is_file() and _sum_of(path).is_file() and _checked(path, path.stat().st_mtime_ns)


def emulator(game: str, seed: int, sticky: float) -> Any:
    """The emulator at the beginning of a game, one frame for each action."""
    from ale_py import ALEInterface, LoggerMode, roms  # pyright: ignore[reportMissingImports]

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", sticky)
    ale.setInt("frame_skip", 1)
    ale.loadROM(roms.get_rom_path(game))  # pyright: ignore[reportArgumentType, reportCallIssue]
    ale.reset_game()
    return ale


def _frames(
    game: str, inputs: str, actions: bytes | None, seed: int | None, count: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """The observation, the action before it and the clipped reward, frame by frame. The first frame of a game has no
    action; recorded actions have `R` there."""
    ale = emulator(game, SEED if seed is None else seed, 0.0 if seed is None else STICKY)
    legal, draw = ale.getMinimalActionSet(), np.random.default_rng(seed)
    for at in range(count):
        begins = ale.game_over() if actions is None else actions[at] == ord("R")
        if at == 0 or begins:
            action, reward = NO_ACTION, 0
            if at > 0:  # a second reset of a new emulator would be another game
                ale.reset_game()
        else:
            action = int(draw.integers(len(legal))) if actions is None else actions[at] - ord("a")
            reward = int(np.sign(ale.act(legal[action])))
        yield OBSERVED[inputs](ale), action, reward


def shrunk(screen: np.ndarray) -> np.ndarray:
    """A screen in 16 x 16 pixels: bilinear between the pixels around the middle of each, without a filter."""
    mixed = screen.reshape(screen.shape[:2]).astype(float)
    for axis, size in enumerate(mixed.shape):
        place = (np.arange(SIDE) + 0.5) * size / SIDE - 0.5
        first, share = np.floor(place).astype(int), place % 1
        weight = share.reshape(-1, *[1] * (1 - axis))
        mixed = (1 - weight) * np.take(mixed, first, axis) + weight * np.take(mixed, first + 1, axis)
    return np.rint(mixed).astype(np.uint8).ravel()


def shades(screen: np.ndarray) -> np.ndarray:
    """The shade of grey of each cell, the mean of its pixels in 32 steps."""
    height, width = screen.shape[:2]
    means = screen.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
    return (means // (256 / GREYS)).astype(np.uint8).ravel()


OBSERVED = {
    "ccn": lambda ale: shrunk(ale.getScreenGrayscale()),
    "swifttd": lambda ale: shades(ale.getScreenGrayscale()),
    "ram": lambda ale: ale.getRAM(),
}
