"""For PyTorch: `foresight` on a network of yours, and `Crossprop` as its last hidden layer and head."""

from crossprop._support.extras import require

require("crossprop.torch", "torch", extra="torch")

from crossprop.torch.head import Crossprop as Crossprop  # noqa: E402
from crossprop.torch.hooks import Foresight as Foresight  # noqa: E402
from crossprop.torch.hooks import foresight as foresight  # noqa: E402
