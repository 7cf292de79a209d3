"""What the template of the report shows, as plain data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.experiments.questions import CANNOT, DOES_NOT, HOLDS, IN_PART, NOT_SHOWN, Answer, Headline
from crossprop.library.plans import Charts, Plan
from crossprop.pages.charts import along, curves, examples_per_point, headline
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

FEATURES = "features"
MEASURES = {"neighbours": "Same label among the 10 nearest", "silhouette": "Silhouette"}
PILLS = {HOLDS: "yes", IN_PART: "part", DOES_NOT: "no", NOT_SHOWN: "open", CANNOT: "open"}
"""The CSS class of each verdict, in the order of the summary."""
HEADLINE = "headline"
"""The name of the chart at the top, among those of the experiments."""


@dataclass(frozen=True)
class Story:
    """What a report says besides its numbers: title, introduction, conclusions to quote, and words explained."""

    title: str
    intro: str
    conclusions: Sequence[str] = ()
    headline: Headline | None = None
    terms: Mapping[str, str] = field(default_factory=dict)


class ExperimentSection(NamedTuple):
    """The section of an experiment: how it was run, and its charts."""

    plan: Plan
    seconds: float
    learners: int
    seeds: int
    steps: int
    per_point: int
    diverged: dict[str, int]
    """Number of diverged seeds, for learners with any."""
    charts: dict[str, list[dict[str, Any]]]
    """Curves over the examples, by group: what is hidden in one chart of a group is hidden in all of it."""
    lines: list[dict[str, Any]]
    """Charts along a setting."""

    @property
    def has_switches(self) -> bool:
        """Whether task switches are marked."""
        return any(chart["switches"] for group in self.charts.values() for chart in group)

    @property
    def has_published(self) -> bool:
        """Whether published values are marked."""
        return any(wanted.published for wanted in self.plan.charts)


class FeatureMaps(NamedTuple):
    """The section on features: one map per representation, and how well labels are separated in each."""

    examples: int
    maps: list[dict[str, Any]]
    rows: dict[str, list[tuple[float, float, float]]]
    """By representation, for each of `MEASURES` the mean and its interval."""


class Sections(NamedTuple):
    """All sections of the report."""

    claims: Sequence[Answer]
    tally: list[tuple[str, str, int]]
    """How many claims have each verdict: the verdict, the CSS class of its pill, the count."""
    headline: dict[str, Any] | None
    experiments: list[ExperimentSection]
    features: FeatureMaps | None

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors and titles of the sections."""
        entries = [("conclusion", "Conclusion"), ("claims", "The claims")]
        entries += [(each.plan.name, each.plan.title) for each in self.experiments]
        if self.features:
            entries.append((FEATURES, "Features"))
        return [*entries, ("rerun", "Run it again")]

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script draws."""
        charts = {name: group for each in self.experiments for name, group in each.charts.items()}
        if self.headline:
            charts[HEADLINE] = [self.headline]
        lines = [chart for each in self.experiments for chart in each.lines]
        return {"parts": charts, "lines": lines, "clouds": self.features.maps if self.features else []}


def sections_of(
    story: Story,
    experiments: "Sequence[tuple[Plan, xarray.Dataset]]",
    features: "xarray.Dataset | None",
    answers: Sequence[Answer],
) -> Sections:
    """The conclusion and its chart, the table of claims, one section per experiment, and one for the features."""
    counts = Counter(each.verdict for each in answers)
    order = [*PILLS, *sorted(set(counts) - set(PILLS))]
    shown = [_experiment(*each) for each in experiments]
    return Sections(
        claims=answers,
        tally=[(name, PILLS.get(name, "open"), counts[name]) for name in order if counts[name]],
        headline=_headline(story.headline, shown),
        experiments=shown,
        features=None if features is None else _feature_maps(features),
    )


def _headline(wanted: Headline | None, experiments: Sequence[ExperimentSection]) -> dict[str, Any] | None:
    """The chart at the top, or None if the report has no such experiment."""
    if wanted is None:
        return None
    charts = [
        chart
        for each in experiments
        if each.plan.name == wanted.experiment
        for group in each.charts.values()
        for chart in group
    ]
    return next((headline(chart, wanted.notes) for chart in charts if chart["variable"] == wanted.variable), None)


def _experiment(plan: Plan, records: "xarray.Dataset") -> ExperimentSection:
    drawn = [wanted for wanted in plan.charts if wanted.along is None]
    diverged = {}
    if "diverged_at" in records:
        counts = (records.diverged_at >= 0).sum("seed").transpose("learner")
        diverged = dict(zip(map(str, records.learner.values), counts.values.tolist(), strict=True))
    return ExperimentSection(
        plan,
        records.attrs["seconds"],
        learners=records.sizes["learner"],
        seeds=records.sizes["seed"],
        steps=int(records.step.values[-1]),
        per_point=examples_per_point(records),
        diverged={name: count for name, count in diverged.items() if count},
        charts={f"{plan.name}{f'-{at}' * (at > 0)}": _curves(wanted, records) for at, wanted in enumerate(drawn)},
        lines=[along(records, each.along, each.published) for each in plan.charts if each.along is not None],
    )


def _curves(wanted: Charts, records: "xarray.Dataset") -> list[dict[str, Any]]:
    found = curves(wanted.records(records), wanted.variables, wanted.published)
    linear = {"log": False} if wanted.linear else {}
    return [chart | {"title": f"{wanted.title}{': ' * bool(wanted.title)}{chart['title']}"} | linear for chart in found]


def _feature_maps(features: "xarray.Dataset") -> FeatureMaps:
    measured = features[[*MEASURES]].to_dataarray().transpose("example", "representation", "variable")
    estimates = np.stack(mean_interval(measured.values), axis=-1).tolist()
    rows = dict(zip(map(str, features.representation.values), estimates, strict=True))
    return FeatureMaps(features.sizes["example"], _clouds(features), rows)


def _clouds(features: "xarray.Dataset") -> list[dict[str, Any]]:
    """One map per representation: the examples at their t-SNE coordinates, grouped by label; `page.js` draws them."""
    labels = features.label.values
    return [
        {
            "representation": str(representation),
            "groups": [
                {
                    "label": str(label),
                    "x": [round(float(value), 2) for value in places[labels == label, 0]],
                    "y": [round(float(value), 2) for value in places[labels == label, 1]],
                }
                for label in np.unique(labels)
            ],
        }
        for representation in features.representation.values
        for places in [features.tsne.sel(representation=representation).transpose("example", ...).values]
    ]
