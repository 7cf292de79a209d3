"""The numbers in the maps of features; `page.js` draws them."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray


def clouds(features: "xarray.Dataset") -> list[dict[str, Any]]:
    """One chart per representation: the examples at their t-SNE coordinates, grouped by label."""
    labels = features.label.values
    return [
        {
            "representation": str(representation),
            "groups": [
                {
                    "label": str(label),
                    "x": [round(float(value), 2) for value in places[labels == label, 0]],
                    "y": [round(float(value), 2) for value in places[labels == label, 1]],
                }
                for label in np.unique(labels)
            ],
        }
        for representation in features.representation.values
        for places in [features.tsne.sel(representation=representation).transpose("example", ...).values]
    ]
