"""Objectives and minima of small linear problems in rational numbers: no rounding, no slack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

Numbers = list[Fraction]


def exact(values: Iterable[float]) -> Numbers:
    return [Fraction(float(value)) for value in values]


def inner(a: Numbers, b: Numbers) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


@dataclass
class BandProblem:
    """1/2 |w|^2 + sum_i c_i [max(0, low - z_i)^2 + nu max(0, z_i - high)^2], z_i = <w, x_i> - t_i."""

    rows: list[Numbers]  # signed, the bias column included
    targets: Numbers
    costs: Numbers
    low: Fraction
    high: Fraction
    nu: Fraction

    def residuals(self, w: Numbers) -> Numbers:
        return [inner(row, w) - t for row, t in zip(self.rows, self.targets, strict=True)]

    def objective(self, w: Numbers) -> Fraction:
        parts = [
            max(Fraction(0), self.low - z) ** 2 + self.nu * max(Fraction(0), z - self.high) ** 2
            for z in self.residuals(w)
        ]
        return inner(w, w) / 2 + inner(self.costs, parts)

    def minimum(self, w: Numbers) -> Fraction:
        """Newton's steps from w, which end at the minimiser itself."""
        d = len(w)
        for _ in range(40):
            matrix = [[Fraction(int(j == k)) for k in range(d)] for j in range(d)]
            right = [Fraction(0)] * d
            parts = zip(self.rows, self.targets, self.costs, self.residuals(w), strict=True)
            for row, target, cost, z in parts:
                if self.low <= z <= self.high:
                    continue
                side, edge = (cost, self.low) if z < self.low else (self.nu * cost, self.high)
                for j in range(d):
                    right[j] += 2 * side * (edge + target) * row[j]
                    for k in range(d):
                        matrix[j][k] += 2 * side * row[j] * row[k]
            following = solve_exactly(matrix, right)
            if following == w:
                return self.objective(w)
            w = following
        raise AssertionError("no minimiser found")


def solve_exactly(matrix: list[Numbers], right: Numbers) -> Numbers:
    lines = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    d = len(lines)
    for j in range(d):
        for k in range(j + 1, d):  # positive definite: no pivots of 0
            factor = lines[k][j] / lines[j][j]
            lines[k] = [a - factor * b for a, b in zip(lines[k], lines[j], strict=True)]
    found = [Fraction(0)] * d
    for j in reversed(range(d)):
        found[j] = (lines[j][d] - sum(lines[j][k] * found[k] for k in range(j + 1, d))) / lines[j][j]
    return found
