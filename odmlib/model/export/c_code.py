"""A model as C99: one source file and its header, without dependencies, heap or variables of its own.

All numbers are constant tables. A matrix (support vectors, coefficients, weights) is held dense, or as sparse
rows where that takes fewer bytes. Sums run in the order of the tables, so scores agree with ours up to
rounding. Of what a model file holds only the labels are free text; they are written as C strings with every
unusual byte in octal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib._version import __version__
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.data.files import open_output
from odmlib.data.labels import python_label
from odmlib.data.scaling import Scaling
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.export.c_templates import (
    ADD_CONSTANTS,
    DECIDE,
    FILL_ROW,
    FILL_SQUARES,
    HEADER,
    HEADER_END,
    IMAGE,
    KERNEL_VALUE,
    KERNELS,
    LABEL,
    ONE_PREDICTION,
    ONE_PREDICTION_NOTE,
    POWER,
    PREDICT,
    PROBABILITIES,
    PROBABILITIES_NOTE,
    REGRESSION_HEADER,
    SCALE,
    SCALE_NOTE,
    SCORES,
    SCORES_NOTES,
    SOURCE,
)
from odmlib.model.export.common import (
    HAIRS,
    PRECISIONS,
    check_precision,
    constants_of,
    exportable,
    formula_of,
    range_tables,
    rounded,
)
from odmlib.model.functions import KernelFunction, LinearFunction
from odmlib.model.model import Model
from odmlib.model.probability import COUPLING_STEPS

TARGET = "C code"
LONGEST_LABEL = 4000  # bytes; C99 promises strings of 4095
NUMBERS_PER_LINE = 8
_FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*\.c", re.ASCII)


@dataclass(frozen=True)
class Real:
    """The type of all numbers."""

    precision: str
    c_name: str
    suffix: str  # of constants and of functions in math.h

    @property
    def dtype(self) -> type:
        return PRECISIONS[self.precision]

    def number(self, value: float) -> str:
        return f"{rounded(value, self.dtype, TARGET)!s}{self.suffix}"


REALS = {"float64": Real("float64", "double", ""), "float32": Real("float32", "float", "f")}


@dataclass(frozen=True)
class CCode:
    """The two files. `data_bytes`: size of the tables; `stack_bytes`: of the arrays in a prediction."""

    body: str  # the functions
    tables: list[Table]
    labels: list[str]
    head: str
    header: str
    data_bytes: int
    stack_bytes: int

    def source(self) -> Iterator[str]:
        """The source file in pieces."""
        yield self.head
        for table in self.tables:
            yield from table.text()
        if self.labels:
            yield "static const char *const labels[] = {\n"
            for label in self.labels:
                yield f"    {label},\n"
            yield "};\n"
        yield "\n"
        yield self.body


def save_c_code(
    model: Model,
    path: str | os.PathLike[str],
    precision: str = "float64",
    scaling: Scaling | None = None,
) -> CCode:
    """Write the model as C99 code: NAME.c, which is `path`, and NAME.h beside it.

    precision  float64 or float32: the type of all numbers in the code
    scaling    built in where given: rows are then those of the data before odm-scale
    """
    folder, name = os.path.split(os.fspath(path))
    code = c_code(model, name, precision, scaling)
    # both files appear, or none
    with (
        open_output(path, text=True) as source,
        open_output(os.path.join(folder, header_name(name)), text=True) as header,
    ):
        source.writelines(code.source())
        header.write(code.header)
    return code


def c_code(model: Model, file_name: str, precision: str = "float64", scaling: Scaling | None = None) -> CCode:
    """The model as C code for the file `file_name`, NAME.c; the header is NAME.h."""
    check_precision(precision)
    return _Code(model, file_name, REALS[precision], scaling).code()


def header_name(file_name: str) -> str:
    """NAME.h for NAME.c; ParameterError where no name of C's functions can be made of it."""
    if not _FILE_NAME.fullmatch(file_name):
        raise ParameterError(
            "the name of a C file must begin with a letter, have only letters, digits and _ . + - in it and "
            f"end in .c, found {file_name!r}"
        )
    return file_name.removesuffix(".c") + ".h"


class Table:
    """A constant array."""

    def __init__(self, name: str, c_type: str, values: NDArray, suffix: str = ""):
        self.name, self.c_type, self.values, self.suffix = name, c_type, values, suffix

    def text(self) -> Iterator[str]:
        yield f"static const {self.c_type} {self.name}[{len(self.values)}] = {{\n"
        for begin in range(0, len(self.values), NUMBERS_PER_LINE):
            line = self.values[begin : begin + NUMBERS_PER_LINE]
            yield "    " + " ".join(f"{number!s}{self.suffix}," for number in line) + "\n"
        yield "};\n"


class Matrix:
    """Sparse rows as C holds them in the fewest bytes."""

    def __init__(self, name: str, rows: Dataset, real: Real):
        if rows.n_nonzeros == 0:  # C has no empty tables
            starts = np.zeros(rows.n_rows + 1, np.int64)
            starts[-1] = 1
            rows = sound_rows(starts, np.zeros(1, np.int32), np.zeros(1), rows.n_features)
        self.name, self.width = name, rows.n_features
        size = np.dtype(real.dtype).itemsize
        places, starts = whole_table(rows.indices, self.width), whole_table(rows.indptr, rows.n_nonzeros + 1)
        sparse_bytes = rows.n_nonzeros * size + places.nbytes + starts.nbytes
        self.sparse = sparse_bytes < rows.n_rows * self.width * size
        numbers = rows.values if self.sparse else rows.to_dense().ravel()
        self.tables = [real_table(name, numbers, real)]
        if self.sparse:
            self.tables.append(Table(f"{name}_places", f"{places.dtype.name}_t", places))
            self.tables.append(Table(f"{name}_starts", f"{starts.dtype.name}_t", starts))

    def loop(self, row: str, body: str) -> str:
        """C that goes through the entries of a row; `body` says what to do with `{number}` at `{place}`."""
        name = self.name
        if self.sparse:
            bounds = f"k = {name}_starts[{row}]; k < {name}_starts[{row} + 1]"
            number, place = f"{name}[k]", f"{name}_places[k]"
        else:
            bounds, number, place = f"k = 0; k < {self.width}", f"{name}[{row} * {self.width} + k]", "k"
        return f"for ({bounds}; k++) {{\n{body.format(number=number, place=place)}}}\n"


def whole_table(values: NDArray, bound: int) -> NDArray:
    """Whole numbers below `bound` in the smallest type of C that holds them."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if bound - 1 <= np.iinfo(dtype).max:
            return values.astype(dtype)
    raise ParameterError(f"the model is too large for {TARGET}")


def real_table(name: str, values: Floats, real: Real) -> Table:
    return Table(name, real.c_name, rounded(values, real.dtype, TARGET), real.suffix)


class _Code:
    """One model on its way to C."""

    def __init__(self, model: Model, file_name: str, real: Real, scaling: Scaling | None):
        self.model, self.real, self.scaling = model, real, scaling
        self.function = exportable(model, TARGET)
        self.formula = formula_of(self.function)
        header = header_name(file_name)
        name = re.sub(r"[.+-]", "_", file_name.removesuffix(".c"))
        self.words: dict[str, Any] = {
            "file": file_name,
            "header": header,
            "name": name,
            "upper": name.upper(),
            "version": __version__,
            "real": real.c_name,
            "f": real.suffix,
            "machine": model.machine,
            "kernel": model.formula.name,
            "features": model.n_features,
            "first": 0 if model.zero_based else 1,
            "classes": model.n_classes,
            "outputs": model.n_outputs,
        }
        self.tables: list[Table] = []
        self.labels = label_strings(model)

    def code(self) -> CCode:
        parts = [*self._scaling_parts(), *self._score_parts()]
        notes = [self._fill(SCALE_NOTE)] if self.scaling else []
        if self.model.is_regression:
            begin = self._fill(REGRESSION_HEADER)
            if self.model.n_outputs == 1:
                parts.append(self._fill(ONE_PREDICTION))
                notes.insert(0, self._fill(ONE_PREDICTION_NOTE))
        else:
            begin = self._fill(HEADER, scores_note=self._fill(SCORES_NOTES[self.model.scheme]))
            parts += [self._fill(part) for part in (DECIDE[self.model.scheme], PREDICT, LABEL)]
        if "probability_slopes" in self.model.extras:
            parts.append(self._probabilities())
            notes.append(self._fill(PROBABILITIES_NOTE))
        header = begin + "".join(notes) + self._fill(HEADER_END)
        text_bytes = sum(len(label.encode("utf-8", "surrogatepass")) + 1 for label in self._label_texts())
        data_bytes = sum(table.values.nbytes for table in self.tables) + text_bytes
        body = "\n".join(parts)
        needs_math = any(f"{name}{self.real.suffix}(" in body for name in ("exp", "tanh"))
        head = self._fill(SOURCE, math="#include <math.h>\n" if needs_math else "")
        return CCode(indented(body), self.tables, self.labels, head, header, data_bytes, self._stack_bytes())

    def _fill(self, template: str, **words: Any) -> str:
        return Template(template).substitute(self.words | words)

    def _label_texts(self) -> list[str]:
        return [str(python_label(label)) for label in self.model.labels]

    def _stack_bytes(self) -> int:
        numbers = self.model.n_outputs
        if self.scaling and self.formula:
            numbers += self.model.n_features
        votes = 4 * self.model.n_classes if self.model.scheme == "ovo" else 0
        return numbers * np.dtype(self.real.dtype).itemsize + votes

    def _add_real(self, name: str, values: Floats) -> None:
        self.tables.append(real_table(name, values, self.real))

    def _matrix(self, name: str, rows: Dataset) -> Matrix:
        matrix = Matrix(name, rows, self.real)
        self.tables += matrix.tables
        return matrix

    def _scaling_parts(self) -> list[str]:
        if self.scaling is None:
            return []
        low, high = range_tables(self.scaling, self.model.n_features)
        self._add_real("low", low)
        self._add_real("high", high)
        lower, upper = self.real.number(self.scaling.lower), self.real.number(self.scaling.upper)
        return [self._fill(IMAGE, lower=lower, upper=upper), self._fill(SCALE)]

    def _score_parts(self) -> list[str]:
        """The functions that scores need, and the one that computes them."""
        match self.function:
            case KernelFunction():
                parts, sums, needs_squares = self._expansion(self.function, self.function.formula)
            case LinearFunction():
                parts, sums, needs_squares = [], self._weighted_sum(self.function), False
        # a linear function looks at each value once, and scales it then
        needs_row = self.scaling is not None and self.formula is not None
        constants = constants_of(self.function)
        if constants.any():
            self._add_real("constants", constants)
        source = "row" if needs_row else "x"
        squares = self._fill(FILL_SQUARES, source=source)
        scores = self._fill(
            SCORES,
            declare_row=f"real row[{self.model.n_features}];\n" if needs_row else "",
            declare_squares="real squares = 0;\n" if needs_squares else "",
            fill_row=self._fill(FILL_ROW) if needs_row else "",
            fill_squares=squares if needs_squares else "",
            sums=sums.replace("$x", source),
            add_constants=self._fill(ADD_CONSTANTS) if constants.any() else "",
        )
        return [*parts, scores]

    def _expansion(self, function: KernelFunction, formula: KernelFormula) -> tuple[list[str], str, bool]:
        """Functions, the loop over the vectors, and whether it needs the squared length of the row."""
        vectors, terms = function.vectors, function.terms
        if vectors.n_rows == 0:  # one without weight is simpler than none
            vectors, terms = blank_rows(1, vectors.n_features), blank_rows(1, terms.n_features)
        matrix = self._matrix("vectors", vectors)
        coefficients = self._matrix("coefficients", terms)
        needs_squares = formula.name == "rbf" and matrix.sparse
        if formula.name == "rbf":
            step = "sum += {number} * ({number} - 2 * x[{place}]);\n"
            if not matrix.sparse:
                step = "real d = x[{place}] - {number};\nsum += d * d;\n"
        else:
            step = "sum += {number} * x[{place}];\n"
        numbers = {name: self.real.number(getattr(formula, name)) for name in ("gamma", "coef0")}
        value = self._fill(KERNELS[formula.name], degree=formula.degree, **numbers)
        if formula.bias:
            value += f" + {self.real.number(formula.bias * formula.bias)}"
        squares = ", real squares" if needs_squares else ""
        begin = "squares" if needs_squares else "0"
        kernel = self._fill(
            KERNEL_VALUE, squares=squares, begin=begin, loop=matrix.loop("i", step), value=value
        )
        add = coefficients.loop("i", "scores[{place}] += {number} * value;\n")
        call = f"kernel($x, i{', squares' if squares else ''})"
        loop = f"for (i = 0; i < {vectors.n_rows}; i++) {{\nconst real value = {call};\n{add}}}\n"
        return [*([POWER] if formula.name == "poly" else []), kernel], loop, needs_squares

    def _weighted_sum(self, function: LinearFunction) -> str:
        columns, terms = function.columns, function.terms
        known = columns < self.model.n_features
        columns, terms = columns[known], terms.take(np.flatnonzero(known))
        if len(columns) == 0:
            columns, terms = np.zeros(1, np.int32), blank_rows(1, terms.n_features)
        feature = "i"
        size, n = np.dtype(self.real.dtype).itemsize, self.model.n_features
        numbers = whole_table(columns, n)
        if terms.n_nonzeros * size + numbers.nbytes < n * terms.n_features * size and len(columns) < n:
            self.tables.append(Table("columns", f"{numbers.dtype.name}_t", numbers))
            feature = "columns[i]"
        else:
            starts = np.zeros(n + 1, dtype=np.int64)
            starts[columns.astype(np.int64) + 1] = np.diff(terms.indptr)
            terms = sound_rows(np.cumsum(starts), terms.indices, terms.values, terms.n_features)
        matrix = self._matrix("weights", terms)
        add = matrix.loop("i", "scores[{place}] += {number} * value;\n")
        value = f"image({feature}, x[{feature}])" if self.scaling else f"x[{feature}]"
        return f"for (i = 0; i < {terms.n_rows}; i++) {{\nconst real value = {value};\n{add}}}\n"

    def _probabilities(self) -> str:
        extras, real = self.model.extras, self.real
        self._add_real("slopes", np.array(extras["probability_slopes"]))
        self._add_real("shifts", np.array(extras["probability_offsets"]))
        steps = max(COUPLING_STEPS, self.model.n_classes)
        hair, enough, largest = HAIRS[real.precision]
        numbers = {"hair": hair, "enough": enough / self.model.n_classes, "largest": largest}
        texts = {name: real.number(value) for name, value in numbers.items()}
        return self._fill(PROBABILITIES[self.model.scheme], steps=steps, **texts)


def blank_rows(n: int, width: int) -> Dataset:
    return sound_rows(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), width)


def label_strings(model: Model) -> list[str]:
    """The labels as C strings; ParameterError for one that cannot be such a string."""
    return [_c_string(str(python_label(label))) for label in model.labels]


def _c_string(text: str) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    if 0 in encoded:
        raise ParameterError(f"label {text[:60]!r} holds a zero byte, which ends a string in C")
    if len(encoded) > LONGEST_LABEL:
        raise ParameterError(
            f"label '{text[:60]}...' has {len(encoded)} bytes; {TARGET} takes at most {LONGEST_LABEL}"
        )
    # three octal digits end by themselves; ? could begin a trigraph
    plain = rb"[A-Za-z0-9 !#-/:->@\[\]^_`{|}~]"
    parts = (chr(byte) if re.fullmatch(plain, bytes([byte])) else f"\\{byte:03o}" for byte in encoded)
    return f'"{"".join(parts)}"'


def indented(code: str) -> str:
    """C code with four blanks for each open brace."""
    depth, lines = 0, []
    for line in code.splitlines():
        stripped = line.strip()
        depth -= stripped.startswith("}")
        lines.append("    " * depth + stripped if stripped else "")
        depth += stripped.endswith("{")
    return "\n".join(lines) + "\n"
