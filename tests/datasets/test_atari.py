"""Atari: frames that are played once and kept, returns that follow, and what others found on the same frames.

Tests of recorded actions need their folder in CROSSPROP_ATARI, which `crossprop data fetch atari` makes in the cache.
"""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop.datasets import atari
from crossprop.datasets.atari import ATARI, GAMES
from crossprop.testing import check_stream

pytest.importorskip("ale_py")
FOLDER = os.environ.get("CROSSPROP_ATARI")
QUICK = ("pong", "breakout")
SWIFT_TD = {"lambda_": 0.9, "alpha": 1e-3, "gamma": 0.98, "epsilon": 1e-8, "eta": 0.1, "decay": 0.999}
SWIFT_TD |= {"meta_step_size": 1e-3, "eta_min": 1e-10}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def recorded():
    if FOLDER is None:
        pytest.skip("CROSSPROP_ATARI names no folder")
    ATARI.fetch(FOLDER)


def dealt(stream, count=None):
    _, x, y = stream.deal(stream.begin(jax.random.key(0)), count or stream.frames)
    return x, y


def test_a_random_player_keeps_the_contract_and_is_its_seed_alone():
    stream = cp.Atari("pong", frames=40, sees="ram", seed=3)
    check_stream(stream)
    x, y = dealt(stream)
    assert x.shape == (40, 147) and x.min() >= 0 and x.max() <= 1 and (y[:, 1] == np.float32(0.98)).all()
    np.testing.assert_array_equal(x[:, 128:-1].sum(axis=1), [0] + [1] * 39)
    for path in (cp.datasets.atari.cache_folder() / "atari-frames").iterdir():
        path.unlink()
    np.testing.assert_array_equal(dealt(cp.Atari("pong", frames=40, sees="ram", seed=3))[0], x)
    assert not np.array_equal(dealt(cp.Atari("pong", frames=40, sees="ram", seed=4))[0], x)


def test_the_inputs_of_swift_td_are_one_shade_a_cell_one_action_and_one_reward():
    coarse, fine = cp.Atari("pong", frames=30, seed=0, sees="swifttd"), cp.Atari("pong", frames=30, seed=0)
    (x, y), (grey, expected) = dealt(coarse), dealt(fine)
    assert x.shape == (30, 268_821) and {*np.unique(x)} == {0, 1}
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(x[:, -21:-3], grey[:, -19:-1])
    np.testing.assert_array_equal(x[:, -3:].argmax(axis=1) - 1, grey[:, -1])
    ale = atari.emulator("pong", 0, atari.STICKY)
    screen = ale.getScreenGrayscale().astype(int).reshape(210, 160)
    for row, column in [(0, 0), (17, 3), (50, 40), (104, 79)]:
        cell = x[0, :268_800].reshape(105, 80, 32)[row, column]
        mean = screen[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].sum() // 4
        assert cell.sum() == 1 and cell[mean // 8] == 1


def test_frames_are_played_once_and_again_if_they_are_damaged(monkeypatch):
    stream = cp.Atari("pong", frames=10, seed=0)
    x, _ = dealt(stream)
    (path,) = (cp.datasets.atari.cache_folder() / "atari-frames").glob("*.npy")
    with monkeypatch.context() as patch:
        patch.setattr(atari, "_frames", None)
        np.testing.assert_array_equal(dealt(cp.Atari("pong", frames=10, seed=0))[0], x)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    os.utime(path, (1, 1))
    np.testing.assert_array_equal(dealt(cp.Atari("pong", frames=10, seed=0))[0], x)
    assert path.read_bytes() != bytes(content)


def test_a_run_learns_from_the_frames():
    stream = cp.Atari("pong", frames=300, seed=0)
    learner = cp.Normalize(cp.TD(cp.Backprop(cp.Network(stream.inputs, 5), 0.01), trace=0.9))
    records = cp.run({"td": learner, "swift": cp.SwiftTD(cp.Network(275, ()), 1e-3)}, stream, 2, 100, progress=False)
    assert np.isfinite(records.loss).all() and (records.known == 1).all()
    wide = cp.Atari("pong", frames=100, seed=0, sees="swifttd")
    records = cp.run(cp.SwiftTD(cp.Network(wide.inputs, ()), 1e-4), wide, 1, 100, progress=False)
    assert np.isfinite(records.loss).all()


def test_mistakes_are_named(monkeypatch):
    for make, message in {
        lambda: cp.Atari("chess"): "^game must be one of .* got 'chess'",
        lambda: cp.Atari("pong", sees="sound"): "^sees must be one of .* got 'sound'",
        lambda: cp.Atari("pong", frames=300_000): "^frames must be .* 300000",
    }.items():
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(FileNotFoundError, match=r"Fetch it with: crossprop data fetch atari$"):
        dealt(cp.Atari("pong", frames=10))
    monkeypatch.setattr(cp._support.extras, "_is_installed", lambda module: False)
    with pytest.raises(ModuleNotFoundError, match=r"^crossprop.Atari needs ale_py: pip install 'crossprop\[atari\]'$"):
        dealt(cp.Atari("pong", frames=10, seed=0))


def test_a_screen_shrinks_to_pixels_between_their_neighbours():
    screen = np.add.outer(np.arange(210), np.zeros(160)).astype(np.uint8)
    small = atari.shrunk(screen[:, :, None]).reshape(16, 16)
    np.testing.assert_array_equal(small[:, 0], np.rint((np.arange(16) + 0.5) * 210 / 16 - 0.5))
    assert (small == small[:, :1]).all()


def test_swift_td_on_its_own_inputs_as_the_sparse_program_of_its_authors():
    swifttd = pytest.importorskip("swifttd")
    stream = cp.Atari("asterix", frames=120, seed=0, sees="swifttd")
    x, y = dealt(stream)
    learner = cp.SwiftTD(cp.Network(stream.inputs, (), bias=False, outgoing_scale=0), 1e-3)
    _, outcomes = cp.live(learner, learner.init(jax.random.key(0)), x, y)
    theirs = swifttd.SwiftTDBinaryFeatures(stream.inputs, **SWIFT_TD)
    expected = [theirs.step(np.flatnonzero(row).tolist(), float(one)) for row, one in zip(x, y[:, 0], strict=True)]
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(outcomes.outputs[:, 0], expected, rtol=0, atol=3e-4)


# Recorded actions


@pytest.mark.usefixtures("recorded")
def test_swift_td_on_pong_as_the_program_of_its_authors():
    """What `swifttd` and constants reach on the first 20,000 frames."""
    swifttd = pytest.importorskip("swifttd")
    x, y = dealt(cp.Atari("pong", frames=20_000))
    returns = y[:, 2].astype(float)
    assert np.mean(returns**2) == pytest.approx(0.0798, abs=1e-4) and np.var(returns) == pytest.approx(0.0550, abs=1e-4)
    learner = cp.SwiftTD(cp.Network(275, (), bias=False, outgoing_scale=0), 1e-3)
    _, outcomes = cp.live(learner, learner.init(jax.random.key(0)), x, y)
    assert float(outcomes.loss.mean()) == pytest.approx(0.0588, abs=1e-4)
    theirs = swifttd.SwiftTDNonSparse(275, **SWIFT_TD)
    expected = [theirs.step(row, float(one)) for row, one in zip(x.tolist(), y[:, 0], strict=True)]
    np.testing.assert_allclose(outcomes.outputs[:, 0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("game", [pytest.param(game, marks=[pytest.mark.long] * (game not in QUICK)) for game in GAMES])
@pytest.mark.usefixtures("recorded")
def test_a_recorded_game_ends_one_step_after_that_of_the_emulator(game):
    actions = ATARI.content(GAMES[game])[: 20_000 if game in QUICK else 70_000]
    ale, over = atari.emulator(game, atari.SEED, 0.0), -2
    legal = ale.getMinimalActionSet()
    for at, action in enumerate(actions):
        assert (action == ord("R")) == (over == at - 2), at
        if action == ord("R"):
            if at > 0:
                ale.reset_game()
            over = None
        else:
            ale.act(legal[action - ord("a")])
            over = at if over is None and ale.game_over() else over


@pytest.mark.usefixtures("recorded")
def test_the_folder_of_recorded_actions_is_whole():
    assert ATARI.is_cached() and len(GAMES) == 58 and {"pong", "ms_pacman", "wizard_of_wor"} <= {*GAMES}
    assert Path(ATARI.folder(), GAMES["pong"]).stat().st_size == 250_000
