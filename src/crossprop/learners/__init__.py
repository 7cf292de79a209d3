"""The learners, one rule a file, and the names they go by."""

from functools import partial

from crossprop.learners.backprop import Backprop as Backprop
from crossprop.learners.base import Credit as Credit
from crossprop.learners.base import Learner as Learner
from crossprop.learners.base import Outcome as Outcome
from crossprop.learners.base import Shapes as Shapes
from crossprop.learners.base import State as State
from crossprop.learners.base import UnitRule as UnitRule
from crossprop.learners.base import Units as Units
from crossprop.learners.calling import compiled_method as compiled_method
from crossprop.learners.crossprop import Crossprop as Crossprop
from crossprop.learners.crossprop_approx import CrosspropApprox as CrosspropApprox
from crossprop.learners.crossprop_sum import CrosspropSum as CrosspropSum
from crossprop.learners.frozen import Frozen as Frozen

LEARNERS: dict[str, partial[Learner]] = {
    "crossprop": partial(Crossprop),
    "crossprop-0.5": partial(Crossprop, eta=0.5),
    "crossprop-projected": partial(Crossprop, projections=1),
    "crossprop-approx": partial(CrosspropApprox),
    "crossprop-approx-0.5": partial(CrosspropApprox, eta=0.5),
    "crossprop-sum": partial(CrosspropSum),
    "backprop": partial(Backprop),
    "momentum": partial(Backprop, optimizer="momentum"),
    "rmsprop": partial(Backprop, optimizer="rmsprop"),
    "adam": partial(Backprop, optimizer="adam"),
    "frozen": partial(Frozen),
}
"""Every learner by name, as `LEARNERS[name](network, step_size)`: the command line, the contract tests and `load`
know those that are here. One line registers a new one."""
