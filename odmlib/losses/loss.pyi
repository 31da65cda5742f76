from typing import Any

class MarginLoss:
    smooth: bool
    def largest_curvature(self) -> float: ...
    def evaluate(self, what: str, first: float, second: float = 0.0, third: float = 0.0) -> Any: ...
    def piece_at(self, dual: float, direction: float, cost: float) -> tuple[float, float, float]: ...

class BandLoss(MarginLoss):
    theta: float
    nu: float
    centre: float
    def __init__(self, theta: float, nu: float, centre: float = 1.0) -> None: ...

class MeanVarianceLoss(MarginLoss):
    variance: float
    mean: float
    hinge: float
    centre: float
    def __init__(self, variance: float, mean: float, hinge: float, centre: float = 1.0) -> None: ...

class HingeLoss(MeanVarianceLoss):
    def __init__(self) -> None: ...

class SmoothedLoss(MarginLoss):
    variance: float
    mean: float
    hinge: float
    width: float
    centre: float
    def __init__(
        self, variance: float, mean: float, hinge: float, width: float, centre: float = 1.0
    ) -> None: ...
