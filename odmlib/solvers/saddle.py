"""The relaxation of ssODM over a working set of label assignments (spec/ssodm.md sections 3, 5 and 5b).

    J(C) = min_mu max_a  -1/2 sum_k mu_k q_k - sum_i conj_i(a_i),   q_k = |v_k|^2,  v_k = sum_i a_i Y_ik phi_i

over weights mu of the assignments Y_1 .. Y_T in C. For every mu and a

    UB = 1/2 sum_k mu_k q_k + sum_i loss_i(z_i)  >=  J(C)  >=  -1/2 max_k q_k - sum_i conj_i(a_i) = LB,

with z_i = sum_k mu_k Y_ik <v_k, phi_i>: the gap UB - LB costs one look at all rows, and is the certificate.

master  sweeps of exact coordinate steps in a, then mu_k <- mu_k q_k^p / sum: p = 1/2 is the exact step of the
        equal multiple-kernel problem, p = 1 goes twice as far and is the default; when the gap does not fall
        any more, p returns to 1/2 and more sweeps are made for each step in mu.
mp      mirror prox with exact gradients; smp: with one member for each gradient, the published method.

Members of all assignments B come in one at a time, as long as a violated one is found (assignments.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.kernels.cache import RowCache
from odmlib.losses.loss import BandLoss
from odmlib.losses.sums import value_and_gap
from odmlib.solvers._members import BLOCK_ROWS, KernelMembers, LinearMembers, Members, add_products
from odmlib.solvers.assignments import Assignments, ascend
from odmlib.solvers.control import STALLED, Control, relative_gap

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]

SLICE_NONZEROS = 5_000_000  # some tens of milliseconds between two looks at the clock
MAX_SWEEPS = 20_000
REBUILD_SWEEPS = 50  # then the vectors are computed anew from the duals
PATIENCE = 10  # rounds in which the gap must fall ...
REAL_FALL = 0.99  # ... to this part
STALL_PATIENCE = 20  # times PATIENCE rounds: then nothing more is to be had
INNER_PART = 0.05  # of the gap: a larger error in a asks for more sweeps between two steps in mu
MAX_SWEEPS_PER_STEP = 200
LEAST_SHARE = 1e-12
DROPPED_SHARE = 1e-5  # members below it leave the working set when another one comes
NEW_SHARE = 0.1
CUT_TOLERANCE = 1e-2  # relative: by how much a member must be violated to come in
MEMBER_STARTS = 5  # of the search for a violated member: members of the largest weight
RANDOM_STARTS = (2, 60)  # least and most, ...
RANDOM_ROWS = 4_000  # ... so many rows in all
POWER_STEPS = 20
MAX_PROX_STEPS = 20_000
MAX_STOCHASTIC_STEPS = 5_000  # to 1e-3 it hardly ever comes
PROX_CHECK = 25  # steps between two looks at the gap
STEP_GROWTH = 1.1  # of exact steps, after each that was not too long
LEAST_STEP = 1e-12
FADING_STEPS = 1000  # stochastic steps shrink as 1 / sqrt(1 + steps / this)
WANDERED = 2.0  # times the gap at a = 0
FIRST_RESTART = 200  # of the average; later ones at twice the number of steps


class Engine(Protocol):
    """The rows of a machine, with several assignments at a time."""

    n_rows: int

    def members(self, duals: Floats, labels: Labels, shares: Floats, seed: int) -> Members: ...
    def sweep(self, members: Members, control: Control) -> str | None: ...
    def rebuild(self, members: Members) -> None: ...
    def images(self, vectors: Floats) -> tuple[Floats, Floats]: ...


class LinearEngine:
    def __init__(self, rows: Rows, loss: BandLoss, costs: Floats, threads: int):
        self.rows, self.loss, self.costs, self.threads = rows, loss, costs, threads
        self.n_rows = rows.n_rows

    def members(self, duals: Floats, labels: Labels, shares: Floats, seed: int) -> LinearMembers:
        return LinearMembers(self.rows, self.loss, self.costs, duals, labels, shares, seed, self.threads)

    def sweep(self, members: Members, control: Control) -> str | None:
        assert isinstance(members, LinearMembers)
        members.begin_sweep()
        while not members.advance(SLICE_NONZEROS):
            if (status := control.out_of_time()) is not None:
                return status
        return None

    def rebuild(self, members: Members) -> None:
        assert isinstance(members, LinearMembers)
        members.rebuild()

    def images(self, vectors: Floats) -> tuple[Floats, Floats]:
        """K A and a' K a for every column of A, by two passes over the rows."""
        weights = self.rows.transposed_products(np.ascontiguousarray(vectors), self.threads)
        return self.rows.products(weights, self.threads), np.square(weights).sum(axis=0)


class KernelEngine:
    def __init__(self, cache: RowCache, loss: BandLoss, costs: Floats, threads: int):
        self.cache, self.loss, self.costs, self.threads = cache, loss, costs, threads
        self.n_rows = cache.n_columns
        self.step = max(1, min(BLOCK_ROWS, cache.capacity))

    def members(self, duals: Floats, labels: Labels, shares: Floats, seed: int) -> KernelMembers:
        members = KernelMembers(self.cache, self.loss, self.costs, duals, labels, shares, seed, self.threads)
        self.rebuild(members)
        return members

    def sweep(self, members: Members, control: Control) -> str | None:
        assert isinstance(members, KernelMembers)
        order = members.block_order()
        for begin in range(0, self.n_rows, members.block_rows):
            members.solve(np.sort(order[begin : begin + members.block_rows]))
            if (status := control.out_of_time()) is not None:
                return status
        return None

    def rebuild(self, members: Members) -> None:
        assert isinstance(members, KernelMembers)
        members.clear()
        support = np.flatnonzero(members.duals)
        for begin in range(0, len(support), members.block_rows):
            members.add_rows(support[begin : begin + members.block_rows])

    def images(self, vectors: Floats) -> tuple[Floats, Floats]:
        factors = np.ascontiguousarray(vectors.T)
        sums = np.zeros_like(factors)
        support = np.flatnonzero(vectors.any(axis=1))
        for begin in range(0, len(support), self.step):
            add_products(self.cache, support[begin : begin + self.step], factors, sums, self.threads)
        return np.ascontiguousarray(sums.T), (factors * sums).sum(axis=1)


@dataclass
class Saddle:
    """A point (mu, a) on a working set, and its certificate."""

    labels: Labels  # rows x members
    shares: Floats
    duals: Floats
    upper: float
    lower: float
    sweeps: int = 0
    status: str | None = None
    cuts: int = 0

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.upper - self.lower)

    @property
    def mean_labels(self) -> Floats:
        return self.labels @ self.shares


@dataclass(frozen=True)
class Certificate:
    upper: float
    lower: float
    inner_gap: float  # UB - Phi(mu, a): how far a is from the best one for this mu


def certify(
    loss: BandLoss,
    costs: Floats,
    duals: Floats,
    margins: Floats,
    shares: Floats,
    squares: Floats,
    threads: int,
) -> Certificate:
    losses, inner_gap = value_and_gap(loss, duals, margins, costs, threads)
    conjugates = inner_gap - losses - inner(duals, margins)
    return Certificate(
        0.5 * inner(shares, squares) + losses, -0.5 * float(squares.max()) - conjugates, inner_gap
    )


def master(
    engine: LinearEngine | KernelEngine,
    labels: Labels,
    shares: Floats,
    duals: Floats,
    control: Control,
    seed: int = 0,
    first_sweep: int = 0,
) -> Saddle:
    """Solve the relaxation on the columns of `labels` to the tolerance of `control`."""
    members = engine.members(duals, labels, shares, seed)
    power, per_step, sweep, rounds = 1.0, 1, first_sweep, 0
    best_gap = last_gap = np.inf
    still, status = 0, None
    while True:
        for _ in range(per_step):
            status = engine.sweep(members, control)
            sweep += 1
            if sweep % REBUILD_SWEEPS == 0:
                engine.rebuild(members)
            if status is not None:
                break
        squares = members.squares()
        found = certify(
            engine.loss,
            engine.costs,
            members.duals,
            members.margins(),
            members.shares,
            squares,
            engine.threads,
        )
        gap = found.upper - found.lower
        status = control.step(sweep, found.upper, gap, first_sweep + MAX_SWEEPS) or status
        if status is not None:
            break
        best_gap, rounds = min(best_gap, gap), rounds + 1
        if rounds % PATIENCE == 0:
            still = 0 if best_gap < REAL_FALL * last_gap else still + 1
            last_gap = best_gap
            if still == STALL_PATIENCE:
                status = STALLED
                break
            if still:
                power = 0.5
                if found.inner_gap > INNER_PART * gap:
                    per_step = min(2 * per_step, MAX_SWEEPS_PER_STEP)
        if members.n_members == 1 or found.inner_gap > 0.5 * gap:
            continue  # the error in a dominates: sweep on
        members.reweigh(_normalised(members.shares * np.maximum(squares, 0) ** power))
    return Saddle(labels, members.shares, members.duals, found.upper, found.lower, sweep, status)


def _normalised(shares: Floats) -> Floats:
    total = float(shares.sum())
    if not total > 0:
        return np.full(len(shares), 1 / len(shares))
    shares = np.maximum(shares / total, LEAST_SHARE)
    return shares / shares.sum()


def mirror_prox(
    engine: LinearEngine | KernelEngine,
    labels: Labels,
    shares: Floats,
    duals: Floats,
    control: Control,
    seed: int = 0,
    first_sweep: int = 0,
    *,
    stochastic: bool = False,
) -> Saddle:
    """`master` by mirror prox: entropy steps in mu, clipped gradient steps in zeta = [a]+ and beta = [-a]+.

    The average of the extrapolated points since the last restart is what is certified.
    """
    loss, costs, n_members = engine.loss, engine.costs, labels.shape[1]
    theta, nu = loss.theta, loss.nu
    active = costs > 0
    bend = np.where(active, 1 / (2 * np.where(active, costs, 1.0)), 0.0)  # c_i
    weights = costs * (1 - theta) ** 2  # lambda_i
    most = 2 * np.sqrt(weights * weights.sum()) / (1 - theta)  # tau_i
    most_down = np.sqrt(nu) * most
    bend_down = bend / nu if nu > 0 else bend
    rng = np.random.default_rng(seed)
    steepest = _largest_eigenvalue(engine, rng) + float(bend_down.max(initial=0.0))
    step_duals = 0.7 / steepest if steepest > 0 else 1.0
    scale = max(1.0, float(weights.sum()))  # UB at a = 0
    step_shares = 0.15 / (n_members * scale) if stochastic else 0.3 / scale

    def gradient(point: tuple) -> tuple[Floats, Floats, Floats]:
        """Of what mu and (zeta, beta) are to minimise."""
        log_mu, zeta, beta = point
        mu, a = np.exp(log_mu), zeta - beta
        conjugates = _conjugates(a, bend, bend_down, theta)
        if stochastic:
            i, j = int(rng.integers(n_members)), int(rng.choice(n_members, p=mu / mu.sum()))
            products, squares = engine.images(a[:, None] * labels[:, [i, j]])
            slope = np.zeros(n_members)
            slope[i] = n_members * (-0.5 * squares[0] - conjugates)
            margins = labels[:, j] * products[:, 1]
        else:
            products, squares = engine.images(a[:, None] * labels)
            slope = -0.5 * squares - conjugates
            margins = (labels * products) @ mu
        return slope, margins + bend * zeta - (1 - theta), (1 + theta) - margins + bend_down * beta

    def moved(base: tuple, slopes: tuple, size: float) -> tuple[Floats, Floats, Floats]:
        log_mu = base[0] - size * step_shares * slopes[0]
        log_mu -= log_mu.max()
        log_mu -= np.log(np.exp(log_mu).sum())
        zeta = np.clip(base[1] - size * step_duals * slopes[1], 0, most)
        beta = np.clip(base[2] - size * step_duals * slopes[2], 0, most_down)
        return log_mu, zeta, beta

    def distance(start: tuple, end: tuple) -> float:
        """The divergence that the steps are made for."""
        in_mu = inner(np.exp(end[0]), end[0] - start[0]) / step_shares
        return in_mu + sum(float(np.square(end[k] - start[k]).sum()) for k in (1, 2)) / (2 * step_duals)

    def too_long(size: float, base: tuple, at_base: tuple, ahead: tuple, at_ahead: tuple, new: tuple) -> bool:
        """Whether the step's regret may exceed what the method's bound allows for."""
        way = (np.exp(ahead[0]) - np.exp(new[0]), ahead[1] - new[1], ahead[2] - new[2])
        regret = sum(inner(g - f, w) for g, f, w in zip(at_ahead, at_base, way, strict=True))
        return size * regret > distance(base, ahead) + distance(ahead, new)

    def begin() -> tuple[Floats, Floats, Floats]:
        start = np.log(np.full(n_members, 1 / n_members))
        return start, np.clip(duals, 0, most), np.clip(-duals, 0, most_down)

    limit = MAX_STOCHASTIC_STEPS if stochastic else MAX_PROX_STEPS
    base, size, step, status = begin(), 1.0, 0, None
    sum_mu, sum_a, counted, next_restart = np.zeros(n_members), np.zeros(engine.n_rows), 0.0, FIRST_RESTART
    while True:
        at_base = gradient(base)
        while True:
            used = size / np.sqrt(1 + step / FADING_STEPS) if stochastic else size
            ahead = moved(base, at_base, used)
            at_ahead = gradient(ahead)
            new = moved(base, at_ahead, used)
            if stochastic or used < LEAST_STEP or not too_long(used, base, at_base, ahead, at_ahead, new):
                break
            size /= 2
        base, size, step = new, size if stochastic else STEP_GROWTH * size, step + 1
        if step == next_restart:
            sum_mu, sum_a, counted = np.zeros(n_members), np.zeros(engine.n_rows), 0.0
            next_restart *= 2
        sum_mu += used * np.exp(ahead[0])
        sum_a += used * (ahead[1] - ahead[2])
        counted += used
        status = control.out_of_time()
        now = first_sweep + step
        if status is None and step % PROX_CHECK and now != control.max_iter:
            continue
        mu, a = sum_mu / sum_mu.sum(), sum_a / counted
        products, squares = engine.images(a[:, None] * labels)
        margins = (labels * products) @ mu
        found = certify(loss, costs, a, margins, mu, squares, engine.threads)
        gap = found.upper - found.lower
        status = control.step(now, found.upper, gap, first_sweep + limit) or status
        if status is not None:
            return Saddle(labels, mu, a, found.upper, found.lower, now, status)
        if stochastic and gap > WANDERED * scale:  # steps too long: from the start, half as long
            base, size = begin(), size / 2
            sum_mu, sum_a, counted = np.zeros(n_members), np.zeros(engine.n_rows), 0.0


def _conjugates(a: Floats, bend: Floats, bend_down: Floats, theta: float) -> float:
    return float((-a + theta * np.abs(a) + 0.5 * a * a * np.where(a > 0, bend, bend_down)).sum())


def _largest_eigenvalue(engine: LinearEngine | KernelEngine, rng: np.random.Generator) -> float:
    """Of K, by the power method."""
    vector = rng.standard_normal((engine.n_rows, 1))
    value = 0.0
    for _ in range(POWER_STEPS):
        vector /= max(float(np.sqrt(np.square(vector).sum())), 1e-300)
        vector, _ = engine.images(vector)
        value = float(np.sqrt(np.square(vector).sum()))
    return value


SOLVERS: dict[str, Callable[..., Saddle]] = {
    "master": master,
    "mp": mirror_prox,
    "smp": lambda *arguments, **named: mirror_prox(*arguments, **named, stochastic=True),
}


def relax(
    engine: LinearEngine | KernelEngine,
    assignments: Assignments,
    first: Labels,
    control: Control,
    *,
    solver: str = "master",
    max_cuts: int = 10,
    cut_tolerance: float = CUT_TOLERANCE,
    seed: int = 0,
    duals: Floats | None = None,
) -> Saddle:
    """Cutting planes: solve on the working set, at first only `first`, and add the most violated member."""
    rng = np.random.default_rng(seed)
    solve = SOLVERS[solver]
    labels, shares = np.ascontiguousarray(first[:, None]), np.ones(1)
    duals = np.zeros(engine.n_rows) if duals is None else duals.copy()
    saddle, cuts = None, 0
    while True:
        done = 0 if saddle is None else saddle.sweeps
        saddle = solve(engine, labels, shares, duals, control, seed, done)
        saddle.cuts = cuts
        if cuts == max_cuts or control.out_of_time() is not None:
            return saddle
        new = most_violated(engine, assignments, saddle, rng, control, cut_tolerance)
        if new is None:
            return saddle
        kept = saddle.shares >= DROPPED_SHARE
        labels = np.ascontiguousarray(np.column_stack([saddle.labels[:, kept], new]))
        old = saddle.shares[kept] / saddle.shares[kept].sum()
        shares = np.append((1 - NEW_SHARE) * old, NEW_SHARE)
        duals = saddle.duals
        cuts += 1


def most_violated(
    engine: LinearEngine | KernelEngine,
    assignments: Assignments,
    saddle: Saddle,
    rng: np.random.Generator,
    control: Control,
    tolerance: float = CUT_TOLERANCE,
) -> Labels | None:
    """An assignment outside the working set that the present a violates; None where none was found."""
    duals, mean = saddle.duals, saddle.mean_labels
    products, _ = engine.images((duals * mean)[:, None])
    heaviest = np.argsort(-saddle.shares, kind="stable")[:MEMBER_STARTS]
    starts = [saddle.labels[:, place] for place in heaviest]
    starts += [assignments.best(mean), assignments.best(products[:, 0]), assignments.best(-products[:, 0])]
    n_random = max(RANDOM_STARTS[0], min(RANDOM_STARTS[1], RANDOM_ROWS // engine.n_rows))
    starts += [assignments.random(rng) for _ in range(n_random)]
    found, square = ascend(engine.images, assignments, duals, starts, control.out_of_time)
    _, squares = engine.images(duals[:, None] * saddle.labels)
    violation = 0.5 * (square - float(squares.max()))
    if violation <= tolerance * max(1.0, saddle.upper):
        return None
    return None if (saddle.labels == found[:, None]).all(axis=0).any() else found
