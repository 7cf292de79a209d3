"""The schema of records: phases, visits, labels and titles mean the same everywhere."""

import numpy as np
import optax
import pytest
import xarray

import crossprop as cp
from crossprop import records
from crossprop.configuration import configuration
from crossprop.descriptions import learner_info
from crossprop.experiments.charts import curves
from crossprop.experiments.figures import panel
from crossprop.experiments.looks import LOOKS, looks
from crossprop.learners import LEARNERS
from crossprop.records import LearnerInfo

NET = cp.Network(inputs=3, hidden=4)
TASK = np.repeat([0, 1, 0], 10)
STEP = np.arange(5, 151, 5)


def made(task, names=("backprop",), **attributes):
    values = np.ones((len(names), 2, len(task)))
    variables = ("loss", "incoming_drift", "outgoing_drift")
    steps = 10 * np.arange(1, len(task) + 1)
    coords = {"learner": list(names), "seed": [0, 1], "step": steps, "task": ("step", task)}
    return xarray.Dataset(dict.fromkeys(variables, (("learner", "seed", "step"), values)), coords, attributes)


def test_a_task_that_is_visited_twice_has_two_visits():
    assert records.switches(TASK).tolist() == [10, 20]
    assert [visit.tolist() for visit in records.visits(TASK)] == [[*range(a, a + 10)] for a in (0, 10, 20)]


def test_the_end_is_the_last_fifth_of_each_visit_and_after_a_switch_the_first_tenth_of_all_but_the_first():
    windows = {phase: np.concatenate(records.phase_windows(TASK, phase)).tolist() for phase in records.PHASES}
    assert windows == {"all": [*range(30)], "end": [8, 9, 18, 19, 28, 29], "switch": [10, 20]}


def test_a_window_counts_with_its_steps():
    lengths = np.append(np.full(29, 5), 2)
    weights = records.phase_weights(lengths, TASK, "end")
    assert weights[weights > 0].tolist() == [5, 5, 5, 5, 5, 2]
    assert not records.phase_weights(lengths, np.zeros(30), "switch").any()


def test_without_the_coordinate_window_lengths_are_known_only_from_the_beginning_of_a_run():
    lengths = lambda *step, **attributes: records.window_lengths(
        xarray.Dataset(coords={"step": [*step]}, attrs=attributes)
    ).tolist()
    assert lengths(40, 80, 100) == [40, 40, 20] and lengths(30) == [30]
    assert lengths(50, 60, record_every="50") == [50, 10]
    for late in (lambda: lengths(2050, 2100, 2150), lambda: lengths(1050, 1100, record_every="50")):
        with pytest.raises(ValueError, match=r"^records must have the coordinate window.*got none, with step \d+50"):
            late()
    there = xarray.Dataset(coords={"step": [2050, 2100], "window": ("step", [30, np.nan])})
    assert records.window_lengths(there).tolist() == [30, 0]
    with pytest.raises(ValueError, match=r"^window must have the dim step, got learner, step"):
        records.window_lengths(
            there.expand_dims(learner=2).assign_coords(window=(("learner", "step"), np.ones((2, 2))))
        )


def test_the_tail_of_a_run_has_its_own_marks():
    data = made(TASK)
    late = data.isel(step=slice(5, None)).assign_coords(window=("step", np.full(25, 10)))
    chart = curves(late)[0]
    assert [(mark.start, mark.end) for mark in chart.tasks] == [(50, 100), (100, 200), (200, 300)]


def test_labels_are_letters_then_numbers():
    assert [records.task_label(task) for task in (0, 25, 26, 199)] == ["A", "Z", "26", "199"]


def test_every_visit_of_a_short_schedule_is_marked():
    marks = records.marks(STEP, TASK)
    assert marks == [("A", 0, 50), ("B", 50, 100), ("A", 100, 150)]


@pytest.mark.parametrize("visits", [20, 26, 200, 5000])
def test_labels_of_many_tasks_are_thinned_until_they_fit(visits):
    task = np.repeat(np.arange(visits), 3)
    marks = records.marks(np.arange(1, 3 * visits + 1), task)
    assert len(marks) >= 5 and sum(len(mark.label) + 1 for mark in marks) <= records.ROOM
    assert all(mark.label == records.task_label(mark.start // 3) and mark.end == mark.start + 3 for mark in marks)


def test_charts_of_two_hundred_tasks_draw_few_labels_and_few_points():
    from matplotlib.figure import Figure

    data = made(np.repeat(np.arange(200), 5))
    axes = Figure().subplots()
    chart = curves(data)[0]
    panel(axes, chart)
    first, *_ = chart.lines[0].x
    assert len(axes.texts) <= 12 and len(axes.lines) <= 1 + 12 and axes.texts[0].xy[0] == first
    assert len(chart.tasks) <= 12 and len(chart.lines[0].x) <= 400
    assert len(curves(made(np.arange(3000) % 7))[0].lines[0].x) <= 400


def test_titles_follow_what_the_records_hold():
    plain = made(TASK)
    assert [variable.title for variable in records.curves(plain)][:1] == ["squared error"]
    classes = plain.assign(error=plain.loss)
    titles = [variable.title for variable in records.curves(classes)]
    assert titles[:2] == ["cross-entropy", "share misclassified"] and len(titles) == 4
    assert records.measure(plain) == "loss" and records.measure(classes) == "error"
    further = plain.assign(drift_step_sizes=plain.loss, probe=plain.loss)
    assert [variable.title for variable in records.curves(further)][3:] == ["change of step sizes"]


@pytest.mark.parametrize("name", LEARNERS)
def test_rule_and_optimizer_come_from_the_configuration(name):
    info = learner_info(configuration(LEARNERS[name](NET, 0.1)))
    expected = {"momentum": "backprop", "rmsprop": "backprop", "adam": "backprop"}
    assert info.rule == expected.get(name, name.removesuffix("-0.5").removesuffix("-top"))
    assert info.optimizer == (name if name in expected else "sgd") and info.replacement == "none"


def test_parts_of_a_learner_without_a_name_of_their_own_are_named_by_function_or_class():
    own = configuration(cp.Backprop(NET, 0.1, optimizer=optax.adamw))
    assert learner_info(own) == ("backprop", "adamw", "none")
    assert learner_info({"type": "mine:RingBuffer", "replacement": {"type": "mine:f.LowUtility"}}) == (
        "RingBuffer", "none", "LowUtility")  # fmt: skip


def test_learners_are_described_by_coordinates_or_else_their_names():
    infos = {"mine": LearnerInfo("backprop", "adam", "none")}
    told = made(TASK, ["mine"]).assign_coords(records.info_coordinates(infos))
    assert records.learner_infos(told) == infos
    assert records.learner_infos(made(TASK, ["mine"])) == {"mine": ("mine", "none", "none")}


def test_a_learner_has_its_rules_colour_and_its_optimizers_style_and_no_two_look_alike():
    crossprop, adam = LearnerInfo("crossprop", "sgd", "none"), LearnerInfo("crossprop", "adam", "none")
    found = looks(
        {"crossprop": crossprop, "x": adam, "y": adam, "z": crossprop, "a-b": LearnerInfo("a", "sgd", "none")}
    )
    assert found["crossprop"] == LOOKS["crossprop"] and found["x"] == LOOKS["crossprop"]._replace(dash="dashdot")
    assert len(set(found.values())) == len(found)
    sgd = {name: LearnerInfo(name, "sgd", "none") for name in ("mine", "foresight", "hindsight")}
    assert looks(sgd)["foresight"] == looks({"foresight": sgd["foresight"]})["foresight"]  # in every chart
    assert len(set(looks(sgd).values())) == 3
    assert len(looks({f"a{number}": LearnerInfo("a", "sgd", "none") for number in range(40)})) == 40
