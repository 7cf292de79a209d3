"""The claims of the paper, and the rule that decides each from records.

A rule splits its claim into parts. Each part is a comparison whose interval lies inside what is claimed (true), outside
of it (false), or across the bound (undecided); together they give one verdict.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from crossprop.paper import _clusters, _geoff, _mnist
from crossprop.paper._measures import CannotDecide
from crossprop.paper._verdicts import CANNOT, Claim, Judgement, Number

if TYPE_CHECKING:
    import xarray

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (*_geoff.CLAIMS, *_mnist.CLAIMS, *_clusters.CLAIMS, *_geoff.OWN_CLAIMS, *_mnist.OWN_CLAIMS)
}
"""The claims of the paper, then our own, by identifier."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with its rule, the reason in one sentence, the numbers, and what they are taken over."""

    id: str
    experiment: str
    claim: str
    rule: str
    verdict: str
    why: str
    numbers: tuple[Number, ...]
    over: str


def decide(
    geoff: "xarray.Dataset | None", mnist: "xarray.Dataset | None", features: "xarray.Dataset | None"
) -> list[Verdict]:
    """The verdict on every claim about the experiments given, each by its rule in `CLAIMS`."""
    given = {"geoff": geoff, "mnist": mnist, "features": features}
    return [verdict_on(claim, records) for claim in CLAIMS.values() if (records := given[claim.experiment]) is not None]


def to_json(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """The verdicts in JSON's types; numbers that are not finite become null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [plain(asdict(verdict)) for verdict in verdicts]


def verdict_on(claim: Claim, records: "xarray.Dataset") -> Verdict:
    """The verdict on one claim, from the records of its experiment."""
    over = "nothing: the records lack what the claim needs"
    try:
        found = claim.judge(records)
    except CannotDecide as problem:
        found = Judgement(CANNOT, f"{problem}.", (), 0)
    why = found.why
    if found.pairs and claim.experiment == "features":
        over = f"paired over {found.pairs} examples of one run"
    elif found.pairs and records.sizes["seed"] > 1:
        over = f"paired over {found.pairs} seeds"
    elif found.pairs:
        over = f"paired over {found.pairs} disjoint windows of one run, which is not the same as independent runs"
        why = f"{why[:-1]} (one run: the intervals are over its windows, not over other seeds)."
    return Verdict(claim.id, claim.experiment, claim.claim, claim.rule, found.verdict, why, found.numbers, over)
