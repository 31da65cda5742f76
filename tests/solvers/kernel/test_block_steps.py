"""Block methods: parts of rows between two looks at the clock, and which rows make the next block."""

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control
from odmlib.solvers.kernel._choice import BlockChoice
from odmlib.solvers.kernel.block_steps import BlockSteps, WorkingSetTuning, parts
from odmlib.solvers.kernel.q_rows import LinearRows
from odmlib.solvers.problem import LinearProblem


def test_parts_are_all_rows_in_order_and_never_too_long():
    rows = np.arange(1000)[::3]
    for n_columns, most, longest in ((10, np.inf, len(rows)), (10, 7, 7), (10**9, np.inf, 64), (10**9, 5, 5)):
        found = list(parts(rows, n_columns, most))
        assert max(map(len, found)) == longest
        assert (np.concatenate(found) == rows).all()
    assert list(parts(rows[:0], 10)) == []


def steps(m=20, size=6, **tuning):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((m, 3)), np.where(rng.random(m) < 0.5, 1.0, -1.0)
    rows = Rows(Dataset.from_any(X))
    problem = LinearProblem(rows, y, np.ones(m), BandLoss(0.2, 0.5))
    tuning = WorkingSetTuning(block_rows=size, **tuning)
    return BlockSteps(LinearRows(rows, size), problem, np.ones(m), 0, tuning), X, y


def test_the_next_block_has_the_largest_gains_and_what_it_must_have():
    method = steps()[0]
    gains = np.zeros(20)
    gains[[3, 8, 1, 12, 5, 6, 19]] = [7, 6, 5, 4, 3, 2, 1]
    assert method.choose(gains.copy()).tolist() == [1, 3, 5, 6, 8, 12]
    assert method.choose(gains.copy(), must=np.array([0, 19])).tolist() == [0, 1, 3, 8, 12, 19]
    few = np.zeros(20)
    few[4] = 1.0
    assert method.choose(few).tolist() == [4]  # rows without a gain have no place in it


def test_half_of_the_last_block_stays():
    method, _, _ = steps()
    method.state.measure()
    block = np.array([2, 4, 6, 8, 10, 12])
    assert method.solve(block, Control(), 0.01, 0.0) is None
    used = block[method.state.duals[block] != 0]
    chosen = method.choose(np.arange(1.0, 21.0))
    assert len(chosen) == 6
    assert set(used[:3]) <= set(chosen.tolist())  # rows with a dual first
    assert {17, 18, 19} <= set(chosen.tolist())


def test_scores_follow_the_duals():
    method, X, y = steps()
    assert method.add(np.arange(20.0), Control()) is None
    for _ in range(3):
        method.state.measure()
        assert method.improve(1e-6, Control()) is None
    assert np.allclose(method.state.scores, X @ X.T @ (y * method.state.duals))


def test_a_block_that_ran_out_of_time_changes_nothing():
    method, _, _ = steps()
    method.state.measure()
    assert method.improve(1e-6, Control(time_limit=0.0)) == "time_limit"
    assert not method.state.duals.any() and not method.state.scores.any()


def test_the_choice_is_that_of_a_plain_sort():
    rng = np.random.default_rng(1)
    m, size, kept = 60, 12, 0.5
    choice, last = BlockChoice(m), []
    for turn in range(30):
        gains = np.round(rng.random(m), 1)  # many ties: the row with the smaller number comes first
        must = rng.choice(m, 3, replace=False) if turn % 2 else np.array([], dtype=np.int64)
        stays = [row for row in last[: int(kept * size)] if row not in must][: size - len(must)]
        others = [row for row in np.lexsort((np.arange(m), -gains)) if gains[row] > 0]
        others = [row for row in others if row not in must and row not in stays]
        expected = sorted([*must, *stays, *others[: size - len(must) - len(stays)]])
        block = choice.choose(gains.copy(), size, kept, must if len(must) else None)
        assert block.tolist() == expected
        duals = np.where(rng.random(m) < 0.5, 1.0, 0.0)
        known = [row for row in block if row in last]
        order = [row for row in block if row not in last] + known
        last = [row for row in order if duals[row] != 0] + [row for row in order if duals[row] == 0]
        assert choice.note(block, duals) == np.count_nonzero(duals[block])


def test_a_choice_wants_values_for_all_rows():
    choice = BlockChoice(5)
    with pytest.raises(ValueError, match="gain for each row"):
        choice.choose(np.ones(4), 2, 0.5)
    with pytest.raises(ValueError, match="dual for each row"):
        choice.note(np.array([1]), np.ones(4))
    with pytest.raises(ValueError, match="no row 5 among 5"):
        choice.note(np.array([5]), np.ones(5))
