"""Optimizers: how big the step is. Each goes with every credit rule, and with plain optax."""

from crossprop.optimizers.base import OPTIMIZERS as OPTIMIZERS
from crossprop.optimizers.base import Optax as Optax
from crossprop.optimizers.base import Optimizer as Optimizer
from crossprop.optimizers.base import optimizer_field as optimizer_field
from crossprop.optimizers.bounded import clip_weights as clip_weights
from crossprop.optimizers.bounded import l2_init as l2_init
from crossprop.optimizers.bounded import obgd as obgd
from crossprop.optimizers.fading import fading as fading
from crossprop.optimizers.perturbed import shrink_perturb as shrink_perturb
from crossprop.optimizers.perturbed import upgd as upgd
from crossprop.optimizers.step_sizes import autostep as autostep
from crossprop.optimizers.step_sizes import delta_bar_delta as delta_bar_delta
from crossprop.optimizers.step_sizes import idbd as idbd
from crossprop.optimizers.step_sizes import nlms as nlms
from crossprop.optimizers.step_sizes import smd as smd

STEP_SIZES = {"rmsprop": 2**-8, "adam": 2**-8, "obgd": 1.0, "adadelta": 1.0, "nlms": 0.1}
"""Step sizes of optimizers whose steps do not grow with the gradient; those of the others are near plain steps'."""

for build in (delta_bar_delta, nlms, idbd, autostep, smd, upgd, l2_init, shrink_perturb, clip_weights, obgd, fading):
    OPTIMIZERS[build.__name__] = build
