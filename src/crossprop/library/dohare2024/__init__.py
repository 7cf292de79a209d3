"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": slowly-changing regression, permuted MNIST."""

from crossprop.library.dohare2024.claims import CLAIMS, LEADS, headline
from crossprop.library.dohare2024.plans import continual_plan, mnist_plan, regression_plan
from crossprop.library.paper import Paper

PAPER = Paper(
    source='Dohare et al. (2024), "Loss of plasticity in deep continual learning", Nature',
    title="Loss of plasticity, reproduced",
    intro=(
        "A network that learns online with backprop is good at first, and then worse than at first: it loses "
        "plasticity. Dohare et al. (2024) show this on long streams of changing tasks, and that continual backprop, "
        "which replaces the least useful units all the time, goes on learning. This page reruns slowly-changing "
        "regression and online permuted MNIST."
    ),
    small=(
        "Version for two cores: slowly-changing regression as in the paper with fewer runs; permuted MNIST in a small "
        "form, 5,000 images of 14x14 pixels and three layers of 50 units"
    ),
    plans={"regression": regression_plan, "continual": continual_plan, "mnist": mnist_plan},
    claims=CLAIMS,
    leads=LEADS,
    terms={
        "slowly-changing regression": "20 bits, of which 15 change only every 10,000 examples; the target is a fixed "
        "network of 100 threshold units, the learner a network of 5 hidden units.",
        "online permuted MNIST": "images of digits, each shown once a task; in every task the pixels have another "
        "order.",
        "plasticity": "the ability to go on learning.",
        "continual backprop": "backprop that replaces the least useful mature units, a few at a time. Its rate is the "
        "share of them that is replaced per example.",
        "linear": "a linear unit, which cannot lose plasticity.",
        "bin": "20,000 examples; an error is the mean squared error over a bin.",
        "at first, at the end": "over the first and over the last five bins, 100,000 examples each.",
        "step size": "as the authors give it, for the squared error. Its gradient is twice that of half the squared "
        "error, which this package's learners descend: these have twice the step size.",
        "seed": "one run: its target, examples and initial weights. All learners get the same seeds, so they are "
        "compared in pairs.",
    },
    headline=headline,
    takes_tasks=True,
)
