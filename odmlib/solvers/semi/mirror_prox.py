"""Mirror prox for the relaxation of ssODM (saddle.py): entropy steps in mu, clipped gradient steps in a.

With exact gradients (`mp`), or with one member for each gradient (`smp`), which is the published method. The
duals are split, a = zeta - beta with zeta = [a]+ and beta = [-a]+. The average of the extrapolated points
since the last restart is what is certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.solvers.control import Control
from odmlib.solvers.problem import conjugates
from odmlib.solvers.semi.engine import Engine, Mixture, Saddle

Point = tuple[Floats, Floats, Floats]  # log mu, zeta, beta


@dataclass(frozen=True)
class MirrorProxTuning:
    max_steps: int = 20_000
    max_stochastic_steps: int = 5_000  # to 1e-3 it hardly ever comes
    check: int = 25  # steps between two looks at the gap
    growth: float = 1.1  # of exact steps, after each that was not too long
    least_step: float = 1e-12
    fading_steps: int = 1000  # stochastic steps shrink as 1 / sqrt(1 + steps / this)
    wandered: float = 2.0  # times the gap at a = 0
    first_restart: int = 200  # of the average; later ones at twice the number of steps
    power_steps: int = 20  # for the largest eigenvalue of K


TUNING = MirrorProxTuning()


def mirror_prox(
    engine: Engine,
    start: Mixture,
    control: Control,
    tuning: MirrorProxTuning = TUNING,
    *,
    stochastic: bool = False,
) -> Saddle:
    """Solve the relaxation on the members of `start` to the tolerance of `control`."""
    labels, duals, n_members = start.labels, start.duals, start.labels.shape[1]
    loss, costs, threads = engine.loss, engine.costs, engine.resources.threads
    theta, nu = loss.theta, loss.nu
    active = costs > 0
    curvature_up = np.where(active, 1 / (2 * np.where(active, costs, 1.0)), 0.0)  # of conj_i where a_i > 0
    curvature_down = curvature_up / nu if nu > 0 else curvature_up
    weights = costs * (1 - theta) ** 2  # lambda_i
    most = 2 * np.sqrt(weights * weights.sum()) / (1 - theta)  # tau_i
    most_down = np.sqrt(nu) * most
    rng = np.random.default_rng(engine.resources.seed)
    largest = largest_eigenvalue(engine, rng, tuning.power_steps)
    steepest = largest + float(np.maximum(curvature_up, curvature_down).max(initial=0.0))
    step_duals = 0.7 / steepest if steepest > 0 else 1.0
    scale = max(1.0, float(weights.sum()))  # UB at a = 0
    step_shares = 0.15 / (n_members * scale) if stochastic else 0.3 / scale

    def gradient(point: Point) -> Point:
        """Of what mu and (zeta, beta) are to minimise."""
        log_mu, zeta, beta = point
        mu, a = np.exp(log_mu), zeta - beta
        total = conjugates(loss, costs, a, threads)
        if stochastic:
            i, j = int(rng.integers(n_members)), int(rng.choice(n_members, p=mu / mu.sum()))
            products, squares = engine.images(a[:, None] * labels[:, [i, j]])
            slope = np.zeros(n_members)
            slope[i] = n_members * (-0.5 * squares[0] - total)
            margins = labels[:, j] * products[:, 1]
        else:
            products, squares = engine.images(a[:, None] * labels)
            slope = -0.5 * squares - total
            margins = (labels * products) @ mu
        up, down = curvature_up * zeta - (1 - theta), (1 + theta) + curvature_down * beta
        return slope, margins + up, down - margins

    def moved(base: Point, slopes: Point, size: float) -> Point:
        log_mu = base[0] - size * step_shares * slopes[0]
        log_mu -= log_mu.max()
        log_mu -= np.log(np.exp(log_mu).sum())
        zeta = np.clip(base[1] - size * step_duals * slopes[1], 0, most)
        beta = np.clip(base[2] - size * step_duals * slopes[2], 0, most_down)
        return log_mu, zeta, beta

    def distance(here: Point, there: Point) -> float:
        """The divergence that the steps are made for."""
        in_mu = inner(np.exp(there[0]), there[0] - here[0]) / step_shares
        return in_mu + sum(float(np.square(there[k] - here[k]).sum()) for k in (1, 2)) / (2 * step_duals)

    def too_long(size: float, base: Point, at_base: Point, ahead: Point, at_ahead: Point, new: Point) -> bool:
        """Whether the step's regret may exceed what the method's bound allows for."""
        way = (np.exp(ahead[0]) - np.exp(new[0]), ahead[1] - new[1], ahead[2] - new[2])
        regret = sum(inner(g - f, w) for g, f, w in zip(at_ahead, at_base, way, strict=True))
        return size * regret > distance(base, ahead) + distance(ahead, new)

    def begin() -> Point:
        even = np.log(np.full(n_members, 1 / n_members))
        return even, np.clip(duals, 0, most), np.clip(-duals, 0, most_down)

    limit = tuning.max_stochastic_steps if stochastic else tuning.max_steps
    base, size, step, status, next_restart = begin(), 1.0, 0, None, tuning.first_restart
    sum_mu, sum_a, counted = np.zeros(n_members), np.zeros(engine.n_rows), 0.0
    while True:
        at_base = gradient(base)
        while True:
            used = size / np.sqrt(1 + step / tuning.fading_steps) if stochastic else size
            ahead = moved(base, at_base, used)
            at_ahead = gradient(ahead)
            new = moved(base, at_ahead, used)
            if stochastic or used < tuning.least_step:
                break
            if not too_long(used, base, at_base, ahead, at_ahead, new):
                break
            size /= 2
        base, size, step = new, size if stochastic else tuning.growth * size, step + 1
        if step == next_restart:
            sum_mu, sum_a, counted = np.zeros(n_members), np.zeros(engine.n_rows), 0.0
            next_restart *= 2
        sum_mu += used * np.exp(ahead[0])
        sum_a += used * (ahead[1] - ahead[2])
        counted += used
        status = control.out_of_time()
        now = start.sweeps + step
        if status is None and step % tuning.check and now != control.max_iter:
            continue
        mu, a = sum_mu / sum_mu.sum(), sum_a / counted
        products, squares = engine.images(a[:, None] * labels)
        margins = (labels * products) @ mu
        upper, lower, _ = engine.certify(a, margins, mu, squares)
        gap = upper - lower
        status = control.step(now, upper, gap, start.sweeps + limit) or status
        if status is not None:
            return Saddle(labels, mu, a, now, upper, lower, status)
        if stochastic and gap > tuning.wandered * scale:  # steps too long: from the start, half as long
            base, size = begin(), size / 2
            sum_mu, sum_a, counted = np.zeros(n_members), np.zeros(engine.n_rows), 0.0


def largest_eigenvalue(engine: Engine, rng: np.random.Generator, steps: int) -> float:
    """Of K, by the power method."""
    vector = rng.standard_normal((engine.n_rows, 1))
    value = 0.0
    for _ in range(steps):
        vector /= max(float(np.sqrt(np.square(vector).sum())), 1e-300)
        vector, _ = engine.images(vector)
        value = float(np.sqrt(np.square(vector).sum()))
    return value
