"""The names of machines and kernels; LIBSVM's number for one is its position. Light: no imports at all."""

MACHINES = ("svm", "odml", "odm", "mcodm", "kmomd", "ssodm", "sodm")
READY_MACHINES = ("odm",)  # those that this version can train and load
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
