"""What the template of the report shows, as plain data."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.pages.charts import curves, examples_per_point
from crossprop.paper.plans import Setting
from crossprop.paper.verdicts import Verdict
from crossprop.report.clouds import clouds
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

FEATURES = "features"
MEASURES = {"neighbours": "Same label among the 10 nearest", "silhouette": "Silhouette"}
PILLS = {
    "holds": "yes",
    "holds in part": "part",
    "does not hold": "no",
    "not shown": "open",
    "cannot be decided here": "open",
}
"""The CSS class of each verdict, in the order of the summary."""


@dataclass(frozen=True)
class Part:
    """An experiment: its records as `crossprop.run` returns them, its settings, and how many seconds it took."""

    name: str
    title: str
    records: "xarray.Dataset"
    settings: Sequence[Setting]
    seconds: float


class ShownClaim(NamedTuple):
    """A verdict, with its anchor on the page and the CSS class of its pill."""

    anchor: str
    pill: str
    verdict: Verdict


class Experiment(NamedTuple):
    """The section of a part: how it was run, its charts, and its claims."""

    part: Part
    learners: int
    seeds: int
    steps: int
    per_point: int
    diverged: dict[str, int]
    """How many seeds diverged, for the learners of which some did."""
    charts: list[dict[str, Any]]
    claims: list[ShownClaim]


class FeatureMaps(NamedTuple):
    """The section on features: one map per representation, and how well labels are separated in each."""

    examples: int
    maps: list[dict[str, Any]]
    rows: dict[str, list[tuple[float, float, float]]]
    """By representation, for each of `MEASURES` the mean and its interval."""


class Sections(NamedTuple):
    """All sections of the report."""

    claims: list[ShownClaim]
    tally: list[tuple[str, str, int]]
    """How many claims have each verdict: the verdict, the CSS class of its pill, the count."""
    experiments: list[Experiment]
    features: FeatureMaps | None
    feature_claims: list[ShownClaim]
    other_claims: list[ShownClaim]
    """Claims about experiments that are not in this report."""

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors and titles of the sections."""
        entries = [("summary", "What holds")]
        entries += [(each.part.name, each.part.title) for each in self.experiments]
        if self.features or self.feature_claims:
            entries.append((FEATURES, "Features"))
        if self.other_claims:
            entries.append(("others", "Other claims"))
        return [*entries, ("rerun", "Run it again")]

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script draws."""
        charts = {each.part.name: each.charts for each in self.experiments}
        return {"parts": charts, "clouds": self.features.maps if self.features else []}


def sections_of(parts: Sequence[Part], features: "xarray.Dataset | None", verdicts: Sequence[Verdict]) -> Sections:
    """One section per part, one for the features, and one for claims that belong to neither."""
    claims = [
        ShownClaim(f"claim-{number}", PILLS.get(verdict.verdict, "open"), verdict)
        for number, verdict in enumerate(verdicts, start=1)
    ]
    counts = Counter(verdict.verdict for verdict in verdicts)
    order = [*PILLS, *sorted(set(counts) - set(PILLS))]
    names = [*(part.name for part in parts), FEATURES]
    about = {name: [claim for claim in claims if claim.verdict.experiment == name] for name in names}
    return Sections(
        claims=claims,
        tally=[(name, PILLS.get(name, "open"), counts[name]) for name in order if counts[name]],
        experiments=[_experiment(part, about[part.name]) for part in parts],
        features=None if features is None else _feature_maps(features),
        feature_claims=about[FEATURES],
        other_claims=[claim for claim in claims if claim.verdict.experiment not in names],
    )


def _experiment(part: Part, claims: list[ShownClaim]) -> Experiment:
    records = part.records
    diverged = {}
    if "diverged_at" in records:
        counts = (records.diverged_at >= 0).sum("seed").transpose("learner")
        diverged = dict(zip(map(str, records.learner.values), counts.values.tolist(), strict=True))
    return Experiment(
        part,
        learners=records.sizes["learner"],
        seeds=records.sizes["seed"],
        steps=int(records.step.values[-1]),
        per_point=examples_per_point(records),
        diverged={name: count for name, count in diverged.items() if count},
        charts=curves(records),
        claims=claims,
    )


def _feature_maps(features: "xarray.Dataset") -> FeatureMaps:
    measured = features[[*MEASURES]].to_dataarray().transpose("example", "representation", "variable")
    estimates = np.stack(mean_interval(measured.values), axis=-1).tolist()
    rows = dict(zip(map(str, features.representation.values), estimates, strict=True))
    return FeatureMaps(features.sizes["example"], clouds(features), rows)
