"""The returns of recorded cumulants."""

from typing import Any

import numpy as np
from jaxtyping import Float

from crossprop._support import checks as check

UNKNOWN = 1e-6
"""A return is known if cumulants after the end of the data would enter it with at most this weight."""


def discounted(cumulants: Any, discounts: Any) -> Float[np.ndarray, "steps triples"]:
    """The `y` of predictions from what was recorded: cumulants, discounts, and the returns that follow from them.

    **Arguments:**

    - `cumulants`: `(steps,)`, or `(steps, predictions)`. A row holds what came with that row's `x`.
    - `discounts`: a number, one for each prediction, or `(steps, predictions)`; one for each step is `(steps, 1)`.

    **Returns:** `(steps, 3 * predictions)`. The last returns are NaN: those that cumulants after the end of the data
    would enter with a weight above a millionth.

    ```python
    stream = Arrays(np.ones((500, 1)), discounted(np.arange(500) % 2, [0.5, 0.9]), kind="prediction")
    ```
    """
    cumulants, discounts = (
        check.array(name, each) for name, each in (("cumulants", cumulants), ("discounts", discounts))
    )
    if cumulants.ndim not in (1, 2) or not len(cumulants) or cumulants.dtype.kind not in "buif":
        found = f"shape {cumulants.shape} of {cumulants.dtype}"
        raise ValueError(f"cumulants must be numbers of shape (steps,) or (steps, predictions), got {found}")
    if cumulants.ndim == 1 and discounts.shape == cumulants.shape and len(discounts) > 1:
        raise ValueError(
            "discounts must be of shape (steps, 1) if there is one for each step, or (1, predictions) if there is one "
            f"for each prediction, got shape {discounts.shape} for cumulants of shape {cumulants.shape}"
        )
    steps = len(cumulants)
    cumulants = cumulants.reshape(steps, -1).astype(float)
    try:
        discounts = np.broadcast_to(np.asarray(discounts, float), np.broadcast_shapes(cumulants.shape, discounts.shape))
        cumulants = np.broadcast_to(cumulants, discounts.shape)
    except ValueError:
        raise ValueError(
            "discounts must be a number, one for each prediction, or (steps, predictions), got shape "
            f"{discounts.shape} for cumulants of shape {cumulants.shape}"
        ) from None
    if len(cumulants) != steps:
        raise ValueError(f"cumulants must have a row for each of {len(cumulants)} steps of discounts, got {steps}")
    if not ((discounts >= 0) & (discounts <= 1)).all():
        outside = discounts[~((discounts >= 0) & (discounts <= 1))]
        raise ValueError(f"discounts must be between 0 and 1, got {outside[0]}")
    check.finite("cumulants", cumulants)
    returns = np.stack([_returns(*each) for each in zip(cumulants.T, discounts.T, strict=True)], axis=1)
    return np.stack([cumulants, discounts, returns], axis=2).reshape(len(returns), -1)


def _returns(cumulants: np.ndarray, discounts: np.ndarray) -> np.ndarray:
    found, value, left = [], 0.0, 1.0
    for cumulant, discount in zip(cumulants[::-1].tolist(), discounts[::-1].tolist(), strict=True):
        found.append(np.nan if left > UNKNOWN else value)
        value, left = cumulant + discount * value, discount * left
    return np.array(found[::-1])
