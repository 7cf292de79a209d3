"""Every optimizer, beside its scalar transcription with the same constants."""

from functools import partial

import jax
import optax

import crossprop as cp
import reference_optimizers as judges

OPTAX_ADAM = partial(optax.adam, b1=0.9, b2=0.999, eps=1e-8)


# Every optimizer: as the package builds it, its judge with the same constants, and the step size.
OPTIMIZERS = {
    "nlms": (cp.optimizers.nlms(0.8), partial(judges.NLMS, decay=0.8), 0.2),
    "delta_bar_delta": (
        cp.optimizers.delta_bar_delta(0.003, 0.2, 0.6),
        partial(judges.DeltaBarDelta, increase=0.003, decrease=0.2, decay=0.6),
        0.02,
    ),
    "idbd": (cp.optimizers.idbd(0.3), partial(judges.IDBD, meta_step_size=0.3), 0.02),
    "autostep": (
        cp.optimizers.autostep(0.3, horizon=5, bound="unit"),
        partial(judges.Autostep, meta_step_size=0.3, horizon=5, bound="unit"),
        0.2,
    ),
    "autostep-network": (
        cp.optimizers.autostep(0.3, 5),
        partial(judges.Autostep, meta_step_size=0.3, horizon=5, bound="network"),
        0.2,
    ),
    "smd": (
        cp.optimizers.smd(0.3, decay=0.9, floor=0.5),
        partial(judges.SMD, meta_step_size=0.3, decay=0.9, floor=0.5),
        0.02,
    ),
    "upgd": (
        cp.optimizers.upgd(sigma=0.3, utility_decay=0.9, weight_decay=0.1),
        partial(judges.UPGD, sigma=0.3, utility_decay=0.9, weight_decay=0.1),
        0.02,
    ),
    "upgd-as-run": (
        cp.optimizers.upgd(0.3, 0.9, 0.1, protecting=False, as_run=True),
        partial(judges.UPGD, sigma=0.3, utility_decay=0.9, weight_decay=0.1, protecting=False, as_run=True),
        0.02,
    ),
    "l2_init": (cp.optimizers.l2_init(0.5), partial(judges.L2Init, strength=0.5), 0.02),
    "l2_init-adam": (cp.optimizers.l2_init(0.5, "adam"), partial(judges.L2Init, strength=0.5, base="adam"), 0.005),
    "shrink_perturb": (
        cp.optimizers.shrink_perturb(0.01, 0.02, "adam"),
        partial(judges.ShrinkPerturb, shrink=0.01, sigma=0.02, base="adam"),
        0.005,
    ),
    "shrink_perturb-by-fan-in": (
        cp.optimizers.shrink_perturb(0.01, 0.02, by_fan_in=True),
        partial(judges.ShrinkPerturb, shrink=0.01, sigma=0.02, by_fan_in=True),
        0.02,
    ),
    "clip_weights": (cp.optimizers.clip_weights(0.8), partial(judges.ClipWeights, kappa=0.8), 0.02),
    "clip_weights-adam": (
        cp.optimizers.clip_weights(0.8, base=OPTAX_ADAM),
        partial(judges.ClipWeights, kappa=0.8, base="adam"),
        0.005,
    ),
    "fading": (cp.optimizers.fading(4.0, over=3.0), partial(judges.Fading, start=4.0, over=3.0), 0.02),
    "fading-outgoing-adam": (
        cp.optimizers.fading(4.0, 3.0, "outgoing", "adam"),
        partial(judges.Fading, start=4.0, over=3.0, weights="outgoing", base="adam"),
        0.005,
    ),
    "fading-all": (
        cp.optimizers.fading(4.0, 3.0, "all"),
        partial(judges.Fading, start=4.0, over=3.0, weights="all"),
        0.02,
    ),
    "obgd": (cp.optimizers.obgd(2.0), partial(judges.ObGD, kappa=2.0), 0.3),
}


NOISY = {name: (lambda key: key) for name in ("upgd", "upgd-as-run")} | {
    name: partial(jax.random.fold_in, data=1) for name in ("shrink_perturb", "shrink_perturb-by-fan-in")
}
"""Those that draw noise, and the key of a step's noise from the step's key."""
