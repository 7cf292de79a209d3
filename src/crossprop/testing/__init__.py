"""Contract checks for learners and streams of your own.

```python
from crossprop.testing import check_learner, check_stream

check_learner(cp.Backprop(cp.Network(inputs=3, hidden=4), step_size=0.01), learns=True)
check_stream(cp.Geoff(inputs=5, features=10, examples=20))
```

Each check tests one promise and fails with an AssertionError that names the class, the promise and what was found.
With pytest, every check can be a test of its own:

```python
@pytest.mark.parametrize(("name", "check"), learner_checks())
def test_my_learner(name, check):
    check(MyLearner(cp.Network(inputs=3, hidden=4)))
```
"""

from collections.abc import Iterator

from crossprop.learners import Learner
from crossprop.streams import Iterator as IteratorStream
from crossprop.streams import Stream
from crossprop.testing.learner import LEARNER_CHECKS
from crossprop.testing.promises import Check
from crossprop.testing.stream import STREAM_CHECKS


def check_learner(learner: Learner, *, learns: bool = False) -> None:
    """Checks that a learner keeps its contract: an AssertionError names the first promise that it breaks.

    **Arguments:**

    - `learner`: an instance with a small network. Its examples are drawn from a normal distribution, its classes
      uniformly.
    - `learns`: whether to check that a repeated example is learned, too: 300 updates at least halve its loss.

    ```python
    check_learner(Backprop(Network(inputs=3, hidden=4), step_size=0.01), learns=True)
    ```
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a crossprop.Learner, got {learner!r}")
    for _, check in learner_checks(learns=learns):
        check(learner)


def check_stream(stream: Stream) -> None:
    """Checks that a stream keeps its contract: an AssertionError names the first promise that it breaks.

    ```python
    check_stream(Geoff(inputs=5, features=10, examples=20))
    ```
    """
    if not isinstance(stream, Stream):
        raise TypeError(f"stream must be a crossprop.Stream, got {stream!r}")
    if isinstance(stream, IteratorStream):
        raise TypeError("stream must be dealt by place; a crossprop.Iterator has one pass, and run checks its examples")
    for _, check in stream_checks():
        check(stream)


def learner_checks(*, learns: bool = False) -> Iterator[tuple[str, Check]]:
    """The checks of a learner as `(name, check)`; `check(learner)` raises an AssertionError if it fails."""
    return ((name, check) for name, check in LEARNER_CHECKS.items() if learns or name != "learns")


def stream_checks() -> Iterator[tuple[str, Check]]:
    """The checks of a stream as `(name, check)`; `check(stream)` raises an AssertionError if it fails."""
    return iter(STREAM_CHECKS.items())
