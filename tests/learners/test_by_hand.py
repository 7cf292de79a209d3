"""`run` does what a loop over `update` does."""

import numpy as np
import pytest

import crossprop as cp
from crossprop.learners import LEARNERS

pytestmark = pytest.mark.usefixtures("quick_compilation", "x64")
NET = cp.Network.paper(inputs=6, hidden=16)
STREAM = cp.Geoff(inputs=6, features=30, tasks="ABA", examples=60)
CLASS_NET = cp.Network(inputs=64, hidden=12, outputs=10, loss="softmax", bias=True)
CLASSES = cp.LabelShift(cp.datasets.digits(), tasks="AB", examples=90, shuffle=True)


QUICK = ("crossprop", "hindsight")
"""The contract of learners compares the others with a loop as well, in float32."""


@pytest.mark.parametrize(
    ("name", "net", "stream"),
    [
        *(pytest.param(name, CLASS_NET, CLASSES, marks=[pytest.mark.long] * (name not in QUICK)) for name in LEARNERS),
        ("adam", NET, STREAM),
    ],
)
def test_run_equals_stepping_by_hand(name, net, stream):
    learner = LEARNERS[name](net, 0.01)
    records = cp.run({"it": learner}, stream, seeds=[7], record_every=40).isel(learner=0, seed=0)
    stream_key, initial_key = cp.keys(7)
    sample, state = stream.sample(stream_key), learner.init(initial_key)
    initial, losses, wrong, drifts = state, [], [], []
    for x, y in zip(sample.x, sample.y, strict=True):
        state, outcome = learner.update(state, x, y)
        losses.append(float(outcome.loss))
        wrong.append(int(outcome.outputs.argmax() != y.argmax()))
        drifts.append(
            [
                np.linalg.norm((state.incoming[0] - initial.incoming[0])[: net.inputs]),
                np.linalg.norm((state.outgoing - initial.outgoing)[:, : net.units]),
            ]
        )
    ends = records.step.values
    windows = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    np.testing.assert_allclose(records.loss, [np.mean(losses[w]) for w in windows], rtol=1e-9)
    np.testing.assert_allclose(records.incoming_drift, [drifts[end - 1][0] for end in ends], rtol=1e-9)
    np.testing.assert_allclose(records.outgoing_drift, [drifts[end - 1][1] for end in ends], rtol=1e-9)
    if net.loss == "softmax":
        np.testing.assert_allclose(records.error, [np.mean(wrong[w]) for w in windows], rtol=1e-9)
