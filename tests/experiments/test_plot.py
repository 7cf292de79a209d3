"""The plots of a sweep: files that are there, numbers that are the sweep's, and a page that works in a browser."""

import inspect
import re
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

import crossprop as cp
from browser import Opened, data_of, violations
from crossprop.cli import main
from crossprop.experiments.results import read_results, value_text
from crossprop.experiments.runner import _in_words
from crossprop.experiments.spec import SweepSpec
from crossprop.experiments.sweep_page import conclusions, groups, plot, thinned

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network(inputs=6, hidden=8)
STREAM = cp.Geoff(inputs=6, features=10, tasks="AB", examples=40)
LEARNERS = {"crossprop": cp.Crossprop(NET, 0.01), "frozen-adam": cp.Frozen(NET, 0.01, optimizer="adam")}
OVER = {"step_size": [0.03125, 0.0625, 1e6], "crossprop": {"eta": [0.5, 0], "memory_step_size": [None, 0.1]}}


@pytest.fixture(scope="module")
def store(made_once):
    def make(folder):
        cp.sweep(LEARNERS, STREAM, OVER, seeds=2, record_every=20, store=folder / "store", evaluate=3)

    return made_once("sweep-to-plot", make) / "store"


@pytest.fixture(scope="module")
def plots(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    plot(store, folder)
    return folder


def test_along_an_axis_stands_the_best_of_the_others(store):
    swept = read_results(store).learners["crossprop"]
    records = cp.open_sweep(store)["crossprop"]
    means = records.loss.mean("step").mean("seed")
    along, _, _, diverged = swept.profile(["step_size"])
    assert along[:2] == pytest.approx(means.min(["eta", "memory_step_size"]).values[:2], rel=1e-5)
    assert diverged.tolist() == [False, False, True] and np.isnan(along[2])
    both, low, high, _ = swept.profile(["eta", "step_size"])
    expected = means.min("memory_step_size").transpose("eta", "step_size").sortby("eta").values
    assert both[:, :2] == pytest.approx(expected[:, :2], rel=1e-5)
    assert (low[:, :2] <= both[:, :2]).all() and (both[:, :2] <= high[:, :2]).all()


def test_all_plots_are_written(plots):
    written = {path.name for path in plots.iterdir()}
    pictures = {"learning-curves.png", "sensitivity.png", "sensitivity-eta.png", "heat-maps.png"}
    assert written == {"sweep.html", *pictures}
    assert all((plots / name).stat().st_size > 10_000 for name in pictures)


def test_the_page_has_the_numbers_and_flags_edges_and_divergence(plots, store):
    page = (plots / "sweep.html").read_text()
    chosen = cp.open_evaluation(store).chosen
    flags = [f"edge: {', '.join(each.edges)}" for each in chosen.values() if each.edges]
    assert all(flag in page for flag in flags) and "3 fresh seeds" in page
    figures = data_of((plots / "sweep.html").read_text())["figures"]
    learners, by_eta = (figure["charts"][""] for figure in figures if "along" in figure["charts"].get("", {}).values())
    assert [line["name"] for line in learners["lines"]] == list(LEARNERS)
    assert learners["lines"][0]["diverged"] == [2]
    assert [line["name"] for line in by_eta["lines"]] == ["eta = 0", "eta = 0.5"]
    (maps,) = (figure["charts"] for figure in figures if "" not in figure["charts"])
    pairs = ["step_size × eta", "step_size × memory_step_size", "eta × memory_step_size"]
    assert [*maps] == [f"crossprop: {pair}" for pair in pairs]
    assert [(each["x"]["title"], each["y"]["title"]) for each in maps.values()] == [
        tuple(pair.split(" × ")) for pair in pairs
    ]


def test_the_page_works_in_a_browser(plots, chromium):
    with Opened(chromium, plots / "sweep.html") as opened:
        assert opened.wrong == []
        assert opened.page.locator(".along .main-svg").count() and opened.page.locator(".curves .main-svg").count()
        opened.page.locator("select").select_option(index=2)
        opened.page.wait_for_function("document.querySelector('.chart.heat').layout.xaxis.title.text === 'eta'")
        assert opened.wrong == []


def test_a_table_that_is_wider_than_a_phone_shows_where_there_is_more(plots, chromium):
    """Its right edge has a shadow until it is scrolled to the end."""
    with Opened(chromium, plots / "sweep.html", width=390) as opened:
        table = opened.page.locator(".scroll").first
        assert table.evaluate("(each) => each.scrollWidth > each.clientWidth")

        def edge() -> float:
            return float(imread(BytesIO(table.screenshot()))[:, -1, :3].mean())

        more = edge()
        table.evaluate("(each) => { each.scrollLeft = each.scrollWidth; }")
        assert more < 0.9 and edge() > 0.95


@pytest.mark.long
def test_nothing_serious_keeps_anyone_from_reading_the_page(plots, chromium, axe):
    with Opened(chromium, plots / "sweep.html") as opened:
        assert violations(opened, axe) == []


def test_the_page_names_stream_network_seeds_and_command_and_concludes(plots, store):
    page = (plots / "sweep.html").read_text()
    page = page[: page.index('<script type="application/json"')]
    for words in ("Geoff (inputs 6, features 10", "inputs 6, hidden 8", "2 to choose settings, 3 fresh ones"):
        assert page.count(words) == 1, "in the table of what was run, not in the introduction"
    assert f"Sweep {store.name}</h1>" in page
    assert f"crossprop plot {store}" in page and "every number here comes out the same, bit for bit" in page
    fresh = {name: values.mean().item() for name, values in cp.open_evaluation(store).values().items()}
    best, other = sorted(fresh, key=fresh.__getitem__)
    first, second, *others = conclusions(read_results(store))
    assert first.startswith(f"Of 2 learners, {best} has the lowest squared error: ") and "3 fresh seeds" in first
    (compared,) = cp.compare(cp.open_evaluation(store).values(), {other: best})
    assert second.lower() == compared.sentence("squared error").lower() + "." and second[0].isupper()
    assert any("at the edge" in text for text in others) == any(
        c.edges for c in cp.open_evaluation(store).chosen.values()
    )


def test_a_best_eta_of_one_is_called_backprop(store):
    sweep = read_results(store)
    swept = sweep.learners["crossprop"]
    one = swept._replace(choice=swept.choice._replace(point=swept.choice.point | {"eta": 1}))
    said = conclusions(replace(sweep, learners=sweep.learners | {"crossprop": one}))
    assert "The best eta of crossprop is 1, which is backprop." in said


def test_many_learners_stand_in_a_panel_for_each_optimizer(store):
    sweep = read_results(store)
    assert groups(sweep) == {"": list(LEARNERS)}
    many = {f"{name}-{at}": swept for at in range(5) for name, swept in sweep.learners.items()}
    assert set(groups(replace(sweep, learners=many))) == {"sgd", "adam"}


def test_a_sweep_without_axes_has_learning_curves_alone(tmp_path):
    cp.sweep({"frozen": cp.Frozen(NET, 0.01)}, STREAM, {}, seeds=2, record_every=20, store=tmp_path / "s")
    names = {path.name for path in plot(tmp_path / "s")}
    assert names == {"sweep.html", "learning-curves.png"} and (tmp_path / "s" / "plots" / "sweep.html").exists()


def test_the_page_of_a_table_names_its_file(tmp_path):
    (file := tmp_path / "houses.csv").write_text("size,price\n81,7.2\n64,3.9\n")
    learner, over = cp.Frozen(cp.Network(1, 2), 0.01), {"step_size": [0.01, 0.02]}
    for path in (file, tmp_path / "homes.csv"):
        path = path if path.exists() else file.rename(path)
        cp.sweep(learner, cp.read_table(path, "price"), over, seeds=1, record_every=1, store=tmp_path / "s")
        plot(tmp_path / "s")
        page = (tmp_path / "s" / "plots" / "sweep.html").read_text()
        assert f"{path.name}: 2 rows. Target price: numbers. Inputs: 1 number (size)" in page
    in_an_arena = _in_words(SweepSpec.of(learner, cp.read_table(path, "price"), over, 1, 1))
    assert in_an_arena == "homes.csv, 2 examples, 2 hidden units, tanh"


def test_values_are_short():
    assert [value_text(value) for value in (None, 2.0**-7, 2**-4.5, 2**-4.75, 0.045, 0.5, 3, "adam")] == [
        "as step_size",
        "2⁻⁷",
        "2⁻⁴·⁵",
        "2⁻⁴·⁷⁵",
        "0.045",
        "0.5",
        "3",
        "adam",
    ]


def test_powers_between_whole_ones_lose_their_labels_where_there_are_many():
    few, many = ([2.0 ** (at / 2 - 8) for at in range(count)] for count in (6, 7))
    assert thinned(few) == tuple((value, value_text(value)) for value in few)
    assert [label for _, label in thinned(many)] == ["2⁻⁸", "", "2⁻⁷", "", "2⁻⁶", "", "2⁻⁵"]
    assert [place for place, _ in thinned(many)] == many
    assert [label for _, label in thinned([0.125, 0.25, 1.0])] == ["2⁻³", "2⁻²", "2⁰"], "one form on one axis"
    assert [label for _, label in thinned([0.25, 0.5, 1.0])] == ["0.25", "0.5", "1"]


def test_the_command_draws_and_refuses_what_is_no_store(store, tmp_path, capsys):
    main(["plot", str(store), "--out", str(tmp_path / "out")])
    assert f"Wrote {tmp_path / 'out' / 'sweep.html'}." in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["plot", str(tmp_path / "none")])
    assert stopped.value.code == 2
    assert "must be a folder that a sweep wrote" in capsys.readouterr().err


def test_figures_for_papers_are_axes_of_matplotlib(store):
    records = cp.run(LEARNERS, STREAM, seeds=3, record_every=20, progress=False)
    axes = cp.plot.curves(records, "loss", learners=["crossprop"])
    (line,) = axes.lines[:1]
    assert np.allclose(line.get_ydata(), records.loss.sel(learner="crossprop").mean("seed"), rtol=1e-6)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["crossprop"]
    assert (axes.get_title(), axes.get_ylabel()) == ("", "squared error")
    again = cp.plot.curves(records, "incoming_drift", learners="crossprop", axes=axes)
    assert (again.get_title(), again.get_ylabel()) == ("", "change of incoming weights")
    (own := axes.figure.add_subplot()).set_title("mine")
    again = cp.plot.sensitivity(store, axes=own)
    assert again.get_title() == "mine"
    assert {"crossprop", "frozen-adam"} <= {line.get_label() for line in again.lines}
    for call, message in (
        (lambda: cp.plot.curves(records, "los"), "variable must be one of 'loss', .* did you mean 'loss'"),
        (lambda: cp.plot.curves(records, learners=["crosprop"]), "did you mean 'crossprop'"),
        (lambda: cp.plot.curves(records, learners=[]), "learners must name at least one learner, got none"),
        (lambda: cp.plot.curves(store), "records must be what run returned, by learner, seed and step, got .*Path"),
        (lambda: cp.plot.sensitivity(store, learners=["frozen"]), "did you mean 'frozen-adam'"),
        (lambda: inspect.unwrap(cp.plot.sensitivity)(records), "store must be the folder that a sweep wrote to, got <"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_plots_as_pdf_of_a_width(store, tmp_path):
    main(["plot", str(store), "--out", str(tmp_path), "--format", "pdf", "--width", "3.3"])
    assert "learning-curves-change-of-incoming-weights.pdf" in {path.name for path in tmp_path.iterdir()}
    files = sorted(path.name for path in tmp_path.glob("*.pdf"))
    assert "learning-curves-squared-error.pdf" in files and "sensitivity-learners.pdf" in files
    box = re.search(rb"/MediaBox \[ ?([\d. ]+)\]", (tmp_path / "sensitivity-learners.pdf").read_bytes())
    assert box is not None and float(box[1].split()[2]) == pytest.approx(3.3 * 72)
    for flags in (["--format", "jpg"], ["--width", "0"]):
        with pytest.raises(SystemExit):
            main(["plot", str(store), *flags])


def test_values_of_an_axis_have_one_format():
    assert [text for _, text in thinned([2.0**-4, 0.25, 1.0, 4.0])] == ["2⁻⁴", "2⁻²", "2⁰", "2²"]
    assert [text for _, text in thinned([0.0, 0.5, 0.75])] == ["0", "0.5", "0.75"]
