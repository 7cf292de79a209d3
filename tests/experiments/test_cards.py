"""Run cards: a stranger runs them again and sees whether results are the same; what is no card is refused by name."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop._support import xla
from crossprop._support.files import read_json, write_json
from crossprop.configuration import configuration
from crossprop.costs import measure_costs
from crossprop.experiments.cards import check_card, experiment_of, make_card, of_records, of_seeds, read_card
from crossprop.experiments.experiment import store_of
from crossprop.experiments.naming import named_experiment, named_stream
from crossprop.learners import LEARNERS, PREDICTORS
from crossprop.library import controls
from crossprop.objectives import OBJECTIVES
from crossprop.optimizers import OPTIMIZERS
from crossprop.record_files import read_records, write_records
from crossprop.replacements import REPLACEMENTS
from crossprop.specification import build
from crossprop.streams import STREAMS
from own_learners import Replay

STREAM = cp.Geoff(tasks="AB", examples=60)
NET = cp.Network(inputs=20, hidden=6)
QUIET = lambda text: None


def written(folder, learners, **options):
    records = cp.run(learners, STREAM, seeds=[3, 7, 10], record_every=25, progress=False, **options)
    write_records(folder / "records.nc", records)
    return records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    written(
        folder, {"mine": cp.Backprop(NET, 0.01, optimizer=cp.optimizers.fading(2.0)), "frozen": cp.Frozen(NET, 0.3)}
    )
    make_card(folder, QUIET)
    return folder


def changed(folder, tmp_path, change):
    """A card with a change of its first learner."""
    contents = read_json(folder / "card.json")
    change(contents["runs"][0])
    write_json(tmp_path / "card.json", contents)
    return tmp_path / "card.json"


def test_a_card_checks_as_the_same_bits_in_another_process(folder):
    words = [sys.executable, "-m", "crossprop", "card", "check", str(folder / "card.json"), "--seeds", "3"]
    source = {"PYTHONPATH": str(Path(cp.__file__).parents[1])}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | source)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "records, mine: same bits, 3 seeds\nrecords, frozen: same bits, 3 seeds\nSame bits.\n"


def test_a_card_checks_as_other_after_one_constant_is_changed(folder, tmp_path, call):
    path = changed(folder, tmp_path, lambda ran: ran.update(experiment=ran["experiment"].replace("0.01", "0.011")))
    answer = call("card", "check", path, "--seeds", "1")
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "Other." and "records, mine: other, means differ by up to 0." in answer.out


def test_a_card_whose_means_are_the_same_but_for_rounding_says_by_how_much(folder, tmp_path, call):
    def round_off(ran):
        ran["seeds"] = {seed: [mean * (1 + 1e-6), "0" * 64] for seed, (mean, _) in ran["seeds"].items()}
        ran["made_with"]["jax"] = "0.9.9"

    def lie(ran):
        ran["seeds"]["3"][0] *= 2

    answer = call("card", "check", changed(folder, tmp_path, lie))
    assert answer.code == 1 and "mine: other, means differ by up to 0.5" in answer.out
    answer = call("card", "check", changed(folder, tmp_path, round_off))
    assert answer.code == 3 and "mine: same within rounding, means differ by up to 1e-06 of them" in answer.out
    assert f"jax 0.9.9 there, {jax.__version__} here" in " ".join(answer.out.split())


def test_a_card_has_the_means_the_records_and_the_cost_of_every_seed(folder):
    mine, frozen = read_card(folder / "card.json")
    assert [*mine.seeds] == [3, 7, 10] and mine.made_with["jax"] == jax.__version__ and mine.float_type == "float32"
    assert frozen.cost["numbers"] == 21 * 6 + 7 and mine.cost["microseconds"] > 0
    assert 2 * 2 * 20 * 6 < mine.cost["flops"] < 20 * 20 * 6 and mine.cost["bytes"] > 4 * mine.cost["numbers"]
    learner, stream, record_every, steps = experiment_of(mine)
    assert (record_every, steps) == (25, 120) and configuration(stream) == configuration(STREAM)
    alone = cp.run(learner, stream, seeds=[7], record_every=25, progress=False)
    assert of_seeds(alone.isel(learner=0))[7].sha256 == mine.seeds[7].sha256
    assert mine.seeds[7].mean == pytest.approx(np.average(alone.loss.values.ravel(), weights=alone.window.values))


def test_every_bit_of_the_records_counts(folder):
    alone = read_records(folder / "records.nc").isel(learner=0).copy(deep=True)
    before = of_seeds(alone)
    alone.loss.values[1, 2] = np.nextafter(alone.loss.values[1, 2], np.float32(np.inf))
    after = of_seeds(alone)
    assert after[3] == before[3] and after[7].sha256 != before[7].sha256
    renamed = of_seeds(alone.rename(outgoing_drift="drift_other"))
    assert renamed[3].sha256 != before[3].sha256


def test_a_run_that_diverges_has_no_mean(tmp_path):
    written(tmp_path, {"wild": cp.Backprop(NET, 1e6)})
    make_card(tmp_path, QUIET)
    (wild,) = read_card(tmp_path / "card.json")
    assert {mean for mean, _ in wild.seeds.values()} == {None}
    assert check_card(tmp_path / "card.json", 1, QUIET) == "same bits"


def test_the_best_settings_of_a_sweep_are_on_its_card(tmp_path, call):
    learner = cp.Foresight(NET, 0.01, optimizer=cp.optimizers.fading(), replacement="redo")
    axes = {"ahead": [0.5], "optimizer.start": [2.0], "network.hidden": [5], "stream.examples": [30]}
    cp.sweep({"it": learner}, STREAM, axes, 1, 25, store=tmp_path / "a" / "kept", evaluate=2, progress=False)
    assert call("card", "make", tmp_path / "a").code == 0
    (it,) = read_card(tmp_path / "a" / "card.json")
    made, stream, _, steps = experiment_of(it)
    assert (it.name, [*it.seeds], steps) == ("kept, it", [1, 2], 60)
    expected = replace(learner, ahead=0.5, network=replace(NET, hidden=5), optimizer=cp.optimizers.fading(2.0))
    assert configuration(made) == configuration(expected) and stream.examples == 30
    assert check_card(tmp_path / "a" / "card.json", 2, QUIET) == "same bits"


def assert_named(learner, described, stream):
    """The learner is built again from its table."""
    table = named_experiment("it", learner, described)
    made, its = build(table)
    assert configuration(made["it"]) == configuration(learner) and configuration(its) == configuration(stream)


NAMED = {
    **{"geoff": {"tasks": "AB"}, "tracking": {"steps": 9}, "slowly-changing": {}, "digits": {"examples": 9}},
    **{"permuted-inputs": {"data": "digits", "tasks": 3}, "random-labels": {"data": "digits", "images": 9}},
    **{"class-pairs": {}, "random-walk": {}, "trace-conditioning": {}, "trace-patterning": {}},
    "traced": {"stream": {"name": "trace-patterning"}, "decays": [0.5, 0.9]},
}


@pytest.mark.parametrize("name", NAMED)
def test_streams_are_found_again_by_name(name):
    learner, stream = build({"stream": {"name": name, **NAMED[name]}, "learners": ["backprop"]})
    described, made = named_stream(json.loads(json.dumps(configuration(stream))))
    assert described["name"] == name and configuration(made) == configuration(stream)
    assert_named(learner["backprop"], described, stream)


@pytest.mark.parametrize("part", ["learner", "optimizer", "replacement", "objective", "predictor", "wrapper"])
def test_learners_and_their_parts_are_found_again_by_name(part):
    tables = {
        "learner": [{"rule": name, "step_size": 0.3} for name in LEARNERS],
        "optimizer": [{"rule": "backprop", "optimizer": {"name": name}} for name in OPTIMIZERS],
        "replacement": [{"rule": "foresight", "replacement": {"name": name}} for name in REPLACEMENTS],
        "objective": [{"rule": name, "step_size": 0.3} for name in OBJECTIVES],
        "predictor": [{"rule": name} for name in PREDICTORS],
        "wrapper": [{"rule": "backprop", "normalize": True, "whiten": {"decay": 0.5}}, {"rule": "adam", "best": True}],
    }[part]
    name = "random-walk" if part == "predictor" else "geoff"
    for table in tables:
        learner, stream = build({"stream": {"name": name}, "network": {"hidden": [4]}, "learners": {"it": table}})
        assert_named(learner["it"], {"name": name}, stream)


def test_a_learner_without_a_name_is_left_out_with_the_reason(tmp_path):
    said = []
    written(tmp_path, {"named": cp.Frozen(NET, 0.3), "mine": cp.Backprop(NET, 0.01, optimizer=optax.adamw)})
    make_card(tmp_path, said.append)
    assert [ran.learner for ran in read_card(tmp_path / "card.json")] == ["named"]
    assert len(said) == 1 and said[0].startswith("Not in the card: records, mine: ") and "adamw" in said[0]
    assert read_json(tmp_path / "card.json")["left_out"][0] in said[0]


def test_a_learner_of_ones_own_needs_its_module(tmp_path, call, own_registries):
    LEARNERS["replay"] = Replay
    written(tmp_path, {"mine": Replay(NET, 0.01)})
    assert call("card", "make", tmp_path).code == 0
    del LEARNERS["replay"]
    refused = call("card", "check", tmp_path / "card.json")
    assert refused.code == 2 and "records, mine" in refused.err and "replay" in refused.err
    sys.modules.pop("own_learner", None)
    assert call("card", "check", tmp_path / "card.json", "--import", "own_learner").code == 0


def test_learners_and_streams_of_the_librarys_studies_need_no_import(tmp_path, call, own_registries, monkeypatch):
    learner, stream = controls.ForesightControl(cp.Network(10, 3), 0.01), controls.Friedman(tasks=2, examples=20)
    records = cp.run({"control": learner}, stream, seeds=1, record_every=20, progress=False)
    write_records(tmp_path / "records.nc", records)
    make_card(tmp_path, QUIET)
    del LEARNERS["foresight-control"], STREAMS["friedman"]
    monkeypatch.delitem(sys.modules, controls.__name__)
    answer = call("card", "check", tmp_path / "card.json")
    assert (answer.code, answer.out) == (0, "records, control: same bits, 1 seed\nSame bits.\n")


@pytest.mark.parametrize(
    "card", sorted((Path(__file__).parents[2] / "docs/tables").glob("*.json")), ids=lambda path: path.stem
)
def test_a_card_in_the_docs_has_the_errors_of_the_table_beside_it(card):
    errors = {(ran.stage, ran.learner): np.mean([seed.mean for seed in ran.seeds.values()]) for ran in read_card(card)}
    with card.with_suffix(".csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("stream") != "overall"]
    where = lambda row: row["stream"] if "stream" in row else store_of(Path(), row["column"]).name
    table = {(where(row), row["learner"]): float(row.get("all mean") or row["mean"]) for row in rows}
    assert errors == pytest.approx(table, rel=1e-6)


def test_a_folder_without_records_is_refused(tmp_path, call):
    answer = call("card", "make", tmp_path)
    assert answer.code == 2 and str(tmp_path) in answer.err and "run --out" in answer.err


DAMAGE = {
    "a module to import": lambda ran: ran.update(experiment='import = ["os"]\n' + ran["experiment"]),
    "a file to read": lambda ran: ran.update(experiment=ran["experiment"].replace('"geoff"', '"/etc/passwd.csv"')),
    "no TOML": lambda ran: ran.update(experiment="[" * 5000),
    "no text": lambda ran: ran.update(experiment="\ud800"),
    "no stream": lambda ran: ran.update(experiment=""),
    "another learner": lambda ran: ran.update(learner="other"),
    "a learner that is not there": lambda ran: ran.update(experiment=ran["experiment"].replace('"backprop"', '"none"')),
    "a network beyond memory": lambda ran: ran.update(experiment=ran["experiment"].replace("[6]", f"[{10**9}]")),
    "no steps": lambda ran: ran.update(experiment=ran["experiment"].replace("steps = 120", "")),
    "too many steps": lambda ran: ran.update(experiment=ran["experiment"].replace("steps = 120", "steps = 1e9")),
    "an engine": lambda ran: ran["made_with"].update(engine="mine"),
    "no engine": lambda ran: ran.update(made_with=[]),
    "another precision": lambda ran: ran.update(float_type="float16"),
    "a name that commands the terminal": lambda ran: ran.update(stage="\x1b[2J"),
    "no seeds": lambda ran: ran.update(seeds={}),
    "a seed below 0": lambda ran: ran["seeds"].update({"-1": [1.0, ""]}),
    "a seed that is no number": lambda ran: ran["seeds"].update({"a": [1.0, ""]}),
    "a mean that is a text": lambda ran: ran["seeds"].update({"3": ["1", ""]}),
    "more than a seed has": lambda ran: ran["seeds"].update({"3": [1.0, "", 1]}),
    "no hash": lambda ran: ran["seeds"].update({"3": [1.0, None]}),
    "something else": lambda ran: ran.update(code="import os"),
    "something missing": lambda ran: ran.pop("cost"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_card_is_refused_by_name(damage, folder, tmp_path, call, monkeypatch):
    monkeypatch.setattr("crossprop.experiments.cards.run", checked_only)
    path = changed(folder, tmp_path, DAMAGE[damage])
    answer = call("card", "check", path)
    assert answer.code == 2 and answer.err.startswith(f"crossprop: {path}"), answer
    assert "\x1b" not in answer.out + answer.err and "root:" not in answer.err


def checked_only(*given, **named):
    cp.run(*given, **named)
    raise AssertionError("it ran")


def test_what_is_no_json_of_a_card_is_refused_by_name(folder, tmp_path, monkeypatch):
    whole, path = (folder / "card.json").read_bytes(), tmp_path / "card.json"
    contents = read_json(folder / "card.json")
    for content in (b"", b"[]", b"{}", b"null", b"[" * 10**5, whole[:-9], whole.replace(b"frozen", b"fr0zen", 1)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=str(path)):
            read_card(path)
    for other in ({"schema": 2}, {"runs": 1}, {"runs": {"a": 1}}, {"runs": [1]}, {"runs": [[]]}):
        write_json(path, contents | other)
        with pytest.raises(ValueError, match=f"{path} is no run card"):
            read_card(path)
    write_json(path, contents | {"runs": []})
    with pytest.raises(ValueError, match="no learners"):
        check_card(path, 1, QUIET)
    monkeypatch.setattr("crossprop.experiments.cards.MOST_BYTES", len(whole) - 1)
    with pytest.raises(ValueError, match=r"card\.json"):
        read_card(folder / "card.json")


def test_without_xlas_cost_analysis_the_figure_alone_is_missing(monkeypatch):
    assert xla.program_cost(SimpleNamespace()) == (None, None)
    assert xla.program_cost(SimpleNamespace(cost_analysis=lambda: None)) == (None, None)
    monkeypatch.setattr(xla, "program_cost", lambda compiled: (None, None))
    (cost,) = measure_costs({"it": cp.Frozen(NET, 0.1)}, STREAM, steps=50, repeats=1, engine="auto").values()
    assert cost.microseconds > 0 and cost.flops is None and cost.bytes is None


@pytest.mark.long
def test_a_card_of_float64_is_checked_in_float64(tmp_path):
    with jax.enable_x64(True):
        written(tmp_path, {"frozen": cp.Frozen(NET, 0.3)})
        make_card(tmp_path, QUIET)
    assert read_card(tmp_path / "card.json")[0].float_type == "float64"
    assert check_card(tmp_path / "card.json", 2, QUIET) == "same bits"


class Unregistered(cp.Learner):
    network: cp.Network
    size: float = eqx.field(default=1.0)

    def init(self, key):
        return np.zeros(1)

    def update(self, state, x, y):
        loss, _ = self.network.error(y * 0, y)
        return state, cp.Outcome(loss, y * 0)

    def predict(self, state, x):
        return x[:1] * 0

    def weights(self, state):
        return {}


def test_a_class_that_is_not_registered_is_named():
    with pytest.raises(ValueError, match="Unregistered is not registered"):
        named_experiment("it", Unregistered(NET), {"name": "geoff"})


def test_runs_of_several_engines_are_left_out(folder):
    records = read_records(folder / "records.nc")
    (said, _) = of_records("it", records.assign_attrs(engine='["scan", "chunked"]'))
    assert said.startswith("it, mine: the engine of all its runs must be one of")
