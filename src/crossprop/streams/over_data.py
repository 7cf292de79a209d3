"""The base of streams over a labelled data set."""

from typing import TYPE_CHECKING, Any, Literal

from crossprop._support import checks as check
from crossprop.datasets import DATA_SETS, DataSet
from crossprop.hyperparameters import check_parameters
from crossprop.streams.base import Stream, set_fields

if TYPE_CHECKING:
    Data = Any
else:
    Data = DataSet | Literal[tuple(DATA_SETS)]
    """A data set, or the name of one."""


class OverData(Stream):
    """A stream whose inputs are those of `data`, and whose targets are its classes, one-hot."""

    data: Data
    one_hot = True

    def __post_init__(self):
        if isinstance(self.data, str):
            check.choice("data", self.data, DATA_SETS)
            set_fields(self, data=DATA_SETS[self.data]())
        if not isinstance(self.data, DataSet):
            raise TypeError(
                "data must be a crossprop DataSet, such as datasets.digits() or datasets.DataSet(name, x, y, classes), "
                f"or a name such as 'digits', got {type(self.data)}"
            )
        check_parameters(self)
        set_fields(self, inputs=self.data.x.shape[1], outputs=self.data.classes)
