"""`crossprop plot`: the results of a sweep, as figures and as one interactive page."""

import shlex
from pathlib import Path

from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop.experiments.results import read_results
from crossprop.plot import drawings, page


def plot(store: str | Path, out: str | Path | None = None) -> list[Path]:
    """Draws the results in the store of a sweep, and returns the files written.

    **Arguments:**

    - `store`: the store of a sweep, finished or still running.
    - `out`: a folder for the PNG files and `sweep.html`; None is `plots` in the store.
    """
    require("crossprop plot", "matplotlib", "plotly", "jinja2", extra="paper")
    store = Path(store)
    sweep = read_results(store)
    folder = store / "plots" if out is None else Path(out)
    check_writable("out", folder)
    page.write(sweep, folder / "sweep.html", shlex.join(["crossprop", "plot", str(store)]))
    return [folder / "sweep.html", *drawings.draw(sweep, folder)]
