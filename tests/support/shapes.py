"""The type checker that the tests run the package under: array shapes are checked, and an int will do for a float."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

UNCHECKED = (
    # These check their arguments themselves, and the tests look at their messages.
    "crossprop.running.run",
    "crossprop.learners.base.CreditRule.init",
    "crossprop.passes.live",
    "crossprop.passes.predict",
    "crossprop.oracle.follow",
    "crossprop.oracle.directions",
    "crossprop.experiments.sweep",
    "crossprop.experiments.spec.",
    "crossprop.experiments.grid.logspace",
    "crossprop.registry.",
    "crossprop.streams.arrays.Arrays.__init__",
    "crossprop.streams.geoff.Geoff.__init__",
    "crossprop.streams.iterator.Iterator.__init__",
    "crossprop.streams.label_shift.LabelShift.__init__",
    "crossprop.probes.",
    "crossprop.experiments.findings.compare",
    "crossprop.saving.",
    "crossprop.testing.check_",
    "crossprop.cli.studies.",
    "crossprop.library.study.",
    "crossprop.experiments.study.by_optimizer",
    "crossprop.experiments.results.SweepResults",
    "crossprop.sklearn.",
    "crossprop.river.",
    "crossprop.jax.",
    "crossprop.torch.hooks.foresight",
    "crossprop.cli.reproduce.",
    "crossprop.cli.bench.",
)

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{function.__module__}.{function.__qualname__}"
    return function if name.startswith(UNCHECKED) else _check(function)
