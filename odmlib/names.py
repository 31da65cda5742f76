"""Names of machines, kernels and more; LIBSVM's number for one is its position. Light: no imports at all."""

MACHINES = ("svm", "odml", "odm", "mcodm", "kmomd", "ssodm", "sodm")
SEMI_SUPERVISED_MACHINES = ("ssodm",)  # that learn from rows without a label too
LEAVE_ONE_OUT_MACHINES = ("odm",)  # whose loss is a band: selection/left_out.py
# of training, from good to bad; early: before the whole problem was solved, as asked
STATUSES = ("converged", "early", "max_iter", "time_limit", "stopped", "stalled")
CONVERTED = "converted"  # instead of a status: another program trained the model, and did not tell how
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")  # of the margins, in reports and model files
SUBSET_METHODS = ("stratified", "random")  # of odm-subset
BALANCES = ("band", "equal", "fraction")  # of ssodm: solvers/assignments.py
RELAXATIONS = ("majorise", "frozen")  # of mcodm: solvers/joint.py
# of sodm: solvers/partitions.py
APPROXIMATIONS = ("nystrom",)
PARTITIONERS = ("stratified-class", "stratified", "class", "random", "cascade", "dip", "dc")
SCHEMES = ("binary", "ovo", "ovr", "joint")  # what the outputs of a model mean: model/schemes.py
