"""Times the experiments of a paper on JAX's default device, and prints their verdicts, without figures or a page.

python benchmarks/papers.py PAPER [PART ...] [--full] [--seeds N] [--tasks N] [--out FOLDER]
python benchmarks/papers.py PAPER [PART ...] [--full] --examples N    # what an example of each learner takes

With --out the records are kept as `crossprop reproduce PAPER --out FOLDER` keeps them, so that this command, with the
same flags, makes the page of them, on any machine.
"""

import sys
import time
from functools import partial
from pathlib import Path

import jax
import tyro

from crossprop.experiments.papers import Plan
from crossprop.experiments.questions import answers_on
from crossprop.experiments.rerun import fetched_mnist
from crossprop.library import PAPERS
from crossprop.record_files import write_records
from crossprop.running import run


def main(
    paper: tyro.conf.Positional[str],
    parts: tyro.conf.Positional[tuple[str, ...]] = (),
    full: bool = False,
    seeds: int | None = None,
    tasks: int | None = None,
    out: Path | None = None,
    examples: int | None = None,
) -> None:
    say = partial(print, flush=True)
    size = "full" if full else "small"
    found = {}
    for name in parts or PAPERS[paper].plans:
        plan = PAPERS[paper].plans[name](size, full_set=partial(fetched_mnist, say), seeds=seeds, tasks=tasks)
        if examples is not None:
            cost(plan, examples)
            continue
        began = time.perf_counter()
        records = plan.run()
        seconds = time.perf_counter() - began
        found[name] = records.assign_attrs(seconds=round(seconds, 1))
        if out is not None:
            write_records(out / f"{name}.nc", found[name])
        settings = found[name].sizes["learner"]
        spec = plan.spec
        steps = (spec.steps or spec.stream.steps or 0) * len(spec.seeds) * settings
        runs = f"{settings} settings x {len(spec.seeds)} seeds"
        say(f"{name}: {runs} in {seconds:.1f} s, compilation included, {steps / seconds / 1e6:.1f} million run-steps/s")
        say(f"  {jax.devices()[0].device_kind}, jax {jax.__version__}, engine {records.attrs['engine']}")
    for verdict in answers_on(PAPERS[paper].claims, found):
        say(f"{verdict.id:4} {verdict.verdict:24} {verdict.why}")
        for number in verdict.findings:
            say(f"       {number.label}: {number.mean:.4g} [{number.low:.4g}, {number.high:.4g}] {number.unit}")


def cost(plan: Plan, examples: int) -> None:
    """Prints the processor time of an example, of one run at a time, after compilation."""
    for name, learner in plan.spec.learners.items():
        spent = []
        for _ in range(2):
            began = time.process_time()
            run(learner, plan.spec.stream, [0], examples, progress=False, steps=examples)
            spent.append(time.process_time() - began)
        print(f"{plan.name}, {name}: {1e3 * spent[-1] / examples:.3g} ms of processor time per example", flush=True)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
