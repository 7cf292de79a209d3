"""What a store promises: whole blocks, nothing lost and nothing run twice, whatever ends the process."""

import errno
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
import xarray

import crossprop as cp
import crossprop.cli
from crossprop._support import files
from crossprop._support.array_files import DamagedFile, read_arrays, write_arrays
from crossprop.engines.protocol import RunResult
from crossprop.experiments.labelled import read_block, read_records
from crossprop.experiments.results import status
from crossprop.experiments.store import Store, read_store
from same import assert_same_sweeps, files_in

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network.paper(inputs=6, hidden=8)
STREAM = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40)
LEARNERS = {"backprop": cp.Backprop(NET, 0.01)}
GRID = {"step_size": [0.01, 0.1], "network.outgoing_scale": [0, 1]}
QUICK = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
BLOCKS = sys.modules["crossprop.experiments.blocks"]
SWEEP = sys.modules["crossprop.experiments"]


def sweep(store, learners=LEARNERS, stream=STREAM, over=GRID, seeds=2, record_every=20):
    return cp.sweep(learners, stream, over=over, seeds=seeds, record_every=record_every, store=store)


@pytest.fixture
def ran(monkeypatch):
    """The cells that were run, as `(step size, outgoing scale, seed)`."""
    cells, executor = [], BLOCKS.Executor

    def spy(given, *rest, **options):
        cells.extend((cell.learner.step_size, cell.learner.network.outgoing_scale, cell.seed) for cell in given)
        return executor(given, *rest, **options)

    monkeypatch.setattr(BLOCKS, "Executor", spy)
    return cells


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled") / "new" / "store"
    return folder, sweep(folder)


# What is in it.


def test_a_store_holds_what_memory_holds(filled):
    folder, records = filled
    assert_same_sweeps(records, sweep(None))
    assert_same_sweeps(records, cp.open_sweep(folder))


def test_one_hidden_layer_is_one_setting_however_it_is_given(tmp_path):
    for hidden, blocks in (([8], 1), ([8, 4], 2), ([(8,), (4,)], 2)):
        sweep(tmp_path / "store", over={"network.hidden": hidden})
        assert len([*(tmp_path / "store" / "blocks").iterdir()]) == blocks
    sweep(tmp_path / "fixed", over={})
    sweep(tmp_path / "fixed", over={"network.hidden": [8, 4]})
    assert len([*(tmp_path / "fixed" / "blocks").iterdir()]) == 2
    with pytest.raises(ValueError, match=r"over\['network.hidden'\] must not repeat a value"):
        sweep(None, over={"network.hidden": [8, (8,)]})


@dataclass(frozen=True)
class Adam:
    """An optimizer of one's own, with a field."""

    b1: float = 0.9

    def __call__(self, step_size):
        return optax.adam(step_size, b1=self.b1)


def test_fields_of_ones_own_optimizer_can_be_axes():
    records = sweep(None, {"own": cp.Backprop(NET, 0.01, optimizer=Adam())}, over={"optimizer.b1": [0.9, 0.5]})["own"]
    fixed = sweep(None, {"own": cp.Backprop(NET, 0.01, optimizer=Adam(0.5))}, over={})["own"]
    np.testing.assert_array_equal(records.loss.sel({"optimizer.b1": 0.5}), fixed.loss)
    with pytest.raises(ValueError, match=r"an axis in over must be one of (?!.*optimizer\.function).*, got"):
        sweep(None, over={"optimizer.momentum": [0.5]})


def test_a_block_opens_with_plain_xarray(filled):
    folder, records = filled
    assert {path.name for path in folder.iterdir()} == {"store.json", "blocks", "lock"}
    blocks = sorted((folder / "blocks").iterdir())
    assert len(blocks) == 4
    for path in blocks:
        with xarray.open_dataset(path) as block:
            assert dict(block.sizes) == {"seed": 2, "step": 4} and block.learner == "backprop"
            setting = json.loads(block.attrs["about"])["setting"]
            point = {axis: block[axis].item() for axis in GRID}
            assert all(setting[axis] == value for axis, value in point.items())
            assert block.attrs["schema"] == 1 and block.attrs["seconds"] > 0 and block.attrs["engine"] == "scan"
            expected = records["backprop"].sel(point)
            for name in ("loss", "incoming_drift", "outgoing_drift", "diverged_at", "window", "task", "seed"):
                np.testing.assert_array_equal(block[name], expected[name])


def test_all_kinds_of_values_are_coordinates_of_a_block(tmp_path):
    point = {"optimizer": ["sgd"], "network.bias": [True], "network.hidden": [4], "incoming_step_size": [None]}
    records = sweep(tmp_path, {"größer als": cp.Backprop(NET, 0.01)}, over=point, seeds=[2**32 - 1])
    (path,) = (tmp_path / "blocks").iterdir()
    with xarray.open_dataset(path) as block:
        assert (block.learner.item(), block.optimizer.item(), block.seed.item()) == ("größer als", "sgd", 2**32 - 1)
        assert (
            block["network.bias"].item() is True and block["network.hidden"] == 4 and np.isnan(block.incoming_step_size)
        )
    assert_same_sweeps(records, cp.open_sweep(tmp_path))


@pytest.mark.usefixtures("x64")
def test_with_x64_on_a_store_holds_float64_and_will_not_mix(tmp_path, filled):
    records = sweep(tmp_path, over={}, seeds=1)
    assert cp.open_sweep(tmp_path)["backprop"].loss.dtype == np.float64
    assert_same_sweeps(records, cp.open_sweep(tmp_path))
    with pytest.raises(ValueError, match="float_type is 'float32' there and 'float64' here"):
        sweep(filled[0])


def test_a_block_can_be_sent_to_another_process_and_run_there(filled):
    records = filled[1]["backprop"]
    spec = cp.experiments.SweepSpec.of(LEARNERS, STREAM, GRID, 2, record_every=20)
    blocks = BLOCKS.missing(BLOCKS.build_blocks(spec, "auto"), [], spec.options)
    for number, finished in BLOCKS.run_blocks(pickle.loads(pickle.dumps(blocks)), spec.options, "auto"):
        finished = pickle.loads(pickle.dumps(finished))
        np.testing.assert_array_equal(finished.records()["loss"], records.loss.sel(blocks[number].point))


# Going on, and extending.


def test_what_is_done_is_not_run_again(filled, ran):
    folder, records = filled
    before = files_in(folder)
    assert_same_sweeps(sweep(folder), records)
    assert not ran and files_in(folder).keys() == before.keys()


def test_a_block_that_is_gone_is_run_again_and_it_alone(tmp_path, filled, ran):
    sweep(tmp_path)
    with xarray.open_dataset(gone := min((tmp_path / "blocks").iterdir())) as block:
        expected = [(block.step_size.item(), block["network.outgoing_scale"].item(), seed) for seed in (0, 1)]
    gone.unlink()
    ran.clear()
    assert_same_sweeps(sweep(tmp_path), filled[1])
    assert ran == expected


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    sweep(tmp_path, over={})
    before = files_in(tmp_path).keys()
    (tmp_path / "blocks" / ".0-0.nc.part").write_text("half")
    (tmp_path / ".store.json.part").write_text("half")
    assert cp.open_sweep(tmp_path)
    sweep(tmp_path, over={})
    assert files_in(tmp_path).keys() == before


def test_more_seeds_values_axes_and_learners_extend_a_store(tmp_path, ran):
    sweep(tmp_path, over={"step_size": [0.01]})
    assert ran == [(0.01, 1, 0), (0.01, 1, 1)]
    ran.clear()
    sweep(tmp_path, over={"step_size": [0.1, 0.01]}, seeds=[1, 0, 5])
    assert sorted(ran) == [(0.01, 1, 5), (0.1, 1, 0), (0.1, 1, 1), (0.1, 1, 5)]
    ran.clear()
    more = {"other": cp.Backprop(NET, 0.02)} | LEARNERS
    over = {"backprop": GRID}
    records = sweep(tmp_path, more, over=over)
    assert sorted(ran) == [(0.01, 0, 0), (0.01, 0, 1), (0.02, 1, 0), (0.02, 1, 1), (0.1, 0, 0), (0.1, 0, 1)]
    assert_same_sweeps(records, sweep(None, more, over=over))


def test_all_that_was_ever_run_is_there_and_the_rest_is_nan(tmp_path):
    sweep(tmp_path, over={"step_size": [0.2, 0.01]}, seeds=[4])
    sweep(tmp_path, {"backprop": cp.Backprop(NET, 0.1)}, over={"network.outgoing_scale": [0]}, seeds=[3])
    records = cp.open_sweep(tmp_path)["backprop"]
    assert records.step_size.values.tolist() == [0.1, 0.01, 0.2] and records.seed.values.tolist() == [3, 4]
    assert records["network.outgoing_scale"].values.tolist() == [0, 1]
    there = {(0.2, 1, 4), (0.01, 1, 4), (0.1, 0, 3)}
    for step_size in records.step_size.values:
        for scale in (0, 1):
            for seed in (3, 4):
                cell = records.sel({"step_size": step_size, "network.outgoing_scale": scale, "seed": seed})
                assert (cell.diverged_at == -1) == ((step_size, scale, seed) in there)
                assert np.isnan(cell.loss).all() == ((step_size, scale, seed) not in there)
                assert (cell.diverged_at == -2) == np.isnan(cell.loss).all()


# Refusal.


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        ({"record_every": 10}, "record_every is 20 there and 10 here"),
        ({"stream": cp.Geoff(6, 10, tasks="AC", examples=40)}, "stream.tasks is 'AB' there and 'AC' here"),
        ({"stream": cp.Arrays(np.ones((9, 6)), np.ones(9))}, "stream.type is 'Geoff' there and 'Arrays' here"),
        (
            {"learners": {"new": cp.Backprop(NET, 0.01)}, "stream": cp.Geoff(6, 11, tasks="AB", examples=40)},
            "stream.features is 10 there and 11 here",
        ),
        (
            {"learners": {"backprop": cp.Frozen(NET, 0.01)}},
            "learners.backprop.type is 'Backprop' there and 'Frozen' here",
        ),
        (
            {"learners": {"backprop": cp.Backprop(NET, 0.01, incoming_step_size=0.1)}},
            "learners.backprop.incoming_step_size is None there and 0.1 here",
        ),
        (
            {"learners": {"backprop": cp.Backprop(cp.Network(6, 9), 0.01)}},
            "learners.backprop.network.hidden is \\[8\\] there and \\[9\\] here",
        ),
    ],
)
def test_another_sweep_is_refused_and_the_difference_named(filled, asked, difference):
    folder, before = filled[0], files_in(filled[0])
    with pytest.raises(ValueError, match=difference) as caught:
        sweep(folder, **asked)
    assert str(folder) in str(caught.value)
    assert files_in(folder).keys() == before.keys()
    assert files_in(folder)["store.json"] == before["store.json"]


def test_what_is_or_was_an_axis_may_differ(tmp_path, ran):
    sweep(tmp_path)
    ran.clear()
    sweep(tmp_path, {"backprop": cp.Backprop(NET, 0.1)}, over={"network.outgoing_scale": [1]})
    assert not ran


@pytest.mark.parametrize(
    ("name", "content"),
    [("mine.txt", "mine"), ("store.json", "{"), ("store.json", "[]"), ("store.json", '{"schema": 1}')],
)
def test_a_folder_that_is_no_store_is_left_alone(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=r"mine.txt|store.json is damaged, or crossprop did not write it"):
        sweep(tmp_path)
    assert (tmp_path / name).read_text() == content and not (tmp_path / "blocks").exists()


@pytest.mark.parametrize("optimizer", [lambda step_size: optax.sgd(2 * step_size), jax.tree_util.Partial(optax.sgd)])
def test_an_optimizer_without_a_name_is_kept(tmp_path, ran, optimizer):
    learners = {"backprop": cp.Backprop(NET, 0.01, optimizer=optimizer)}
    records = sweep(tmp_path / "store", learners, over={}, seeds=1)
    ran.clear()
    assert_same_sweeps(sweep(tmp_path / "store", learners, over={}, seeds=1), records)
    assert not ran


# Damage.


@pytest.fixture
def copied(tmp_path, filled):
    """A store of its own to damage, its blocks, and its records when they are whole."""
    shutil.copytree(filled[0], tmp_path / "copied")
    return tmp_path / "copied", sorted((tmp_path / "copied" / "blocks").iterdir()), filled[1]


def truncate(store, blocks):
    os.truncate(blocks[0], blocks[0].stat().st_size - 1)


def empty(store, blocks):
    blocks[0].write_bytes(b"")


def swap(store, blocks):
    blocks[0].rename(store / "other")
    blocks[1].rename(blocks[0])
    (store / "other").rename(blocks[1])


def copy_over(store, blocks):
    shutil.copy(blocks[1], blocks[0])


def copy_beside(store, blocks):
    shutil.copy(blocks[0], blocks[0].with_stem(blocks[0].stem + "0"))


def copy_from_another_store(store, blocks):
    other = store.with_name("other")
    sweep(other, over={"step_size": [0.01, 0.5]}, seeds=[7])
    for path in (other / "blocks").iterdir():
        shutil.copy(path, store / "blocks")


@pytest.mark.parametrize(
    ("damage", "files", "lost"),
    [
        (truncate, 1, 2),
        (empty, 1, 2),
        (swap, 2, 4),
        (copy_over, 1, 2),
        (copy_beside, 1, 0),
        (copy_from_another_store, 2, 0),
    ],
)
def test_what_is_no_block_of_the_store_is_left_out_put_aside_and_run_again(copied, ran, damage, files, lost):
    store, blocks, records = copied
    damage(store, blocks)
    ran.clear()
    before = files_in(store / "blocks")
    for read in (cp.open_sweep, status):
        with pytest.warns(UserWarning, match="left out, because they are not whole or not of this store") as told:
            there = read(store)
        assert len(told) == 1 and str(told[0].message).count(str(store / "blocks")) == files
    assert there[0][0].missing == lost
    with pytest.warns(UserWarning, match=f"files were put aside in {store / 'damaged'}") as told:
        assert_same_sweeps(sweep(store), records)
    assert len(told) == 1 and len(ran) == lost
    aside = files_in(store / "damaged")
    assert len(aside) == files and all(before[name] == content for name, content in aside.items())
    assert_same_sweeps(cp.open_sweep(store), records)
    assert_same_sweeps(sweep(store), records)


def other_attributes(**attributes):
    """Damage: a whole block, with other attributes."""

    def damage(path):
        contents = read_arrays(path)
        write_arrays(path, contents.variables, contents.attributes | attributes)

    return damage


def other_variables(**variables):
    """Damage: a whole block, with other arrays."""

    def damage(path):
        contents = read_arrays(path)
        write_arrays(path, contents.variables | variables, contents.attributes)

    return damage


HOSTILE_BLOCKS = {
    "no-json": other_attributes(about="{"),
    "nested": other_attributes(about="[" * 100_000),
    "a-list": other_attributes(about="[]"),
    "a-number": other_attributes(about=3),
    "large-digits": other_attributes(about='{"setting": {"a": ' + "9" * 5000 + "}}"),
    "infinite": other_attributes(about='{"learner": "a", "setting": {"a": ' + "9" * 4000 + "}}"),
    "no-learner": other_attributes(about='{"setting": {}}'),
    "another-learner": other_attributes(about='{"learner": "a", "setting": {}}'),
    "seconds": other_attributes(seconds="long"),
    "store": other_attributes(store=3),
    "seeds-of-one": other_variables(seed=((), 0)),
    "seeds-of-texts": other_variables(seed=(("seed",), ["a", "b"])),
    "loss-of-texts": other_variables(loss=(("seed", "step"), [["a"] * 4] * 2)),
    "no-loss": other_variables(loss=((), 0.0)),
    "not-utf-8": lambda path: path.write_bytes(path.read_bytes().replace(b"setting", b"s\xff\xff\xffing")),
    "sparse": lambda path: os.truncate(path, 2**33),
}


@pytest.mark.parametrize("damage", HOSTILE_BLOCKS.values(), ids=HOSTILE_BLOCKS)
def test_a_block_that_holds_anything_else_is_named_and_the_rest_is_read(copied, damage):
    store, blocks, _ = copied
    damage(blocks[0])
    with pytest.warns(UserWarning, match=f"left out, .*: {blocks[0]} is ") as told:
        assert status(store)[0][0].missing == 2
    assert len(told) == 1 and len(str(told[0].message)) < 1000


def test_a_pipe_in_the_place_of_a_block_is_not_waited_for(copied):
    store, blocks, records = copied
    blocks[0].unlink()
    os.mkfifo(blocks[0])
    with pytest.warns(UserWarning, match=f"left out, .*: {blocks[0]} is no plain file"):
        assert status(store)[0][0].missing == 2
    with pytest.warns(UserWarning, match="files were put aside"):
        assert_same_sweeps(sweep(store), records)
    assert (store / "damaged" / blocks[0].name).is_fifo()


def test_every_flipped_bit_of_a_block_is_noticed(copied):
    path = copied[1][0]
    size = path.stat().st_size
    missed = []
    with path.open("r+b", buffering=0) as file:
        for place in range(size):
            was = os.pread(file.fileno(), 1, place)[0]
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([was ^ 1 << bit]), place)
                for read in (read_block, read_records) if bit == place % 8 else (read_block,):
                    try:
                        read(path)
                        missed.append((place, bit))
                    except DamagedFile as problem:
                        missed += [(place, bit)] * (str(path) not in str(problem))
            os.pwrite(file.fileno(), bytes([was]), place)
    assert size > 1000 and not missed
    assert read_block(path).seeds.tolist() == [0, 1]


def test_without_store_json_blocks_are_found_again_but_never_taken_for_others(copied, ran):
    store, _, records = copied
    (store / "store.json").unlink()
    with pytest.raises(ValueError, match="record_every is 20 there and 10 here"):
        sweep(store, record_every=10)
    with jax.enable_x64(True), pytest.raises(ValueError, match="float_type is 'float32' there and 'float64' here"):
        sweep(store)
    ran.clear()
    assert_same_sweeps(sweep(store), records)
    assert not ran


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema":1}', b"\xff", b'{"sha256": ""}'])
def test_a_damaged_store_json_is_named_and_kept(copied, content):
    path = copied[0] / "store.json"
    path.write_bytes(content)
    for use in (sweep, cp.open_sweep, status):
        with pytest.raises(ValueError, match=f"{path} is damaged, or crossprop did not write it"):
            use(copied[0])
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(((part,), value) for part in ("schema", "store", "common", "learners") for value in (None, 3, [1], {"a": 1})),
        *((("learners", "backprop"), value) for value in (None, 3, [1], {}, "a")),
        *(
            (("learners", "backprop", part), value)
            for part in ("learner", "stream", "over", "seeds", "evaluation", "code")
            for value in (None, 3, [[1]], {"a": 3}, {"a": [{"b": 1}, {}]}, {"type": []}, {"network": 3}, "a")
        ),
        (("learners", "backprop", "over"), {f"a{axis}": list(range(1000)) for axis in range(10)}),
        (("common", "record_every"), "a"),
    ],
)
def test_a_store_json_of_any_content_is_read_or_named(copied, place, value):
    path = copied[0] / "store.json"
    stored = files.read_json(path)
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    files.write_json(path, stored)
    complaints = []
    for use in (cp.open_sweep, status):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(copied[0])
            except ValueError as problem:
                complaints.append(str(problem))
    assert all(str(path) in each for each in complaints)


def test_a_block_that_may_not_be_read_is_not_called_damaged(copied, monkeypatch):
    store, blocks, _ = copied
    opened = Path.open

    def refused(path, *rest, **options):
        if path == blocks[0]:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *rest, **options)

    monkeypatch.setattr(Path, "open", refused)
    for use in (sweep, cp.open_sweep, status):
        with pytest.raises(PermissionError, match=f"{blocks[0]} cannot be read: Permission denied"):
            use(store)
    assert blocks[0].exists() and not (store / "damaged").exists()


# Status.


def test_status_tells_what_is_done_missing_and_diverged_and_the_time_left(tmp_path):
    over = {"step_size": [0.01, 1e4]}
    sweep(tmp_path, over=over)
    assert status(tmp_path) == ([("backprop", 4, 0, 2, 0)], None)
    asked = files.read_json(tmp_path / "store.json")
    asked["learners"]["backprop"]["seeds"] = [1, 2, 3, 4]
    asked["learners"]["new"] = asked["learners"]["backprop"] | {"over": {}}
    files.write_json(tmp_path / "store.json", asked)
    (backprop, new), writer = status(tmp_path)
    seconds = sum(block.seconds for block in read_store(tmp_path)[1]) / 4
    assert backprop[:4] == ("backprop", 2, 6, 1) and backprop.seconds_left == pytest.approx(6 * seconds)
    assert new[:4] == ("new", 0, 4, 0) and new.seconds_left == pytest.approx(4 * seconds) and writer is None
    for path in (tmp_path / "blocks").iterdir():
        path.unlink()
    assert status(tmp_path)[0][1] == ("new", 0, 4, 0, None)


def test_status_counts_the_fresh_seeds_of_the_best_setting(tmp_path):
    over = {"step_size": [0.01, 0.02]}
    cp.sweep(LEARNERS, STREAM, over, 2, 20, store=tmp_path, evaluate=3, progress=False)
    assert status(tmp_path) == ([("backprop", 7, 0, 0, 0)], None)
    (evaluation,) = (tmp_path / "blocks").glob("*-2.nc")
    evaluation.unlink()
    assert status(tmp_path)[0][0][:3] == ("backprop", 4, 3)


# Whatever ends the process.


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(tmp_path, filled, monkeypatch, capsys):
    run_blocks = BLOCKS.run_blocks

    def interrupted(blocks, *rest):
        yield from run_blocks(blocks[:2], *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SWEEP, "run_blocks", interrupted)
        with pytest.raises(KeyboardInterrupt, match=f"what is in {tmp_path} is kept, and the same sweep goes on"):
            sweep(tmp_path)
    assert len(list((tmp_path / "blocks").iterdir())) == 2 and status(tmp_path)[0][0].missing == 4
    monkeypatch.setattr("crossprop.cli.sweep.fill", lambda *_, **__: interrupted_by("kept"))
    with pytest.raises(SystemExit):
        cp.cli.main(["sweep", "--stream", "geoff", "--learners", "frozen", "--store", "kept"])
    assert capsys.readouterr().err == "crossprop: interrupted: kept\n"
    assert_same_sweeps(sweep(tmp_path), filled[1])


def test_a_store_that_is_moved_while_it_is_written_to_is_named_and_not_begun_again(tmp_path, monkeypatch):
    store, moved, add = tmp_path / "store", tmp_path / "moved", Store.add

    def add_and_move(folder, *block):
        add(folder, *block)
        with suppress(FileNotFoundError):  # another writer moved it
            store.rename(moved)

    monkeypatch.setattr(Store, "add", add_and_move)
    with pytest.raises(FileNotFoundError, match=r"blocks.* cannot be written: the store was moved or deleted"):
        sweep(store)
    assert not store.exists() and len(read_store(moved)[1]) >= 1


def interrupted_by(text):
    raise KeyboardInterrupt(text)


def test_a_disk_that_fills_is_told_and_what_was_written_before_stays(tmp_path):
    """No file may grow past 16 KiB: the blocks of two seeds fit, that of thirty-two does not."""
    before = sweep(tmp_path, record_every=1)
    files = files_in(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
    try:
        with pytest.raises(
            OSError, match=r"cannot be written: File too large\. What was written before is kept"
        ) as caught:
            sweep(tmp_path, record_every=1, seeds=34)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG and str(tmp_path / "blocks") in str(caught.value)
    after = files_in(tmp_path)
    assert after.keys() == files.keys() and all(after[name] == files[name] for name in files if "blocks" in name)
    there = cp.open_sweep(tmp_path)["backprop"]
    assert (
        there.sel(seed=[0, 1]).equals(before["backprop"]) and (there.diverged_at.sel(seed=slice(2, None)) == -2).all()
    )
    assert_same_sweeps(sweep(tmp_path, record_every=1, seeds=34), sweep(None, record_every=1, seeds=34))


@pytest.mark.long
def test_memory_does_not_grow_with_the_number_of_blocks(tmp_path, monkeypatch):
    class Instant:
        def __init__(self, cells, *rest, **options):
            self.cells = cells

        def results(self):
            for number, _ in enumerate(self.cells):
                yield number, RunResult({"loss": np.zeros(2**18, np.float32)}, -1, 2**18)

    monkeypatch.setattr(BLOCKS, "Executor", Instant)
    long = cp.Geoff(inputs=6, features=10, tasks="A", examples=2**18)
    peaks = []
    for blocks in (20, 80):
        tracemalloc.start()
        grid = {"step_size": np.linspace(0.1, 0.2, blocks)}
        SWEEP.fill(SWEEP.SweepSpec.of(LEARNERS, long, grid, 1, record_every=1, store=tmp_path / str(blocks)))
        peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
        assert len(list((tmp_path / str(blocks) / "blocks").iterdir())) == blocks
    assert peaks[1] < peaks[0] + 10


HOLDING = """
import sys
from pathlib import Path
import crossprop as cp

replace = Path.replace

def wait(scratch, path):
    if path.suffix == ".nc":
        print("writing", flush=True)
        sys.stdin.readline()
    return replace(scratch, path)

Path.replace = wait
net = cp.Network(inputs=6, hidden=8)
stream = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40)
grid = {"step_size": [0.01], "network.outgoing_scale": [1]}
cp.sweep({"backprop": cp.Backprop(net, 0.01)}, stream, over=grid, seeds=2, record_every=20, store=sys.argv[1])
"""


def test_a_second_process_is_told_and_spoils_nothing(tmp_path, capsys):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    first = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=QUICK)
    assert first.stdout is not None and first.stdout.readline() == "writing\n"
    before = files_in(tmp_path)
    assert any(name.endswith(".part") for name in before)
    with pytest.raises(BlockingIOError, match=f"{tmp_path} is being written to by process {first.pid} on "):
        sweep(tmp_path)
    assert status(tmp_path)[0] == [("backprop", 0, 2, 0, None)]
    cp.cli.main(["status", str(tmp_path)])
    assert f"Running now: process {first.pid} on " in capsys.readouterr().out
    assert files_in(tmp_path) == before
    first.communicate("go\n", timeout=60)
    assert first.returncode == 0 and status(tmp_path) == ([("backprop", 2, 0, 0, 0)], None)
    assert sorted(path.suffix for path in (tmp_path / "blocks").iterdir()) == [".nc"]


# One process imports once and forks for every attempt, before JAX has started: an attempt costs a second.
KILLING = """
import json, os, random, signal, sys, time, warnings
from pathlib import Path

warnings.simplefilter("ignore")
import jax, numpy
import crossprop as cp

folder = Path(sys.argv[1])
jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
KILLS, MIDWAY = int(sys.argv[2]), int(sys.argv[2]) // 4
BLOCKS, DAWDLE = 120, 0.06


module = sys.modules["crossprop._support.files"]
to_disk = module.to_disk


def dawdle(path):
    if path.parent.name == "blocks":
        data = path.read_bytes()
        with path.open("wb") as file:
            os.write(log, f"first {path.name}\\n".encode())
            file.write(data[: len(data) // 2])
            file.flush()
            time.sleep(DAWDLE)
            file.write(data[len(data) // 2 :])
            file.flush()
            os.write(log, f"last {path.name}\\n".encode())
    to_disk(path)


def sweep(store):
    net = cp.Network(inputs=6, hidden=8)
    numbers = numpy.random.default_rng(0).normal(size=(80, 7))
    stream = cp.Arrays(numbers[:, 1:], numbers[:, 0])
    grid = {"step_size": numpy.geomspace(1e-3, 1e-1, BLOCKS)}
    cp.sweep({"backprop": cp.Backprop(net, 0.01)}, stream, over=grid, seeds=2, record_every=20, store=store)


def attempt(store):
    child = os.fork()
    if not child:
        module.to_disk = dawdle
        sweep(store)
        os._exit(0)
    return child


def writes():
    lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    return [name for word, name in lines if word == "first"], {name for word, name in lines if word == "last"}


log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
assert os.waitpid(attempt(folder / "whole"), 0)[1] == 0
rng = random.Random(0)
kills, midway, twice = 0, 0, 0
while kills < KILLS or midway < MIDWAY:
    os.truncate(folder / "log", 0)
    there = {path.name for path in folder.glob("killed/blocks/*.nc")}
    child = attempt(folder / "killed")
    if kills % 2:
        while not writes()[0]:
            assert not os.waitpid(child, os.WNOHANG)[0]
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 1.5 * DAWDLE))
    else:
        time.sleep(rng.uniform(0, 0.8))
    os.kill(child, signal.SIGKILL)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        break
    first, last = writes()
    kills += 1
    midway += bool(set(first) - last) and any(folder.glob("killed/blocks/.*.part"))
    target = lambda name: name.removeprefix(".").partition(".nc")[0] + ".nc"
    twice += sum(target(name) in there for name in first) + len(first) - len(set(first))
left = BLOCKS - len(list(folder.glob("killed/blocks/*.nc")))
assert os.waitpid(attempt(folder / "killed"), 0)[1] == 0
print(json.dumps({"kills": kills, "midway": midway, "twice": twice, "left": left}))
"""


@pytest.mark.long
def test_a_sweep_killed_at_random_moments_ends_bit_equal_to_one_never_killed(tmp_path):
    kills = 20
    command = [sys.executable, "-c", KILLING, str(tmp_path), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=QUICK, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] >= kills and told["midway"] >= kills // 4 and told["left"] > 0, told
    assert told["twice"] == 0
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert files_in(killed).keys() == files_in(whole).keys() and len(files_in(killed)) == 122
    assert_same_sweeps(cp.open_sweep(killed), cp.open_sweep(whole))
    runs = [(block.identity, seed) for block in read_store(killed)[1] for seed in block.seeds.tolist()]
    assert len(runs) == len(set(runs)) == 240
    assert (cp.open_sweep(killed)["backprop"].diverged_at == -1).all()
