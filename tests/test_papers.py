"""`crossprop reproduce NAME`: the quick form of each paper, and the rules of its claims on records made by hand."""

import json
import shutil

import jax
import numpy as np
import pytest
import xarray

from crossprop import Backprop, Network, optimizers
from crossprop.cli import main
from crossprop.papers import sutton1992
from crossprop.papers.verdicts import verdicts_on
from crossprop.reproduce import PAPERS, Rerun

HOLDS, IN_PART, DOES_NOT, NOT_SHOWN = "holds", "holds in part", "does not hold", "not shown"
CANNOT = "cannot be decided here"


def made_records(values, steps, seeds=8, noise=0.01, variable="loss", without=()):
    """Records whose learners have these curves in every seed, but for some noise; `nan` is a run that diverged."""
    rng = np.random.default_rng(0)
    names = [name for name in values if name not in without]
    curves = np.array([np.broadcast_to(values[name], len(steps)) for name in names], float)
    shared = np.exp(noise * rng.normal(size=(1, seeds, 1)) + noise / 5 * rng.normal(size=(len(names), seeds, 1)))
    data = curves[:, None, :] * shared
    diverged = np.where(np.isnan(data).any(-1), 1, -1)
    return xarray.Dataset(
        {variable: (("learner", "seed", "step"), data), "diverged_at": (("learner", "seed"), diverged)},
        coords={"learner": names, "seed": range(seeds), "step": steps, "task": ("step", np.zeros(len(steps), int))},
    )


def decided(paper, **records):
    return {verdict.id: verdict for verdict in verdicts_on(PAPERS[paper].claims, records)}


# The commands.


CHEAP = {"sutton1992": "fixed"}
"""An experiment of each paper that compiles quickly; the others take their turn in the long tests."""


@pytest.fixture(
    scope="module",
    params=[
        *CHEAP.items(),
        *(
            pytest.param((name, part), marks=pytest.mark.long)
            for name in PAPERS
            for part in PAPERS[name].plans
            if part != CHEAP[name]
        ),
    ],
    ids=" ".join,
)
def quick(request, made_once, quick_compilation):
    """A quick reproduction of one experiment."""
    name, part = request.param
    command = ["reproduce", name, part, "--quick", "--out"]
    made = made_once(f"quick-{name}-{part}", lambda folder: main([*command, str(folder / name)]))
    return name, part, made / name


def test_quick_form_writes_records_figures_claims_and_page(quick):
    name, part, folder = quick
    paper = PAPERS[name]
    claims = json.loads((folder / "claims.json").read_text())
    assert (claims["paper"], claims["version"], claims["quick"]) == (name, "quick", True)
    assert [claim["id"] for claim in claims["claims"]] == [each.id for each in paper.claims if each.experiment == part]
    assert all(claim["rule"] and claim["why"] for claim in claims["claims"])
    assert (folder / f"{part}.zarr").is_dir()
    assert {path.suffix for path in (folder / "figures").glob(f"{part}*")} == {".png", ".pdf"}
    page = (folder / "report.html").read_text()
    assert "quick version" in page and paper.title in page and len(page) < 8e6


def test_what_is_done_is_not_run_again_and_other_settings_are_refused(quick, tmp_path, monkeypatch, capsys):
    name, part, folder = quick
    out = tmp_path / name
    shutil.copytree(folder, out)
    monkeypatch.setattr("crossprop.reproduce.folder.run", pytest.fail)
    monkeypatch.setattr("crossprop.reproduce.folder.Folder.draw", lambda *args: None)
    main(["reproduce", name, part, "--quick", "--out", str(out)])
    assert "done before" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", name, part, "--quick", "--seeds", "3", "--out", str(out)])
    assert stopped.value.code == 2 and "another experiment" in capsys.readouterr().err


def test_list_names_every_paper(capsys):
    main(["reproduce", "--list"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"crossprop reproduce {name} {paper.source}" in said for name, paper in PAPERS.items())
    assert "Veeriah, Zhang and Sutton (2017)" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sutton1992", "music"], "parts must be one of"),
        (["sutton1992", "--full", "--quick"], "full and quick must not both be given"),
        (["sutton1992", "--seeds", "0"], "seeds must be"),
        (["sutton1992", "--tasks", "3"], "tasks must not be given for sutton1992"),
        (["sutton1992", "--engine", "warp"], "engine must be one of"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_bad_input_ends_with_2_before_any_work(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("crossprop.reproduce.folder.run", pytest.fail)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *words, "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_has_a_rule_that_names_its_statistics(name):
    for claim in PAPERS[name].claims:
        assert claim.claim.endswith(".") and "Bonferroni" in claim.rule and "{" not in claim.rule
        assert claim.experiment in PAPERS[name].plans
    assert {*PAPERS[name].leads} <= {claim.id for claim in PAPERS[name].claims}


def test_the_folder_is_the_name_of_the_paper_unless_given():
    assert str(Rerun("sutton1992").folder) == "sutton1992"


# Sutton (1992).


def errors(lms=3.5, idbd=1.5, **options):
    """Records in which both lines have their lowest error in the middle of their grids."""
    values = {}
    for line, grid, lowest in (("LMS", sutton1992.LMS_STEP_SIZES, lms), ("IDBD", sutton1992.META_STEP_SIZES, idbd)):
        for at, setting in enumerate(grid):
            values[f"{line} {setting:g}"] = [9.0, 9.0, lowest + 0.3 * abs(at - len(grid) // 2)]
    return made_records(values, [10_000, 20_000, 30_000], **options)


def step_sizes(relevant=0.13, irrelevant=0.005, steps=(100_000, 250_000, 300_000), later=1.0, **options):
    """Records of the learned step sizes: at 250,000 as given, and `later` times that at 300,000."""
    records = made_records({"IDBD": 1.0}, list(steps), **options)
    inputs = np.array([relevant] * 5 + [irrelevant] * 15)
    curve = np.array([1.0, 1.0, later])[:, None] * inputs
    noise = 1 + 0.01 * np.random.default_rng(1).normal(size=(1, records.sizes["seed"], 1, 1))
    records["step_sizes"] = (("learner", "seed", "step", "step_sizes_0"), curve * noise)
    return records


def fixed(best=0.13, **options):
    values = {f"LMS, relevant inputs alone {each:g}": 1.4 + abs(each - best) for each in sutton1992.RELEVANT_STEP_SIZES}
    return made_records(values, [10_000, 20_000, 30_000], **options)


def test_the_probe_finds_the_step_size_of_every_input():
    learner = Backprop(Network(20, hidden=()), 0.05, optimizer=optimizers.idbd(0.01))
    state = learner.init(jax.random.key(0))
    np.testing.assert_allclose(sutton1992.step_sizes(state, state), np.full(20, 0.05), rtol=1e-6)


@pytest.mark.parametrize(
    ("id", "records", "expected"),
    [
        ("S1", {"errors": errors()}, HOLDS),
        ("S1", {"errors": errors(lms=3.0)}, DOES_NOT),
        ("S1", {"errors": errors(lms=4.0)}, DOES_NOT),
        ("S1", {"errors": errors(lms=3.65, noise=0.1)}, NOT_SHOWN),
        ("S1", {"errors": errors(seeds=1)}, NOT_SHOWN),
        ("S2", {"errors": errors()}, HOLDS),
        ("S2", {"errors": errors(idbd=2.0)}, DOES_NOT),
        ("S2", {"errors": errors(idbd=np.nan)}, CANNOT),
        ("S3", {"errors": errors()}, HOLDS),
        ("S3", {"errors": errors(lms=1.5)}, DOES_NOT),
        ("S3", {"errors": errors(lms=1.0)}, DOES_NOT),
        ("S4", {"step-sizes": step_sizes()}, HOLDS),
        ("S4", {"step-sizes": step_sizes(irrelevant=0.008)}, IN_PART),
        ("S4", {"step-sizes": step_sizes(relevant=0.2)}, IN_PART),
        ("S4", {"step-sizes": step_sizes(0.2, 0.008)}, DOES_NOT),
        ("S4", {"step-sizes": step_sizes().drop_vars("step_sizes")}, CANNOT),
        ("S5", {"fixed": fixed()}, HOLDS),
        ("S5", {"fixed": fixed(best=0.2)}, DOES_NOT),
        ("S5", {"fixed": fixed(without=("LMS, relevant inputs alone 0.13",))}, CANNOT),
    ],
)
def test_rules_of_sutton1992(id, records, expected):
    found = decided("sutton1992", **records)[id]
    assert found.verdict == expected, found.why


def test_error_is_that_of_the_last_window_at_the_best_step_size():
    found = decided("sutton1992", errors=errors(lms=3.42))["S1"]
    assert found.numbers[0].mean == pytest.approx(3.42, abs=0.03) and "published 3.5" in found.why


def test_step_sizes_are_judged_after_250000_examples_and_what_comes_later_is_said():
    found = decided("sutton1992", **{"step-sizes": step_sizes(irrelevant=0.008, later=0.5)})["S4"]
    assert found.verdict == IN_PART and "it is so after 300,000 examples" in found.why
