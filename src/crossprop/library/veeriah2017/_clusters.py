"""The claim about the features after one task of MNIST."""

from typing import TYPE_CHECKING

import numpy as np

from crossprop._support.formats import fixed, listed, points, share
from crossprop.library.rules import mean_of
from crossprop.library.texts import INTERVALS
from crossprop.library.verdicts import Bounds, CannotDecide, Claim, Finding, Judgement, Number, Part, joint_level
from crossprop.statistics import paired_difference

if TYPE_CHECKING:
    import xarray

CLUSTERED = 0.5
SIMILAR_NEIGHBOURS = 0.05
BACKPROP, CROSSPROP = "backprop", "crossprop-approx"


def _cluster_by_label(features: "xarray.Dataset") -> Judgement:
    present = [str(name) for name in features["representation"].values]
    lacking = [name for name in (BACKPROP, CROSSPROP) if name not in present]
    lacking += ["neighbours"] * ("neighbours" not in features)
    if lacking:
        raise CannotDecide(f"the features hold no {', '.join(lacking)}")
    level = joint_level(3)

    def values(variable: str, name: str) -> np.ndarray:
        return features[variable].sel(representation=name).values.astype(np.float64)

    def mean(variable: str, name: str) -> Finding:
        number = mean_of(f"{variable}, {name}", values(variable, name), level)
        text = f"{{}} of an example's nearest neighbours in the features of {name} have its label"
        return Finding(number, Bounds(CLUSTERED), share(text, number.interval))

    def apart() -> Finding:
        paired = paired_difference(values("neighbours", CROSSPROP), values("neighbours", BACKPROP), level)
        number = Number.of(f"neighbours, {CROSSPROP} - {BACKPROP}", paired)
        text = f"neighbours share their label {{}} often in the features of {CROSSPROP} than in those of {BACKPROP}"
        said = points(text, ("more", "less"), number.times(100).interval)
        return Finding(number, Bounds(-SIMILAR_NEIGHBOURS, SIMILAR_NEIGHBOURS), said)

    if not all(np.isfinite(values("neighbours", name)).all() for name in (BACKPROP, CROSSPROP)):
        raise CannotDecide("the neighbour shares of backprop or crossprop-approx are not all finite")
    parts = [Part(f"{name} clusters by label", (mean("neighbours", name),)) for name in (CROSSPROP, BACKPROP)]
    parts.append(Part("they differ little", (apart(),)))
    controls = [name for name in present if name not in (BACKPROP, CROSSPROP)]
    measures = ["neighbours", *(["silhouette"] if "silhouette" in features else [])]
    shown = [mean(each, name) for each in measures for name in (present if each != "neighbours" else controls)]
    said = [f"{fixed(100 * values('neighbours', name).mean(), 0)}% with {name}" for name in controls]
    note = f"for comparison, {listed(said)}" if said else ""
    return Judgement(parts, features.sizes["example"], shown, note)


CLAIMS = (
    Claim(
        "T1",
        "features",
        "The features of backprop and of crossprop both cluster examples by label, and do not differ visibly.",
        "Neighbour share: how many of an example's 10 nearest neighbours in feature space have its label; by chance"
        f" 0.1. Three parts: its mean is above {CLUSTERED:g} for backprop, above {CLUSTERED:g} for crossprop-approx"
        f" (eta 0), and the two differ by less than {SIMILAR_NEIGHBOURS:g}, paired over examples. The rule judges the"
        " features themselves, not the look of a t-SNE map; frozen features, raw pixels and silhouettes are shown, not"
        f" counted.{INTERVALS}",
        _cluster_by_label,
    ),
)
