from __future__ import annotations

import numpy as np
import pytest

from odmlib.model.margins import margin_summary, text_histogram

MARGINS = np.array([0.5, 1.0, -0.25, 2.0])


def test_summary():
    found = margin_summary(MARGINS)
    quantiles = found.pop("quantiles")
    assert found == {"mean": MARGINS.mean(), "variance": pytest.approx(MARGINS.var()), "min": -0.25}
    assert quantiles == {"0.05": -0.25, "0.25": -0.25, "0.5": 0.5, "0.75": 1.0, "0.95": 2.0}
    assert all(type(value) is float for value in [*found.values(), *quantiles.values()])


@pytest.mark.parametrize("n", [1, 2, 3, 19, 20, 21, 100, 1000])
def test_quantiles_are_those_of_the_inverted_distribution(n):
    margins = np.random.default_rng(n).normal(size=n)
    for name, value in margin_summary(margins)["quantiles"].items():
        assert value == np.quantile(margins, float(name), method="inverted_cdf"), name


def test_weights_count_rows():
    weights = np.array([1.0, 2.0, 0.0, 3.0])
    repeated = np.repeat(MARGINS, weights.astype(int))
    found = margin_summary(MARGINS, weights)
    assert found["mean"] == pytest.approx(repeated.mean())
    assert found["variance"] == pytest.approx(repeated.var())
    assert found["min"] == 0.5  # the row without weight does not count
    assert found["quantiles"] == margin_summary(repeated)["quantiles"]


@pytest.mark.parametrize(
    "margins",
    [MARGINS, [0.0], [1.0, 1.0], [-3.0, -2.0], [1e-12, 2e-12], [1e9, -1e9], np.linspace(-1, 1, 1000)],
)
@pytest.mark.parametrize("bins", [1, 4, 16])
def test_histogram_counts_every_row_once(margins, bins):
    lines = text_histogram(np.asarray(margins), bins=bins, width=30).splitlines()
    assert sum(int(line.split()[-1]) for line in lines) == len(margins)
    assert len(lines) <= 2 * bins + 4
    for line in lines:  # no interval holds both wrong and right
        low, _, high = line.split("|")[0].split()
        assert not float(low) < 0 < float(high)
    assert max(line.count("#") for line in lines) == 30
