"""What evaluation promises: chosen on the sweep's seeds, judged on fresh ones, paired, and nothing mixed."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import xarray

import crossprop as cp
import crossprop.cli
from crossprop.experiments.evaluate import choose, edges, scores
from crossprop.experiments.grid import Grid
from crossprop.experiments.store import read_store
from crossprop.records import phase_weights

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network(inputs=6, hidden=8)
STREAM = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40)
PAIR = {"crossprop": cp.Crossprop(NET, 0.01), "backprop": cp.Backprop(NET, 0.01)}
OVER = {"step_size": [0.001, 0.01, 1e6], "crossprop": {"eta": [0, 0.5]}}


def swept(store, seeds=2, evaluate=3, over=OVER, learners=PAIR):
    return cp.sweep(learners, STREAM, over=over, seeds=seeds, record_every=20, store=store, evaluate=evaluate)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated") / "store"
    swept(folder)
    return folder


def values_of(**runs):
    return {name: xarray.DataArray(values, {"seed": range(len(values))}, ["seed"]) for name, values in runs.items()}


# Choosing.


def test_the_setting_with_the_least_mean_over_the_sweeps_seeds_is_chosen(store):
    chosen = cp.open_evaluation(store).chosen
    for name, records in cp.open_sweep(store).items():
        means = records.loss.mean("step").where(records.diverged_at < 0, np.inf).mean("seed")
        best = means.isel(means.argmin(...))
        assert chosen[name].point == {axis: best[axis].item() for axis in means.dims}
        assert chosen[name].mean == pytest.approx(best.item()) and chosen[name].diverged == 0


def test_a_setting_that_diverged_comes_after_all_that_did_not(tmp_path):
    """The greatest step size is soon infinitely wrong; the least is merely bad."""
    swept(tmp_path / "s", over={"step_size": [1e-9, 1e6]})
    assert cp.open_evaluation(tmp_path / "s").chosen["backprop"].point == {"step_size": 1e-9}
    asked, kept = read_store(tmp_path / "s")
    assert np.isinf(scores(asked[1], kept).sel(step_size=1e6)).all()
    only = {"step_size": [1e6]}
    swept(tmp_path / "t", over=only, evaluate=None)
    (grid, *_), kept = read_store(tmp_path / "t")
    choice = choose(grid, scores(grid, kept))
    assert choice is not None and choice.diverged == 2


def test_the_edge_of_the_grid_is_flagged_and_the_limit_of_an_axis_is_not():
    over = {"step_size": [0.1, 0.2, 0.4], "eta": [0, 0.5], "optimizer": ["sgd", "adam"], "incoming_step_size": [None]}
    inside = {"step_size": 0.2, "eta": 0, "optimizer": "sgd", "incoming_step_size": None}
    grid = Grid("a", {"type": "Crossprop"}, {}, over, [0])
    assert edges(grid, inside) == ()
    assert edges(grid, inside | {"step_size": 0.4}) == ("step_size",)
    assert edges(grid, inside | {"eta": 0.5}) == ("eta",)


# Fresh seeds.


def test_the_best_settings_live_with_the_same_fresh_seeds_and_each_is_the_run_of_its_seed(store):
    evaluation = cp.open_evaluation(store)
    assert list(evaluation.records) == list(PAIR)
    for name, records in evaluation.records.items():
        assert records.seed.values.tolist() == [2, 3, 4]
        learner = type(PAIR[name])(NET, **evaluation.chosen[name].point)
        alone = cp.run(learner, STREAM, seeds=[3], record_every=20).isel(learner=0)
        for variable in alone.data_vars:
            np.testing.assert_array_equal(records[variable].sel(seed=[3]), alone[variable])


def test_fresh_seeds_are_told_in_the_store_and_never_shown_among_the_sweeps(store):
    asked = json.loads((store / "store.json").read_text())["learners"]
    assert all(grid["seeds"] == [0, 1] and grid["evaluation"] == [2, 3, 4] for grid in asked.values())
    assert all(records.seed.values.tolist() == [0, 1] for records in cp.open_sweep(store).values())


def test_what_is_evaluated_is_not_run_again(store, monkeypatch):
    monkeypatch.setattr(sys.modules["crossprop.experiments.blocks"], "Executor", None)
    records = swept(store)
    assert all(each.seed.values.tolist() == [0, 1] for each in records.values())


def test_seeds_that_come_to_choose_are_no_longer_for_judging(tmp_path):
    swept(tmp_path / "s")
    swept(tmp_path / "s", seeds=4, evaluate=None)
    records = cp.open_sweep(tmp_path / "s")["backprop"]
    assert records.seed.values.tolist() == [0, 1, 2, 3] and not records.loss.isel(step_size=0).isnull().any()
    assert read_store(tmp_path / "s")[0][0].evaluation == [4]
    swept(tmp_path / "s", seeds=4, evaluate=2)
    assert cp.open_evaluation(tmp_path / "s").records["backprop"].seed.values.tolist() == [4, 5]


# Phases.


def test_phases_are_the_last_fifth_of_tasks_and_the_first_tenth_after_switches():
    step = np.arange(10, 201, 10)
    task = np.repeat([0, 1], 10)
    counted = lambda phase: step[phase_weights(np.full(20, 10), task, phase) > 0].tolist()
    assert counted("all") == step.tolist()
    assert counted("end") == [90, 100, 190, 200] and counted("switch") == [110]


def test_a_phase_has_a_window_at_least_and_short_windows_count_less():
    weights = phase_weights(np.array([40, 40, 20]), np.zeros(3), "all")
    assert weights.tolist() == [40, 40, 20]
    assert phase_weights(np.full(4, 50), np.array([0, 0, 1, 1]), "end").tolist() == [0, 50, 0, 50]
    assert not phase_weights(np.array([50, 50]), np.zeros(2), "switch").any()


# Comparing.


def test_a_known_difference_is_found_with_its_wins():
    noise = np.random.default_rng(0).normal(size=30)
    values = values_of(better=noise, same=noise + np.random.default_rng(1).normal(0, 0.01, 30), base=noise + 1)
    found = cp.compare(values, {"better": "base", "base": "base"})
    assert str(found).startswith("[better's mean is ") and "base's mean equals base's in every seed" in str(found)
    assert found[0].together == 2 and found[0].sentence().endswith("p < 0.001 after Holm over 2")
    assert found[0].difference[:2] == pytest.approx((-1, -1)) and found[0].won == 30
    assert found[0].p < 0.001 and found[1].p == 1
    assert found[0].learner_mean == pytest.approx(noise.mean())


def test_p_values_are_corrected_for_the_comparisons_made_together():
    rng = np.random.default_rng(2)
    values = values_of(**{name: rng.normal(size=20) for name in "abcd"})
    alone = cp.compare(values, {"b": "a"})[0].p
    assert cp.compare(values, {"b": "a", "c": "a", "d": "a"})[0].p >= alone


def test_only_seeds_that_both_have_are_paired():
    a = xarray.DataArray([1.0, 2.0, 3.0], {"seed": [5, 6, 7]}, ["seed"])
    b = xarray.DataArray([3.0, 5.0], {"seed": [7, 6]}, ["seed"])
    found = cp.compare({"a": a, "b": b}, {"a": "b"})[0]
    assert (found.mean, found.pairs) == (-1.5, 2)


def test_a_diverged_run_is_lost_and_the_difference_unknown():
    found = cp.compare(values_of(a=[1.0, np.inf], b=[2.0, 2.0]), {"a": "b", "b": "a"})
    assert [each.won for each in found] == [1, 1] and all(np.isnan(each.mean) for each in found)
    assert [each.p for each in found] == [1, 1]


def test_the_records_of_a_run_are_compared_by_their_means_over_all_steps():
    coordinates = {"learner": ["a", "b"], "seed": [0, 1, 2], "step": [50, 100, 120], "task": ("step", [0, 0, 0])}
    loss = np.random.default_rng(0).uniform(1, 2, size=(2, 3, 3))
    loss[0] /= 2
    variables = {"loss": (("learner", "seed", "step"), loss), "diverged_at": (("learner", "seed"), np.full((2, 3), -1))}
    records = xarray.Dataset(variables, coordinates)
    found = cp.compare(records, {"a": "b"})[0]
    mean = np.average(loss, axis=2, weights=[50, 50, 20])
    assert found.difference.mean == pytest.approx((mean[0] - mean[1]).mean())
    assert re.fullmatch(r"a's loss is \d+% below b's \[.*\], in 3 of 3 seeds, p = 0\.\d+", found.sentence("loss"))
    assert str(found) == found.sentence()
    with pytest.raises(ValueError, match="values must be records with the dims learner, seed, step, got seed, step"):
        cp.compare(records.sel(learner="a"), {"a": "b"})

    joined = xarray.concat([records, records.isel(seed=[0]).assign_coords(learner=["c", "d"])], "learner", join="outer")
    assert cp.compare(joined, {"c": "a"})[0].sentence() == "c's mean equals a's in every seed"  # not "diverged"
    by_learner = {name: records.sel(learner=name) for name in "ab"}
    assert cp.compare(by_learner, {"a": "b"})[0] == found


def test_runs_of_a_sweep_are_averaged_over_their_own_windows_whatever_their_length():
    table = cp.sweep(PAIR, STREAM, over={"stream.examples": [25, 40]}, seeds=2, record_every=20, progress=False)
    short = {name: records.sel({"stream.examples": 25}) for name, records in table.items()}
    windows = dict(zip(short["backprop"].step.values.tolist(), short["backprop"].window.values.tolist(), strict=True))
    assert windows == {20: 20, 40: 20, 50: 10, 60: 0, 80: 0}
    alone = cp.run(PAIR, replace(STREAM, examples=25), seeds=2, record_every=20, progress=False)
    found, expected = (cp.compare(each, {"crossprop": "backprop"})[0] for each in (short, alone))
    assert found.difference == pytest.approx(expected.difference) and np.isfinite(found.difference.mean)


def test_what_has_not_one_number_per_seed_is_named():
    values = values_of(a=[1.0, 2.0]) | {
        "grid": xarray.DataArray(np.ones((2, 2)), dims=["step_size", "seed"]),
        "b": [1.0],
    }
    with pytest.raises(
        ValueError, match=r"^values\['grid'\] must have one number per seed, got the dims step_size, seed"
    ):
        cp.compare(values, {"a": "grid"})
    with pytest.raises(
        TypeError, match=r"^values\['b'\] must be an xarray\.DataArray with the dim seed, got \[1\.0\]$"
    ):
        cp.compare(values, {"b": "a"})


def test_learners_without_a_common_seed_are_said_to_have_none():
    a, b = (xarray.DataArray([1.0, 2.0], {"seed": seeds}, ["seed"]) for seeds in ([0, 1], [2, 3]))
    found = cp.compare({"a": a, "b": b}, {"a": "b"})[0]
    assert found.sentence("loss") == "a and b have no seed in common, so they cannot be compared" and found.p == 1


# Bad input.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: swept(folder, evaluate=0), "evaluate must be between 1 and .*, got 0"),
        (lambda folder: swept(None, evaluate=5), "evaluate=5 needs a store"),
        (lambda folder: swept(folder, seeds=[2**32 - 1], evaluate=5), "^seeds must be below 4294967295 with evaluate"),
        (cp.open_evaluation, "must be a folder that a sweep wrote"),
        (
            lambda folder: cp.compare(values_of(a=[1.0]), {"a": "b"}),
            "a reference in against must be one of 'a'",
        ),
        (lambda folder: phase_weights(np.array([1]), np.array([0]), "begin"), "phase must be one of"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_a_sweep_without_an_evaluation_says_how_to_get_one(tmp_path):
    swept(tmp_path / "s", evaluate=None)
    with pytest.raises(ValueError, match="--evaluate"):
        cp.open_evaluation(tmp_path / "s")


def test_the_command_evaluates(tmp_path, capsys):
    axes = ["step_size=0.001,0.01", "network.hidden=4", "stream.examples=20", "stream.tasks=AB"]
    words = [word for axis in axes for word in ("--over", axis)]
    store = str(tmp_path / "s")
    numbers = ["--seeds", "2", "--record-every", "10", "--evaluate", "4"]
    crossprop.cli.main(["sweep", "--stream", "geoff", "--learners", "frozen", *words, *numbers, "--store", store])
    assert cp.open_evaluation(store).records["frozen"].seed.values.tolist() == [2, 3, 4, 5]
    assert "open_evaluation" in capsys.readouterr().out
