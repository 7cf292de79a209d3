"""A user's own module, which registers a learner that is no credit rule."""

from crossprop.learners import LEARNERS
from own_learners import Replay

LEARNERS["replay"] = Replay
