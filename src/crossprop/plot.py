"""Figures for papers: axes of matplotlib from records and sweeps."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop import records as schema
from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop.experiments import charts, figures, sweep_page
from crossprop.experiments.results import read_results

if TYPE_CHECKING:
    import xarray


def curves(
    records: "xarray.Dataset",
    variable: str | None = None,
    *,
    learners: Sequence[str] | None = None,
    linear: bool = False,
    axes: Any = None,
) -> Any:
    """Learning curves: a line for each learner, with a 95% bootstrap interval over seeds; the range of fewer than five.

    **Arguments:**

    - `records`: what `run` returned.
    - `variable`: what to draw; None is the error if there are classes, and the loss otherwise.
    - `learners`: the learners to draw; None is all.
    - `linear`: a linear axis also where a variable is usually drawn on a logarithmic one.
    - `axes`: axes of matplotlib to draw in, which keep their title; None makes a figure.

    Returns the axes.

    ```python
    axes = plot.curves(records, "loss", learners=["crossprop", "backprop"])
    axes.figure.savefig("curves.pdf")
    ```
    """
    from xarray import Dataset

    if not isinstance(records, Dataset) or not {"learner", "seed", "step"} <= {*records.dims}:
        raise TypeError(f"records must be what run returned, by learner, seed and step, got {check.shown(records)}")
    variable = schema.measure(records) if variable is None else variable
    check.choice("variable", variable, [each.name for each in schema.curves(records)])
    shown = records.sel(learner=_chosen(learners, map(str, records.learner.values)))
    return _drawn(charts.curves(shown, [variable], linear=linear)[0], axes)


def sensitivity(store: str | Path, *, learners: Sequence[str] | None = None, axes: Any = None) -> Any:
    """The error of each learner of a sweep along its first axis, at the best values of all other axes.

    **Arguments:**

    - `store`: the folder that a sweep wrote to.
    - `learners`, `axes`: as for `curves`.

    ```python
    plot.sensitivity("kept").figure.savefig("sensitivity.pdf")
    ```
    """
    sweep = read_results(check.path("store", store, "the folder that a sweep wrote to"))
    found = sweep_page.sensitivity(sweep, _chosen(learners, sweep.learners))
    if not found:
        raise ValueError(f"{str(store)!r} must hold a sweep over an axis with several values")
    return _drawn(found[0], axes)


def _chosen(learners: Any, known: Iterable[str]) -> list[str]:
    known = [*known]
    chosen = known if learners is None else [learners] if isinstance(learners, str) else [*learners]
    if not chosen:
        raise ValueError("learners must name at least one learner, got none")
    for name in chosen:
        check.choice("a learner", name, known)
    return chosen


def _drawn(chart: charts.Chart, axes: Any) -> Any:
    require("crossprop.plot", "matplotlib", extra="paper")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(layout="constrained")[1]
    figures.alone(axes, chart)
    return axes
