"""For River: `Classifier` and `Regressor`, estimators of any learner, and `stream`, River's data sets as streams."""

from crossprop._support.extras import require

require("crossprop.river", "river", extra="river")

from crossprop.river.estimators import Classifier as Classifier  # noqa: E402
from crossprop.river.estimators import Regressor as Regressor  # noqa: E402
from crossprop.river.streams import stream as stream  # noqa: E402
