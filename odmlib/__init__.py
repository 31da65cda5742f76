"""odmlib: learning by the margin distribution.

>>> import odmlib
>>> X, y = odmlib.read_data("data/wdbc.txt")
>>> model = odmlib.train(X, y)
>>> labels = model.predict(X)
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Any

from odmlib._version import __version__

# Python that is started in a clone finds the sources before the installed package
if not any(os.path.exists(f"{__path__[0]}/_core/_cython{suffix}") for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"{__path__[0]} holds the sources of odmlib, which are not compiled. Start Python in another folder "
        "to use an installed odmlib, or compile the sources: python setup.py build_ext --inplace"
    )

if TYPE_CHECKING:
    from odmlib.data.checking import DataCheck, check_data
    from odmlib.data.dataset import Dataset
    from odmlib.data.reading import read_data
    from odmlib.data.tables import read_table
    from odmlib.data.writing import write_data
    from odmlib.errors import (
        ConvergenceWarning,
        DataFormatError,
        DataWarning,
        FallbackWarning,
        ModelFormatError,
        OdmError,
        ParameterError,
        RangeFormatError,
    )
    from odmlib.model.export.c_code import save_c_code
    from odmlib.model.export.onnx_graph import save_onnx
    from odmlib.model.foreign.files import load_foreign_model, save_foreign_model
    from odmlib.model.model import Model
    from odmlib.model.text_format import load_model
    from odmlib.selection.compressing import compress
    from odmlib.selection.cross_validation import CrossValidation
    from odmlib.selection.grid import GridPoint, GridResult, grid_search
    from odmlib.selection.leave_one_out import LeaveOneOut
    from odmlib.selection.streaming import train_stream
    from odmlib.selection.training import cross_validate, leave_one_out, train

# where each public name lives: imported at first use, so that the tools start fast
_HOMES = {
    "Dataset": "odmlib.data.dataset",
    "read_data": "odmlib.data.reading",
    "read_table": "odmlib.data.tables",
    "check_data": "odmlib.data.checking",
    "DataCheck": "odmlib.data.checking",
    "write_data": "odmlib.data.writing",
    "train": "odmlib.selection.training",
    "train_stream": "odmlib.selection.streaming",
    "compress": "odmlib.selection.compressing",
    "Model": "odmlib.model.model",
    "load_model": "odmlib.model.text_format",
    "save_c_code": "odmlib.model.export.c_code",
    "save_onnx": "odmlib.model.export.onnx_graph",
    "load_foreign_model": "odmlib.model.foreign.files",
    "save_foreign_model": "odmlib.model.foreign.files",
    "grid_search": "odmlib.selection.grid",
    "GridPoint": "odmlib.selection.grid",
    "GridResult": "odmlib.selection.grid",
    "leave_one_out": "odmlib.selection.training",
    "cross_validate": "odmlib.selection.training",
    "CrossValidation": "odmlib.selection.cross_validation",
    "LeaveOneOut": "odmlib.selection.leave_one_out",
    "OdmError": "odmlib.errors",
    "ParameterError": "odmlib.errors",
    "DataFormatError": "odmlib.errors",
    "ModelFormatError": "odmlib.errors",
    "RangeFormatError": "odmlib.errors",
    "ConvergenceWarning": "odmlib.errors",
    "DataWarning": "odmlib.errors",
    "FallbackWarning": "odmlib.errors",
}

__all__ = [
    "ConvergenceWarning",
    "CrossValidation",
    "DataCheck",
    "DataFormatError",
    "DataWarning",
    "Dataset",
    "FallbackWarning",
    "GridPoint",
    "GridResult",
    "LeaveOneOut",
    "Model",
    "ModelFormatError",
    "OdmError",
    "ParameterError",
    "RangeFormatError",
    "__version__",
    "check_data",
    "compress",
    "cross_validate",
    "grid_search",
    "leave_one_out",
    "load_foreign_model",
    "load_model",
    "read_data",
    "read_table",
    "save_c_code",
    "save_foreign_model",
    "save_onnx",
    "train",
    "train_stream",
    "write_data",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'odmlib' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
