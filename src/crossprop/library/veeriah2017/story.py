"""What the report says of the paper: its first words, its conclusions from the verdicts, and its chart."""

from collections.abc import Sequence

from crossprop._support.formats import upper_first
from crossprop.library.story import Headline, Leads
from crossprop.library.verdicts import DOES_NOT, HOLDS, Verdict

INTRO = (
    "Crossprop learns features online, one example at a time: it credits the incoming weights U of hidden units by "
    "their past effect on the outgoing weights W, where backprop looks at the current error alone. Veeriah, Zhang and "
    "Sutton (2017) claim that it reaches similar errors while it keeps and reuses its features. This page reruns their "
    "experiments, beside a control called frozen, whose U never moves."
)
TERMS = {
    "U and W": "the incoming and the outgoing weights of the hidden units. The units' activations are the features.",
    "movement": "the distance of weights from where they started: |U − U₀|, |W − W₀|.",
    "eta": "how much of backprop is mixed in: 0 is the paper's crossprop, 1 is backprop.",
    "crossprop, crossprop-0.5": "the exact rule, with eta 0 and 0.5.",
    "crossprop-approx, crossprop-approx-0.5": "its cheap approximation, with eta 0 and 0.5.",
    "backprop": "stochastic gradient descent.",
    "momentum, rmsprop, adam": "backprop with these optimizers: the variants.",
    "frozen": "the control: U stays as it was initialised, W learns as in backprop.",
    "GEOFF": "generic online feature finding: the learner imitates a random network, half of whose outgoing weights "
    "are redrawn when the task changes.",
    "MNIST": "images of handwritten digits, each shown once a task; with every task each label is shifted by one.",
    "task, visit, switch": "a task is what is to be learned, a visit a stretch of examples of one task, a switch where "
    "one visit ends and the next begins.",
    "at the end of tasks": "over the last fifth of each visit, which the paper calls asymptotic.",
    "settling time": "the number of examples after which the movement of U stays within a tenth of where it ends.",
    "seed": "one run: its examples and its initial weights. All learners get the same seeds, so they are compared in "
    "pairs.",
    "[25, 29]": "a 95% interval: Student's t over pairs, widened so that all intervals of a claim hold together.",
}
"""The words of the page, explained."""

LEADS: Leads = {
    "G1": {
        HOLDS: "On GEOFF, crossprop does end up with an error like backprop's: {}",
        DOES_NOT: "On GEOFF, crossprop does not reach an error like backprop's: {}",
        None: "On GEOFF, how crossprop's error compares with backprop's is not settled: {}",
    },
    "G3": {
        HOLDS: "It does change its features the least, as claimed: {}",
        DOES_NOT: "Nor does it change its features the least: {}",
        None: "Whether it changes its features the least is not settled: {}",
    },
    "R1": {
        HOLDS: "What little it moves them helps, compared with a control that never moves them: {}",
        DOES_NOT: "But small movement is no sign of good features. With this step size and these initial weights, a"
        " control that never moves them does as well or better: {}",
        None: "Whether moving them helps, compared with a control that never moves them, is not settled: {}",
    },
    "M1": {
        HOLDS: "On MNIST, all learners end up alike: {}",
        DOES_NOT: "On MNIST, the learners do not end up alike: {}",
        None: "On MNIST, whether the learners end up alike is not settled: {}",
    },
    "R1m": {
        HOLDS: "There crossprop with eta 0 learns features: {}",
        DOES_NOT: "There, too, crossprop with eta 0 does no better than frozen features: {}",
        None: "Whether crossprop with eta 0 learns features there is not settled: {}",
    },
}
"""The claims that the conclusion quotes."""
CHART = ("crossprop", "backprop", "frozen")
"""The learners of the chart at the top."""


def headline(verdicts: Sequence[Verdict]) -> Headline:
    """The chart at the top, with each learner against backprop beside its line, from the numbers of G1."""
    found = {verdict.id: verdict for verdict in verdicts}.get("G1")
    numbers = {number.label: number.mean for number in found.numbers} if found else {}
    said = {"backprop": "gradient descent", "frozen": "never moves U"}
    for name in CHART:
        if ratio := numbers.get(f"asymptotic loss, {name} / backprop"):
            side = f"{abs(ratio - 1):.0%} {'above' if ratio > 1 else 'below'} backprop at the end of tasks"
            said[name] = "; ".join(filter(None, [said.get(name, ""), side]))
    notes = {name: upper_first(said.get(name, "")) for name in CHART}
    return Headline("geoff", "loss", "Crossprop, backprop and the control on GEOFF", notes)
