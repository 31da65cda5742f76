"""SVM and ODM^L as small quadratic programmes, solved without any of our solvers, for comparison in tests."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def objective(Q_or_z, norm, *, costs, lambda1, lambda2, C, total):
    """The objective of SVM and ODM^L from the margins and |w|^2, gbar at its best."""
    z = Q_or_z
    centre = costs @ z / costs.sum()
    square = costs @ np.square(z - centre)
    return 0.5 * norm + (lambda1 * square - lambda2 * costs @ z) / total + C * costs @ np.maximum(0, 1 - z)


def paper_form(K, y, lambda1, lambda2, C, weights=None, total=None):
    """ODM^L by the paper's inverse: margins, duals p of the hinge, objective.

    With Q = Y K Y and the variance as z'Az, A = (lambda1/m) (diag(s) - s s'/sum s), setting the gradient of
    1/2 b'Qb + z'Az - r'z - p'z, r = (lambda2/m) s, to 0 gives b = (I + 2AQ)^{-1} (p + r) and z = H (p + r),
    H = Q (I + 2AQ)^{-1}; what is left is a box-constrained quadratic programme in p:

        min_p 1/2 (p + r)'H(p + r) - sum p,   0 <= p <= C s.
    """
    m = len(y)
    s = np.ones(m) if weights is None else np.asarray(weights, dtype=float)
    total = s.sum() if total is None else total
    Q = K * y[:, None] * y
    A = (lambda1 / total) * (np.diag(s) - np.outer(s, s) / s.sum())
    inverse = np.linalg.inv(np.eye(m) + 2 * A @ Q)
    H = Q @ inverse
    H = 0.5 * (H + H.T)
    r = (lambda2 / total) * s
    p = box_programme(H, H @ r - 1, C * s)
    b = inverse @ (p + r)
    z = Q @ b
    value = objective(z, b @ z, costs=s, lambda1=lambda1, lambda2=lambda2, C=C, total=total)
    return z, p, value


def box_programme(H, q, upper):
    """argmin 1/2 p'Hp + q'p over 0 <= p <= upper: L-BFGS-B for a start, then an exact active-set loop."""
    start = minimize(
        lambda p: (0.5 * p @ H @ p + q @ p, H @ p + q),
        np.zeros(len(q)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, u) for u in upper],
        options={"maxiter": 3000, "maxfun": 5000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 50},
    ).x
    p = start
    for _ in range(200):
        slope = H @ p + q
        free = ~(((p <= 0) & (slope >= 0)) | ((p >= upper) & (slope <= 0)))
        if not free.any() or np.abs(slope[free]).max() < 1e-13:
            break
        step = np.zeros_like(p)
        step[free] = np.linalg.lstsq(H[np.ix_(free, free)], -slope[free], rcond=1e-13)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (upper - p) / step, np.where(step < 0, -p / step, np.inf))
        room = np.where(free, room, np.inf)
        length = min(1.0, room.min())
        blocked = free & (room <= length)
        p = np.clip(p + length * step, 0, upper)
        p[blocked & (step > 0)] = upper[blocked & (step > 0)]
        p[blocked & (step < 0)] = 0
    return p
