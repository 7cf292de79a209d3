"""`crossprop study credit`: its tables and answers follow from the oracle's numbers, and a quick run leaves a page."""

import csv
import html
import json
from importlib.resources import files

import numpy as np
import pytest
import xarray

from browser import Opened
from crossprop import oracle
from crossprop.cli import main
from crossprop.cli.studies import Study
from crossprop.experiments.experiment import read_experiment
from crossprop.library.credit import COSINES, Found, answers, cosines_of, publish_credit, terms_of

RULES = ["backprop", "crossprop", "crossprop-sum", "foresight"]
LAYERS = {"geoff": ["all", "1"], "digits-deep": ["all", "1", "2"]}


def made_up(layers, seeds=4, rules=RULES):
    """Records as of the oracle with numbers of our own: a rule's cosine grows with its place and the seed's noise."""
    rng = np.random.default_rng(0)
    shape = (len(rules), seeds, 6, len(layers), len(oracle.PARTS))
    dims = ("learner", "seed", "step", "layer", "part")
    noise = lambda: 0.01 * rng.normal(size=shape)
    base = 0.1 * np.arange(len(rules))[:, None, None, None, None]
    cosines = {
        name: (dims, base + noise()) for name in ("cosine", "summed_cosine", "added_cosine", "summed_added_cosine")
    }
    sizes = np.broadcast_to([1.0, 2.0, 1.0, 3.0, 4.0], shape)  # whole, direct, memory, own, cross
    others = {"norm": (dims, sizes), "memory_cosine": (dims, np.broadcast_to([0.1, -0.5, 1.0, 0.2, 0.3], shape))}
    coordinates = {"learner": rules, "seed": range(seeds), "layer": layers, "part": list(oracle.PARTS)}
    coordinates |= {"step": 20 * np.arange(1, 7), "task": ("step", [0, 0, 1, 1, 2, 2])}
    return xarray.Dataset(cosines | others, coords=coordinates)


def experiment(folder):
    return read_experiment(files("crossprop.library") / "studies" / "credit.toml", folder.joinpath, size="quick")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    stages = experiment(tmp_path_factory.mktemp("credit")).stages
    return {
        name: Found(stages[name].title, made_up(layers), made_up(layers, rules=RULES[:2]))
        for name, layers in LAYERS.items()
    }


def test_rows_are_means_over_the_run_for_every_rule_and_layer(found):
    rows = cosines_of(found)
    assert len(rows) == (4 + 2) * 1 + (4 + 2) * 3
    (row,) = [
        row
        for row in rows
        if (row["setting"], row["run"], row["rule"], row["layer"])
        == ("Digits, deep", "backprop's", *("crossprop", "2"))
    ]
    for column, (variable, part) in COSINES.items():
        values = found["digits-deep"].along[variable].sel(learner="crossprop", layer="2", part=part)
        mean, low, high = (row[f"{column} {part}"] for part in ("mean", "low", "high"))
        assert mean == pytest.approx(values.mean().item()) and low < mean < high


def test_terms_are_sizes_beside_the_gradient_of_the_same_layer(found):
    terms = terms_of(found)[1]
    expected = {"memory": 0.5, "own": 1.5, "cross": 2.0, "own_cross": (1 - 9 - 16) / 24}
    expected |= {"direct_memory": -0.5, "own_memory": 0.2, "cross_memory": 0.3}
    assert {name: terms[name] for name in expected} == pytest.approx(expected)


def test_answers_follow_the_numbers(found):
    assert "\N{MINUS SIGN}0.50" in answers(found)[1].why and "-0.50" not in answers(found)[1].why
    verdicts = [answer.verdict for answer in answers(found)]
    assert verdicts == ["no", "no", "no", "yes", "yes", "yes"]
    worse = {name: each._replace(along=each.along.assign(cosine=-each.along.cosine)) for name, each in found.items()}
    assert [answer.verdict for answer in answers(worse)][4:] == ["no", "no"]
    alike = {name: each._replace(along=each.along.assign(cosine=each.along.cosine * 0)) for name, each in found.items()}
    assert [answer.verdict for answer in answers(alike)][4:] == ["no difference shown"] * 2
    mixed = answers({"geoff": found["geoff"], "digits-deep": worse["digits-deep"]})
    assert [answer.verdict for answer in mixed][4:] == ["it depends"] * 2


def test_the_page_and_the_table_have_every_rule(found, tmp_path, monkeypatch):
    rows = cosines_of(found)
    monkeypatch.setattr("crossprop.library.credit.follow_stages", lambda *_, **__: found)
    about = {"command": "crossprop study credit", "version": "quick"}
    told = publish_credit(experiment(tmp_path), tmp_path, lambda text: None, **about)
    table = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(table) == len(rows) and float(table[0]["whole mean"]) == rows[0]["whole mean"]
    text = (tmp_path / "study.html").read_text()
    assert "quick version" in text and all(answer.question in html.unescape(text) for answer in told)
    assert (
        text.count('class="chart curves"') == 3 * len(found)
        and text.count('class="chart forest"') == 1
        and "Meta-gradient, layer 2" in text
    )


def test_what_it_does_not_take_is_refused(tmp_path):
    with pytest.raises(ValueError, match="evaluate and engine must not be given for the study credit"):
        Study(name="credit", out=tmp_path, evaluate=5)


@pytest.mark.long
@pytest.mark.usefixtures("quick_compilation")
def test_a_quick_run_leaves_a_page_and_is_not_run_twice(tmp_path, monkeypatch, chromium):
    main(["study", "credit", "--quick", "--out", str(tmp_path)])
    told = json.loads((tmp_path / "answers.json").read_text())
    assert len(told["answers"]) == 6 and (tmp_path / "figures" / "cosines.png").exists()
    before = (tmp_path / "table.csv").read_bytes()
    monkeypatch.setattr(oracle, "follow", None)
    main(["study", "credit", "--quick", "--out", str(tmp_path)])
    assert (tmp_path / "table.csv").read_bytes() == before
    with Opened(chromium, tmp_path / "study.html") as opened:
        assert opened.wrong == [] and opened.page.locator("table.claims tbody tr").count() == 6
    with pytest.raises(SystemExit):
        main(["study", "credit", "--quick", "--seeds", "3", "--out", str(tmp_path)])
