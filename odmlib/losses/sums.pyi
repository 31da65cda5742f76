from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss

def slopes_and_curvatures(
    loss: MarginLoss, margins: Floats, costs: Floats, threads: int = 1
) -> tuple[float, Floats, Floats]: ...
def values(loss: MarginLoss, margins: Floats, costs: Floats) -> Floats: ...
def steepest_slopes(loss: MarginLoss, margins: Floats, errors: Floats, costs: Floats) -> Floats: ...
def gaps(loss: MarginLoss, duals: Floats, margins: Floats, costs: Floats) -> Floats: ...
def along_line(
    loss: MarginLoss, margins: Floats, directions: Floats, step: float, costs: Floats, threads: int = 1
) -> tuple[float, float]: ...
def value_and_gap(
    loss: MarginLoss, duals: Floats, margins: Floats, costs: Floats, threads: int = 1
) -> tuple[float, float]: ...
def evaluate(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    w: Floats,
    margins: Floats,
    curvatures: Floats,
    threads: int = 1,
    targets: Floats | None = None,
) -> tuple[float, Floats]: ...
