"""Margins of left-out rows from one fit of ODM^L (docs/internals/mathematics.md, "ODM^L").

    min_{w,g}  1/2 |w|^2 + sum_i c_i [ v (z_i - g)^2 - u z_i + max(0, 1 - z_i) ]

At the optimum a row is below 1, above 1, or at the kink (E), where the multiplier p_i of its hinge lies
between 0 and c_i. As long as all rows keep their pieces, the duals a and g solve a symmetric system: with
k_i = 2 v c_i and q_i = u c_i + p_i (p_i = c_i below, 0 above),

    (Q a)_i + a_i / k_i - g = q_i / k_i  (not in E),    (Q a)_i = 1  (E),
    sum over the rows not in E of (a_i - q_i) = sum over E of k_i (1 - g).

Leaving row i out takes its row and column away, and its term from the last line. With the inverse N of the
system (the last line negated, index g) the margin of a row that is left out is

    not in E:  q_i / k_i + g - (1 + N_ig) (a_i + q_i N_ig) / N_ii + q_i N_gg
    E:         1 - (a_i + k_i (1 - g') N_ig) / N_ii
               with 1 - g' = (1 - g + N_ig a_i / N_ii) / (1 + k_i (N_gg - N_ig^2 / N_ii)).

Pieces are taken from the fit's margins and then corrected until all rows agree with the solution of the
system, which makes up for a fit that stopped at its tolerance. v, u and the costs of the other rows stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.selection.left_out import ROWS, LeftOut, NoRoom, kernel_matrix
from odmlib.solvers.linalg.inverse import inverse_bytes, inverse_diagonal, inverse_factor, inverse_product


@dataclass(frozen=True)
class LeftOutMeanTuning:
    near: float = 1e-3  # of 1: margins of the fit that are taken to be at the kink at first
    ridge: float = 1e-11  # of the largest Q_ii, added for rows at the kink, whose Q may be singular
    rounds: int = 30  # of corrections of the pieces; a few are enough after a fit to the default tolerance


TUNING = LeftOutMeanTuning()


@dataclass(frozen=True)
class _Solution:
    """Of the system for given pieces."""

    duals: Floats
    centre: float  # g
    pull: Floats  # q, 0 at the kink
    diagonal: Floats  # of the inverse without its last row
    ones: Floats  # the same inverse times 1 for the rows that are not at the kink
    last: float  # 1 / N_gg


def left_out_mean_margins(
    rows: Dataset,
    formula: KernelFormula,
    y: Floats,
    costs: Floats,
    loss: MeanVarianceLoss,
    margins: Floats,
    *,
    max_bytes: int,
    shift: float = 0.0,
    threads: int = 1,
) -> LeftOut:
    """From the margins of the training rows (y = +-1) under the machine trained on all of them.

    `rows` of a precomputed kernel are the square matrix. NoRoom if more than `max_bytes` would be needed.
    """
    if loss.variance <= 0:
        raise ParameterError(
            "leave-one-out from one fit of odml needs lambda1 (--lambda1) above 0; cross-validate instead "
            "(-v)"
        )
    some, result = np.flatnonzero(costs), margins.copy()
    if len(some) == 0:
        return LeftOut(result)
    needed = inverse_bytes(len(some)) + 8 * len(some) ** 2
    if needed > max_bytes:
        raise NoRoom(
            f"leave-one-out from one fit of odml needs {math.ceil(needed / 2**20)} MB for {len(some)} rows, "
            f"but cache_mb (-m) allows {max_bytes // 2**20}; allow more, or cross-validate (-v)"
        )
    part = rows if len(some) == rows.n_rows else rows.take(some)
    if formula.name == "precomputed" and part is not rows:
        part = part.on_columns(some.astype(np.int32))
    matrix = kernel_matrix(part, formula, shift, threads)
    matrix *= y[some, None]
    matrix *= y[some]
    result[some] = margins_from(matrix, costs[some], loss, margins[some], threads)
    return LeftOut(result, ROWS)


def margins_from(
    matrix: Floats,
    costs: Floats,
    loss: MeanVarianceLoss,
    margins: Floats,
    threads: int = 1,
    tuning: LeftOutMeanTuning = TUNING,
) -> Floats:
    """The same from Q, for rows with a cost above 0."""
    k = 2 * loss.variance * costs
    pieces = np.where(np.abs(margins - 1) <= tuning.near, 0, np.sign(margins - 1)).astype(np.int8)
    for _ in range(tuning.rounds):
        found = _solve(matrix, costs, loss, pieces, threads, tuning)
        moved = _corrected(found, costs, k, loss, pieces)
        if (moved == pieces).all():
            break
        pieces = moved
    kink = pieces == 0
    n_gg, n_ig = 1 / found.last, found.ones / found.last
    n_ii = found.diagonal + found.ones * n_ig
    q, a, g = found.pull, found.duals, found.centre
    away = q / k + g - (1 + n_ig) * (a + q * n_ig) / n_ii + q * n_gg
    centre_off = (1 - g + n_ig * a / n_ii) / (1 + k * (n_gg - n_ig * n_ig / n_ii))
    return np.where(kink, 1 - (a + k * centre_off * n_ig) / n_ii, away)


def _solve(
    matrix: Floats,
    costs: Floats,
    loss: MeanVarianceLoss,
    pieces: NDArray[np.int8],
    threads: int,
    tuning: LeftOutMeanTuning,
) -> _Solution:
    """-1, 0 and 1 in `pieces`: below 1, at the kink, above 1."""
    kink, k = pieces == 0, 2 * loss.variance * costs
    q = np.where(kink, 0.0, loss.mean * costs + np.where(pieces < 0, loss.hinge * costs, 0.0))
    inverse = matrix.copy()
    ridge = tuning.ridge * float(matrix.diagonal().max())
    inverse.flat[:: len(inverse) + 1] += np.where(kink, ridge, 1 / k)
    if not inverse_factor(inverse, threads):
        raise ParameterError(
            "leave-one-out: the kernel matrix is not positive definite to the machine; lower C (-c) or scale "
            "the features"
        )
    others = np.where(kink, 0.0, 1.0)
    ones, direct = inverse_product(inverse, others), inverse_product(inverse, np.where(kink, 1.0, q / k))
    at_kink = float(k[kink].sum())
    total = math.fsum((others * ones).tolist()) + at_kink
    g = (at_kink + float(q.sum()) - float(others @ direct)) / total
    return _Solution(direct + g * ones, g, q, inverse_diagonal(inverse), ones, -total)


def _corrected(
    found: _Solution, costs: Floats, k: Floats, loss: MeanVarianceLoss, pieces: NDArray[np.int8]
) -> NDArray[np.int8]:
    """The pieces that the rows are on by this solution: across the kink is at the kink first."""
    margins = (found.pull - found.duals) / k + found.centre
    hinge = found.duals - loss.mean * costs + k * (1 - found.centre)  # p at the kink
    at_kink = np.where(hinge < 0, 1, np.where(hinge > loss.hinge * costs, -1, 0))
    away = np.where((margins - 1) * pieces < 0, 0, pieces)
    return np.where(pieces == 0, at_kink, away).astype(np.int8)
