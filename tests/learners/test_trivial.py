"""Trivial predictors, and defaults that do better."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import crossprop as cp
from crossprop.cli import main
from crossprop.cli.run import Run
from crossprop.specification import build, step_size_for
from crossprop.streams import SUITED, SUITED_TO
from crossprop.testing import check_learner

pytestmark = pytest.mark.usefixtures("quick_compilation")
X = np.zeros((5, 2))


def losses(stream, answer):
    net = cp.Network(2, (), stream.outputs, loss="softmax" if stream.one_hot else "squared")
    records = cp.run(cp.Trivial(net, answer), stream, seeds=1, record_every=1)
    return records["error" if stream.one_hot else "loss"].values.ravel().tolist()


def test_the_running_mean_and_the_last_target():
    stream = cp.Arrays(X, [2.0, 4.0, 0.0, 2.0, 7.0], kind="regression")
    assert losses(stream, "mean") == pytest.approx([4, 4, 9, 0, 25])  # means 0, 2, 3, 2, 2
    assert losses(stream, "last") == pytest.approx([4, 4, 16, 4, 25])


def test_the_most_frequent_and_the_last_class():
    stream = cp.Arrays(X, [1, 1, 0, 1, 0])
    assert losses(stream, "mean") == [1, 0, 1, 0, 1]  # class 0 before any example
    assert losses(stream, "last") == [1, 0, 1, 1, 1]


@pytest.mark.parametrize("answer", ["mean", "last"])
def test_the_contract(answer):
    check_learner(cp.Trivial(cp.Network(3, 4), answer))
    check_learner(cp.Trivial(cp.Network(3, 4, 3, loss="softmax"), answer))


def test_the_mean_of_the_returns_so_far():
    """What is known of them; where one is not, the loss is the squared TD error, as of learners."""
    y = [[0, 0.5, 2], [1, 0.5, 4], [2, 0.5, np.nan], [0, 0.5, 0]]
    learner = cp.Trivial(cp.Network(2, ()), "return")
    records = cp.run(learner, cp.Arrays(X[:4], y, kind="prediction"), seeds=1, record_every=1)
    assert records.loss.values.ravel().tolist() == pytest.approx([4, 4, (2 + 0.5 * 3 - 2) ** 2, 9])
    assert records.known.values.ravel().tolist() == [1, 1, 0, 1]
    with pytest.raises(ValueError, match="answer must be 'mean' or 'last' with classes, got 'return'"):
        cp.Trivial(cp.Network(2, (), 2, loss="softmax"), "return")


def test_another_answer_is_named():
    with pytest.raises(ValueError, match="answer must be one of 'mean', 'last', 'return', got 'median'"):
        cp.Trivial(cp.Network(3, 4), "median")


# Defaults


SHORT = {
    "tracking": {"steps": 3000},
    "slowly-changing": {"steps": 3000, "change_every": 1000},
    "permuted-inputs": {"data": "digits", "tasks": 2, "examples": 600},
    "random-labels": {"data": "digits", "tasks": 2, "images": 40, "passes": 10},
    "digits": {"tasks": "AB", "examples": 600},
    "geoff": {},
}


@pytest.mark.parametrize("name", SHORT)
def test_backprop_beats_the_trivial_predictors_with_the_defaults_of_the_stream(name):
    learners, stream = build({"stream": {"name": name, **SHORT[name]}, "learners": ["backprop"]})
    net = learners["backprop"].network
    learners |= {answer: cp.Trivial(net, answer) for answer in ("mean", "last")}
    records = cp.run(learners, stream, seeds=2, record_every=100)
    found = records["error" if stream.one_hot else "loss"].mean(["seed", "step"]).sel(learner=[*learners]).values
    assert found[0] < 0.9 * found[1:].min(), found


def test_the_step_size_follows_the_optimizer_and_the_width():
    net, suited = cp.Network(3, 100), SUITED_TO["squared"]
    assert step_size_for("sgd", net, suited) == suited.step_size
    assert step_size_for("momentum", net, suited) == pytest.approx(suited.step_size / 10)
    assert step_size_for({"name": "l2_init", "base": "adam"}, net, suited) == step_size_for("adam", net, suited)
    assert step_size_for("sgd", cp.Network(3, (7, 400)), suited) == suited.step_size / 4
    assert step_size_for("sgd", cp.Network(3, 10), suited) == suited.step_size
    assert step_size_for("momentum", cp.Network(20, 5000), SUITED["geoff"]) == 5e-4  # the paper's for all


def test_geoff_has_the_network_of_the_paper():
    learners, _ = build({"stream": "geoff", "learners": ["backprop", "adam"]})
    assert learners["adam"] == cp.Backprop(cp.Network.paper(20, 500), 5e-4, optimizer="adam")
    learners, _ = build({"stream": "geoff", "network": {"hidden": 7, "bias": True}, "learners": ["backprop"]})
    assert learners["backprop"] == cp.Backprop(cp.Network.paper(20, 7, bias=True), 5e-4)


@pytest.mark.parametrize("command", re.findall(r"crossprop (run .*)", Run.__doc__ or ""))
def test_the_examples_of_the_help_print_lower_errors_than_those_of_trivial_predictors(
    command, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sizes = np.random.default_rng(0).uniform(20, 120, 2000)
    Path("data.csv").write_text("size,price\n" + "".join(f"{size:.1f},{size / 10:.2f}\n" for size in sizes))
    words = [word for word in shlex.split(command) if word not in ("--out", "comparison")]
    main([*words, "--seeds", "1", *(["--tasks", "A", "--examples", "1000"] if "mnist5k" in words else [])])
    rows = dict(re.findall(r"^(\(?[a-z ]+\)?) +([\d.]+)", capsys.readouterr().out, re.MULTILINE))
    errors = {name.strip(): float(error) for name, error in rows.items()}
    trivial = {name for name in errors if name.startswith("(")}
    assert len(trivial) == 2 and len(errors) >= 3
    assert max(errors[name] for name in {*errors} - trivial) < min(errors[name] for name in trivial), errors
