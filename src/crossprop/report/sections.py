"""The page's sections as HTML. Whatever comes from outside goes through `escape`."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.paper.claims import Number, Verdict
from crossprop.paper.plans import Setting
from crossprop.report.charts import points_of
from crossprop.report.contents import Part
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

PILLS = {
    "holds": "yes",
    "holds in part": "part",
    "does not hold": "no",
    "cannot be decided here": "open",
}
MEASURES = {"neighbours": "Same label among the 10 nearest", "silhouette": "Silhouette"}
FIRST = 4
LONG = 140
QUICK = "quick version: small, not the paper's full settings"


def contents(
    parts: Sequence[Part], features: "xarray.Dataset | None", verdicts: Sequence[Verdict]
) -> list[tuple[str, str]]:
    entries = [("summary", "What holds")]
    entries += [(part.name, part.title) for part in parts]
    if _has_features(features, verdicts):
        entries.append(("features", "Features"))
    if _homeless(parts, verdicts):
        entries.append(("others", "Other claims"))
    return [*entries, ("again", "Make it again")]


def banner() -> str:
    return f'<p class="banner" role="note"><strong>{QUICK}</strong></p>'


def intro() -> str:
    return (
        "Crossprop is a rule for learning features online: it asks how past changes of the incoming weights U have "
        "affected the outgoing weights W, where backprop asks only about the example at hand. Veeriah, Zhang and "
        "Sutton (2017) claim that it reaches similar errors while it keeps and reuses its features. This page reruns "
        "their experiments, decides each claim by a rule that was fixed before the results, and sets a control beside "
        "every learner: <em>frozen</em>, whose features never move."
    )


def summary(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    order = [*PILLS, *sorted(set(counts) - set(PILLS))]
    tally = " ".join(f'<span class="tally"><b>{counts[name]}</b> {pill(name)}</span>' for name in order if counts[name])
    lines = "\n".join(
        f'<li><a class="id" href="#{_anchor(at)}">{escape(verdict.id)}</a>'
        f'<div><p class="claim">{escape(verdict.claim)}</p><p class="why">{escape(verdict.why)}</p></div>'
        f"{pill(verdict.verdict)}</li>"
        for at, verdict in enumerate(verdicts)
    )
    if not verdicts:
        return "<p>No claim was decided in this run.</p>"
    return f'<p class="tallies">{tally}</p>\n<ul class="summary">\n{lines}\n</ul>'


def experiments(
    parts: Sequence[Part],
    figures: Mapping[str, list[dict[str, Any]]],
    features: "xarray.Dataset | None",
    clouds: list[dict[str, Any]],
    verdicts: Sequence[Verdict],
    quick: bool,
) -> Iterator[str]:
    """A section for each part, one for the features, and one for claims that belong to neither."""
    for part in parts:
        yield "\n".join(
            [
                f'<section><h2 id="{escape(part.name)}">{escape(part.title)}</h2>',
                f'<p class="muted">{_about(part)}</p>',
                *(chart_of(part.name, at, chart, quick) for at, chart in enumerate(figures[part.name])),
                _claims(verdicts, {part.name}, quick),
                _settings(part.settings, quick),
                "</section>",
            ]
        )
    if _has_features(features, verdicts):
        yield '<section><h2 id="features">Features</h2>'
        if features is not None:
            yield _clouds(features, clouds, quick)
        yield _claims(verdicts, {"features"}, quick) + "</section>"
    if homeless := _homeless(parts, verdicts):
        yield '<section><h2 id="others">Claims of experiments that were not run here</h2>'
        yield _claims(verdicts, homeless, quick) + "</section>"


def again(command: str, facts: Mapping[str, str], quick: bool) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    about = table("facts", "What it ran on", "", rows, quick) if facts else ""
    return f'<div class="scroll" tabindex="0"><pre><code>{escape(command)}</code></pre></div>\n{about}'


def _about(part: Part) -> str:
    records = part.records
    seeds, learners = records.sizes["seed"], records.sizes["learner"]
    shown = "lines are means over seeds, bands 95% bootstrap intervals" if seeds > 1 else "one seed, so no bands"
    text = (
        f"{learners} learners, {seeds} seed{'s' * (seeds > 1)}, {int(records.step.values[-1]):,} examples each; "
        f"it took {duration(part.seconds)}. In the charts {shown}; a point stands for {points_of(records):,} "
        "examples. Click a learner in a legend to hide it in all charts of this experiment, double-click to see it "
        "alone; drag to zoom, double-click to zoom out."
    )
    if "diverged_at" in records:
        gone = (records.diverged_at >= 0).sum("seed")
        text += "".join(
            f" <strong>{escape(str(name))}</strong>: {int(gone.sel(learner=name))} of {seeds} diverged."
            for name in records.learner.values
            if int(gone.sel(learner=name))
        )
    return text


def chart_of(name: str, at: int, chart: dict[str, Any], quick: bool) -> str:
    name, log, title = escape(name), chart["log"], escape(chart["title"])
    switch = "".join(
        f'<button type="button" data-scale="{scale}" aria-pressed="{str(pressed).lower()}">{scale}</button>'
        for scale, pressed in (("log", log), ("linear", not log))
    )
    return (
        f'<figure><figcaption><h3 id="{name}-{chart["variable"]}">{title[:1].upper()}{title[1:]}</h3>'
        f'{_quick_tag(quick)}<span class="switch" role="group" aria-label="vertical scale">{switch}</span></figcaption>'
        f'<div class="chart curves" data-part="{name}" data-chart="{at}" role="img" '
        f'aria-label="{title} by examples, a line for each learner"></div></figure>'
    )


def _claims(verdicts: Sequence[Verdict], of: set[str], quick: bool) -> str:
    rows = "\n".join(
        f'<tr id="{_anchor(at)}"><td data-label="claim"><b>{escape(verdict.id)}</b> {escape(verdict.claim)}</td>'
        f'<td data-label="rule">{_folded(verdict.rule)}</td>'
        f'<td data-label="numbers">{_numbers(verdict)}</td>'
        f'<td data-label="verdict">{pill(verdict.verdict)}<div class="why">{_folded(verdict.why)}</div></td></tr>'
        for at, verdict in enumerate(verdicts)
        if verdict.experiment in of
    )
    head = "<tr><th>Claim</th><th>Rule</th><th>Numbers [interval]</th><th>Verdict</th></tr>"
    return table("claims stack", "Claims", head, rows, quick) if rows else ""


def _settings(settings: Sequence[Setting], quick: bool) -> str:
    rows = "\n".join(
        f'<tr{" class=deviation" * bool(setting.why)}><td data-label="setting"><b>{escape(setting.name)}</b></td>'
        f'<td data-label="here">{escape(setting.value)}</td><td data-label="paper">{escape(setting.paper)}</td>'
        f'<td data-label="why">{_why(setting)}</td></tr>'
        for setting in settings
    )
    head = "<tr><th>Setting</th><th>Here</th><th>In the paper</th><th>Where they differ, why</th></tr>"
    return table("settings stack", "Settings", head, rows, quick) if rows else ""


def _why(setting: Setting) -> str:
    return f'<span class="tag">differs</span> {escape(setting.why)}' if setting.why else '<span class="muted">–</span>'


def _clouds(features: "xarray.Dataset", clouds: list[dict[str, Any]], quick: bool) -> str:
    figures = "\n".join(
        f"<figure><figcaption><h3>{escape(cloud['representation'])}</h3>{_quick_tag(quick)}</figcaption>"
        f'<div class="chart cloud" data-chart="{at}" role="img" '
        f'aria-label="t-SNE of {escape(cloud["representation"])}, coloured by label"></div></figure>'
        for at, cloud in enumerate(clouds)
    )
    measured = features[[*MEASURES]].to_dataarray().transpose("example", "representation", "variable")
    estimate = np.stack(mean_interval(measured.values), axis=-1)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(f"<td>{interval(*map(float, cell))}</td>" for cell in cells)
        + "</tr>"
        for name, cells in zip(features.representation.values, estimate, strict=True)
    )
    head = "<tr><th>Representation</th>" + "".join(f"<th>{title}</th>" for title in MEASURES.values()) + "</tr>"
    return (
        f'<p class="muted">{features.sizes["example"]:,} examples as t-SNE lays them out, by the hidden units of each '
        "learner after one task, and by the pixels themselves. Distances between clusters mean little in such a map: "
        "the table has the numbers, measured in feature space before t-SNE.</p>\n"
        f'<div class="labels" role="group" aria-label="labels shown"></div>\n<div class="clouds">{figures}</div>\n'
        + table("neighbours", "How well labels stand apart, mean [95% interval over examples]", head, rows, quick)
    )


def table(kind: str, caption: str, head: str, rows: str, quick: bool) -> str:
    thead = f"<thead>{head}</thead>" if head else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="{kind}">'
        f"<caption>{caption} {_quick_tag(quick)}</caption>{thead}<tbody>\n{rows}\n</tbody></table></div>"
    )


def _quick_tag(quick: bool) -> str:
    return '<span class="tag">quick version</span>' if quick else ""


def pill(verdict: str) -> str:
    return f'<span class="pill {PILLS.get(verdict, "open")}">{escape(verdict)}</span>'


def _anchor(at: int) -> str:
    return f"claim-{at + 1}"


def _numbers(verdict: Verdict) -> str:
    items = [f"<li>{escape(number.label)}: {_number(number)}</li>" for number in verdict.numbers]
    text = f"<ul>{''.join(items[:FIRST])}</ul>" if items else ""
    if rest := items[FIRST:]:
        text += f"<details><summary>{len(rest)} more</summary><ul>{''.join(rest)}</ul></details>"
    return text + f'<p class="muted">{escape(verdict.over)}</p>'


def _folded(text: str) -> str:
    """The text; a long one behind its beginning, which opens it."""
    if len(text) <= LONG:
        return escape(text)
    beginning = text[:LONG].rsplit(" ", 1)[0]
    return f'<details class="fold"><summary><span>{escape(beginning)} …</span></summary>{escape(text)}</details>'


def _number(number: Number) -> str:
    text = interval(number.mean, number.low, number.high)
    return f'<span class="number">{text}</span> {escape(number.unit)}'.strip()


def interval(mean: float, low: float, high: float) -> str:
    """Mean and interval with as many decimals as the interval's width makes worth reading."""
    known = math.isfinite(low) and math.isfinite(high)
    width = high - low if known and high > low else abs(mean) / 10
    if not math.isfinite(mean):
        return "not a number"
    decimals = max(0, 1 - math.floor(math.log10(width))) if width else 0

    def text(value: float) -> str:
        return f"{value:.3g}" if decimals > 6 else f"{value:,.{decimals}f}"

    written = f"{text(mean)} [{text(low)}, {text(high)}]" if known else text(mean)
    return written.replace("-", "\N{MINUS SIGN}")


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _has_features(features: "xarray.Dataset | None", verdicts: Sequence[Verdict]) -> bool:
    return features is not None or any(verdict.experiment == "features" for verdict in verdicts)


def _homeless(parts: Sequence[Part], verdicts: Sequence[Verdict]) -> set[str]:
    return {verdict.experiment for verdict in verdicts} - {part.name for part in parts} - {"features"}
