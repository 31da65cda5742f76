"""The relaxation of ssODM over a working set of label assignments (docs/internals/mathematics.md, ssODM).

    J(C) = min_mu max_a  -1/2 sum_k mu_k q_k - sum_i conj_i(a_i),   q_k = |v_k|^2,  v_k = sum_i a_i Y_ik phi_i

over weights mu of the assignments Y_1 .. Y_T in C. For every mu and a

    UB = 1/2 sum_k mu_k q_k + sum_i loss_i(z_i)  >=  J(C)  >=  -1/2 max_k q_k - sum_i conj_i(a_i) = LB,

with z_i = sum_k mu_k Y_ik <v_k, phi_i>: the gap UB - LB costs one look at all rows, and is the certificate.

master  sweeps of exact coordinate steps in a, then mu_k <- mu_k q_k^p / sum: p = 1/2 is the exact step of the
        equal multiple-kernel problem, p = 1 goes twice as far and is the default; when the gap does not fall
        any more, p returns to 1/2 and more sweeps are made for each step in mu.
mp, smp mirror prox (mirror_prox.py)

Members of all assignments B come in one at a time, as long as a violated one is found (assignments.py).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

import numpy as np

from odmlib._core.arrays import Floats, Labels
from odmlib.solvers.control import STALLED, Control, WarmStart
from odmlib.solvers.semi.assignments import ascend
from odmlib.solvers.semi.engine import Engine, Mixture, Saddle
from odmlib.solvers.semi.mirror_prox import TUNING as MIRROR_PROX
from odmlib.solvers.semi.mirror_prox import MirrorProxTuning, mirror_prox


@dataclass(frozen=True)
class SaddleTuning:
    max_sweeps: int = 20_000
    rebuild_sweeps: int = 50  # then the vectors are computed anew from the duals
    patience: int = 10  # rounds in which the gap must fall ...
    real_fall: float = 0.99  # ... to this part
    stall_patience: int = 20  # times `patience` rounds: then nothing more is to be had
    inner_part: float = 0.05  # of the gap: a larger error in a asks for more sweeps between two steps in mu
    max_sweeps_per_step: int = 200
    least_share: float = 1e-12
    dropped_share: float = 1e-5  # members below it leave the working set when another one comes
    new_share: float = 0.1
    max_cuts: int = 10
    cut_tolerance: float = 1e-2  # relative: by how much a member must be violated to come in
    member_starts: int = 5  # of the search for a violated member: members of the largest weight
    random_starts: tuple[int, int] = (2, 60)  # least and most, ...
    random_rows: int = 4_000  # ... so many rows in all
    mirror_prox: MirrorProxTuning = MIRROR_PROX


TUNING = SaddleTuning()


def master(engine: Engine, start: Mixture, control: Control, tuning: SaddleTuning = TUNING) -> Saddle:
    """Solve the relaxation on the members of `start` to the tolerance of `control`."""
    members = engine.members(start.duals, start.labels, start.shares)
    power, per_step, sweep, rounds = 1.0, 1, start.sweeps, 0
    best_gap = last_gap = np.inf
    still, status = 0, None
    while True:
        for _ in range(per_step):
            status = members.sweep(control.out_of_time)
            sweep += 1
            if sweep % tuning.rebuild_sweeps == 0:
                members.rebuild()
            if status is not None:
                break
        squares = members.squares()
        upper, lower, inner_gap = engine.certify(members.duals, members.margins(), members.shares, squares)
        gap = upper - lower
        status = control.step(sweep, upper, gap, start.sweeps + tuning.max_sweeps) or status
        if status is not None:
            break
        best_gap, rounds = min(best_gap, gap), rounds + 1
        if rounds % tuning.patience == 0:
            still = 0 if best_gap < tuning.real_fall * last_gap else still + 1
            last_gap = best_gap
            if still == tuning.stall_patience:
                status = STALLED
                break
            if still:
                power = 0.5
                if inner_gap > tuning.inner_part * gap:
                    per_step = min(2 * per_step, tuning.max_sweeps_per_step)
        if members.n_members == 1 or inner_gap > 0.5 * gap:
            continue  # the error in a dominates: sweep on
        shares = members.shares * np.maximum(squares, 0) ** power
        members.reweigh(_normalised(shares, tuning.least_share))
    return Saddle(start.labels, members.shares, members.duals, sweep, upper, lower, status)


def _normalised(shares: Floats, least: float) -> Floats:
    total = float(shares.sum())
    if not total > 0:
        return np.full(len(shares), 1 / len(shares))
    shares = np.maximum(shares / total, least)
    return shares / shares.sum()


def relax(
    engine: Engine,
    first: Labels,
    control: Control,
    start: WarmStart | None = None,
    tuning: SaddleTuning = TUNING,
    *,
    solver: str = "master",
) -> Saddle:
    """Cutting planes: solve on the working set, at first only `first`, and add the most violated member."""
    rng = np.random.default_rng(engine.resources.seed)
    solve = partial(master, tuning=tuning)
    if solver != "master":
        solve = partial(mirror_prox, tuning=tuning.mirror_prox, stochastic=solver == "smp")
    known = None if start is None else start.duals
    duals = np.zeros(engine.n_rows) if known is None else known.copy()
    mixture, cuts = Mixture(np.ascontiguousarray(first[:, None]), np.ones(1), duals), 0
    while True:
        saddle = dataclasses.replace(solve(engine, mixture, control), cuts=cuts)
        if cuts == tuning.max_cuts or control.out_of_time() is not None:
            return saddle
        new = most_violated(engine, saddle, rng, control, tuning)
        if new is None:
            return saddle
        kept = saddle.shares >= tuning.dropped_share
        labels = np.ascontiguousarray(np.column_stack([saddle.labels[:, kept], new]))
        old = saddle.shares[kept] / saddle.shares[kept].sum()
        shares = np.append((1 - tuning.new_share) * old, tuning.new_share)
        mixture = Mixture(labels, shares, saddle.duals, saddle.sweeps)
        cuts += 1


def most_violated(
    engine: Engine, saddle: Saddle, rng: np.random.Generator, control: Control, tuning: SaddleTuning
) -> Labels | None:
    """An assignment outside the working set that the present a violates; None where none was found."""
    assignments, duals, mean = engine.assignments, saddle.duals, saddle.mean_labels
    products, _ = engine.images((duals * mean)[:, None])
    heaviest = np.argsort(-saddle.shares, kind="stable")[: tuning.member_starts]
    starts = [saddle.labels[:, place] for place in heaviest]
    starts += [assignments.best(mean), assignments.best(products[:, 0]), assignments.best(-products[:, 0])]
    least, most = tuning.random_starts
    n_random = max(least, min(most, tuning.random_rows // engine.n_rows))
    starts += [assignments.random(rng) for _ in range(n_random)]
    found, square = ascend(engine.images, assignments, duals, starts, control.out_of_time)
    _, squares = engine.images(duals[:, None] * saddle.labels)
    violation = 0.5 * (square - float(squares.max()))
    if violation <= tuning.cut_tolerance * max(1.0, saddle.upper):
        return None
    return None if (saddle.labels == found[:, None]).all(axis=0).any() else found
