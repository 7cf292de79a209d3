"""CSV and Parquet files as streams."""

import datetime
import statistics
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crossprop as cp
from crossprop.cli import main
from crossprop.cli.run import _baselines
from crossprop.configuration import configuration
from crossprop.library.arena import read_arena
from crossprop.specification import build
from crossprop.streams import STREAMS, columns, table

ROWS = 40
ROOT = Path(__file__).parents[2]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    began = pd.Timestamp("2024-05-31T22:30")
    return pd.DataFrame(
        {
            "when": [f"{began + pd.Timedelta(hours=7 * row):%Y-%m-%dT%H:%M}" for row in range(ROWS)],
            "size": 1e6 + rng.normal(size=ROWS),
            "rooms": rng.integers(1, 5, ROWS),
            "same": 0.1,
            "town": rng.choice(["Oslo", "Bergen", "Voss"], ROWS),
            "price": 1000 + 50 * rng.normal(size=ROWS),
            "id": [f"no {row}" for row in range(ROWS)],
        }
    )


@pytest.fixture
def path(frame, tmp_path):
    frame.to_csv(tmp_path / "homes.csv", index=False)
    return tmp_path / "homes.csv"


def standardized(values, clip=10.0):
    """Row by row: by the mean and deviation up to and including the row; a missing number is the mean."""
    found, seen = [], []
    for value in values:
        if value is not None:
            seen.append(float(value))
        spread = statistics.pstdev(seen) if seen else 0
        z = (value - statistics.fmean(seen)) / spread if value is not None and spread > 0 else 0.0
        found.append(min(max(z, -clip), clip))
    return found


def target(values):
    """Row by row: by the mean before the row."""
    means = [values[0]] + [statistics.fmean(values[:row]) for row in range(1, len(values))]
    spreads = [statistics.pstdev(values[: row + 1]) for row in range(len(values))]
    return [(y - m) / s if s > 0 else 0.0 for y, m, s in zip(values, means, spreads, strict=True)]


def expected(frame):
    """The inputs of a table of homes, column by column."""
    dates = [datetime.datetime.fromisoformat(each) for each in frame["when"]]
    days = [(each - datetime.datetime(1970, 1, 1)).total_seconds() / 86400 for each in dates]
    columns = [
        days,
        [each.hour + each.minute / 60 for each in dates],
        [each.weekday() for each in dates],
        [each.timetuple().tm_yday for each in dates],
        *(frame[name].tolist() for name in ("size", "rooms", "same")),
    ]
    towns = [(frame["town"] == town).astype(float).tolist() for town in ("Bergen", "Oslo", "Voss")]
    return np.stack([*map(standardized, columns), *towns], axis=1)


def test_a_table_of_numbers_dates_and_categories(frame, path, monkeypatch):
    monkeypatch.setattr(columns, "MOST_TEXTS", 5)
    for values_read in (2**21, 7 * 9):  # in one piece, and in pieces of nine rows
        monkeypatch.setattr(table, "VALUES_READ", values_read)
        table._read.cache_clear()
        stream = cp.read_table(path, target="price")
        np.testing.assert_allclose(stream.x, expected(frame), atol=2e-5)
        np.testing.assert_allclose(stream.y[:, 0], target(frame["price"].tolist()), rtol=1e-6)
    assert stream.about == (
        "homes.csv: 40 rows. Target price: numbers. Inputs: 3 numbers (size, rooms and same), 1 date (when) and "
        "1 text (town), numbers standardised by their mean and deviation so far, the target too "
        "(not with --set stream.standardize=false). Left out: id (empty, or over 5 texts)."
    )
    raw = cp.read_table(path, target="price", standardize=False, ignore=["id", "when"])
    assert np.array_equal(raw.x[:, 1], frame["rooms"]) and np.array_equal(raw.y[:, 0], frame["price"])


def test_the_same_table_as_tsv_and_parquet(frame, path, tmp_path):
    pytest.importorskip("pyarrow")
    frame["town"] = frame["town"].astype("category")
    frame.to_csv(tmp_path / "homes.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "semicolons.csv", sep=";", index=False)
    frame["when"] = pd.to_datetime(frame["when"])
    frame.to_parquet(tmp_path / "homes.parquet")
    streams = [cp.read_table(each, "price") for each in (path, *tmp_path.glob("*.[tp]*"), tmp_path / "semicolons.csv")]
    assert len(streams) == 4 and all(np.array_equal(streams[0].x, each.x) for each in streams)
    assert all(np.array_equal(streams[0].y, each.y) for each in streams)


def test_targets_tell_classes_from_numbers(frame, path):
    assert cp.read_table(path, target="town").classes == ("Bergen", "Oslo", "Voss")
    rooms = cp.read_table(path, target="rooms")
    assert rooms.classes == (1, 2, 3, 4) and rooms.one_hot
    assert np.array_equal(np.argmax(cp.Stream.sample(rooms, cp.keys(0)[0]).y, axis=1) + 1, frame["rooms"])
    assert not cp.read_table(path, target="rooms", kind="regression").one_hot
    assert cp.read_table(path, target="id", kind="classification").outputs == ROWS


def test_rows_in_the_order_of_time_with_their_tasks(frame, path):
    frame["task"] = ["late" if row >= ROWS / 2 else "early" for row in range(ROWS)]
    frame.sample(frac=1, random_state=1).to_csv(path, index=False)
    stream = cp.read_table(path, "price", time="when", task="task", ignore="id")
    np.testing.assert_allclose(stream.x, expected(frame), atol=2e-5)
    np.testing.assert_allclose(stream.y[:, 0], target(frame["price"].tolist()), rtol=1e-6)
    tasks = stream.task(np.arange(ROWS))
    assert set(tasks[:20]) != set(tasks[20:]) and len(set(tasks[:20])) == len(set(tasks[20:])) == 1


def test_missing_values(frame, path):
    frame.loc[[0, 3, 4], "size"] = None
    frame.loc[[5], "town"] = None
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"got 3 in 'size', 1 in 'town': missing='mean' \(--missing mean\)"):
        cp.read_table(path, target="price")
    stream = cp.read_table(path, target="price", missing="mean", ignore=["when", "id"])
    values = [None if np.isnan(value) else value for value in frame["size"]]
    np.testing.assert_allclose(stream.x[:, 0], standardized(values), atol=2e-5)
    assert stream.about.endswith("4 missing values filled.")
    assert not stream.x[5, 3:].any() and stream.x[4, 3:].sum() == 1
    raw = cp.read_table(path, target="price", missing="mean", ignore=["when", "id"], standardize=False)
    np.testing.assert_allclose(raw.x[[0, 3, 4], 0], [0, *[np.mean(values[1:3])] * 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"target \(--target\) must be given, one of 'when', "),
        ({"target": "prices"}, "did you mean 'price'"),
        (
            {"target": "price", "time": "town"},
            "time must have numbers, or dates such as 2024-05-31, got texts in 'town'",
        ),
        ({"target": "price", "time": "whe"}, "time must be one of .* did you mean 'when'"),
        ({"target": "price", "ignore": "ids"}, "ignore must be one of .* did you mean 'id'"),
        ({"target": "when"}, "target must hold numbers or classes, got a date in 'when'"),
        ({"target": "town", "kind": "regression"}, "target must hold numbers or classes, got a text in 'town'"),
        ({"target": "price", "kind": "numbers"}, "kind must be one of"),
        ({"target": "price", "missing": "median"}, "missing must be one of 'mean'"),
        (
            {"target": "price", "ignore": ["when", "size", "rooms", "same", "town", "id"]},
            "a column of numbers, dates or texts beside the target",
        ),
    ],
)
def test_an_error_names_the_argument_and_the_column(path, options, message):
    with pytest.raises(ValueError, match=message):
        cp.read_table(path, **options)


def test_files_that_are_no_tables(tmp_path):
    for name, content, message in (
        ("a.csv", "", "No columns"),
        ("b.csv", "1.5,2\n3,4\n", "the first line of .* must name the columns, got 1.5"),
        ("c.csv", "a,b\n", "c.csv has no rows"),
        ("d.csv", "a,b\n1,inf\n2,3\n", "column 'b' must be finite, got inf"),
        ("e.txt", "a,b\n1,2\n", "must be a file that ends in .csv"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            cp.read_table(tmp_path / name, target="a")
    with pytest.raises(FileNotFoundError):
        cp.read_table(tmp_path / "nothing.csv", target="a")


NUMBERS = "".join(f"{row % 7},{row % 9}.5\n" for row in range(40))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,y\n1,2\n1,2,3\n", {}, "line 3 of .*table.csv must have 2 fields, as the first line, got 3"),
        ("a,b,y\n1,2,3\n1,2\n", {}, "line 3 of .*table.csv must have 3 fields, as the first line, got 2"),
        (
            "a,y\n" + NUMBERS + "fourty,1.5\n",
            {},
            "table.csv: 40 of 41 values of 'a' .*'fourty' in data row 41 is not a num",
        ),
        ("a,y\n" + '"1,234.50",1.5\n' * 9, {}, "9 of 9 values of 'a' .*'1,234.50' in data row 1 is not a number"),
        (
            "a,y\n" + NUMBERS + "1,n/k\n",
            {},
            "40 of 41 values of 'y' .*'n/k' in data row 41 is not a number.* drop the row",
        ),
        ("a,y\n1,2\n3,\n", {"missing": "mean"}, "got 1 missing in 'y', first in data row 2: drop these rows"),
        ("a,käse,y\n1,2,3\n".encode("latin-1"), {}, "table.csv must be UTF-8, got .*: save it as UTF-8"),
    ],
)
def test_mistakes_within_a_file_are_named(tmp_path, monkeypatch, content, options, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for values_read in (2**21, 2 * 7):
        monkeypatch.setattr(table, "VALUES_READ", values_read)
        with pytest.raises(ValueError, match=message):
            cp.read_table(path, target="y", **options)


def test_labels_of_which_most_are_numbers_are_classes_where_it_is_said(tmp_path):
    (tmp_path / "table.csv").write_text("a,y\n" + "1,2\n" * 30 + "1,K\n")
    assert cp.read_table(tmp_path / "table.csv", "y", kind="classification").classes == ("2", "K")


def test_a_large_table_that_two_processes_write_at_once(path, tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table, "IN_MEMORY", 0)
    arrays, streams = table._File.arrays, []

    def while_another_writes(file, new):
        monkeypatch.setattr(table._File, "arrays", arrays)
        table._read.cache_clear()
        streams.append(cp.read_table(path, target="town", ignore="id"))
        return arrays(file, new)

    monkeypatch.setattr(table._File, "arrays", while_another_writes)
    table._read.cache_clear()
    streams.append(cp.read_table(path, target="town", ignore="id"))
    assert np.array_equal(streams[0].x, streams[1].x) and len([*(tmp_path / "cache/tables").iterdir()]) == 1


def test_a_large_table_is_mapped_into_memory_and_kept(path, tmp_path, monkeypatch):
    small = cp.read_table(path, target="town", ignore="id")
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table, "IN_MEMORY", 0)
    table._read.cache_clear()
    first = cp.read_table(path, target="town", ignore="id")
    table._read.cache_clear()
    monkeypatch.setattr(table._File, "survey", None)  # a second call reads what the first one kept
    again = cp.read_table(path, target="town", ignore="id")
    assert isinstance(first.x, np.memmap) and configuration(first) == configuration(again)
    assert np.array_equal(small.x, again.x) and np.array_equal(small.y, again.y) and small.classes == again.classes
    learner = cp.Backprop(cp.Network(small.inputs, 5, small.outputs, loss="softmax"), 0.1)
    both = [cp.run(learner, stream, seeds=2, record_every=10).loss.values for stream in (small, again)]
    assert np.array_equal(*both)


@pytest.mark.parametrize("column", ["price", "id"])
def test_baselines_are_in_the_units_of_each_row(frame, path, column):
    frame["id"] = np.arange(ROWS) + 5.0
    frame.to_csv(path, index=False)
    learners, stream = build({"learners": ["backprop"], "stream": {"name": str(path), "target": column}}, {})
    records = _baselines(learners, stream, 2, 7, 30)
    values, last = frame[column].tolist(), [0.0]
    spreads = [statistics.pstdev(values[: row + 1]) for row in range(ROWS)]
    last += [(values[row] - values[row - 1]) / spreads[row] for row in range(1, ROWS)]
    for name, errors in (("running mean", target(values)), ("last target", last)):
        squares = np.square(errors[:30])
        expected = [squares[at : at + 7].mean() for at in range(0, 30, 7)]
        np.testing.assert_allclose(records.loss.sel(learner=name), [expected] * 2, rtol=1e-4)


def test_a_file_on_the_command_line(path, capsys, tmp_path):
    small = ["--target", "price", "--hidden", "4", "--record-every", "10"]
    main(["run", str(path), *small, "--seeds", "2", "--out", str(tmp_path / "out")])
    assert "Target price: numbers." in " ".join(capsys.readouterr().err.split())
    over = ["--over", "step_size=0.1,0.2", "--store", str(tmp_path / "store")]
    main(["sweep", str(path), *small, "--seeds", "2", "--learners", "backprop", *over])
    assert cp.open_sweep(tmp_path / "store")["backprop"].sizes["step_size"] == 2
    for words, message in (
        ([str(path)], r"target \(--target\) must be given, one of 'when'"),
        ([str(path), "--target", "Price"], "did you mean 'price'"),
        (["geoff", "--target", "price"], "an argument of stream 'geoff' must be one of .* got 'target'"),
        ([str(path.with_name("home.csv")), "--target", "price"], "home.csv: No such file or directory"),
    ):
        with pytest.raises(SystemExit):
            main(["run", *words])
        assert pd.Series([" ".join(capsys.readouterr().err.split())]).str.contains(message).all()


def test_a_file_in_the_lab(path):
    pytest.importorskip("starlette")
    from crossprop.lab.code import as_command, as_python
    from crossprop.lab.settings import read_setting

    before = dict(STREAMS)
    try:
        STREAMS["homes.csv"] = partial(cp.read_table, path=str(path), target="price", missing=None)
        setting = read_setting(
            {"stream": {"name": "homes.csv"}, "network": {"hidden": 3}, "learners": {"backprop": {}}}
        )
        assert 'target = "price"\nname = "homes.csv"' in as_command(setting)
        assert f"cp.read_table(path={str(path)!r}, target='price'" in as_python(setting)
        STREAMS["homes.csv"] = partial(cp.read_table, path=str(path), target="town", missing=None)
        assert read_setting({"stream": {"name": "homes.csv"}, "learners": {"adam": {}}}).stream.one_hot
    finally:
        STREAMS.clear()
        STREAMS.update(before)


def test_a_file_in_the_arena(path, tmp_path):
    default, options = ROOT / "src/crossprop/library/arena.toml", {"target": "price", "missing": None}
    listed = read_arena(default, tmp_path, [str(path)], options, size="quick")
    (stage,) = listed.stages.values()
    assert stage.title == "homes.csv" and stage.spec.stream.steps == ROWS and stage.spec.record_every == 1


def test_a_table_of_any_scale_is_learned_without_a_flag(tmp_path):
    """By more than River's logistic regression on standardised inputs."""
    datasets = pytest.importorskip("river.datasets")
    from river.linear_model import LogisticRegression
    from river.preprocessing import StandardScaler

    model, wrong, rows = StandardScaler() | LogisticRegression(), 0, []
    for x, y in datasets.Bananas():
        wrong += bool(model.predict_one(x)) != y
        model.learn_one(x, y)
        rows.append([*x.values(), "ripe" if y else "green"])
    bananas = pd.DataFrame(rows, columns=["length", "width", "label"])
    bananas["length"] = 1e6 + 500 * bananas["length"]
    bananas.to_csv(tmp_path / "bananas.csv", index=False)
    values = {
        "stream": {"name": str(tmp_path / "bananas.csv"), "target": "label"},
        "learners": ["crossprop", "backprop"],
    }
    records = cp.run(*build(values), seeds=1, progress=False)
    assert (records.error.mean(["seed", "step"]) < wrong / len(rows) - 0.05).all()
