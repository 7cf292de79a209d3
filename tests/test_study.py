"""The studies: a whole quick run of one, and files that say what the others would do."""

import csv
import json
import sys
from importlib.resources import files

import numpy as np
import pytest

import crossprop as cp
from browser import Opened
from crossprop import datasets
from crossprop.cli import main
from crossprop.datasets import DataSet
from crossprop.plot.numbers import read
from crossprop.study import Study
from crossprop.study.answers import rows_of, verdict
from crossprop.sweeps.toml import read_spec

pytestmark = pytest.mark.usefixtures("quick_compilation")
RULES = ["backprop", "crossprop", "crossprop-approx", "crossprop-sum", "frozen"]


@pytest.fixture(scope="module")
def study(made_once):
    return made_once("study", lambda folder: main(["study", "geoff", "--quick", "--out", str(folder)]))


def test_a_study_leaves_a_page_tables_figures_and_answers(study):
    names = {path.name for path in study.iterdir()}
    assert names == {"study.html", "table.csv", "table.md", "figures", "answers.json", "sweep"}
    assert {"differences.png", "learning-curves.png", "sensitivity.png"} <= {
        p.name for p in (study / "figures").iterdir()
    }
    page = (study / "study.html").read_text()
    told = json.loads((study / "answers.json").read_text())
    assert "quick version" in page and all(each["question"] in page for each in told["answers"])
    assert told["answers"][0]["question"] == "Does crossprop credit help with sgd?"
    assert {each["verdict"] for each in told["answers"]} <= {"yes", "no", "no difference shown", "it depends"}


def test_the_table_has_every_rule_against_backprop_and_frozen_on_fresh_seeds(study):
    rows = list(csv.DictReader((study / "table.csv").read_text().splitlines()))
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
    assert (study / "table.md").read_text().count("\n") == len(rows) + 2


def test_one_comparison_has_one_p_value(study):
    first, best, *_ = json.loads((study / "answers.json").read_text())["answers"]
    assert best["question"].startswith("Is the best crossprop better than the best backprop")
    assert first["why"].startswith(best["why"]) and "p = " in best["why"]


def test_percent_and_verdict_follow_the_difference(study):
    rows = rows_of(read(study / "sweep"))
    one = rows[1].versus["backprop"]["all"]
    backprop = rows[0].estimates["all"].mean
    assert one.percent.mean == pytest.approx(100 * (rows[1].estimates["all"].mean / backprop - 1))
    assert verdict(one._replace(p=0.5)) == "open"
    assert verdict(one._replace(p=0.01, difference=one.difference._replace(mean=-1.0))) == "yes"
    assert verdict(one._replace(p=0.01, difference=one.difference._replace(mean=1.0))) == "no"


def test_a_study_that_is_done_is_written_again_without_a_run(study, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["crossprop.sweeps.blocks"], "Executor", None)
    main(["study", "geoff", "--quick", "--out", str(study)])
    assert "the page is" in capsys.readouterr().out


def test_the_page_works_in_a_browser(study, chromium):
    with Opened(chromium, study / "study.html") as opened:
        assert opened.wrong == [] and opened.page.locator(".summary li").count() >= 4


@pytest.mark.parametrize("name", ["geoff", "geoff-full", "mnist", "mnist-full"])
def test_every_file_is_a_sweep_of_every_rule_with_every_optimizer(name, monkeypatch):
    blank = DataSet("mnist", np.zeros((20_000, 784), np.uint8), np.zeros(20_000, int), 10)
    monkeypatch.setattr(datasets, "mnist", lambda: blank)
    asked = read_spec(files("crossprop.study") / f"{name}.toml", store="kept")
    rules = [*RULES, "crossprop-projected"] if "mnist" in name else RULES
    optimizers = ("sgd", "momentum", "rmsprop", "adam")
    assert set(asked.learners) == {f"{rule}-{optimizer}" for rule in rules for optimizer in optimizers}
    assert asked.evaluate == (10 if "mnist" in name else 60)
    for full, learner in asked.learners.items():
        assert learner.optimizer == full.rpartition("-")[2]
    assert all(len(grid.points) > 1 for grid in asked.header.grids)
    if name == "mnist-full":
        network = asked.learners["crossprop-sgd"].network
        assert (network.hidden, network.outputs, asked.stream.examples) == (256, 10, 20_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "mnits"}, "name must be one of 'geoff', 'mnist', got 'mnits'; did you mean 'mnist'"),
        ({"full": True, "quick": True}, "full and quick must not both"),
        ({"seeds": 0}, "seeds must be at least 2, got 0"),
        ({"evaluate": 1}, "evaluate must be at least 2, got 1"),
    ],
)
def test_what_is_wrong_is_named(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Study(**{"name": "geoff", "out": tmp_path} | options)
