"""Margins, or residuals, of left-out rows from one fit of a band machine (docs/internals/mathematics.md).

At the optimum every row outside the band, i in S, lies on one quadratic piece of its loss, with curvature c_i
and lowest point b_i = 1 - theta (below) or 1 + theta (above); regression: b_i = t_i - epsilon or t_i +
epsilon. As long as S keeps its pieces, the machine is ridge regression of y b on S, and leaving row i out
moves its margin to

    z_i^(-i) = b_i - a_i / [M^-1]_ii,   M = K_SS + diag(1 / c_S),   a = y M^-1 (y b)      (|S| x |S|)
             = z_i - a_i q_i / (1 - c_i q_i),   q_i = x_i' H^-1 x_i,   H = I + X' diag(c) X   (d x d, linear).

The second form serves a kernel of little rank as well: with K_SS = G G' to the digits that 1 / c_i leaves of
it, G (|S| x r, pivoted Cholesky) takes the place of X, and |S| r^2 steps that of |S|^3.

Rows inside the band have no part in the solution: z_i^(-i) = z_i. Only S is taken from the fit; a is solved
for, which makes up for a fit that stopped at its tolerance. What is left out is the row with its whole
weight; the other rows keep their costs: C stays, lambda = C m falls.

Exact unless leaving a row out moves another row across an edge of the band. A shift of the diagonal (kernels
that are not positive semidefinite) gives every row a coordinate of its own, in which a machine that has not
seen the row has no weight: M holds the shift, and z_i^(-i) is the margin by k alone, as of any new row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset, dense_rows
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.distributed.landmarks import choose_landmarks
from odmlib.solvers.linalg.inverse import inverse_bytes, inverse_diagonal, inverse_factor, inverse_product

# of the matrix that is inverted: M, H of the columns, or H of the features G
ROWS, COLUMNS, FEATURES = "rows", "columns", "features"

FEATURE_BYTES = 28  # of an entry of G: as it is found, as it is stored by rows, and its column


@dataclass(frozen=True)
class LeftOutTuning:
    form: str | None = None  # of the matrix; None: the one that costs least
    nothing: float = 1e-10  # a margin this small is what rounding leaves of b_i - b_i: no other row counts
    fill_rows: int = 1024  # kernel rows between two looks at Ctrl-C
    low_rank_rows: int = 1000  # fewer are not worth the search for a lower rank
    low_rank: float = 1 / 10  # of the rows: a higher rank costs as much as the matrix itself
    left_by_low_rank: float = 1e-6  # trace of K - G G' times the largest c: the relative error of M^-1
    rounding: float = 1e-14  # of the largest k(x, x), below which pivots are noise


TUNING = LeftOutTuning()


class NoRoom(ParameterError):
    """The matrix that leave-one-out needs is larger than the memory it may use."""


@dataclass(frozen=True)
class LeftOut:
    """`margins[i]`: margin of row i under the machine trained without it. `form`: of the matrix; None where
    no row is outside the band."""

    margins: Floats
    form: str | None = None


def left_out_margins(
    rows: Dataset,
    formula: KernelFormula,
    y: Floats,
    costs: Floats,
    loss: BandLoss,
    margins: Floats,
    *,
    max_bytes: int,
    targets: Floats | None = None,
    shift: float = 0.0,
    threads: int = 1,
    tuning: LeftOutTuning = TUNING,
) -> LeftOut:
    """From the margins of the training rows (y = +-1) under the machine trained on all of them.

    `targets` are those of regression: margins are y f less them, and so is what is returned. `rows` of a
    precomputed kernel are the square matrix. NoRoom if more than `max_bytes` would be needed.
    """
    low, high = loss.centre - loss.theta, loss.centre + loss.theta
    below, above = margins < low, margins > high
    curvatures = 2 * costs * np.where(below, 1.0, np.where(above, loss.nu, 0.0))
    edges = np.where(below, low, high)
    if targets is not None:
        edges += targets
    outside = np.flatnonzero(curvatures)
    result = margins.copy()
    if len(outside) == 0:
        return LeftOut(result)
    part = rows if len(outside) == rows.n_rows else rows.take(outside)
    if formula.name == "linear" and part.n_features > part.n_nonzeros:  # most columns are empty
        part = part.on_columns(part.used_columns())
    y, c, b = y[outside], curvatures[outside], edges[outside]
    features = None
    if tuning.form in (None, FEATURES) and formula.name not in ("linear", "precomputed") and shift == 0:
        features = _features(part, formula, float(c.max()), max_bytes, threads, tuning)
    form = FEATURES if features is not None else tuning.form or _cheaper_form(part, formula, max_bytes)
    if features is not None:
        left_out = _from_columns(Rows(features), y, c, b, threads)
    elif form == COLUMNS:
        left_out = _from_columns(Rows(part, formula.bias), y, c, b, threads)
    else:
        if formula.name == "precomputed":
            part = part.on_columns(outside.astype(np.int32))
        matrix = kernel_matrix(part, formula, shift, threads, tuning.fill_rows)
        left_out = _from_rows(matrix, y, c, b, threads)
    nothing = tuning.nothing * (1.0 if targets is None else float(np.abs(b).max()))
    left_out = np.where(np.abs(left_out) <= nothing, 0.0, left_out)
    result[outside] = left_out if targets is None else left_out - targets[outside]
    return LeftOut(result, form)


def may_be_wrong(
    margins: Floats, squared_lengths: Floats, costs: Floats, loss: BandLoss, gap: float
) -> NDArray[np.bool_]:
    """The rows that can be wrong when they are left out; all others are surely right.

    `squared_lengths`: k(x, x) of the rows, bias included. `gap`: P - D of the fit, which says how far its
    margins can be from those of the exact machine.
    """
    pull = 2 * costs * squared_lengths
    edge = (1 - loss.theta) * pull / (1 + pull)
    return ~(margins - np.sqrt(2 * gap * squared_lengths) > edge)  # NaN: may be wrong


def _cheaper_form(part: Dataset, formula: KernelFormula, max_bytes: int) -> str:
    """The smaller matrix; NoRoom if it is too large."""
    n, needed, form = part.n_rows, inverse_bytes(part.n_rows), ROWS
    if formula.name == "linear" and _bytes_of_columns(part.n_features + 1) < needed:
        needed, form = _bytes_of_columns(part.n_features + 1), COLUMNS
    if needed > max_bytes:
        raise NoRoom(
            f"leave-one-out from one fit needs {math.ceil(needed / 2**20)} MB for {n} rows outside the band"
            + (f" and {part.n_features} features" if formula.name == "linear" else "")
            + f", but cache_mb (-m) allows {max_bytes // 2**20}; allow more, or cross-validate (-v)"
        )
    return form


def _features(
    part: Dataset,
    formula: KernelFormula,
    curvature: float,
    max_bytes: int,
    threads: int,
    tuning: LeftOutTuning,
) -> Dataset | None:
    """Rows with the products of the kernel, where few columns are enough."""
    n = part.n_rows
    rank = int(tuning.low_rank * n)
    if n < tuning.low_rank_rows or FEATURE_BYTES * n * rank + _bytes_of_columns(rank) > max_bytes:
        return None
    kernel = Kernel(formula, part, threads)
    largest = float(kernel.diagonal().max())
    allowed = tuning.left_by_low_rank / (curvature * n * largest) if largest > 0 else 0.0
    if allowed < tuning.rounding:
        return None
    found = choose_landmarks(kernel, rank, negligible=allowed)
    if found.residual.max() > allowed * largest:
        return None
    return dense_rows(found.factor)


def _from_rows(matrix: Floats, y: Floats, c: Floats, b: Floats, threads: int) -> Floats:
    """Margins of left-out rows from K_SS, which is overwritten."""
    matrix.flat[:: len(matrix) + 1] += 1 / c
    if not inverse_factor(matrix, threads):
        raise ParameterError(
            "leave-one-out: the kernel matrix of the rows outside the band is not positive definite to the "
            "machine; lower C (-c) or scale the features"
        )
    duals = y * inverse_product(matrix, y * b)
    return b - duals / inverse_diagonal(matrix)


def _from_columns(rows: Rows, y: Floats, c: Floats, b: Floats, threads: int) -> Floats:
    """The same for a linear machine, from d x d sums."""
    hessian = rows.gram(c, threads)
    hessian.flat[:: len(hessian) + 1] += 1.0
    if not inverse_factor(hessian, threads):
        raise ParameterError(
            "leave-one-out: the sums of products of features are not positive definite to the machine; "
            "lower C (-c) or scale the features"
        )
    weights = inverse_product(hessian, rows.transposed_product(c * y * b, threads))
    margins = y * rows.product(weights, threads)
    duals = c * (b - margins)
    norms = rows.squared_norms()
    with np.errstate(over="ignore", invalid="ignore"):
        pull = c * norms
    if not np.isfinite(pull).all():
        raise ParameterError("leave-one-out: the squares of the rows overflow; scale the features")
    leverages = rows.quadratic_forms(hessian.T @ hessian, threads)
    leverages = np.minimum(leverages, norms / (1 + pull))  # holds exactly, as H >= I + c_i x_i x_i'
    moves = duals * leverages / (1 - c * leverages)
    return margins - moves


def kernel_matrix(
    part: Dataset,
    formula: KernelFormula,
    shift: float,
    threads: int,
    fill_rows: int = TUNING.fill_rows,
) -> Floats:
    """k between all pairs of rows, bias included, and the shift on the diagonal."""
    if formula.name == "precomputed":
        matrix = part.to_dense()
        matrix += formula.bias * formula.bias
    else:
        kernel = Kernel(formula, part, threads)
        matrix = np.empty((part.n_rows, part.n_rows))
        for begin in range(0, part.n_rows, fill_rows):
            some = np.arange(begin, min(begin + fill_rows, part.n_rows))
            kernel.block(some, out=matrix[begin : begin + fill_rows], wide=True)
    matrix.flat[:: len(matrix) + 1] += shift
    return matrix


def _bytes_of_columns(d: int) -> int:
    return inverse_bytes(d) + 16 * d * d  # Rows.gram holds three copies for a moment
