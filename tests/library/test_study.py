"""The studies: a whole quick run of one, and files that say what the others would do."""

import csv
import json
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import crossprop as cp
from browser import Opened, violations
from crossprop import datasets
from crossprop.cli import main
from crossprop.cli.studies import Study, run_study
from crossprop.datasets import DataSet
from crossprop.experiments import SweepSpec
from crossprop.experiments.evaluate import Choice
from crossprop.experiments.experiment import read_experiment
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import read_results, value_text
from crossprop.experiments.widening import announcements, next_value, refined, tune, widened
from crossprop.hyperparameters import hyperparameters
from crossprop.library import controls
from crossprop.library.study import _moves, answers, conclusions
from crossprop.records import LearnerInfo
from crossprop.testing import check_stream

pytestmark = pytest.mark.usefixtures("quick_compilation")
RULES = ["backprop", "crossprop", "crossprop-approx", "crossprop-sum", "foresight", "frozen"]
DEEP = ["backprop", "foresight-top", "foresight", "crossprop-projected", "crossprop-approx", "frozen"]
CONTROLS = ["hindsight", "backprop-replay"]
FADING = ["sgd", "sgd-both", "adam", "adam-both"]
"""Names of backprop whose step size fades, without the end."""


@pytest.fixture(scope="module")
def study(made_once):
    return made_once("study", lambda folder: main(["study", "geoff", "--quick", "--out", str(folder)]))


def test_a_study_leaves_a_page_tables_figures_and_answers(study):
    names = {path.name for path in study.iterdir()}
    assert names == {
        *("study.html", "table.csv", "figures", "answers.json", "sweep", "card.json"),
        *("one-task.html", "figures-one-task", "sweep-one-task"),
    }
    assert {"differences.png", "learning-curves.png", "sensitivity.png"} <= {
        p.name for p in (study / "figures").iterdir()
    }
    page = (study / "study.html").read_text()
    told = json.loads((study / "answers.json").read_text())
    assert "quick version" in page and all(each["question"] in page for each in told["answers"])
    assert told["answers"][0]["question"] == "Does crossprop credit help with sgd?"
    assert {each["verdict"] for each in told["answers"]} <= {"yes", "no", "no difference shown", "it depends"}


def table(study, column=None):
    rows = csv.DictReader((study / "table.csv").read_text().splitlines())
    return [row for row in rows if row["column"] == column or column is None]


def test_the_table_has_every_rule_against_backprop_and_frozen_on_fresh_seeds(study):
    rows = table(study, "main")
    assert [row["rule"] for row in rows] == RULES
    assert all(row["all minus backprop pairs"] == ("3" if row["rule"] != "backprop" else "") for row in rows)
    evaluation = cp.open_evaluation(study / "sweep")
    for phase in ("all", "end", "switch"):
        values = evaluation.values(phase)
        for row in rows:
            assert float(row[f"{phase} mean"]) == pytest.approx(values[row["learner"]].mean().item())
        difference = (values["crossprop-sgd"] - values["frozen-sgd"]).mean().item()
        assert float(rows[1][f"{phase} minus frozen mean"]) == pytest.approx(difference)
    assert rows[-1]["incoming_drift"] == "0.0"


def test_a_column_without_a_switch_has_no_phase_after_one(study):
    rows = table(study, "one-task")
    assert [row["rule"] for row in rows] == ["backprop", "crossprop", "foresight", "frozen"]
    assert {row["switch mean"] for row in rows} == {""} and rows[2]["all minus backprop pairs"] == "3"
    assert cp.open_evaluation(study / "sweep-one-task").records["foresight-sgd"].task.values.tolist() == [0] * 10
    assert "One task, no switch" in (study / "study.html").read_text()


def test_costs_are_measured_beside_backprop(study):
    rows = {row["rule"]: row for row in table(study, "main")}
    assert all(row["microseconds"] == "nan" for row in rows.values()), "its runs are too short to be timed"
    inputs, hidden, kept = 20, 8, {rule: int(row["numbers"]) for rule, row in rows.items()}
    assert kept["backprop"] == kept["frozen"] == inputs * hidden + hidden
    assert kept["crossprop"] == kept["backprop"] + inputs * hidden and kept["foresight"] == kept["backprop"] + hidden


@pytest.mark.parametrize(
    ("learner", "axis", "values", "edge", "expected"),
    [
        (cp.Backprop, "step_size", [0.25, 0.5, 1.0], 1.0, 2.0),
        (cp.Backprop, "step_size", [0.25, 0.5, 1.0], 0.25, 0.125),
        (cp.Crossprop, "memory_step_size", [None, 0.1, 0.01], 0.01, 0.001),
        (cp.Foresight, "ahead", [-0.5, 0.5, 1], -0.5, -1.0),
        (cp.Crossprop, "eta", [0, 0.5, 0.9], 0.9, 1),
        (cp.Hindsight, "delay", [10, 30, 100], 100, 333),
        (cp.optimizers.upgd, "sigma", [0.01, 0.1], 0.01, 0.001),
    ],
)
def test_a_grid_goes_on_beyond_its_edge(learner, axis, values, edge, expected):
    found = next_value(hyperparameters(learner)[axis], values, edge)
    assert found == pytest.approx(expected) and (axis != "delay" or isinstance(found, int))


def test_a_best_setting_at_an_edge_widens_the_grid_until_it_is_inside(tmp_path, monkeypatch):
    """Of steps of 1/64 and 1/128, the larger is better, and so are larger ones yet, up to a point. However often the
    grid grows, a block is read from the disk once, and one that was just written not at all."""
    blocks = import_module("crossprop.experiments.labelled")
    opened, real = [], blocks.read_arrays
    monkeypatch.setattr(blocks, "read_arrays", lambda path: (opened.append(path.name), real(path))[1])
    stream = cp.Geoff(inputs=4, features=6, tasks="A", examples=200)
    spec = SweepSpec.of(
        {"it": cp.Frozen(cp.Network.paper(4, 5, outgoing_scale=0.0), 0.1)},
        stream,
        {"it": {"step_size": [2**-7, 2**-6]}},
        seeds=2,
        record_every=50,
        store=tmp_path / "store",
        evaluate=2,
    )
    told = []
    _, blocks = tune([spec], announcements("a title", told.append), rounds=6)
    assert not opened
    assert told[0] == "a title: 4 runs to do." and told[-1] == "a title: 2 runs to do, on fresh seeds."
    assert {*told[1:-1]} == {"a title: 2 runs to do, beyond the edge where the best of it is."}
    told.clear()
    tune([replace(spec, made={}, store=tmp_path / "narrow")], announcements("one", told.append), rounds=0)
    assert told == ["one: 4 runs to do.", "one: 2 runs to do, on fresh seeds."]
    opened.clear()
    _, again = tune([replace(spec, made={})], rounds=6)
    assert sorted(opened) == sorted(path.name for path in (tmp_path / "store/blocks").iterdir())
    for one, other in zip(
        *(sorted(each, key=lambda block: (block.identity, *block.seeds)) for each in (blocks, again)), strict=True
    ):
        assert one.scores[0] == other.scores[0] and np.array_equal(one.scores[1], other.scores[1])
    sweep = read_results(tmp_path / "store")
    assert sweep.learners["it"].tried == len(sweep.learners["it"].grid.over["step_size"])
    assert sweep.learners["it"].choice.edges == () and len(sweep.learners["it"].grid.over["step_size"]) > 2
    assert sweep.evaluation.records["it"].sizes["seed"] == 2


def test_a_grid_ends_before_a_value_that_the_learner_does_not_take():
    """Where the share of units that are replaced is best at 1, a share of 10 is not tried."""
    learner = cp.Backprop(cp.Network.paper(4, 5), 0.1, replacement=cp.RandomReplacement())
    axes = {"replacement.rate": [0.1, 1.0], "step_size": [0.1, 0.2]}
    spec = SweepSpec.of({"it": learner}, cp.Tracking(inputs=4, relevant=2, steps=9), {"it": axes}, 1, 3)
    found = widened(spec, {"it": Choice({"replacement.rate": 1.0, "step_size": 0.2}, 1.0, 0, tuple(axes))})
    assert found == {"it": {"replacement.rate": [0.1, 1.0], "step_size": [0.1, 0.2, pytest.approx(0.4)]}}


def test_step_sizes_around_the_best_are_tried_at_the_best_values_of_other_axes(tmp_path):
    """Until they are within the resolution of each other; what was not asked for is not run."""
    spec = SweepSpec.of(
        {"it": cp.Foresight(cp.Network.paper(4, 5, outgoing_scale=0.0), 0.1)},
        cp.Geoff(inputs=4, features=6, tasks="A", examples=200),
        {"it": {"step_size": [2**-12, 2**-6, 1.0], "ahead": [0.0, 1.0, 2.0]}},
        seeds=2,
        record_every=50,
        store=tmp_path / "store",
        evaluate=2,
    )
    tune([spec], rounds=0, resolution=8)
    (found,) = read_results(tmp_path / "store").learners.values()
    step_sizes = sorted(found.grid.over["step_size"])
    assert step_sizes == [2**-12, 2**-9, 2**-6, 2**-3, 1.0] and found.grid.over["ahead"] == [0.0, 1.0, 2.0]
    runs = np.isfinite(cp.open_sweep(tmp_path / "store")["it"].loss.isel(step=0)).sum(["seed"]).values
    assert (runs > 0).sum() == 9 + 2 and found.choice.point["step_size"] in (2**-9, 2**-6, 2**-3)
    assert cp.open_evaluation(tmp_path / "store").records["it"].sizes["seed"] == 2


def test_both_step_sizes_are_refined_together():
    over = {"it": {"step_size": [1.0, 4.0, 16.0], "incoming_step_size": [2.0, 8.0], "eta": [0, 0.5]}}
    best = {"it": Choice({"step_size": 4.0, "incoming_step_size": 8.0, "eta": 0.5}, 1.0, 0, ())}
    finer = {"step_size": [1.0, 2.0, 4.0, 8.0, 16.0], "incoming_step_size": [2.0, 4.0, 8.0], "eta": [0.5]}
    assert refined(over, best, 2.0) == {"it": finer}
    best = {"it": Choice({"step_size": 8.0, "incoming_step_size": 4.0, "eta": 0.5}, 1.0, 0, ())}
    assert refined({"it": finer}, best, 2.0) == {"it": finer}  # nothing is farther apart
    best = {"it": Choice({"step_size": 16.0, "incoming_step_size": 4.0, "eta": 0.5}, 1.0, 0, ())}
    beyond = {"step_size": [8.0, 16.0, 32.0], "incoming_step_size": [2.0, 4.0, 8.0], "eta": [0.5]}
    assert refined({"it": finer}, best, 2.0) == {"it": beyond}  # the best has no neighbour above


def test_step_sizes_are_refined_beyond_the_edge_of_the_grid(tmp_path, monkeypatch):
    """Until the best is inside; if it still is not after so many refinements, it is flagged."""
    spec = SweepSpec.of(
        {"it": cp.Frozen(cp.Network.paper(4, 5, outgoing_scale=0.0), 0.1)},
        cp.Geoff(inputs=4, features=6, tasks="A", examples=200),
        {"it": {"step_size": [2**-7, 2**-6]}},
        seeds=2,
        record_every=50,
        store=tmp_path / "store",
        evaluate=2,
    )
    monkeypatch.setattr("crossprop.experiments.widening.MOST_REFINEMENTS", 1)
    tune([spec], rounds=0, resolution=2)
    (found,) = read_results(tmp_path / "store").learners.values()
    assert found.choice.edges == ("step_size",) and found.grid.over["step_size"] == [2**-7, 2**-6]
    monkeypatch.undo()
    tune([spec], rounds=0, resolution=2)
    (found,) = read_results(tmp_path / "store").learners.values()
    assert found.choice.edges == () and max(found.grid.over["step_size"]) > found.choice.point["step_size"] >= 2**-6


def test_a_grid_without_step_sizes_stays_as_it_is():
    over = {"it": {"eta": [0, 0.5]}, "other": {"step_size": [0.1, 1.0]}}
    best = {"it": Choice({"eta": 0}, 1.0, 0, ()), "other": Choice({"step_size": 0.1}, 1.0, 0, ())}
    found = refined(over, best, 1.3)
    assert found["it"] == over["it"] and found["other"]["step_size"] == pytest.approx([0.1, 0.1**0.5, 1.0])


def stages_of(name, size=None):
    file = files("crossprop.library") / "studies" / f"{name}.toml"
    stages = read_experiment(file, lambda stage: Path(f"kept-{stage}"), size=size).stages
    return {stage: spec for stage, (_, spec) in stages.items()}


def test_the_stages_of_the_deep_study():
    specs = stages_of("deep")
    rules = {name: {learner.rpartition("-")[0] for learner in spec.learners} for name, spec in specs.items()}
    assert rules["main"] == {*DEEP, *CONTROLS, *FADING} and rules["relu"] == {*DEEP, *FADING}
    assert rules["shallow"] == {*DEEP, *FADING} - {"foresight-top"}
    networks = {name: spec.learners["foresight-sgd"].network for name, spec in specs.items()}
    assert [networks[name].hidden for name in ("main", "relu", "shallow")] == [(64, 64), (64, 64), (64,)]
    assert networks["relu"].activation == "relu" and specs["one-task"].stream.tasks == "A"
    assert len({spec.stream.steps for spec in specs.values()}) == 1
    assert specs["main"].learners["crossprop-approx-adam"].layers == "all"
    assert specs["main"].learners["crossprop-projected-adam"].layers == "top"
    step_sizes = {
        tuple(tuple(grid.over[axis]) for axis in ("step_size", "incoming_step_size"))
        for grid in specs["main"].grids
        if "frozen" not in grid.name
    }
    assert len(step_sizes) == 2  # one set for all rules with sgd, and one with adam


@pytest.mark.parametrize(("name", "size"), [("geoff", None), ("geoff", "full"), ("deep", None), ("mnist", None)])
def test_backprop_whose_step_fades_has_as_many_settings_as_foresight(name, size):
    for spec in stages_of(name, size).values():
        settings = {grid.name: len(grid.points) for grid in spec.grids}
        assert {settings[each] for each in settings if each.endswith("fading")} == {settings["foresight-sgd"]}


@pytest.mark.parametrize("size", [pytest.param(None, marks=pytest.mark.long), "quick"])
def test_all_learners_of_a_stage_of_the_study_why_have_one_budget_and_one_network(size):
    specs = stages_of("why", size)
    scales = {name: next(iter(spec.learners.values())).network.outgoing_scale for name, spec in specs.items()}
    assert scales.pop("large", 1 / 2) == 1 / 2 and scales.pop("lecun", 1 / 8) == 1 / 8 and {*scales.values()} == {0}
    for spec in specs.values():
        assert {len(grid.points) for grid in spec.grids} == {32}
        assert len({learner.network for learner in spec.learners.values()}) == 1
        fading = {
            name for name, learner in spec.learners.items() if isinstance(learner.optimizer, cp.optimizers.fading)
        }
        assert fading == {name for name in spec.learners if "fading" in name}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("control", controls.CONTROLS)
def test_a_control_of_foresight_has_the_size_of_v_or_what_is_left_of_it(control):
    net = cp.Network.paper(2, 4, 3)
    rng, learner = np.random.default_rng(0), controls._Controlled(net, 0.1, ahead=2.0, control=control)
    w, v = rng.normal(size=(2, 3, 4))
    signs = None if learner.shapes().signs is None else rng.choice([-1.0, 1.0], (1, 3, 4))
    found, norm = (
        np.asarray(learner._credited(*jax.tree.map(jnp.asarray, (w, v, signs)))),
        lambda each: np.linalg.norm(each, axis=0),
    )
    if control in ("size", "direction"):
        one, other = (w, w + 2 * v) if control == "size" else (w + 2 * v, w)
        np.testing.assert_allclose(found, one / norm(one) * norm(other))
        return
    moved, expected = (found - w) / 2, norm(v)
    np.testing.assert_allclose(norm(moved), np.roll(expected, 1) if control == "shuffled" else expected)
    assert np.abs(moved - v).max() > 0.1
    assert {"sign": np.sign(v), "signs": v * (1 if signs is None else signs[0]), "random": moved}.get(
        control, np.roll(v, 1, 1)
    ).ravel() @ moved.ravel() > 0


@pytest.mark.usefixtures("x64")
def test_a_control_of_foresight_learns_by_foresights_v():
    net = cp.Network.paper(2, 4, 3, outgoing_scale=0.5)
    one = controls.ForesightControl(net, 0.1, ahead=0.0, horizon=20.0, control="direction")
    other = cp.Foresight(net, 0.1, ahead=0.0, horizon=20.0)
    x, y = np.random.default_rng(0).normal(size=(30, 2)), np.random.default_rng(1).normal(size=(30, 3))
    states = [cp.live(each, each.init(jax.random.key(0)), x, y)[0] for each in (one, other)]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), *states)


def test_friedmans_regression_is_his_function_of_other_inputs_in_every_task():
    stream = controls.Friedman(tasks=2, examples=2000)
    check_stream(stream)
    x, y, task = stream.sample(jax.random.key(0))
    one, two, three, four, five = (x / np.sqrt(12) + 0.5).T[:5]
    his = 10 * np.sin(np.pi * one * two) + 20 * (three - 0.5) ** 2 + 10 * four + 5 * five
    noise = 5 * y[:, 0] + 14.4 - his
    assert noise[task == 0].std() == pytest.approx(1, abs=0.05) and noise[task == 1].std() > 3
    assert abs(y.mean()) < 0.1 and y.std() == pytest.approx(1, abs=0.1)


def test_backprop_whose_step_fades_is_compared_with_the_best_constant_step():
    optimizers = {"backprop-sgd": "sgd", "backprop-adam": "adam", "sgd-fading": "fading", "adam-fading": "fading"}
    infos = {name: LearnerInfo("backprop", optimizer, "none") for name, optimizer in optimizers.items()}
    infos["foresight-sgd"] = LearnerInfo("foresight", "sgd", "none")
    seeds = {"seed": range(4)}
    values = {
        name: xarray.DataArray([5.0 - at, 5.1 - at, 5.2 - at, 5.4 - at * 1.01], seeds) for at, name in enumerate(infos)
    }
    main = SimpleNamespace(
        infos=infos,
        versus={"backprop": {"all": {}}, "frozen": {"all": {}}},
        by_phase={"all": values},
        best_of=lambda names: min(names, key=lambda name: values[name].mean(), default=None),
        findings=lambda pairs, phase: compare(values, pairs),
    )
    (answer,) = answers({"main": main}, {})
    assert answer.id == "fading" and answer.verdict == "yes" and answer.why.startswith("Adam-fading's error")
    assert "backprop-adam's" in answer.why
    del infos["sgd-fading"], infos["adam-fading"]
    assert answers({"main": main}, {}) == []


def test_one_comparison_has_one_p_value(study):
    first, *rest = json.loads((study / "answers.json").read_text())["answers"]
    best = next(each for each in rest if each["question"].startswith("Is the best crossprop better than the best back"))
    assert first["why"].startswith(best["why"]) and "p = " in best["why"]


def test_every_answer_has_an_id_of_its_own(study):
    found = answers({"main": read_results(study / "sweep", title="six tasks")}, {})
    assert len({each.id for each in found}) == len(found) > 5


def test_percent_and_verdict_follow_the_difference(study):
    results = read_results(study / "sweep")
    one = results.versus["backprop"]["all"]["crossprop-sgd"]
    mean = {name: float(values.mean()) for name, values in results.by_phase["all"].items()}
    assert one.percent.mean == pytest.approx(100 * (mean["crossprop-sgd"] / mean["backprop-sgd"] - 1))
    assert replace(one, p=0.5).verdict == "no difference shown"
    assert replace(one, p=0.01, mean=-1.0).verdict == "yes" and replace(one, p=0.01, mean=1.0).verdict == "no"


@pytest.mark.long
def test_a_study_that_is_done_is_written_again_without_a_run(study, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["crossprop.experiments.blocks"], "Executor", None)
    main(["study", "geoff", "--quick", "--out", str(study)])
    said = " ".join(capsys.readouterr().out.split())
    assert "The page is" in said and "This was the quick version" in said and "proves nothing" in said


def test_the_page_works_in_a_browser(study, chromium):
    with Opened(chromium, study / "study.html") as opened:
        assert opened.wrong == [] and opened.page.locator("table.claims tbody tr").count() >= 4
        assert opened.page.locator(".forest .points path").count() >= 3
        opened.page.locator("figure.forest select").select_option(index=2)
        opened.page.wait_for_timeout(200)
        assert opened.page.locator(".forest .points path").count() >= 3 and opened.wrong == []


@pytest.mark.long
def test_nothing_serious_keeps_anyone_from_reading_the_page(study, chromium, axe):
    with Opened(chromium, study / "study.html") as opened:
        assert violations(opened, axe) == []


def test_the_page_names_stream_network_seeds_and_command(study):
    page = (study / "study.html").read_text()
    told = ("6 learners on Geoff, 360 examples, 8 hidden units", "3 fresh seeds", "its answers mean nothing")
    assert all(words in page for words in told)
    assert "crossprop" in page[page.index('aria-label="command"') :][:200]


def made_up(optimizer, p, *difference, rule="crossprop"):
    """A learner whose comparison with backprop over all steps is made up."""
    name = f"{rule}-{optimizer}"
    return Finding("", name, f"backprop-{optimizer}", *difference, 10, 9, p=p, learner_mean=8.0)


def results_with(*findings):
    """Results in which learners compare so with backprop."""
    infos = {each.learner: LearnerInfo(*each.learner.split("-"), "none") for each in findings}
    versus = {"backprop": {"all": {each.learner: each for each in findings}}}
    records = dict.fromkeys(infos)
    return SimpleNamespace(
        infos=infos, versus=versus, evaluation=SimpleNamespace(records=records), best_of=lambda names: next(iter(names))
    )


def test_conclusions_say_with_which_optimizers_it_helps_and_quote_the_best():
    results = results_with(
        made_up("sgd", 0.001, -2.0, -2.5, -1.5),
        made_up("momentum", 0.001, -1.0, -1.5, -0.5),
        made_up("rmsprop", 0.6, 0.1, -0.5, 0.7),
        made_up("adam", 0.01, 1.0, 0.5, 1.5),
        made_up("sgd", 0.01, -1.0, -1.5, -0.5, rule="foresight"),
    )
    best = Answer("best-crossprop", "Is the best crossprop better than the best backprop?", "no", "Because.")
    said = conclusions({"main": results}, [best, Answer("another", "Another?", "no", "No.")])
    assert said == [
        "Both tuned, crossprop credit instead of backprop helps with sgd and momentum, hurts with adam and makes no "
        "difference that shows with rmsprop.",
        "Both tuned, foresight instead of backprop helps with sgd.",
        "Because.",
    ]


@pytest.mark.parametrize(
    ("apart", "spread", "expected"), [(-0.5, 0.01, "yes"), (0.5, 0.01, "no"), (-0.01, 0.5, "no difference shown")]
)
def test_features_move_less_only_if_the_difference_shows_over_seeds(apart, spread, expected):
    seeds = {"seed": range(5)}
    noise = spread * np.array([-1.0, 1.0, 0.3, -0.6, 0.3])
    moved = {
        "crossprop-sgd": xarray.DataArray(10 + apart + noise, seeds, ["seed"]),
        "backprop-sgd": xarray.DataArray(np.full(5, 10.0), seeds, ["seed"]),
    }
    found = _moves({"crossprop-sgd": "backprop-sgd"}, moved)
    assert found.verdict == expected and "Crossprop-sgd's movement of U by the end is " in found.why


@pytest.mark.parametrize("size", [None, "quick"])
def test_the_study_of_approaches_has_every_one_with_the_same_budget(size):
    stages = stages_of("approaches", size)
    assert [*stages] == [
        "label-shift",
        *([] if size else ["permuted-inputs", "class-pairs", "geoff", "slowly-changing"]),
    ]
    for spec in stages.values():
        objectives = {"kmeans", "sparse-coding", "ica", "autoencoder", "kmeans-mixed", "ica-mixed", "autoencoder-mixed"}
        others = {"backprop-fading", "crossprop", "foresight", "frozen", "generate-and-test", "continual"}
        assert {*spec.learners} == {"backprop"} | objectives | others
        assert {len(grid.points) for grid in spec.grids} == {2 if size else 32}
        assert isinstance(spec.learners["backprop-fading"].optimizer, cp.optimizers.fading)


@pytest.mark.parametrize("size", [None, "full"])
@pytest.mark.parametrize("name", ["geoff", "mnist", "deep"])
def test_every_study_has_every_rule_with_every_optimizer(name, size, monkeypatch):
    blank = DataSet("mnist", np.zeros((20_000, 784), np.uint8), np.zeros(20_000, int), 10)
    monkeypatch.setitem(datasets.DATA_SETS, "mnist", lambda: blank)
    asked = stages_of(name, size)["main"]
    rules = [*RULES, "crossprop-projected"] if name == "mnist" else RULES
    optimizers = ("sgd", "momentum", "rmsprop", "adam")
    if name == "deep":
        rules, optimizers = DEEP + CONTROLS, ("sgd", "adam")
    tuned = {full: learner for full, learner in asked.learners.items() if not full.endswith("-fading")}
    assert set(tuned) == {f"{rule}-{optimizer}" for rule in rules for optimizer in optimizers}
    assert asked.evaluate == {"mnist": 10, "geoff": 60, "deep": 20}[name]
    for full, learner in tuned.items():
        assert learner.optimizer == full.rpartition("-")[2]
    assert all(len(grid.points) > 1 for grid in asked.grids)
    if (name, size) == ("mnist", "full"):
        network = asked.learners["crossprop-sgd"].network
        assert (network.hidden, network.outputs, asked.stream.examples) == ((256,), 10, 5_000)
    if (name, size) == ("deep", "full"):
        assert asked.learners["foresight-adam"].network.hidden == (256, 256) and asked.seeds == [0, 1, 2]


OWN = """
title = "Is a larger step better?"
intro = "Two learners, each tuned on its own."
seeds = 2
evaluate = 3
record_every = 10
widen = 0
resolution = false
stream = { name = "geoff", tasks = "AB", examples = 40 }
network = { hidden = 5, outgoing_scale = 0.0 }

[learners]
backprop = {}
foresight = {}
frozen = {}

[over]
step_size = [0.001, 0.002]

[stages.two]
title = "two tasks"

[stages.one]
stream = { tasks = "A", examples = 80 }
network = { activation = "relu" }
over = { foresight = { step_size = [0.004] } }
without = "froz*"

[[questions]]
ask = "Does looking ahead help?"
learner = "foresight"

[[questions]]
learner = ["foresight", "frozen"]
against = "backprop"
phase = "end"

[[questions]]
learner = "foresight"
against = ["backprop", "frozen"]
stage = ["one", "t*"]

[sizes.quick]
seeds = 3
stages.one = false
stages.two.stream.examples = 20
questions = []
"""


def test_a_study_of_ones_own_is_a_file_with_stages_and_questions(tmp_path, monkeypatch):
    (tmp_path / "my.toml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    main(["study", "my.toml"])
    out = tmp_path / "study-my"
    told = json.loads((out / "answers.json").read_text())
    assert [each["question"] for each in told["answers"]] == [
        "Does looking ahead help?",
        "Is the best of foresight, frozen better than backprop?",
        "Two tasks. Is foresight better than the best of backprop, frozen?",
        "One. Is foresight better than backprop?",
    ]
    values = cp.open_evaluation(out / "sweep-two").values()
    percent = 100 * (values["foresight"].mean() / values["backprop"].mean() - 1).item()
    side = "below" if percent < 0 else "above"
    assert f"Foresight's error over all steps is {abs(percent):.1f}% {side} backprop's" in told["answers"][0]["why"]
    page = (out / "study.html").read_text()
    assert all(text in page for text in ("Is a larger step better?", "Two learners, each", "Does looking ahead help?"))
    verdicts = [each["verdict"].capitalize() for each in told["answers"][2:]]
    asked = "Is foresight better than the best of backprop, frozen?"
    same = f"{asked} {verdicts[0]}: two tasks, one."
    assert (same if len({*verdicts}) == 1 else f"{asked} {verdicts[0]}: two tasks. {verdicts[1]}: one.") in page
    assert {row["column"] for row in csv.DictReader((out / "table.csv").read_text().splitlines())} == {"two", "one"}
    stages = read_experiment(tmp_path / "my.toml", Path).stages
    assert [*stages["one"].spec.learners] == ["backprop", "foresight"] and stages["one"].title == "one"
    one, two = (stages[name].spec for name in ("one", "two"))
    assert (one.stream.tasks, one.stream.examples, two.stream.tasks) == ("A", 80, "AB")
    assert (one.learners["backprop"].network.activation, one.over["foresight"]) == ("relu", {"step_size": [0.004]})
    quick = read_experiment(tmp_path / "my.toml", Path, size="quick")
    assert [*quick.stages] == ["two"] and not quick.questions
    spec = quick.stages["two"].spec
    assert (spec.seeds, spec.stream.examples, spec.stream.tasks) == ([0, 1, 2], 20, "AB")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("widen = 0", "wide = 0", "a key of .* must be one of .*, got 'wide'; did you mean 'widen'"),
        ('without = "froz*"', 'without = ["*"]', "my.toml, stages.one: only and without must leave some learners"),
        ('without = "froz*"', "without = 3", "without must be the name of a learner, a pattern .* got 3"),
        ('learner = "foresight"', "learner = 3", "learner of a question must be the name of a learner, .* got 3"),
        ('stage = ["one", "t*"]', 'stage = "three"', "stage of a question must be one of 'two', 'one', got 'three'"),
        ('phase = "end"', 'phase = "last"', "phase of a question must be one of .*, got 'last'"),
        ('against = "backprop"', 'against = "backprob"', "against of a question .* did you mean 'backprop'"),
        ('learner = "foresight"', 'learner = "foresite"', "learner of a question .* did you mean 'foresight'"),
        ("evaluate = 3", "", "my.toml has no evaluate: give the number of fresh seeds"),
        ("resolution = false", "resolution = 1", "resolution in .* must be .*1, got 1"),
        ("seeds = 3", "seed = 3", "a key of sizes.quick must be one of .* did you mean 'seeds'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_before_any_run(old, new, message, tmp_path):
    (tmp_path / "my.toml").write_text(OWN.replace(old, new, 1))
    with pytest.raises((ValueError, TypeError), match=message):
        run_study(Study(name=str(tmp_path / "my.toml"), out=tmp_path / "out", quick="sizes" in message))


ELSEWHERE = """
seeds = 2
evaluate = 3
record_every = 20
steps = 80
widen = 1
resolution = false
reference = "mean-return"
tune_on = ["walk", "cue"]
network = { hidden = 3, outgoing_scale = 0.0 }

[learners]
mean-return = {}
backprop = { trace = 0.9 }
td = { rule = "backprop", network = { hidden = [] } }
swift-td = {}

[over]
step_size = [0.001, 0.01]

[stages]
walk = { stream = "random-walk" }
cue = { stream = { name = "trace-conditioning", wait = [2, 4], pause = [5, 6] } }
short = { stream = { name = "random-walk", states = 5 } }
other = { stream = { name = "trace-conditioning", wait = [1, 1], pause = [3, 6] } }

[[questions]]
learner = "backprop"
against = ["td", "swift-td"]
stage = "all"
"""


def test_settings_that_are_tuned_on_some_streams_are_judged_on_others(tmp_path, monkeypatch):
    """The best by the mean over the streams, in units of the reference; a grid grows for all of them together."""
    (tmp_path / "my.toml").write_text(ELSEWHERE)
    study = Study(name=str(tmp_path / "my.toml"), out=tmp_path / "out")
    run_study(study)
    rows = {(row["column"], row["learner"]): row for row in table(tmp_path / "out")}
    assert {column for column, _ in rows} == {"short", "other"}
    tuned = [cp.open_sweep(tmp_path / f"out/sweep-{name}") for name in ("walk", "cue")]
    for learner in ("backprop", "td", "swift-td"):
        means = [each[learner].loss.mean(["seed", "step"]) / each["mean-return"].loss.mean().item() for each in tuned]
        assert means[0].sizes["step_size"] == 3
        best = float(sum(means).idxmin())
        assert rows["short", learner]["setting"] == rows["other", learner]["setting"] == f"step_size={value_text(best)}"
        judged = cp.open_sweep(tmp_path / "out/sweep-other")[learner]
        assert judged.seed.values.tolist() == [2, 3, 4] and judged.step_size.values.tolist() == [best]
        assert float(rows["other", learner]["all mean"]) == pytest.approx(judged.loss.mean().item())
    (told,) = json.loads((tmp_path / "out/answers.json").read_text())["answers"]
    assert [line.partition(":")[0] for line in told["why"].splitlines()] == ["short", "other", "Mean over all"]
    page = (tmp_path / "out/study.html").read_text()
    assert "in percent of mean-return" in page and "settings of every learner on walk and cue" in page
    monkeypatch.setattr(sys.modules["crossprop.experiments.blocks"], "Executor", None)
    run_study(study)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"walk", "cue"', '"wall"', "a stage in tune_on must be one of .* did you mean 'walk'"),
        ('["walk", "cue"]', '"walk"', "tune_on must be a list of stages, got 'walk'"),
        ('"cue"]', '"cue", "short", "other"]', "tune_on must leave a stage to judge the settings on"),
        ("short = { ", 'short = { without = "td", ', "over, only and without must be the same for all stages"),
        ('"mean-return"', '"mean-retrun"', "reference must be one of .* did you mean 'mean-return'"),
        ("hidden = []", "hiden = []", "hiden"),
    ],
)
def test_what_is_wrong_with_stages_to_tune_on_is_named(old, new, message, tmp_path):
    (tmp_path / "my.toml").write_text(ELSEWHERE.replace(old, new, 1))
    with pytest.raises((ValueError, TypeError), match=message):
        read_experiment(tmp_path / "my.toml", Path)


@pytest.mark.parametrize("size", [None, "quick", "full"])
def test_the_studies_of_predictions_compare_learned_features_with_linear_ones(size, monkeypatch):
    monkeypatch.setattr(datasets, "temperatures", lambda: (np.arange(34_000), np.zeros((34_000, 3))))
    for name in ("prediction", "atari"):
        for spec in stages_of(name, size).values():
            budgets = {len(grid.points) for grid in spec.grids if grid.name != "mean-return"}
            assert len(budgets) == 1 and {"swift-td", "frozen", "crossprop-sgd", "foresight-adam"} <= {*spec.learners}
            linear = spec.learners["linear-td"]
            assert linear.network.hidden == () and spec.learners["backprop-sgd"].network.hidden
            assert all(each.predicts for each in spec.learners.values())
    assert len(stages_of("atari", size)) == {None: 7, "quick": 3, "full": 53}[size]


def test_the_study_of_the_docs_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    (tmp_path / "my.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    for size, examples in ((None, 3000), ("quick", 100)):
        found = read_experiment(tmp_path / "my.toml", Path, size=size)
        assert [*found.stages] == ["three-tasks", "one-task"] and len(found.questions) == 2
        assert found.stages["one-task"].spec.stream.examples == examples
    assert found.questions[0].learners == ("foresight-sgd", "foresight-momentum") and found.resolution is None


def test_a_size_that_a_file_does_not_have_is_named(tmp_path):
    (tmp_path / "my.toml").write_text(OWN)
    with pytest.raises(ValueError, match=r"my.toml has no size 'full': give a table \[sizes.full\]"):
        run_study(Study(name=str(tmp_path / "my.toml"), out=tmp_path / "out", full=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "mnits"},
            "name must be one of .*'credit', or a file that ends in .toml, got 'mnits'; did you mean 'mnist'",
        ),
        ({"full": True, "quick": True}, "full and quick must not both"),
        ({"seeds": 0}, "seeds must be at least 2, got 0"),
        ({"evaluate": 1}, "evaluate must be at least 2, got 1"),
    ],
)
def test_what_is_wrong_is_named(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Study(**{"name": "geoff", "out": tmp_path} | options)
