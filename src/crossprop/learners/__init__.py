"""The learners, one rule a file, and the registry of learners by name."""

from functools import partial

from crossprop.learners.backprop import Backprop as Backprop
from crossprop.learners.base import Credit as Credit
from crossprop.learners.base import CreditRule as CreditRule
from crossprop.learners.base import Learner as Learner
from crossprop.learners.base import Outcome as Outcome
from crossprop.learners.base import Shapes as Shapes
from crossprop.learners.base import State as State
from crossprop.learners.base import Units as Units
from crossprop.learners.best import Best as Best
from crossprop.learners.calling import compiled_method as compiled_method
from crossprop.learners.correlation import Correlation as Correlation
from crossprop.learners.crossprop import Crossprop as Crossprop
from crossprop.learners.crossprop_approx import CrosspropApprox as CrosspropApprox
from crossprop.learners.crossprop_sum import CrosspropSum as CrosspropSum
from crossprop.learners.foresight import Foresight as Foresight
from crossprop.learners.frozen import Frozen as Frozen
from crossprop.learners.hindsight import BackpropReplay as BackpropReplay
from crossprop.learners.hindsight import Hindsight as Hindsight
from crossprop.learners.linear_td import TIDBD as TIDBD
from crossprop.learners.linear_td import SwiftTD as SwiftTD
from crossprop.learners.linear_td import TrueOnlineTD as TrueOnlineTD
from crossprop.learners.normalize import Normalize as Normalize
from crossprop.learners.scheduled import Scheduled as Scheduled
from crossprop.learners.td import TD as TD
from crossprop.learners.trivial import Trivial as Trivial
from crossprop.learners.unsupervised import Unsupervised as Unsupervised
from crossprop.learners.whiten import Whiten as Whiten
from crossprop.registry import Registry

LEARNERS: Registry[Learner] = Registry(
    "crossprop.learners",
    {
        "crossprop": Crossprop,
        "crossprop-0.5": partial(Crossprop, eta=0.5),
        "crossprop-projected": partial(Crossprop, projections=1),
        "crossprop-approx": CrosspropApprox,
        "crossprop-approx-0.5": partial(CrosspropApprox, eta=0.5),
        "crossprop-sum": CrosspropSum,
        "backprop": Backprop,
        "momentum": partial(Backprop, optimizer="momentum"),
        "rmsprop": partial(Backprop, optimizer="rmsprop"),
        "adam": partial(Backprop, optimizer="adam"),
        "foresight": Foresight,
        "foresight-top": partial(Foresight, layers="top"),
        "correlation": Correlation,
        "hindsight": Hindsight,
        "backprop-replay": BackpropReplay,
        "frozen": Frozen,
        "kmeans": partial(Unsupervised, objective="kmeans"),
        "sparse-coding": partial(Unsupervised, objective="sparse-coding"),
        "ica": partial(Unsupervised, objective="ica"),
        "autoencoder": partial(Unsupervised, objective="autoencoder"),
    },
)
"""Every learner by name, as `LEARNERS[name](network, step_size=1e-3)`: the command line, TOML files, the contract tests
and `load` take learners from here. Register one with `LEARNERS["my-rule"] = MyRule`, or in a package by an entry point
of the group `crossprop.learners`."""

PREDICTORS: Registry[Learner] = Registry(
    "crossprop.predictors",
    {
        "true-online-td": TrueOnlineTD,
        "tidbd": TIDBD,
        "swift-td": SwiftTD,
        "mean-return": partial(Trivial, answer="return"),
    },
)
"""Learners of discounted sums alone, by name, for streams that predict."""

WRAPPERS: dict[str, type[Learner]] = {"best": Best, "td": TD, "normalize": Normalize, "whiten": Whiten}
"""Learners around a learner, by name, the inner ones first."""
