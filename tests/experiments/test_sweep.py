"""What a sweep promises: each cell the run that it names, axes that say what they are, clear errors, one table."""

import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import crossprop as cp
from crossprop.cli import main
from crossprop.engines import segments
from crossprop.experiments.grid import checked_grids
from crossprop.experiments.toml import read_spec
from crossprop.learners import LEARNERS
from registered import OWN_LEARNERS

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network.paper(inputs=6, hidden=8)
STREAM = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40)
PAIR = {"crossprop": cp.Crossprop(NET, 0.01), "backprop": cp.Backprop(NET, 0.01)}
OVER = {
    "step_size": [0.01, 0.1],
    "eta": [0, 0.5],
    "network.outgoing_scale": [0, 1],
    "stream.beta": [0.5, 0.7],
}


@pytest.fixture(scope="module")
def swept():
    return cp.sweep(PAIR, STREAM, over=OVER, seeds=[3, 7], record_every=20)


# Cells.


@pytest.mark.parametrize("name", PAIR)
def test_every_cell_is_the_run_of_its_learner_stream_and_seed_bit_for_bit(swept, name):
    records = swept[name]
    learner_type = type(PAIR[name])
    axes = {axis: values for axis, values in OVER.items() if axis in records.dims}
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        net = cp.Network.paper(inputs=6, hidden=8, outgoing_scale=point["network.outgoing_scale"])
        own = {axis: value for axis, value in point.items() if "." not in axis}
        stream = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40, beta=point["stream.beta"])
        alone = cp.run(learner_type(net, **own), stream, seeds=[7], record_every=20).isel(learner=0)
        cell = records.sel(point).sel(seed=[7])
        for variable in alone.data_vars:
            np.testing.assert_array_equal(cell[variable], alone[variable], err_msg=f"{variable} at {point}")


def test_a_learner_is_not_multiplied_along_an_axis_that_it_lacks(swept):
    assert list(swept) == ["crossprop", "backprop"]
    assert swept["crossprop"].loss.dims == (*OVER, "seed", "step")
    assert swept["backprop"].loss.dims == tuple(axis for axis in (*OVER, "seed", "step") if axis != "eta")
    assert swept["backprop"].diverged_at.dims == swept["backprop"].loss.dims[:-1]


def test_the_axes_seeds_steps_and_tasks_are_labelled(swept):
    records = swept["crossprop"]
    for axis, values in OVER.items():
        assert records[axis].values.tolist() == values
    assert records.seed.values.tolist() == [3, 7]
    assert records.step.values.tolist() == [20, 40, 60, 80] and records.task.values.tolist() == [0, 0, 1, 1]
    assert records.learner == "crossprop"
    alone = cp.run(PAIR, STREAM, seeds=[3, 7], record_every=20)
    for attribute in alone.attrs.keys() - {"learners"}:
        assert records.attrs[attribute] == alone.attrs[attribute], attribute
    assert json.loads(records.attrs["learners"])["crossprop"] == json.loads(alone.attrs["learners"])["crossprop"]


def test_axes_of_its_own_come_before_the_common_ones():
    over = {"step_size": [0.01, 0.1], "crossprop": {"step_size": [0.2], "memory_step_size": [None, 0.3]}}
    records = cp.sweep(PAIR, STREAM, over=over, seeds=1)
    assert records["backprop"].step_size.values.tolist() == [0.01, 0.1]
    assert records["crossprop"].step_size.values.tolist() == [0.2]
    np.testing.assert_array_equal(records["crossprop"].memory_step_size, [np.nan, 0.3])
    unset = cp.run(cp.Crossprop(NET, 0.2), STREAM, seeds=1)
    np.testing.assert_array_equal(records["crossprop"].loss[0, 0], unset.loss[0])
    assert (records["crossprop"].loss[0, 1] != unset.loss[0]).any()


def test_axes_of_a_pattern_are_of_all_that_match_and_have_them():
    learners = {"a-sgd": PAIR["crossprop"], "b-sgd": PAIR["backprop"], "b[1]": PAIR["backprop"]}
    over = {
        "step_size": [1],
        "*-sgd": {"step_size": [2], "eta": [0, 1]},
        "b*": {"step_size": [3]},
        "b[1]": {"network.bias": [True]},
    }
    grids = {grid.name: grid.over for grid in checked_grids(learners, STREAM, over, [0])}
    assert grids == {
        "a-sgd": {"step_size": [2], "eta": [0, 1]},
        "b-sgd": {"step_size": [3]},
        "b[1]": {"step_size": [3], "network.bias": [True]},
    }


def test_no_axes_is_a_run():
    records = cp.sweep(PAIR["backprop"], STREAM, over={}, seeds=2)
    np.testing.assert_array_equal(records["backprop"].loss, cp.run(PAIR["backprop"], STREAM, seeds=2).loss[0])


def test_sizes_names_and_flags_can_be_axes():
    over = {
        "optimizer": ["adam"],
        "network.activation": ["relu"],
        "network.bias": np.array([True]),
        "network.hidden": [5],
    }
    records = cp.sweep({"backprop": PAIR["backprop"]}, STREAM, over=over, seeds=1)["backprop"]
    adam = cp.Backprop(cp.Network.paper(inputs=6, hidden=5, activation="relu", bias=True), 0.01, optimizer="adam")
    point = {"optimizer": "adam", "network.activation": "relu", "network.bias": True, "network.hidden": 5}
    np.testing.assert_array_equal(records.loss.sel(point), cp.run(adam, STREAM, seeds=1).loss[0])


def test_streams_of_several_lengths_share_their_steps_and_tell_their_tasks():
    over = {"stream.examples": [20, 40]}
    records = cp.sweep({"backprop": PAIR["backprop"]}, STREAM, over=over, seeds=2, record_every=30)["backprop"]
    assert records.step.values.tolist() == [30, 40, 60, 80]
    assert records.task.values.tolist() == [[1, 1, -1, -1], [0, -1, 1, 1]]
    short, long = (records.loss.sel({"stream.examples": examples}) for examples in over["stream.examples"])
    assert np.isnan(short[:, 2:]).all() and np.isnan(long[:, 1]).all()
    alone = cp.run(PAIR["backprop"], STREAM, seeds=2, record_every=30)
    np.testing.assert_array_equal(long[:, [0, 2, 3]], alone.loss[0])


def test_a_run_that_diverges_says_when():
    over = {"step_size": [0.01, 1e4], "network.outgoing_scale": [1]}
    records = cp.sweep({"backprop": PAIR["backprop"]}, STREAM, over=over, seeds=[3, 7], record_every=20)["backprop"]
    assert (records.diverged_at.sel(step_size=1e4) >= 0).all() and np.isnan(
        records.loss.sel(step_size=1e4)[..., -1]
    ).all()
    assert (records.diverged_at.sel(step_size=0.01) == -1).all()


def test_cells_of_the_same_shapes_share_one_compiled_program():
    compiled = segments._compiled_segment("cpu")
    compiled.clear_cache()
    net = cp.Network.paper(inputs=6, hidden=9)
    over = {
        "step_size": [0.01, 1],
        "eta": [0, 0.5, 1],
        "network.outgoing_scale": [0, 1, 0.5],
        "stream.beta": [0.5, 0.7],
    }
    cp.sweep(cp.Crossprop(net, 0.01), STREAM, over=over, seeds=1)
    assert compiled._cache_size() == 1


# Powers.


@pytest.mark.parametrize(
    ("ends", "base", "expected"),
    [
        ((2**-14, 2**-6), 2, [2.0**e for e in range(-14, -5)]),
        ((1e-5, 1e-1), 10, [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        ((0.1, 0.1), 10, [0.1]),
        ((1 / 9, 27), 3, [1 / 9, 1 / 3, 1, 3, 9, 27]),
        ((0.003, 0.3), 10, [0.003, 0.03, 0.3]),
        ((2**-9, 2), 4, [2.0**e for e in range(-9, 2, 2)]),
        ((0.25, 1), math.sqrt(2), [0.25, 2**-1.5, 0.5, 2**-0.5, 1]),
    ],
)
def test_logspace_gives_the_powers_between_its_ends_exactly(ends, base, expected):
    assert cp.logspace(*ends, base=base) == expected


# Bad input.

LONG = cp.Geoff(inputs=6, tasks="A" * 26, examples=10**6)


def over(**axes):
    return lambda **options: cp.sweep(
        PAIR, LONG, over={name.replace("__", "."): v for name, v in axes.items()}, **options
    )


BAD = {
    "no hyperparameter": (over(etta=[0, 1]), "over", "'etta'; did you mean 'eta'?"),
    "no field of the network": (over(network__hiden=[3]), "over", "'network.hiden'; did you mean 'network.hidden'?"),
    "no field of the stream": (over(stream__betta=[3]), "over", "'stream.betta'; did you mean 'stream.beta'?"),
    "no axis of its own": (over(backprop={"eta": [0]}), "over['backprop']", "'eta'"),
    "no axis of any that match": (over(**{"b*": {"eta": [0]}}), "over['b*']", "'eta'"),
    "a pattern of none": (over(**{"*-sgd": {"eta": [0]}}), "a learner with axes of its own in over", "'*-sgd'"),
    "no such learner": (over(crosprop={"eta": [0]}), "over", "'crosprop'; did you mean 'crossprop'?"),
    "empty": (over(eta=[]), "over['eta'] must not be empty", "[]"),
    "not a list": (over(eta=0.5), "over['eta'] must be a list", "0.5"),
    "text": (over(optimizer="adam"), "over['optimizer'] must be a list", "'adam'"),
    "repeated": (over(eta=[0, 0.0]), "over['eta'] must not repeat", "[0, 0.0]"),
    "no plain value": (over(optimizer=[cp.Geoff]), "over['optimizer'] must hold", "Geoff"),
    "nested": (over(eta=[[0]]), "over['eta'] must hold", "[0]"),
    "out of range": (over(eta=[0, 1.5]), "eta=1.5 for learners['crossprop']: eta must be", "1.5"),
    "not a number": (over(step_size=["big"]), "step_size='big'", "'big'"),
    "not finite": (over(step_size=[math.nan]), "step_size must be", "nan"),
    "no unset step size": (over(step_size=[None]), "step_size must be", "None"),
    "stream out of range": (over(stream__beta=[1.5]), "beta must be", "1.5"),
    "no fit": (over(network__inputs=[7]), "inputs of learners['crossprop'].network must be 6", "7"),
    "not a dict": (lambda **o: cp.sweep(PAIR, LONG, over=[("eta", [0])], **o), "over must be a dict", "eta"),
    "stream": (lambda **o: cp.sweep(PAIR, "geoff", over={}, **o), "stream", "'geoff'"),
    "learners": (lambda **o: cp.sweep({}, LONG, over={}, **o), "learners", "{}"),
    "seeds": (lambda **o: cp.sweep(PAIR, LONG, over={}, seeds=0, **o), "seeds", "0"),
    "record_every": (lambda **o: cp.sweep(PAIR, LONG, over={}, record_every=0, **o), "record_every", "0"),
    "engine": (lambda **o: cp.sweep(PAIR, LONG, over={}, engine="warp", **o), "engine", "'warp'"),
    "why_unsupported engine": (
        lambda **o: cp.sweep(PAIR, LONG, over={"optimizer": ["sgd", "adam"]}, engine="chunked", **o),
        "engine='chunked' cannot run learners['crossprop']",
        "'adam'",
    ),
    "no power": (lambda **_: cp.logspace(0.1, 0.5), "stop must be 0.1 times a power of base 10, such as 1,", "0.5"),
    "base": (lambda **_: cp.logspace(0.1, 1, base=1), "base", "1"),
    "start": (lambda **_: cp.logspace(0, 1), "start", "0"),
    "backwards": (lambda **_: cp.logspace(1, 0.1), "stop", "0.1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_with_its_value_and_nothing_is_written(case, tmp_path):
    call, argument, value = BAD[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        call(store=tmp_path / "store")
    assert argument in str(caught.value) and value in str(caught.value)
    assert not list(tmp_path.iterdir())


# The table: a TOML file, or flags.

FILE = """
seeds = 2
record_every = 20
store = "kept"

[stream]
name = "geoff"
inputs = 6
features = 10
tasks = "AB"
examples = 40

[network]
hidden = 8

[learners.crossprop]
step_size = 0.01

[learners.half]
rule = "crossprop-0.5"
memory_step_size = 0.1

[learners.backprop]

[over]
step_size = {logspace = ["2**-8", 0.015625], base = 2}
network.outgoing_scale = [0, 1]
"stream.beta" = [0.5]

[over.crossprop]
eta = [0, 0.25]
incoming_step_size = ["none", "2**-3"]
memory_step_size = "1e-4..1e-3"
"""
FLAGS = (
    "--stream", "geoff", "--learners", "crossprop", "backprop", "--seeds", "2", "--record-every", "20",
    "--over", "network.inputs=6", "--over", "network.hidden=8", "--over", "stream.inputs=6", "--over",
    "stream.features=10", "--over", "stream.tasks=AB", "--over", "stream.examples=40", "--over", "crossprop:eta=0,0.5",
    "--over", "step_size=2**-8..2**-6",
)  # fmt: skip


def write(folder, text):
    (folder / "sweep.toml").write_text(text)
    return folder / "sweep.toml"


def test_a_file_says_what_python_says(tmp_path):
    given = read_spec(write(tmp_path, FILE))
    assert given.learners == {
        "crossprop": cp.Crossprop(NET, 0.01),
        "half": cp.Crossprop(NET, 5e-4, eta=0.5, memory_step_size=0.1),
        "backprop": cp.Backprop(NET, 5e-4),
    }
    assert given.stream == STREAM
    assert given.over == {
        "step_size": [2**-8, 2**-7, 2**-6],
        "network.outgoing_scale": [0, 1],
        "stream.beta": [0.5],
        "crossprop": {"eta": [0, 0.25], "incoming_step_size": [None, 0.125], "memory_step_size": [1e-4, 1e-3]},
    }
    assert (given.seeds, given.record_every, given.engine, given.store) == ([0, 1], 20, "auto", Path("kept"))


def test_flags_stand_in_the_place_of_the_files_and_choose_among_its_learners(tmp_path):
    path = write(tmp_path, FILE)
    given = read_spec(path, ["eta=0,1", "stream.beta=0.6", "half:eta=0.5"], learners=("crossprop", "adam"), seeds=3)
    assert given.learners == {"crossprop": cp.Crossprop(NET, 0.01), "adam": cp.Backprop(NET, 5e-4, optimizer="adam")}
    assert given.seeds == [0, 1, 2] and given.over["eta"] == [0, 1] and given.over["stream.beta"] == [0.6]
    assert given.over["half"] == {"eta": [0.5]}


def test_a_list_of_optimizers_is_a_learner_for_each(tmp_path):
    file = FILE.replace("[learners.backprop]", '[learners.backprop]\noptimizer = ["sgd", "adam"]')
    learners = read_spec(write(tmp_path, file)).learners
    assert list(learners) == ["crossprop", "half", "backprop-sgd", "backprop-adam"]
    assert learners["backprop-adam"] == cp.Backprop(NET, 5e-4, optimizer="adam")
    with pytest.raises(ValueError, match=r"learners.backprop.optimizer must not be empty, got \[\]"):
        read_spec(write(tmp_path, file.replace('["sgd", "adam"]', "[]")))


def test_a_stream_of_classes_brings_its_sizes_and_its_loss(tmp_path):
    given = read_spec(write(tmp_path, 'learners = ["adam"]\nstream = {name = "digits", tasks = "A", shuffle = false}'))
    assert given.learners["adam"].network == cp.Network(64, 100, 10, loss="softmax")
    assert given.stream.tasks == "A" and not given.stream.shuffle
    assert read_spec(None, stream="digits", learners=("adam",)).stream.shuffle


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seeds", "sedes", "a key of a sweep .* got 'sedes'; did you mean 'seeds'?"),
        ("examples", "exmples", "an argument of stream 'geoff' .* got 'exmples'; did you mean 'examples'?"),
        ("hidden", "hiden", "a key of network .* got 'hiden'; did you mean 'hidden'?"),
        ('name = "geoff"', 'name = "goeff"', "the name of stream .* got 'goeff'; did you mean 'geoff'?"),
        ('name = "geoff"', "", "the name of stream .* got None"),
        ("memory_step_size = 0.1", "memory_stepsize = 0.1", "learners.half .*'memory_stepsize'; did you mean 'm"),
        ('rule = "crossprop-0.5"', 'rule = "croossprop"', "rule of learners.half .*'croossprop'; did you mean 'c"),
        ("[learners.backprop]", "[learners.backprob]", "learners must be one of .*; did you mean 'backprop'?"),
        ("eta = [0, 0.25]", "etta = [0, 0.25]", "an axis in over['crossprop'] .* got 'etta'; did you mean 'eta'?"),
        ("[over.crossprop]", "[over.crosprop]", "got 'crosprop'; did you mean 'crossprop'?"),
        ("outgoing_scale = [0, 1]", "outgoing_scal = [0, 1]", "got 'network.outgoing_scal'; did you mean 'network.out"),
        ("eta = [0, 0.25]", "eta = []", "over['eta'] must not be empty, got []"),
        ("eta = [0, 0.25]", "eta = 0.25", "over['eta'] must be a list of values, got 0.25"),
        ("eta = [0, 0.25]", "eta = [0, 2]", "eta must be between 0 and 1, got 2"),
        ("eta = [0, 0.25]", 'eta = "all"', "over.eta must be a list of values, or a range such as .* got 'all'"),
        ("0.015625], base = 2", "0.02], base = 2", "over.step_size: stop must be 0.00390625 times .* got 0.02"),
        ("0.015625], base = 2", "0.015625], bas = 2", "a key of over.step_size .* got 'bas'; did you mean 'base'?"),
        ("0.015625], base = 2", "0.015625, 3], base = 2", "over.step_size.logspace must be a list of two ends"),
        ('"1e-4..1e-3"', '"1e-4..tanh"', "over.memory_step_size: stop must be a number, got 'tanh'"),
        ("step_size = 0.01\n", "step_size = -1\n", "step_size must be .* got -1"),
        ("[learners.backprop]", "[learners]\nbackprop = 3", "learners.backprop must be a table, got 3"),
        ("seeds = 2", "seeds = = 2", "sweep.toml must be a TOML file: .*line 2"),
        ("seeds = 2", "seeds = 0", "seeds must be at least 1, got 0"),
        ("seeds = 2", "import = 3", "import must be a list of modules, got 3"),
        ("seeds = 2", 'import = ["nowhere"]', "import: nowhere could not be imported"),
    ],
)  # fmt: skip
def test_a_typo_in_the_file_is_named_with_the_nearest_that_would_do(call, tmp_path, old, new, expected):
    assert FILE.count(old) == 1
    answer = call("sweep", write(tmp_path, FILE.replace(old, new)), "--store", tmp_path / "store")
    assert answer.code == 2 and answer.out == "" and "Traceback" not in answer.err
    assert re.search(expected.replace("[", r"\[").replace("?", r"\?"), answer.err), answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


def test_a_file_that_lacks_something_is_named_with_what_it_lacks(call, tmp_path):
    path = write(tmp_path, "")
    assert f"{path} has no stream and no learners: give stream = " in call("sweep", path, "--store", "kept").err
    assert f"{path} has no learners: give " in call("sweep", path, "--stream", "geoff", "--store", "kept").err
    path.write_bytes(b"\xff\xfe")
    assert f"{path} must be a TOML file in UTF-8" in call("sweep", path, "--store", "kept").err


def test_flags_of_the_network_and_the_stream_are_merged_with_the_files_tables(tmp_path):
    given = read_spec(write(tmp_path, FILE), network={"hidden": 9}, stream={"tasks": "BA"})
    assert given.stream == replace(STREAM, tasks="BA")
    assert given.learners["backprop"] == cp.Backprop(replace(NET, hidden=9), 5e-4)
    other = read_spec(write(tmp_path, FILE), stream={"name": "digits", "tasks": "BA"}, network={"inputs": 64})
    assert other.stream.tasks == "BA" and other.stream.inputs == 64


def test_all_in_a_file_is_every_learner(tmp_path):
    assert list(read_spec(write(tmp_path, 'learners = ["all"]\nstream = "geoff"')).learners) == list(LEARNERS)
    with pytest.raises(TypeError, match=r"learners must be names of learners or a table, got \[\['adam'\]\]"):
        read_spec(write(tmp_path, 'learners = [["adam"]]\nstream = "geoff"'))


def test_a_flag_for_every_learner_precedes_the_files_values(tmp_path):
    learners = read_spec(write(tmp_path, FILE), learner_flags={"step_size": 0.5}).learners
    assert {learner.step_size for learner in learners.values()} == {0.5}


# The command line.


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_flags_run_what_python_runs_and_status_tells_of_it(call, tmp_path):
    answer = call("sweep", *FLAGS, "--store", "kept")
    assert (answer.code, answer.err) == (0, "")
    assert re.search(r"^ *crossprop +12 +0 +0 ", answer.out, re.MULTILINE)
    assert re.search(r"^ *backprop +6 +0 +0 ", answer.out, re.MULTILINE)
    assert "crossprop.open_sweep('kept')" in answer.out
    assert call("status", "kept").out in answer.out
    sizes = {"network.inputs": [6], "network.hidden": [8]} | {"stream.inputs": [6], "stream.features": [10]}
    steps = {"stream.tasks": ["AB"], "stream.examples": [40], "step_size": cp.logspace(2**-8, 2**-6, base=2)}
    learners = {
        "crossprop": cp.Crossprop(cp.Network.paper(20, 500), 5e-4),
        "backprop": cp.Backprop(cp.Network.paper(20, 500), 5e-4),
    }
    own = {"crossprop": {"eta": [0, 0.5]}}
    expected = cp.sweep(learners, cp.Geoff(), over=sizes | steps | own, seeds=2, record_every=20)
    for name, records in cp.open_sweep("kept").items():
        assert records.identical(expected[name].transpose(*records.dims))


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A sweep that the command line ran: its best eta is 1, its least step size the best, its greatest diverges."""
    store = tmp_path_factory.mktemp("answered") / "kept"
    axes = ("--over", "step_size=2**-9,1e9", "--over", "crossprop:eta=1")
    main(["sweep", *FLAGS[:-4], *axes, "--seeds", "3", "--record-every", "20", "--store", str(store)])
    return store


def test_a_sweep_answers_with_best_settings_and_comparisons(answered, call):
    answer = call("status", answered).out
    assert max(map(len, answer.splitlines())) <= 80
    crossprop, backprop = answer.partition("\ncrossprop\n")[2].split("\n\nbackprop\n")
    assert "step_size=2⁻⁹ (the edge of the grid), its eta makes it backprop" in " ".join(crossprop.split())
    assert "crossprop's squared error equals backprop's in every seed" in " ".join(crossprop.split())
    for part in (crossprop, backprop):
        assert re.search(r"squared error [\d.]+ \[[\d.]+, [\d.]+\]", part)
        assert re.search(r"3 runs diverged, the earliest at step \d", part)
    assert "--evaluate 60" in answer


def test_an_evaluated_sweep_answers_on_fresh_seeds_with_a_p_value(answered, call):
    words = ("--over", "step_size=2**-9,1e9", "--over", "crossprop:eta=0", "--seeds", "3", "--record-every", "20")
    shutil.copytree(answered, "kept")
    answer = call("sweep", *FLAGS[:-4], *words, "--store", "kept", "--evaluate", "4")
    assert answer.code == 0 and "on 4 fresh seeds" in answer.out and "--evaluate" not in answer.out
    evaluation = cp.open_evaluation("kept")
    (expected,) = cp.compare(evaluation.values(), {"crossprop": "backprop"})
    assert expected.sentence("squared error") in " ".join(answer.out.split())


def test_layers_are_an_axis(call, tmp_path):
    words = ("--stream", "geoff", "--learners", "frozen", "--examples", "20", "--seeds", "2", "--record-every", "20")
    answer = call("sweep", *words, "--over", "network.hidden=4,3x2", "--store", "kept")
    assert answer.code == 0 and re.search(r"network.hidden=(4|3x2)\n", answer.out)
    (tmp_path / "same.toml").write_text("[over]\nnetwork.hidden = [4, [3, 2]]\n")
    again = call("sweep", "same.toml", *words, "--store", "kept")
    assert again.code == 0 and "to do" not in again.out
    records = cp.open_sweep("kept")["frozen"]
    assert records["network.hidden"].values.tolist() == ["4", "3x2"]
    deep = cp.run(cp.Frozen(cp.Network.paper(20, (3, 2)), 5e-4), cp.Geoff(examples=20), seeds=2, record_every=20)
    np.testing.assert_array_equal(records.loss.sel({"network.hidden": "3x2"}), deep.loss.values[0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--over", "etta=0"), r"an axis in over .* got 'etta'; did you mean 'eta'\?"),
        (("--over", "eta"), r"over must be AXIS=VALUES, .* got 'eta'"),
        (("--over", "eta=2**9999"), r"a power in over must be a finite number, got '2\*\*9999'"),
        (("--over", "eta=0**-1"), r"a power in over must be a finite number, got '0\*\*-1'"),
        (("--over", "eta="), r"over must be AXIS=VALUES, .* got 'eta='"),
        (("--over", "crossprop:eta=2"), r"eta must be between 0 and 1, got 2"),
        (("--over", "step_size=0.1..0.5"), r"over.step_size: stop must be 0.1 times a power of base 10, .* got 0.5"),
        (("--learners", "backprob"), r"got 'backprob'; did you mean 'backprop'\?"),
        (("--engine", "steam"), r"engine must be one of .* got 'steam'"),
        (("--seeds", "0"), r"seeds must be at least 1, got 0"),
        (("nowhere.toml",), r"nowhere.toml: No such file"),
    ],
)
def test_flags_that_do_not_fit_are_named_and_nothing_is_written(call, tmp_path, words, expected):
    answer = call("sweep", *FLAGS, "--store", "kept", *words)
    assert answer.code == 2 and not answer.out and "Traceback" not in answer.err
    assert re.search(expected, answer.err), answer.err
    assert not list(tmp_path.iterdir())


def test_a_sweep_without_a_store_is_told_to_have_one(call):
    assert "store must be a folder" in call("sweep", *FLAGS).err


def test_status_of_a_folder_that_is_no_store_is_refused(call, tmp_path):
    answer = call("status", tmp_path)
    assert answer.code == 2 and "must be a folder that a sweep wrote" in answer.err
    (tmp_path / "records.nc").touch()
    assert "a sweep wrote: it has the records of one run, records.nc" in call("status", tmp_path).err


def test_help_tells_every_option(call):
    answer = call("sweep", "--help")
    options = ("FILE", "--learners", "--stream", "--over", "--seeds", "--record-every", "--engine", "--store")
    for mention in (*options, "step_size=2**-14..2**-6", *OWN_LEARNERS):
        assert mention in answer.out
    assert "FOLDER" in call("status", "--help").out
