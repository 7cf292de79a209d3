"""River's data sets as streams."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from river import base
from river.datasets.base import BINARY_CLF, Dataset

from crossprop import streams
from crossprop._support import checks as check
from crossprop.river.values import ENCODE, check_features, finite_number


def stream(
    dataset: Iterable[Any], *, transformer: Any = None, classes: int | None = None, steps: int | None = None
) -> streams.Iterator:
    """A data set of River, or any iterable of `(dict of features, target)`, as a stream for `crossprop.run`.

    **Arguments:**

    - `dataset`: such as `river.datasets.Phishing()`. The features are those of its first example, in alphabetical
      order; a feature that an example lacks is 0 there.
    - `transformer`: one of River's, or a pipeline of them, such as `river.preprocessing.StandardScaler()`. A copy of it
      learns from every example before it transforms it.
    - `classes`: the number of labels, if the targets are labels; None takes what the data set says, and 2 for
      booleans.
    - `steps`: the number of examples; None takes what the data set says.

    Labels that are whole numbers below `classes` or booleans are numbered by themselves, others in the order in which
    they come.

    ```python
    phishing = stream(river.datasets.Phishing(), transformer=river.preprocessing.StandardScaler())
    ```
    """
    if not isinstance(dataset, Iterable):
        raise TypeError(f"dataset must be a data set of River or an iterable of (x, y), got {check.shown(dataset)}")
    if transformer is not None and not isinstance(transformer, base.Transformer | base.SupervisedTransformer):
        raise TypeError(f"transformer must be a transformer of River, got {check.shown(transformer)}")
    if isinstance(dataset, Dataset):
        if dataset.n_outputs not in (None, 1):
            raise ValueError(f"dataset must have one target per example, got one with {dataset.n_outputs}")
        found = 2 if dataset.task == BINARY_CLF else dataset.n_classes
        classes = found if classes is None else classes
        steps = dataset.n_samples if steps is None else steps
    examples = iter(dataset)
    try:
        first = next(examples)
    except StopIteration:
        raise ValueError("dataset must have an example, got none") from None
    if not isinstance(first, tuple | list) or len(first) != 2:
        raise TypeError(f"dataset must give pairs (dict of features, target), got {check.shown(first)}")
    if classes is None and isinstance(first[1], str):
        raise ValueError(f"classes must be the number of labels where targets are text, got None and {first[1]!r}")
    if classes is None and isinstance(check.plain(first[1]), bool):
        classes = 2
    again = dataset if iter(dataset) is not examples else chain([first], examples)
    x = first[0] if transformer is None else next(_transformed([first], transformer))[0]
    check_features(x)
    features = sorted(x, key=str)
    source = _Examples(again, features, transformer, classes)
    return streams.Iterator(source, inputs=len(features), outputs=None if classes else 1, classes=classes, steps=steps)


@dataclass(frozen=True)
class _Examples:
    """Examples of River as numbers. They can be iterated over again if the data set can."""

    dataset: Iterable[Any]
    features: list[Any]
    transformer: Any
    classes: int | None

    def __iter__(self) -> Iterator[tuple[list[float], float | int]]:
        known = {name: at for at, name in enumerate(self.features)}
        labels: dict[Any, int] = {}
        examples = self.dataset if self.transformer is None else _transformed(self.dataset, self.transformer)
        for x, y in examples:
            if not x.keys() <= known.keys():
                new = sorted(x.keys() - known.keys(), key=str)[0]
                raise ValueError(f"x must have the features of the first example, {self.features}, got also {new!r}")
            row = [finite_number(f"x[{name!r}]", x.get(name, 0.0), ENCODE) for name in self.features]
            yield row, finite_number("y", y) if self.classes is None else _class(y, self.classes, labels)


def _class(y: Any, classes: int, labels: dict[Any, int]) -> int:
    number = check.plain(y)
    if isinstance(number, int) and 0 <= number < classes:  # booleans too
        return int(number)
    if y not in labels and len(labels) == classes:
        raise ValueError(f"classes must be at least the number of labels, got {classes} and {[*labels, y]}")
    return labels.setdefault(y, len(labels))


def _transformed(examples: Iterable[Any], transformer: Any) -> Iterator[Any]:
    transformer = transformer.clone()
    for x, y in examples:
        transformer.learn_one(x, y) if transformer._supervised else transformer.learn_one(x)
        yield transformer.transform_one(x), y
