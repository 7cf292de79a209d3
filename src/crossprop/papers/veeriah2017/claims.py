"""The claims of the paper, and the rule that decides each from records."""

from typing import TYPE_CHECKING

from crossprop.papers.veeriah2017 import _clusters, _geoff, _mnist
from crossprop.papers.verdicts import Claim, Verdict, verdicts_on

if TYPE_CHECKING:
    import xarray

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (*_geoff.CLAIMS, *_mnist.CLAIMS, *_clusters.CLAIMS, *_geoff.OWN_CLAIMS, *_mnist.OWN_CLAIMS)
}
"""The claims of the paper, then our own, by identifier."""


def decide(
    geoff: "xarray.Dataset | None", mnist: "xarray.Dataset | None", features: "xarray.Dataset | None"
) -> list[Verdict]:
    """The verdict on every claim about the experiments given, each by its rule in `CLAIMS`."""
    given = {"geoff": geoff, "mnist": mnist, "features": features}
    return verdicts_on(CLAIMS.values(), {name: records for name, records in given.items() if records is not None})
