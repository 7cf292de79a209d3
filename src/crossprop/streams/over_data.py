"""What streams over a labelled data set share."""

# pyright: reportIncompatibleVariableOverride=false
# (a stream may compute what the contract calls an attribute)

from crossprop.datasets import DataSet
from crossprop.hyperparameters import check_parameters
from crossprop.streams.base import Stream


class OverData(Stream):
    """A stream whose inputs are those of `data`, and whose targets are its classes, one-hot."""

    data: DataSet

    def __post_init__(self):
        if not isinstance(self.data, DataSet):
            raise TypeError(
                "data must be a crossprop DataSet, such as datasets.digits() or datasets.DataSet(name, x, y, classes), "
                f"got {type(self.data)}"
            )
        check_parameters(self)

    @property
    def inputs(self) -> int:
        return self.data.x.shape[1]

    @property
    def outputs(self) -> int:
        return self.data.classes

    @property
    def one_hot(self) -> bool:
        return True
