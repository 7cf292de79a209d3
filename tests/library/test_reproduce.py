"""`crossprop reproduce`, as a user runs it: a quick reproduction, again, interrupted, and into the wrong folder."""

import dataclasses
import json
import shutil
from functools import partial

import numpy as np
import openTSNE
import pytest
import xarray as xr

import crossprop as cp
from browser import LINES, Opened
from crossprop.cli import main
from crossprop.datasets import ARCHIVES
from crossprop.engines import ENGINES
from crossprop.experiments.rerun import fetched_mnist
from crossprop.library.veeriah2017 import PAPER, features
from crossprop.running import States
from crossprop.streams import STREAMS
from same import files_in

QUICK = ["reproduce", "--quick", "--seeds", "2", "--mnist-seeds", "1"]


@pytest.fixture(scope="module")
def quick(made_once, quick_compilation):
    """The folder of a quick reproduction, with a tenth of its images in a task, and rough maps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openTSNE.TSNE", partial(openTSNE.TSNE, early_exaggeration_iter=40, n_iter=40))
        few = lambda tasks, shuffle: cp.LabelShift("mnist5k", tasks=tasks, examples=500, shuffle=shuffle)
        patch.setitem(STREAMS, "mnist5k", few)
        made = made_once("quick-reproduction", lambda folder: main([*QUICK, "--out", str(folder / "reproduction")]))
        yield made / "reproduction"


@pytest.fixture
def copied(quick, tmp_path):
    """A finished reproduction of its own, with the command that made it."""
    out = tmp_path / "reproduction"
    shutil.copytree(quick, out)
    return out, [*QUICK, "--out", str(out)]


@pytest.fixture
def records_alone(monkeypatch):
    """No figures, verdicts or page are made of the records."""
    monkeypatch.setattr("crossprop.experiments.papers.Plan.drawn", lambda *_: [])
    monkeypatch.setattr("crossprop.experiments.rerun.answers_on", lambda *_: [])
    monkeypatch.setattr("crossprop.experiments.rerun.write_report", lambda *_, **__: None)


def test_quick_reproduction_writes_everything(quick):
    figures = {f"figure-{n}{letter}.{kind}" for n in (1, 2, 3, 4) for letter in "ab" for kind in ("png", "pdf")}
    assert {path.name for path in (quick / "figures").iterdir()} == figures
    names = {path.name for path in quick.iterdir()}
    assert names == {"geoff.nc", "mnist.nc", "features.nc", "figures", "claims.json", "report.html"}
    assert (quick / "report.html").stat().st_size < 8e6
    page = (quick / "report.html").read_text()
    assert "quick version" in page and "reproduce" in page


def test_browser_shows_the_quick_report(quick, chromium):
    stated = json.loads((quick / "claims.json").read_text())["claims"]
    with Opened(chromium, quick / "report.html") as opened:
        for name, learners, charts in (("geoff", 9, 3), ("mnist", 7, 4)):
            places = opened.page.locator(f"section:has(#{name}) .chart.curves").all()
            assert [place.locator(LINES).count() for place in places] == [learners] * charts
            places[0].locator(".legendtoggle").first.click()
            places[0].locator(LINES).nth(learners - 1).wait_for(state="detached")
            assert places[0].locator(LINES).count() == learners - 1
        assert opened.page.locator("table.claims tbody tr").count() == len(stated)
        assert opened.wrong == []
    with Opened(chromium, quick / "report.html", width=390, touch=True) as opened:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert opened.wrong == []


def test_records_hold_all_learners_tasks_and_their_configuration(quick):
    geoff, mnist = (xr.load_dataset(quick / f"{name}.nc") for name in ("geoff", "mnist"))
    both = ["crossprop-approx", "crossprop-approx-0.5", "backprop", "momentum", "rmsprop", "adam", "frozen"]
    assert [*geoff.learner.values] == ["crossprop", "crossprop-0.5", *both]
    assert [*mnist.learner.values] == both
    assert set(geoff.task.values) == set(mnist.task.values) == {0, 1, 2}
    for records, seeds in ((geoff, [0, 1]), (mnist, [0])):
        assert np.isfinite(records.loss).all() and (records.diverged_at == -1).all()
        engine = records.attrs["engine"]
        assert {engine} <= {*ENGINES} or {*json.loads(engine)} == {*records.learner.values}
        assert records.attrs["crossprop"] == cp.__version__
        assert json.loads(records.attrs["seeds"]) == records.seed.values.tolist() == seeds
    assert json.loads(mnist.attrs["stream"])["data"]["name"] == "mnist5k"


@pytest.mark.parametrize(("words", "seeds"), [(["--quick"], [5, 5]), ([], [30, 3])], ids=["quick", "paper"])
def test_unless_told_otherwise_there_are_five_seeds_of_each_or_thirty_and_three(tmp_path, monkeypatch, words, seeds):
    lived = []

    def stop_after_two(learners, stream, seeds, *_, **__):
        lived.append(len(seeds))
        if len(lived) == 2:
            raise KeyboardInterrupt
        return xr.Dataset()

    monkeypatch.setattr("crossprop.experiments.papers.run", stop_after_two)
    monkeypatch.setattr("crossprop.cli.reproduce.fetched_mnist", lambda _: False)
    with pytest.raises(SystemExit):
        main(["reproduce", *words, "--out", str(tmp_path)])
    assert lived == seeds


def test_every_claim_has_a_verdict(quick):
    stated = json.loads((quick / "claims.json").read_text())
    assert stated["quick"] is True
    assert {claim["id"] for claim in stated["claims"]} == {claim.id for claim in PAPER.claims}
    assert all(claim["verdict"] and claim["rule"] and claim["why"] for claim in stated["claims"])


def test_features_are_measured_for_both_learners_the_control_and_the_pixels(quick):
    features = xr.load_dataset(quick / "features.nc")
    assert set(features.representation.values) == {"backprop", "crossprop-approx", "frozen", "pixels"}
    assert ((features.neighbours >= 0) & (features.neighbours <= 1)).all()
    assert float(features.neighbours.sel(representation="pixels").mean()) > 0.5
    assert np.isfinite(features.tsne).all()


def test_maps_do_not_depend_on_the_threads_of_blas(monkeypatch):
    from threadpoolctl import threadpool_info

    threads = []

    def tsne(space):
        threads.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return space[:, :2]

    monkeypatch.setattr(features, "_tsne", tsne)
    plan = PAPER.plans["features"]("quick")
    alone = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, learners={}))
    features._measured(alone, States({}, cp.Geoff(), 0))
    assert {*threads} == {1}


def test_what_is_done_is_not_run_again(copied, capsys, monkeypatch, records_alone):
    out, command = copied
    monkeypatch.setattr("crossprop.experiments.papers.run", pytest.fail)
    stores = {name: content for name, content in files_in(out).items() if name.endswith(".nc")}
    main(command)
    assert capsys.readouterr().out.count("done before") == 3
    assert {name: content for name, content in files_in(out).items() if name.endswith(".nc")} == stores


def test_force_runs_again_and_gives_the_same_records(copied, capsys):
    out, command = copied
    before = xr.load_dataset(out / "features.nc")
    main([*command[:1], "features", *command[1:], "--force"])
    assert "done before" not in capsys.readouterr().out
    xr.testing.assert_equal(xr.load_dataset(out / "features.nc"), before)


def test_an_interrupted_reproduction_goes_on_where_it_was(copied, monkeypatch, records_alone):
    out, command = copied
    (out / "mnist.nc").unlink()

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("crossprop.experiments.papers.run", interrupted)
        with pytest.raises(SystemExit) as stopped:
            main(command)
        assert stopped.value.code == 130
    assert not (out / "mnist.nc").exists() and not list(out.glob(".*"))
    made = []
    monkeypatch.setattr("crossprop.experiments.papers.run", lambda *args, **_: made.append(args) or stand_in)
    stand_in = xr.load_dataset(out / "geoff.nc")
    main(command)
    assert len(made) == 1 and (out / "mnist.nc").exists()


@pytest.mark.parametrize(
    "change", [["--seeds", "6"], ["--preset", "scripts"], ["--mnist-seeds", "2"]], ids=lambda c: c[0]
)
def test_a_folder_of_another_configuration_is_kept(copied, change, capsys):
    out, command = copied
    before = files_in(out)
    with pytest.raises(SystemExit) as stopped:
        main([*command, *change])
    assert stopped.value.code == 2 and "another experiment" in capsys.readouterr().err
    assert files_in(out) == before


def test_half_a_file_of_records_is_named_and_kept(tmp_path, capsys):
    (tmp_path / "geoff.nc").write_bytes(b"CDF\x02")
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "geoff", "--quick", "--out", str(tmp_path)])
    assert stopped.value.code == 2 and "geoff.nc" in capsys.readouterr().err
    assert files_in(tmp_path) == {"geoff.nc": b"CDF\x02"}


@pytest.mark.parametrize(
    "arguments", [["--preset", "poster"], ["--seeds", "0"], ["--mnist-seeds", "-1"], ["music"]], ids=lambda a: a[-1]
)
def test_bad_input_ends_with_2_before_any_work(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("crossprop.experiments.papers.run", pytest.fail)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments, "--quick", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert not list((tmp_path / "out").glob("*.nc"))


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--quick", "--out", str(tmp_path / "file")])
    assert stopped.value.code == 2 and "out must be a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"


def test_without_the_full_mnist_the_embedded_images_stand_in_and_it_says_so(monkeypatch):
    def unreachable():
        raise OSError("no mirror")

    monkeypatch.setattr(ARCHIVES["mnist"], "fetch", unreachable)
    said = []
    plan = PAPER.plans["mnist"]("full", full_set=lambda: fetched_mnist(said.append))
    assert plan.spec.stream.data is cp.datasets.mnist5k()
    assert [text for text in said if "the embedded 5,000 images stand in" in text and "no mirror" in text] == said[1:]
    assert any("full set is not here" in setting["why"] for setting in plan.settings)


# The settings of the paper and of the scripts.


def test_presets_are_the_papers_and_the_scripts():
    plans = [PAPER.plans["geoff"]("full", options) for options in ([], ["scripts"])]
    paper, scripts = (plan.spec for plan in plans)
    assert paper.stream == cp.Geoff() and scripts.stream == cp.Geoff(tasks="ABCABC", constant=True)
    for spec, bias in ((paper, False), (scripts, True)):
        assert {learner.network for learner in spec.learners.values()} == {cp.Network.paper(20, 500, bias=bias)}
        assert {learner.step_size for learner in spec.learners.values()} == {0.0005}
    assert paper.learners["crossprop-approx-0.5"].memory_eta is None
    assert scripts.learners["crossprop-approx-0.5"].memory_eta == 0.0
    differing = {each["name"] for each in plans[0].settings if each.get("paper") not in (each["here"], "the same")}
    assert differing == {"initial weights", "control"}
