"""Names of machines, kernels and more; LIBSVM's number for one is its position. Light: no numpy."""

from odmlib.machines.declarations import DECLARATIONS
from odmlib.machines.declarations.many_rows import APPROXIMATIONS as APPROXIMATIONS
from odmlib.machines.declarations.many_rows import PARTITIONERS as PARTITIONERS
from odmlib.machines.declarations.mcodm import RELAXATIONS as RELAXATIONS
from odmlib.machines.declarations.ssodm import BALANCES as BALANCES

MACHINES = tuple(DECLARATIONS)
SEMI_SUPERVISED_MACHINES = tuple(name for name in MACHINES if DECLARATIONS[name].semi_supervised)
LEAVE_ONE_OUT_MACHINES = tuple(name for name in MACHINES if DECLARATIONS[name].leave_one_out)
# of training, from good to bad; early: before the whole problem was solved, as asked
STATUSES = ("converged", "early", "max_iter", "time_limit", "stopped", "stalled")
CONVERTED = "converted"  # instead of a status: another program trained the model, and did not tell how
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
KERNEL_NUMBERS: dict[str, tuple[str, ...]] = dict.fromkeys(KERNELS, ())  # in each kernel's formula
KERNEL_NUMBERS |= {"poly": ("gamma", "degree", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")  # of the margins, in reports and model files
SUBSET_METHODS = ("stratified", "random")  # of odm-subset
SCHEMES = (
    "binary",
    "ovo",
    "ovr",
    "joint",
    "regression",
)  # what the outputs of a model mean: model/schemes.py
ARROW_ENDS = (".parquet", ".arrow", ".feather")  # of tables that pyarrow reads
TABLE_ENDS = (".csv", ".tsv", *(f".{kind}.{end}" for kind in ("csv", "tsv") for end in ("gz", "bz2", "xz")))


def is_table_name(path: str) -> bool:
    """Whether a file's name says that it is a table, and not in LIBSVM format."""
    return path.lower().endswith((*TABLE_ENDS, *ARROW_ENDS))
