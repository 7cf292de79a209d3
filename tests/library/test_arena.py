"""The arena: a whole quick run, lists that are wrong, and conclusions from numbers made by hand."""

import csv
import json
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import arena_figure
import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import crossprop as cp
from browser import Opened, broken_intervals, data_of, shot, violations
from crossprop.cli import main
from crossprop.cli.studies import Arena, run_arena
from crossprop.costs import Cost, kept_costs
from crossprop.experiments.charts import forest
from crossprop.experiments.evaluate import Choice
from crossprop.experiments.experiment import Experiment, Stage
from crossprop.experiments.findings import compare
from crossprop.experiments.looks import LOOKS
from crossprop.experiments.results import SweepResults, read_results
from crossprop.experiments.spec import SweepSpec
from crossprop.experiments.sweep_page import are_backprop
from crossprop.learners import LEARNERS
from crossprop.library.arena import answers, conclusions, read_arena, worth
from crossprop.library.arena_page import _group, per_task
from crossprop.library.standing import Price, Results, gains, parts_of, prices_of, rank_estimates
from crossprop.records import LearnerInfo
from crossprop.streams import STREAMS

pytestmark = pytest.mark.usefixtures("quick_compilation")
QUICK = ["backprop", "foresight", "adam", "foresight-adam"]


@pytest.fixture(scope="module")
def arena(made_once):
    return made_once("arena", lambda folder: main(["arena", "--quick", "--out", str(folder)]))


def rows(arena, stream):
    found = csv.DictReader((arena / "table.csv").read_text().splitlines())
    return {row["learner"]: row for row in found if row["stream"] == stream}


@pytest.mark.long
def test_an_arena_leaves_a_page_tables_and_answers(arena):
    assert {path.name for path in arena.iterdir()} == {
        *("arena.html", "table.csv", "answers.json", "sweeps", "card.json")
    }
    page, told = (arena / "arena.html").read_text(), json.loads((arena / "answers.json").read_text())
    assert "quick version" in page and all(each["question"] in page for each in told["answers"])
    assert "its answers mean nothing" in page and "2 settings of every learner on every stream" in page
    assert "was widened" not in page  # the quick version widens no grid


@pytest.mark.long
def test_the_table_has_ranks_differences_and_costs_of_every_learner_on_every_stream(arena):
    for stream in ("tracking", "digits"):
        values = cp.open_evaluation(arena / "sweeps" / stream).values()
        means = {name: own.mean().item() for name, own in values.items()}
        found = rows(arena, stream)
        assert found.keys() == {*QUICK} and all(row["microseconds"] == "nan" for row in found.values())
        assert {float(row["rank"]) for row in found.values()} == {1, 2, 3, 4}
        for name, row in found.items():
            assert float(row["mean"]) == pytest.approx(means[name])
            expected = "" if name == "backprop" else pytest.approx(100 * (means[name] / means["backprop"] - 1))
            assert (row["percent"] and float(row["percent"])) == expected
            assert float(row["rank"]) == sorted(means.values()).index(means[name]) + 1
    overall, parts = rows(arena, "overall"), [rows(arena, stream) for stream in ("tracking", "digits")]
    for name in QUICK[1:]:
        mean = np.mean([float(each[name]["percent"]) for each in parts])
        assert float(overall[name]["percent"]) == pytest.approx(mean)
        assert float(overall[name]["rank"]) == np.mean([float(each[name]["rank"]) for each in parts])


@pytest.mark.long
def test_the_table_is_drawn(arena, tmp_path):
    found = arena_figure.read(arena / "table.csv")
    assert [*found["adam"]] == ["Overall", "Tracking", "Label-shifted digits"] and found.keys() == {*QUICK}
    axes = Figure().subplots()
    arena_figure.draw(axes, found)
    drawn = [text.get_text() for text in axes.texts]
    expected = [float(rows(arena, "overall")[name]["percent"] or 0) for name in found]
    assert [float(text.replace("−", "-")) for text in drawn[::3]] == pytest.approx(expected, abs=0.51)


@pytest.mark.long
def test_features_and_weights_are_recorded_over_time(arena):
    records = cp.open_evaluation(arena / "sweeps" / "digits").records["foresight"]
    assert records.effective_rank.min() >= 1 and records.effective_rank.max() <= 4
    assert ((records.dead_units >= 0) & (records.dead_units <= 1)).all() and (records.weight_size > 0).all()


@pytest.mark.long
def test_an_arena_that_is_done_is_written_again_without_a_run(arena, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["crossprop.experiments.blocks"], "Executor", None)
    monkeypatch.setattr("crossprop.costs.measure_costs", None)
    main(["arena", "--quick", "--out", str(arena)])
    assert "proves nothing" in " ".join(capsys.readouterr().out.split())


def test_the_page_shows_the_stream_and_the_learners_that_are_chosen(arena, chromium):
    with Opened(chromium, arena / "arena.html") as opened:
        page = opened.page
        assert page.locator("table.ranks tbody tr").count() == 4
        assert page.locator(".chart.scatter").count() == 0, "runs of the quick version are too short to be timed"
        page.locator("figure.curves select").nth(0).select_option("Label-shifted digits")
        page.locator("figure.curves select").nth(1).select_option("optimizers")
        first = "document.querySelector('.chart.curves').layout.yaxis.title.text"
        page.wait_for_function(f"{first} === 'share misclassified'")
        page.wait_for_function("document.querySelectorAll('.chart.curves .legendtext').length === 12")
        for chart in page.locator(".chart.curves").all():
            assert chart.locator(".legendtext").all_text_contents() == ["backprop", "adam"]
        assert {select.input_value() for select in page.locator("figure.curves [data-choose=stream]").all()} == {
            "Label-shifted digits"
        }
        assert opened.wrong == []


def test_a_learner_that_diverged_stays_in_the_chart_and_says_so(arena, chromium, tmp_path):
    values = {
        name: xarray.DataArray(of, {"seed": [0, 1]}) for name, of in (("adam", [1, np.inf]), ("backprop", [1, 2]))
    }
    both = [compare(values, {name: other})[0] for name, other in (("adam", "backprop"), ("backprop", "adam"))]
    (gone,) = forest("title", "axis", [(each, "step", LOOKS["adam"]) for each in both]).lines
    assert gone.name == "adam" and np.isnan([gone.y, gone.low, gone.high]).all() and gone.diverged == (0,)
    page = (arena / "arena.html").read_text()
    data = data_of(page)
    for chart in data["figures"][0]["charts"].values():
        chart["lines"][0] |= {"y": [None], "low": [None], "high": [None]}
    begin = page.index('id="data">') + len('id="data">')
    (tmp_path / "arena.html").write_text(page[:begin] + json.dumps(data) + page[page.index("</script>", begin) :])
    with Opened(chromium, tmp_path / "arena.html") as opened:
        assert opened.page.locator(".forest .annotation-text").all_text_contents() == ["diverged"]
        assert opened.page.locator(".forest .points path").count() == 2 and opened.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "why"), [(1280, 500), (390, 250)])
def test_answers_are_wide_enough_to_read_and_no_interval_is_broken(arena, chromium, width, why, scheme):
    """Also where an answer is long, which took the space of its reasons, and with columns whose ends were cut."""
    with Opened(chromium, arena / "arena.html", width, scheme) as opened:
        page = opened.page
        page.evaluate(
            "document.querySelector('table.claims .pill').textContent = "
            "'better on 1 of 3 streams, worse on 1 of 3 streams'"
        )
        assert page.locator("table.claims tbody tr:first-child td").last.bounding_box()["width"] >= why
        assert broken_intervals(page) == []
        ends = "document.querySelector('table.ranks').getBoundingClientRect().right"
        assert width < 500 or page.evaluate(ends) <= width
        shot(page, f"arena-{width}-{scheme}")


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_keeps_anyone_from_reading_the_page(arena, chromium, axe, width):
    with Opened(chromium, arena / "arena.html", width=width) as opened:
        assert violations(opened, axe) == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.long
@pytest.mark.parametrize(("size", "settings", "stream"), [(None, 16, "random-labels"), ("full", 36, "slowly-changing")])
def test_every_size_gives_every_learner_the_same_budget(size, settings, stream, tmp_path):
    file = files("crossprop.library") / "arena.toml"
    assert len(read_arena(file, tmp_path, size=size).stages) == 6
    spec = read_arena(file, tmp_path, [stream], size=size).stages[stream].spec
    assert {len(grid.points) for grid in spec.grids} == {settings}
    assert spec.learners["foresight-continual"].replacement == cp.ContinualReplacement()
    assert spec.learners["redo"].replacement.every == (200 if size is None else 1000)
    assert {"crossprop", "upgd", "redo", "random", "frozen"} <= spec.learners.keys()


def test_show_prints_a_list_that_can_be_edited_and_run(tmp_path, capsys):
    main(["arena", "--show"])
    text = capsys.readouterr().out
    file = tmp_path / "my.toml"
    file.write_text(text.replace('only = ["backprop"', 'only = ["backprop", "crossprop"'))
    stages = read_arena(file, tmp_path, ["digits"], size="quick").stages
    assert [*stages] == ["digits"] and "crossprop" in stages["digits"].spec.learners


def test_the_list_of_the_docs_is_a_list(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "arena.md").read_text()
    (parts,), (text,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_parts.py").write_text(parts.partition("records =")[0])
    (tmp_path / "my.toml").write_text(text)
    (stage,) = read_arena(tmp_path / "my.toml", tmp_path).stages.values()
    learner = stage.spec.learners["nlms"]
    assert stage.title == "My readings" and type(learner).__module__ == "my_parts"
    assert stage.spec.learners["continual"].replacement == cp.ContinualReplacement()
    for registry, name in ((LEARNERS, "nlms"), (STREAMS, "readings")):
        del registry[name]


OWN = """
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp

import crossprop as cp
from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS


class Mean(cp.Learner):
    network: cp.Network = eqx.field(static=True)
    step_size: float = 0.1

    def init(self, key):
        return jnp.zeros(self.network.outputs)

    def update(self, state, x, y):
        return state + self.step_size * (y - state), cp.Outcome(jnp.sum((y - state) ** 2), state)

    def predict(self, state, x):
        return state

    def weights(self, state):
        return {}


LEARNERS["own-mean"] = Mean
STREAMS["own-tracking"] = lambda steps: cp.Tracking(inputs=3, relevant=2, steps=steps)
"""
LIST = """
import = ["own_arena_parts"]
seeds = 2
evaluate = 2
[streams.mine]
stream = { name = "own-tracking", steps = 40 }
record_every = 10
network = { hidden = 3 }
[learners]
backprop = {}
own-mean = {}
[over]
step_size = [0.1]
"""


@pytest.mark.long
def test_learners_and_streams_of_the_users_own_enter_the_list(tmp_path, monkeypatch, own_registries):
    (tmp_path / "own_arena_parts.py").write_text(OWN)
    (tmp_path / "my.toml").write_text(LIST)
    monkeypatch.chdir(tmp_path)
    main(["arena", "--list", "my.toml", "--out", "out"])
    found = rows(tmp_path / "out", "mine")
    assert found["own-mean"]["credit"] == "own-mean" and float(found["own-mean"]["mean"]) > 0
    records = cp.open_evaluation(tmp_path / "out" / "sweeps" / "mine").records
    assert np.isnan(records["own-mean"].weight_size).all() and (records["backprop"].weight_size > 0).all()


LISTED = """
settings = 2
seeds = 2
evaluate = 3
network = { hidden = 4 }

[streams.tracking]
stream = { name = "tracking", steps = 120 }

[streams.digits]
stream = { name = "digits", tasks = "AB", examples = 60 }

[learners.backprop]

[learners.adam]
rule = "backprop"
optimizer = "adam"

[over]
step_size = [0.01, 0.1]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "sedes = 2", "a key of .* must be one of .*, got 'sedes'; did you mean 'seeds'"),
        ("settings = 2", "settings = 3", r"settings is 3, but learners.backprop has 2: 2 of step_size"),
        ('{ name = "tracking"', '{ name = "trakcing"', "streams.tracking: .*did you mean 'tracking'"),
        ("[learners.backprop]", "[learners.plain]\nrule = 'backprop'", "reference in .* got 'backprop'"),
        ('optimizer = "adam"', 'optimizer = "adma"', "streams.tracking: .*'adma'; did you mean 'adam'"),
        ("evaluate = 3", 'import = ["no_such_module"]', "import: no_such_module could not be imported"),
        ("step_size = [0.01, 0.1]", "step_seize = [1]", "streams.tracking: an axis in over must be one of"),
        ("settings = 2", "settings = ", "must be a TOML file"),
        ("evaluate = 3", "", r"my.toml has no evaluate: .* such as evaluate = 20"),
        ("evaluate = 3", "evaluate = 1", r"evaluate in .*my.toml must be at least 2, got 1"),
        ("streams.digits", 'streams."../digits"', "must have names that a folder can have, got '../digits'"),
    ],
)
def test_what_is_wrong_in_a_list_is_named_before_any_run(old, new, message, tmp_path):
    assert old in LISTED
    (tmp_path / "my.toml").write_text(LISTED.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        run_arena(Arena(file=tmp_path / "my.toml", out=tmp_path / "out"))


def test_costs_are_kept_for_what_was_measured_and_a_damaged_file_is_replaced(tmp_path, monkeypatch):
    measured = []

    def measure(learners, stream, *, steps, repeats, engine):
        measured.append(steps)
        return {name: Cost(float(steps), 3) for name in learners}

    monkeypatch.setattr("crossprop.costs.measure_costs", measure)
    monkeypatch.setattr("crossprop.costs.LEAST", 0)
    stream, path = cp.Geoff(inputs=3, features=5, examples=9), tmp_path / "costs" / "geoff.json"
    one, other = ({"a": cp.Backprop(cp.Network(3, size), 0.1)} for size in (4, 5))
    for learners, steps in ((one, 5), (one, 5), (one, 6), (other, 6), (other, 6)):
        assert kept_costs(path, learners, stream, steps=steps, repeats=1) == {"a": Cost(steps, 3)}
    assert measured == [5, 6, 6]
    path.write_bytes(path.read_bytes().replace(b"6.0", b"7.0"))
    with pytest.warns(UserWarning, match=r"geoff.json is damaged, .*checksum differs.* It is measured again"):
        assert kept_costs(path, other, stream, steps=6, repeats=1) == {"a": Cost(6, 3)}
    assert kept_costs(path, other, stream, steps=6, repeats=1) == {"a": Cost(6, 3)} and len(measured) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"full": True, "quick": True}, "full and quick must not both be given"),
        ({"evaluate": 1}, "evaluate must be at least 2, got 1"),
        ({"quick": True, "streams": ("digit",)}, r"a stream of .*arena.toml must be one of .*did you mean 'digits'"),
    ],
)
def test_what_is_wrong_is_named(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_arena(Arena(**{"out": tmp_path} | options))


INFOS = {
    "backprop": LearnerInfo("backprop", "sgd", "none"),
    "foresight": LearnerInfo("foresight", "sgd", "none"),
    "crossprop": LearnerInfo("crossprop", "sgd", "none"),
    "adam": LearnerInfo("backprop", "adam", "none"),
    "continual": LearnerInfo("backprop", "sgd", "continual"),
    "random": LearnerInfo("backprop", "sgd", "random"),
    "foresight-adam": LearnerInfo("foresight", "adam", "none"),
}


def made(infos=INFOS, own=(), streams=("one", "two"), tuned=None, plain="", **errors):
    """Results with these mean errors: by learner, one for each of two streams, 10 seeds with little noise. `tuned` are
    means on the tuning seeds that differ from these; the best setting of `plain` is backprop."""
    noise = np.random.default_rng(0).normal(size=(len(INFOS), 2, 10)) * 0.01
    seeds = {"seed": range(10)}
    sweeps = {}
    for at, name in enumerate(streams):
        values = {
            learner: xarray.DataArray(
                errors.get(learner.replace("-", "_"), (1, 1))[at] + noise[who, at], seeds, ["seed"]
            )
            for who, learner in enumerate(INFOS)
        }
        means = {learner: float(each.mean()) for learner, each in values.items()} | (tuned or {})
        sweeps[name] = SweepResults(
            {
                learner: SimpleNamespace(
                    choice=Choice({}, means[learner], 0, ()),
                    info=infos[learner],
                    backprop_at="eta" if learner == plain else None,
                )
                for learner in infos
            },
            SimpleNamespace(values=lambda values=values: values),
            (),
            name.capitalize(),
        )
    return Results("backprop", sweeps, dict.fromkeys(streams, dict.fromkeys(INFOS, Cost(1, 1))), own)


def test_each_question_is_answered_by_the_best_that_differs_in_it_alone():
    results = made(foresight=(0.8, 1), adam=(0.5, 0.6), foresight_adam=(0.4, 0.6), continual=(1.2, 1), random=(1.2, 1))
    found = {each.question: each for each in answers(results)}
    assert len({each.id for each in found.values()}) == len(found) == len(answers(results))
    assert found["Where does the credit matter?"].verdict == "on 1 of 2 streams"
    assert found["Where does the step matter?"].verdict == "everywhere"
    assert found["Where does the replacement matter?"].verdict == "better nowhere, worse on 1 of 2 streams"
    assert found["Does it matter which unit is replaced, beside one at random?"].verdict == "nowhere"
    assert "One: adam's error is 49.9% below" in found["Where does the step matter?"].why
    together = found["Do credit, step and replacement add up?"]
    assert together.verdict == "in 1 of 2 cases" and "better than its best part on One" in together.why
    stands = found["Where does foresight stand?"]
    assert stands.verdict == "number 4 of 7" and "Foresight is number 4 of 7" in stands.why
    assert "better than backprop on One" in stands.why
    assert found["Is the best learner with foresight better than the best without?"].verdict == "on 1 of 2 streams"
    assert found["Where does crossprop stand?"].verdict == "number 4 of 7"  # the ranks are equal
    said = conclusions(results, [*found.values()])
    assert said[0].startswith("Of 7 learners on 2 streams, foresight-adam has the best mean rank, 1.")
    assert ", ahead of adam, 2." in said[0]
    assert said[1].startswith("The step helps everywhere (−4")
    assert "the credit helps on One (−9.9%" in said[1] and "the replacement hurts on One (+10" in said[1]
    assert said[2].startswith("Combinations beat their best single component in 1 of 2 cases and lose in 0.")


def test_nothing_better_than_the_reference_is_said_so():
    results = made(foresight=(1.2, 1.2), crossprop=(1.2, 1.2), adam=(1.1, 1.1), continual=(1.3, 1.3), random=(1.4, 1.4),
                   foresight_adam=(1.3, 1.3))  # fmt: skip
    said = conclusions(results, answers(results))
    assert "backprop, the reference, has the best mean rank" in said[0] and "ahead of adam" in said[0]
    assert said[2].endswith("They do not add up here.")
    assert {each.verdict for each in answers(results)[1:4]} == {"better nowhere, worse everywhere"}
    assert "The credit makes no difference that shows" in conclusions(made(), answers(made()))[1]


def test_a_learner_of_the_users_own_is_placed_first_and_shown_beside_the_best():
    infos = INFOS | {"random": LearnerInfo("mine", "none", "none")}
    results = made(infos, ("random",), random=(0.4, 0.6), adam=(0.5, 0.5))
    found = answers(results)
    assert [each.question for each in found[:2]] == ["Which learner is the best?", "Where does random stand?"]
    assert found[1].verdict == "number 1 of 7" and "Random's error is 49.8% below" in found[1].why
    said = conclusions(results, found)
    assert said[:2] == [found[0].why, found[1].why] and said.count(found[1].why) == 1
    assert results.group("random") == "other" and "random" in _group(results, "best")
    only = made({name: infos[name] for name in ("backprop", "random")}, ("random",))
    assert not any("each the best of its kind" in each for each in conclusions(only, answers(only)))
    one = made(streams=["one"], adam=(0.5, 0.5))
    assert {each.question: each.verdict for each in answers(one)}["Where does the step matter?"] == "here"


def test_of_several_variants_of_a_rule_the_best_of_the_tuning_speaks_for_it():
    """Not the best on the fresh seeds, which would flatter the rule."""
    infos = INFOS | {"adam": LearnerInfo("crossprop-approx", "sgd", "none")}
    results = made(infos, tuned={"adam": 2.0}, crossprop=(0.95, 0.95), adam=(0.9, 0.9))
    found = {each.question: each.why for each in answers(results)}
    assert found["Where does crossprop stand?"].startswith("Crossprop is number 2 of 7")


def test_an_answer_about_a_rule_whose_best_setting_is_backprop_says_so():
    found = {each.question: each.why for each in answers(made(plain="crossprop", crossprop=(0.9, 0.9)))}
    assert found["Where does the credit matter?"].count("At its best eta crossprop is backprop.") == 2
    assert found["Where does crossprop stand?"].endswith("Its best setting on One and Two is backprop.")
    assert "backprop." not in found["Where does foresight stand?"].partition("seeds")[2]


def test_equal_errors_are_said_to_be_equal():
    same = {name: made().streams["one"].values["adam"] for name in ("a", "b")}
    assert compare(same, {"a": "b"})[0].sentence("error") == "a's error equals b's in every seed"


def test_seeds_that_are_equal_are_not_counted_for_either_side():
    """As where nothing was replaced in most runs."""
    values = {
        name: xarray.DataArray(np.array(own), {"seed": range(4)}, ["seed"])
        for name, own in {"a": [2.0, 2, 2, 3], "b": [2.0, 2, 2, 2]}.items()
    }
    there, back = compare(values, {"a": "b", "b": "a"})
    assert "% above b's" in there.sentence("error") and ", in 1 of 4 seeds" in there.sentence("error")
    assert "% below a's" in back.sentence("error") and ", in 1 of 4 seeds" in back.sentence("error")


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_who_diverged_is_named(bad):
    runs = {
        name: xarray.DataArray(np.array(own), {"seed": range(4)}, ["seed"])
        for name, own in {"well": [1.0, 2.0, 3.0, 4.0], "badly": [1.0, bad, 3.0, 4.0]}.items()
    }
    for one, other in (("well", "badly"), ("badly", "well")):
        (compared,) = compare(runs, {one: other})
        assert compared.sentence("error") == "badly diverged, so its mean cannot be compared"


def test_a_part_has_one_thing_less():
    results = made()
    assert parts_of(results, "foresight-adam") == ["adam", "foresight"] and parts_of(results, "adam") == []
    assert results.only("replacement") == ["continual"] and results.group("foresight-adam") == "several"


def test_the_worth_of_a_question_is_the_mean_over_streams():
    results = made(adam=(0.5, 0.6))
    assert worth(results)["step"].percent.mean == pytest.approx(-45, abs=1)


def test_a_learner_that_diverged_is_last_and_not_compared():
    values = np.array([[1.0, 1.1, 0.9], [0.5, np.inf, 0.5], [2.0, 2.1, 2.2]])
    ranks = rank_estimates([values])
    assert [float(each.mean) for each in ranks] == [1, 3, 2] and ranks[1].low == 3
    results = made(adam=(0.5, np.inf))
    assert results.overall.versus["adam"].p == 1 and "diverged" in answers(results)[2].why
    found = {each.question: each.why for each in answers(made(foresight=(0.5, np.inf)))}
    assert "better than backprop on One and with a seed that diverged on Two" in found["Where does foresight stand?"]


def test_without_a_reference_to_compare_with_nothing_is_said_overall():
    """Where the reference diverged on a stream, that stream would count as no error at all."""
    results = made(backprop=(1, np.inf), adam=(0.5, 0.6))
    assert np.isnan(results.overall.values["adam"]).all() and results.overall.versus["adam"].p == 1
    assert results.streams["one"].versus["adam"].p < 0.05


def test_seeds_that_diverged_are_counted():
    results = made(adam=(0.5, np.inf))
    assert results.diverged("adam") == 10 and results.diverged("adam", "one") == results.diverged("foresight") == 0
    assert conclusions(results, answers(results))[-1] == "10 runs of 140 diverged: adam on 10."
    assert "diverged:" not in conclusions(made(), answers(made()))[-1]


def test_untuned_every_learner_has_its_defaults_and_one_step_size_for_all_streams(tmp_path):
    """That of a stream that is not known, which GEOFF, digits and tracking are not."""
    path = files("crossprop.library") / "arena.toml"
    arena = read_arena(path, tmp_path, untuned=True)
    assert (arena.widen, arena.resolution, arena.untuned) == (0, None, True)
    for name, (_, spec) in arena.stages.items():
        plain = {"tracking": 2**-8, "slowly-changing": 2**-8, "geoff": 2**-8}.get(name, 2**-5)
        assert {len(grid.points) for grid in spec.grids} == {1}
        tuned = read_arena(path, tmp_path, [name]).stages[name].spec
        assert (max(spec.seeds), spec.evaluate) == (max(tuned.seeds), tuned.evaluate), "the same fresh seeds"
        for learner, its in spec.learners.items():
            expected = {"obgd": 1.0}.get(learner, 2**-8 if "adam" in learner else plain)
            assert its.step_size == expected, (name, learner)
        assert spec.learners["foresight"].ahead == cp.Foresight(cp.Network(1, 1), 0.1).ahead
        assert spec.learners["redo"].replacement.every == 200  # as the list has it


@pytest.mark.long
def test_the_price_of_tuning_is_that_of_the_records(arena, tmp_path):
    folder = tmp_path / "arena"
    shutil.copytree(arena, folder)
    for options in ([], ["--untuned"], []):
        main(["arena", "--quick", "tracking", "--out", str(folder), *options])
        found = rows(folder, "tracking")["adam"]
        assert bool(found["against default percent"]) == (folder / "untuned").exists() * (options == [])
    best, default = (cp.open_evaluation(folder / each / "sweeps" / "tracking") for each in ("", "untuned"))
    for name in QUICK:
        means = cp.open_sweep(folder / "sweeps" / "tracking")[name].loss.mean(["seed", "step"]).values.ravel()
        assert len(means) == 2  # the median of two settings is the better one
        ratios = means.min() / means.min(), *(each.values()[name].mean().item() for each in (best, default))
        row = rows(folder, "tracking")[name]
        assert float(row["against median percent"]) == pytest.approx(100 * (ratios[0] - 1), abs=1e-4)
        assert float(row["against default percent"]) == pytest.approx(100 * (ratios[1] / ratios[2] - 1), abs=1e-4)
        overall = rows(folder, "overall")[name]["against default percent"]
        assert float(overall) == pytest.approx(float(row["against default percent"]))
    page, untuned = ((folder / each / "arena.html").read_text() for each in ("", "untuned"))
    assert "The price of tuning" in page and "The price of tuning" not in untuned
    assert "untuned backprop" in untuned and "tuned backprop" in page and "untuned backprop" not in page
    assert {path.name for path in (folder / "untuned").iterdir()} >= {"card.json", "table.csv", "answers.json"}


def test_the_median_is_a_setting_of_the_list_and_infinite_where_it_diverged(tmp_path):
    learner, stream = cp.Frozen(cp.Network(20, 4), 0.1), cp.Geoff(tasks="A", examples=40)
    for axis, place in (([0.001, 0.003, 0.01, 0.02], 1), ([0.001, 1e6, 1e7], None)):
        store = tmp_path / str(len(axis))
        records = cp.sweep(learner, stream, {"step_size": axis}, 2, 20, store=store, evaluate=2, progress=False)
        means = np.sort(records["frozen"].loss.mean(["seed", "step"]).values)
        spec = SweepSpec.of(learner, stream, {"step_size": axis}, 2, 20, store=store, evaluate=2)
        arena = Experiment("", "", "frozen", {"it": Stage("it", spec)})
        found = prices_of(arena, {"it": read_results(store)}, tmp_path / "none")
        expected = -100 if place is None else 100 * (means[0] / means[place] - 1)
        assert found["it"]["frozen"].median == pytest.approx(expected, rel=1e-5) and found["it"] == found["overall"]
        assert found["it"]["frozen"].default is None


def test_a_best_setting_that_diverged_has_no_price():
    overall = {"a": Price(-10.0, None), "b": Price(np.nan, None), "c": Price(-20.0, None)}
    (said,) = gains(overall)
    assert said.startswith("Of 2 learners, the best setting has 15% less error than the median setting of its grid")
    assert said.endswith("from 10% (a) to 20% (c).") and gains({}) == []


def test_error_per_task_is_the_mean_over_each_visit():
    task = np.array([0, 0, 1, 1, 1, 0])
    loss = xarray.DataArray(np.arange(6.0)[None, None], dims=("learner", "seed", "step"))
    records = xarray.Dataset({"loss": loss}, {"step": np.arange(10, 61, 10), "task": ("step", task)})
    found = per_task(records)
    assert found.loss.values.ravel().tolist() == [0.5, 3, 5] and found.step.values.tolist() == [20, 50, 60]
    assert per_task(records.assign_coords(task=("step", np.zeros(6, int)))).sizes["step"] == 6


def test_a_sweep_whose_best_eta_is_1_is_said_to_be_backprop():
    chosen = {"crossprop": {"eta": 1, "step_size": 0.1}, "foresight": {"step_size": 0.1}, "approx": {"eta": 0.5}}
    learners = {
        name: SimpleNamespace(choice=SimpleNamespace(point=point), backprop_at="eta" if name == "crossprop" else None)
        for name, point in chosen.items()
    }
    assert are_backprop(SimpleNamespace(learners=learners)) == ["The best eta of crossprop is 1, which is backprop."]
