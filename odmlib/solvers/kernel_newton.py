"""Semismooth Newton method for kernel machines (spec/odm.md section 3.1).

    min_c  P(c) = 1/2 c'Kc + sum_i loss_i(z_i),   f = K c,   z_i = y_i f_i,   c_i = y_i a_i

The losses are piecewise quadratic: in row i's present piece  loss_i = q_i/2 (z_i - t_i)^2 + const  with
curvature q_i and centre t_i. With S the rows of positive curvature, the minimum of the present quadratic is

    (K_SS + diag(1/q_S)) c_S = y_S t_S,   c = 0 elsewhere,

solved by conjugate gradients, preconditioned with a low-rank (Nystroem) factor K ~ L L' of some landmark
columns: M = L_S L_S' + diag(1/q_S), inverted by Woodbury's formula. A line search on P follows. The duality
gap on all rows is sum_i loss.gap(a_i, z_i): it needs nothing but c and f.

K is kept as float32, half of it (KernelMatrix); products and everything else are in float64. A kernel that
is not positive semidefinite shows as a direction of negative curvature: NotPositive is raised, and another
solver must do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.kernel import Kernel
from odmlib.kernels.matrix import KernelMatrix, matrix_bytes
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures, value_and_gap
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap
from odmlib.solvers.line_search import line_search

Floats = NDArray[np.float64]

MAX_STEPS = 200
MAX_CG_STEPS = 1000
FIRST_RANK = 200  # landmarks of the preconditioner; doubled while conjugate gradients take long
MAX_RANK = 2000
SLOW_CG_STEPS = 40
RESIDUAL = 1e-3  # of the right-hand side; tighter as the gap closes
TIGHTER_THAN_GAP = 0.05
SMALLEST_RESIDUAL = 1e-12


class NotPositive(Exception):
    """The kernel matrix is not positive semidefinite."""


def fits(n_rows: int, budget_bytes: int) -> bool:
    """Whether the method can work within the budget."""
    return matrix_bytes(n_rows) + 12 * n_rows * min(n_rows, FIRST_RANK) <= budget_bytes


def solve_kernel_newton(
    kernel: Kernel,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    cache_bytes: int,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a kernel machine; `start` are dual variables to begin from."""
    n_rows = kernel.n_rows
    matrix = KernelMatrix(kernel)
    most = (cache_bytes - matrix_bytes(n_rows)) // (12 * max(1, n_rows))  # float32 L and its float64 shadow
    preconditioner = Preconditioner(kernel, min(FIRST_RANK, n_rows), min(most, MAX_RANK, n_rows), seed)
    c = np.zeros(n_rows) if start is None else y * start
    f = matrix.product(c, None, threads) if np.any(c) else np.zeros(n_rows)
    iteration = products = 0
    while True:
        margins = y * f
        _, slopes, curvatures = slopes_and_curvatures(loss, margins, costs, threads)
        loss_total, gap = value_and_gap(loss, y * c, margins, costs, threads)
        primal = 0.5 * float(c @ f) + loss_total
        status = control.step(iteration, primal, gap, MAX_STEPS)
        if status is not None:
            break
        inside = curvatures > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ridge = np.where(inside, 1 / curvatures, 0.0)
        # the centre of the piece: slope = q (z - t)
        target = np.where(inside, y * (margins - slopes * ridge), 0.0)
        accuracy = min(RESIDUAL, max(SMALLEST_RESIDUAL, TIGHTER_THAN_GAP * relative_gap(primal, gap)))
        solved, used = _solve(matrix, preconditioner, inside, ridge, target, c, accuracy, control, threads)
        products += used + 1
        change = solved - c
        image = matrix.product(change, None, threads)
        length = line_search(
            float(c @ image), float(change @ image), margins, y * image, loss, costs, threads
        )
        if length <= 0:
            status = control.out_of_time() or STALLED
            break
        c += length * change
        f += length * image
        iteration += 1
        if used > SLOW_CG_STEPS:
            preconditioner.grow()
    details = {"products": products, "rank": preconditioner.rank}
    return SolverResult(
        status,
        primal,
        primal - gap,
        relative_gap(primal, gap),
        iteration,
        "newton",
        None,
        y * c,
        margins,
        details,
    )


def _solve(
    matrix: KernelMatrix,
    preconditioner: Preconditioner,
    inside: NDArray[np.bool_],
    ridge: Floats,
    target: Floats,
    c: Floats,
    accuracy: float,
    control: Control,
    threads: int,
) -> tuple[Floats, int]:
    """(K_SS + ridge) x_S = target_S by preconditioned conjugate gradients from c; x and the products used."""
    wanted = inside.view(np.uint8)

    def apply(v: Floats) -> Floats:
        return np.where(inside, matrix.product(v, wanted, threads) + ridge * v, 0.0)

    preconditioner.prepare(inside, ridge)
    x = np.where(inside, c, 0.0)
    residual = target - apply(x) if np.any(x) else target.copy()
    enough = accuracy * math.sqrt(float(target @ target))
    scaled = preconditioner.apply(residual)
    direction = scaled.copy()
    product = float(residual @ scaled)
    used = 1
    while math.sqrt(float(residual @ residual)) > enough and used <= MAX_CG_STEPS:
        image = apply(direction)
        used += 1
        curvature = float(direction @ image)
        if curvature <= 0:
            raise NotPositive
        length = product / curvature
        x += length * direction
        residual -= length * image
        if control.out_of_time() is not None:
            break
        scaled = preconditioner.apply(residual)
        previous, product = product, float(residual @ scaled)
        direction *= product / previous
        direction += scaled
    return x, used


class Preconditioner:
    """M^-1 for M = L_S L_S' + diag(ridge_S), L L' the Nystroem approximation of K on random landmarks."""

    def __init__(self, kernel: Kernel, rank: int, most: int, seed: int):
        self.kernel = kernel
        self.order = np.random.default_rng(seed).permutation(kernel.n_rows)
        self.most = max(1, most)
        self._build(max(1, min(rank, self.most)))

    def grow(self) -> None:
        if self.rank < self.most:
            self._build(min(2 * self.rank, self.most))

    def _build(self, rank: int) -> None:
        self.rank = rank
        landmarks = self.order[:rank]
        rows = self.kernel.block(landmarks)
        square = rows[:, landmarks].astype(np.float64)
        values, vectors = np.linalg.eigh((square + square.T) / 2)
        good = values > 1e-6 * max(values[-1], 1e-300)
        self.factor = ((vectors[:, good] / np.sqrt(values[good])).T).astype(np.float32) @ rows  # L', rank x m

    def prepare(self, inside: NDArray[np.bool_], ridge: Floats) -> None:
        self.inside = inside
        with np.errstate(divide="ignore"):
            self.inverse_ridge = np.where(inside, 1 / ridge, 0.0)
        half = self.factor.astype(np.float64) * np.sqrt(self.inverse_ridge)
        inner = half @ half.T
        inner[np.diag_indices_from(inner)] += 1.0
        self.inner = np.linalg.inv(inner)

    def apply(self, v: Floats) -> Floats:
        scaled = self.inverse_ridge * v
        small = self.inner @ (self.factor @ scaled.astype(np.float32)).astype(np.float64)
        return scaled - self.inverse_ridge * (small.astype(np.float32) @ self.factor)
