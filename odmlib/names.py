"""Names of machines, kernels and more; LIBSVM's number for one is its position. Light: no imports at all."""

MACHINES = ("svm", "odml", "odm", "mcodm", "kmomd", "ssodm", "sodm")
READY_MACHINES = (
    "svm",
    "odml",
    "odm",
    "mcodm",
    "kmomd",
    "ssodm",
)  # those that this version can train and load
SEMI_SUPERVISED_MACHINES = ("ssodm",)  # that learn from rows without a label too
LEAVE_ONE_OUT_MACHINES = ("odm",)  # whose loss is a band: selection/left_out.py
STATUSES = ("converged", "max_iter", "time_limit", "stopped", "stalled")  # of training, from good to bad
CONVERTED = "converted"  # instead of a status: another program trained the model, and did not tell how
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")  # of the margins, in reports and model files
SUBSET_METHODS = ("stratified", "random")  # of odm-subset
BALANCES = ("band", "equal", "fraction")  # of ssodm: solvers/assignments.py
RELAXATIONS = ("majorise", "frozen")  # of mcodm: solvers/joint.py
SCHEMES = ("binary", "ovo", "ovr", "joint")  # what the outputs of a model mean: model/schemes.py
