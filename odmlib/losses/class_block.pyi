from odmlib._core.arrays import Floats

def solve_class_block(
    scores: Floats,
    label: int,
    curvature: float,
    h: float,
    nu: float,
    theta: float,
    other: int = -1,
    reference: float = 0.0,
) -> tuple[Floats, float]: ...
