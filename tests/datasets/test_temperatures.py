"""Daily temperatures: files are read as they say, and predictions are means of what follows."""

import numpy as np
import pytest

from crossprop.datasets.tables import TEMPERATURES, temperatures
from crossprop.streams import STREAMS

HEADER = "TEXT, WITH COMMAS\n STAID, SOUID,    DATE,   TG, Q_TG\n"


@pytest.fixture
def files(monkeypatch):
    numbers = np.random.default_rng(0).integers(-100, 200, (3, 400))
    days = np.arange("1930-12-30", "1932-02-03", dtype="datetime64[D]")
    table = dict(zip(TEMPERATURES.files, numbers, strict=True))

    def content(name):
        rows = [f"1,2,{str(day).replace('-', '')},{one:5},    0" for day, one in zip(days, table[name], strict=True)]
        rows[5] = rows[5][:12] + ",-9999,    9"
        del rows[9]
        return (HEADER + "\n".join(rows)).encode()

    monkeypatch.setattr(TEMPERATURES, "content", content)
    monkeypatch.setattr("crossprop.datasets.tables.LAST", days[-1] + np.timedelta64(1, "D"))
    temperatures.cache_clear()
    yield numbers
    temperatures.cache_clear()


def test_a_missing_day_is_as_the_day_before(files):
    days, celsius = temperatures()
    expected = files[:, 2:].T / 10
    expected[3], expected[7] = expected[2], expected[6]
    np.testing.assert_allclose(celsius, expected)
    assert days.tolist() == list(range(398))


def test_predictions_are_means_of_what_follows(files):
    stream = STREAMS["temperatures"](discounts=[0.0, 0.9])
    x, y = stream.x, stream.y
    assert (stream.inputs, stream.outputs, stream.steps) == (5, 6, 398)
    np.testing.assert_allclose(x[:, 0], temperatures()[1][:, 0] / 10)
    np.testing.assert_allclose(y[:-1, 2], x[1:, 0], rtol=1e-6)
    weights = 0.1 * 0.9 ** np.arange(397)
    assert y[0, 5] == pytest.approx(weights @ x[1:, 0], abs=1e-5)
