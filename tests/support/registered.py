"""Names of the package's own learners and streams. `conftest` imports this first: studies that tests read register
more."""

from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS

OWN_LEARNERS = tuple(LEARNERS)
OWN_STREAMS = tuple(STREAMS)
