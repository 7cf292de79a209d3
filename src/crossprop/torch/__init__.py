"""For PyTorch: `foresight` on a network of yours."""

from crossprop._support.extras import require

require("crossprop.torch", "torch", extra="torch")

from crossprop.torch.hooks import Foresight as Foresight  # noqa: E402
from crossprop.torch.hooks import foresight as foresight  # noqa: E402
