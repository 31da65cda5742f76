from typing import Any

class MarginLoss:
    def evaluate(self, what: str, first: float, second: float, third: float = 0.0) -> Any: ...

class BandLoss(MarginLoss):
    theta: float
    nu: float
    def __init__(self, theta: float, nu: float) -> None: ...
