"""The claim about the features after one task of MNIST."""

from typing import TYPE_CHECKING

import numpy as np

from crossprop.paper import _texts as texts
from crossprop.paper._measures import CannotDecide
from crossprop.paper._verdicts import Claim, Judgement, Number, Part, inside, joint_level, judge, number
from crossprop.statistics import paired_difference

if TYPE_CHECKING:
    import xarray

CLUSTERED = 0.5
SIMILAR_NEIGHBOURS = 0.05


def _cluster_by_label(features: "xarray.Dataset") -> Judgement:
    present, counted = [str(name) for name in features["representation"].values], ("backprop", "crossprop-approx")
    lacking = [name for name in counted if name not in present] + ["neighbours"] * ("neighbours" not in features)
    if lacking:
        raise CannotDecide(f"the features hold no {', '.join(lacking)}")
    level = joint_level(3)

    def values(variable: str, name: str) -> np.ndarray:
        return features[variable].sel(representation=name).values.astype(np.float64)

    def mean(variable: str, name: str) -> Number:
        return number(f"{variable}, {name}", paired_difference(values(variable, name), 0.0, level))

    shares = {name: values("neighbours", name) for name in counted}
    if not all(np.isfinite(share).all() for share in shares.values()):
        raise CannotDecide("the neighbour shares of backprop or crossprop-approx are not all finite")
    difference = paired_difference(shares["crossprop-approx"], shares["backprop"], level)
    apart = number("neighbours, crossprop-approx - backprop", difference)
    means = {name: mean("neighbours", name) for name in present}
    parts = [Part(f"{name} clusters by label", inside(means[name], CLUSTERED), means[name]) for name in counted]
    parts.append(Part("they differ little", inside(apart, -SIMILAR_NEIGHBOURS, SIMILAR_NEIGHBOURS), apart))
    shown = [*means.values(), apart]
    if "silhouette" in features:
        shown += [mean("silhouette", name) for name in present]
    controls = "; ".join(f"for comparison {means[name]}" for name in ("frozen", "pixels") if name in present)
    return judge(parts, shown, difference.pairs, controls)


CLAIMS = (
    Claim(
        "T1",
        "features",
        "The features of backprop and of crossprop both cluster examples by label, and do not differ visibly.",
        "Neighbour share: how many of an example's 10 nearest neighbours in feature space have its label; by chance"
        f" 0.1. Three parts: its mean is above {CLUSTERED:g} for backprop, above {CLUSTERED:g} for crossprop-approx"
        f" (eta 0), and the two differ by less than {SIMILAR_NEIGHBOURS:g}, paired over examples. The rule judges the"
        " features themselves, not the look of a t-SNE map; frozen features, raw pixels and silhouettes are shown, not"
        f" counted.{texts.INTERVALS}",
        _cluster_by_label,
    ),
)
