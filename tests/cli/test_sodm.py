"""odm-train -s 6 as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.writing import write_data


@pytest.fixture
def rows(tools):
    """A file `rows` in the current directory."""
    random = np.random.default_rng(6)
    X = random.normal(size=(400, 3))
    write_data("rows", X, np.where(X[:, 0] * X[:, 1] + 0.3 * random.normal(size=400) > 0, 1, -1))


def test_report_has_levels_and_the_model_predicts(tools, rows):
    code, _, err = tools.train("-s 6 --partitions 4 --json j rows m")
    assert code == 0 and "sodm, rbf kernel" in err
    levels = json.loads(Path("j").read_text())["levels"]
    assert [(level["level"], level["partitions"]) for level in levels] == [(2, 4), (1, 2), (0, 1)]
    assert all(level["gap"] is not None and level["seconds"] >= 0 for level in levels)
    assert levels[-1]["full_gap"] <= 1e-3
    code, out, _ = tools.predict("rows m o")
    assert code == 0 and out.startswith("Accuracy = 85% (340/400)")


def test_stopping_early_states_the_gap(tools, rows):
    code, _, err = tools.train("-s sodm --levels 2 --stop-level 2 rows m")
    assert code == 0
    assert "not converged: training ended at level 2, as asked, with a relative duality gap of" in err
    assert "status early\n" in Path("m").read_text()
    assert tools.predict("rows m o")[0] == 0


def test_too_many_partitions_for_the_data(tools, rows):
    code, _, err = tools.train("-q -s 6 --partitions 256 rows m")
    assert code == 1 and err.count("\n") == 1
    assert "256 partitions (--partitions, --levels) are too many" in err
    assert not Path("m").exists()
