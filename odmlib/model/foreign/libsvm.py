"""Models as LIBSVM writes them, so that svm-predict and everything else that reads them predicts as we do.

LIBSVM decides between classes i < j by f_ij > 0 and takes most votes, the earlier class where they are equal.
A support vector belongs to one class c and has a coefficient for each pair that c is in:

    f_ij(x) = sum over vectors of i: coefficient[j-1] k(v, x) + of j: coefficient[i] k(v, x) - rho_ij

Our bias adds bias^2 to every kernel value: a constant, bias^2 sum of coefficients, that goes into rho. A
one-vs-one model is one of these. So is a model with a function f_c per class (one-vs-rest, mcODM): the duel
f_i - f_j has the class with the largest f win all its votes; a vector stands once for every class whose f has
it. A linear function is a vector of weights with coefficient 1 and a linear kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data._reader import parse_number
from odmlib.data.dataset import MAX_FEATURES, Dataset, from_entries
from odmlib.data.writing import BLOCK_VALUES, format_rows
from odmlib.errors import ModelFormatError, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.foreign.common import (
    LARGEST_COUNT,
    ONE_OUTPUT,
    ForeignReader,
    refuse_overflow,
    require_one_output,
    whole_labels,
)
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.schemes import class_pairs, pair_output
from odmlib.model.text_format import whole
from odmlib.model.text_writer import number_text, numbers_text
from odmlib.names import KERNELS
from odmlib.parameters import MAX_DEGREE

KERNEL_NAMES = {name: name for name in KERNELS} | {"poly": "polynomial"}
OUR_KERNELS = {theirs: ours for ours, theirs in KERNEL_NAMES.items()}
CLASSIFIERS = ("c_svc", "nu_svc")
OTHERS = {"epsilon_svr": "odmr", "nu_svr": "odmr", "one_class": "odmo"}  # and what they are here


# ---------------------------------------------------------------------------------------- writing


def libsvm_text(model: Model) -> Iterator[bytes]:
    """The model file in pieces; ParameterError where LIBSVM cannot hold the model."""
    if model.machine in ONE_OUTPUT:
        yield from _one_output_text(model)
        return
    labels = whole_labels(model, "LIBSVM")
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        vectors, zero_based, terms, constants = _expansion(model)
        pairs = _pair_terms(model.scheme, terms, model.n_classes)
        owners, classes, coefficients = _owned(pairs, model.n_classes)
        rho = _pair_constants(model.scheme, constants)
    refuse_overflow("LIBSVM", rho, coefficients.values, vectors.values)
    yield _header(model, labels, rho, classes).encode()
    yield from _vector_lines(vectors.take(owners), coefficients, zero_based)


def _one_output_text(model: Model) -> Iterator[bytes]:
    """A model of regression or of one class: one function, no labels."""
    require_one_output(model, "LIBSVM")
    with np.errstate(over="ignore", invalid="ignore"):
        vectors, zero_based, terms, rho = _expansion(model)
    refuse_overflow("LIBSVM", rho, terms.values, vectors.values)
    kind = next(theirs for theirs, ours in OTHERS.items() if ours == model.machine)
    lines = _kernel_lines(model.formula, kind)
    lines += ["nr_class 2", f"total_sv {vectors.n_rows}", f"rho {numbers_text(rho)}", "SV\n"]
    yield "\n".join(lines).encode()
    yield from _vector_lines(vectors, terms, zero_based)


def _expansion(model: Model) -> tuple[Dataset, bool, Dataset, Floats]:
    """Vectors, whether their columns count from 0, coefficients per output, and what is subtracted."""
    function = model.function
    match function:
        case LinearFunction():
            # one vector of weights per output
            terms, shape = function.terms, (function.n_outputs, model.n_features)
            columns = function.columns[terms.row_of_each()].astype(np.int64)
            weights = from_entries(terms.indices.astype(np.int64), columns, terms.values, shape)
            constants = function.offsets - function.bias * function.bias_weights
            return weights, model.zero_based, Dataset.from_any(np.eye(function.n_outputs)), constants
        case KernelFunction():
            vectors, zero_based, bias = function.vectors, model.zero_based, function.formula.bias
        case PrecomputedFunction():
            vectors, zero_based, bias = function.vectors, True, function.bias
    terms = function.terms
    sums = np.bincount(terms.indices, terms.values, minlength=function.n_outputs)
    return vectors, zero_based, terms, function.offsets - bias * bias * sums


def _pair_terms(scheme: str, terms: Dataset, k: int) -> tuple[Codes, Codes, Codes, Floats]:
    """Entries (vector, class that owns it, other class, coefficient)."""
    vectors, outputs, values = terms.row_of_each(), terms.indices.astype(np.int64), terms.values
    if k == 2 and scheme != "binary":  # a function per class: one duel
        difference = from_entries(
            vectors, 0 * outputs, np.where(outputs == 0, values, -values), (terms.n_rows, 1)
        )
        return _pair_terms("binary", difference, k)
    if scheme in ("binary", "ovo"):
        first, second = class_pairs(k)
        # LIBSVM's habit: positive coefficients belong to the first class of a pair
        positive = values > 0
        own = np.where(positive, first[outputs], second[outputs])
        other = np.where(positive, second[outputs], first[outputs])
        own, other = _single_owners(vectors, own, other, k)
        return vectors, own, other, values
    # f_i - f_j: the vectors of f_i fight for class i in each of its duels
    others = np.arange(k - 1)[None, :]
    own = np.repeat(outputs, k - 1)
    other = (others + (others >= outputs[:, None])).ravel()
    values = np.repeat(values, k - 1) * np.where(own < other, 1.0, -1.0)
    return np.repeat(vectors, k - 1), own, other, values


def _single_owners(vectors: Codes, own: Codes, other: Codes, k: int) -> tuple[Codes, Codes]:
    """Give all entries of a vector to one class where one class is in all its pairs: fewer lines."""
    n = int(vectors.max()) + 1 if len(vectors) else 0
    if k == 2 or n == 0:
        return own, other
    counts = np.zeros((n, k))
    np.add.at(counts, (vectors, own), 1 + 0.5 / k)  # the wished owner where both are in as many pairs
    np.add.at(counts, (vectors, other), 1)
    best = counts.argmax(axis=1)[vectors]
    turned = other == best
    return np.where(turned, other, own), np.where(turned, own, other)


def _owned(entries: tuple[Codes, Codes, Codes, Floats], k: int) -> tuple[Codes, Codes, Dataset]:
    """Lines of the file in the order of classes: vector, class, and k - 1 coefficients."""
    vectors, own, other, values = entries
    n = int(vectors.max()) + 1 if len(vectors) else 0
    lines, places = np.unique(own * max(n, 1) + vectors, return_inverse=True)
    positions = other - (other > own)
    coefficients = from_entries(places, positions, values, (len(lines), k - 1))
    return lines % max(n, 1), lines // max(n, 1), coefficients


def _pair_constants(scheme: str, constants: Floats) -> Floats:
    if scheme in ("binary", "ovo"):
        return constants
    first, second = class_pairs(len(constants))
    return constants[first] - constants[second]


def _header(model: Model, labels: list[int], rho: Floats, classes: Codes) -> str:
    lines = _kernel_lines(model.formula, "c_svc")
    lines += [
        f"nr_class {model.n_classes}",
        f"total_sv {len(classes)}",
        f"rho {numbers_text(rho)}",
        f"label {' '.join(map(str, labels))}",
    ]
    if can_hold_probabilities(model):
        # LIBSVM: P(first) = 1 / (1 + exp(A f + B))
        lines.append(f"probA {numbers_text(-np.array(model.extras['probability_slopes']))}")
        lines.append(f"probB {numbers_text(-np.array(model.extras['probability_offsets']))}")
    lines.append(f"nr_sv {' '.join(map(str, np.bincount(classes, minlength=model.n_classes)))}")
    return "\n".join([*lines, "SV\n"])


def _kernel_lines(formula: KernelFormula, kind: str) -> list[str]:
    lines = [f"svm_type {kind}", f"kernel_type {KERNEL_NAMES[formula.name]}"]
    for name in ("degree", "gamma", "coef0"):  # LIBSVM's order
        if name in formula.parameter_names:
            lines.append(f"{name} {number_text(getattr(formula, name))}")
    return lines


def can_hold_probabilities(model: Model) -> bool:
    return "probability_slopes" in model.extras and model.scheme in ("binary", "ovo")


def _vector_lines(vectors: Dataset, coefficients: Dataset, zero_based: bool) -> Iterator[bytes]:
    """`coefficient ... index:value ...`; the last coefficient takes the place of a data row's label."""
    width = coefficients.n_features
    average = 1 + (vectors.n_nonzeros + vectors.n_rows * width) // max(1, vectors.n_rows)
    step = max(1, BLOCK_VALUES // average)
    for begin in range(0, vectors.n_rows, step):
        end = min(begin + step, vectors.n_rows)
        numbers = coefficients.part(begin, end).to_dense()
        text = format_rows(vectors.part(begin, end), numbers[:, -1].copy(), zero_based=zero_based)
        if width == 1:
            yield text
            continue
        before = [numbers_text(row).encode() for row in numbers[:, :-1].tolist()]
        yield b"".join(
            start + b" " + line + b"\n" for start, line in zip(before, text.splitlines(), strict=True)
        )


# ---------------------------------------------------------------------------------------- reading


class LibsvmReader(ForeignReader):
    """A LIBSVM model on its way to ours."""

    sections = ("SV",)

    def read(self, features: int | None) -> Model:
        kind = self.take_kind("svm_type", "a type of machine", (*CLASSIFIERS, *OTHERS))
        formula = self._formula()
        k = self.take_whole("nr_class", 2)
        if kind in OTHERS:
            return self._one_output(kind, formula, features)
        n_pairs = k * (k - 1) // 2
        if n_pairs > len(self.text):
            raise self.fault(f"nr_class: {k} classes have {n_pairs} pairs, more than the file can hold")
        labels = self.take_labels(k)
        rho = self.take_numbers("rho", n_pairs)
        extras = {}
        if "probA" in self.fields or "probB" in self.fields:
            extras["probability_slopes"] = tuple((-self.take_numbers("probA", n_pairs)).tolist())
            extras["probability_offsets"] = tuple((-self.take_numbers("probB", n_pairs)).tolist())
        total = self.take_whole("total_sv")
        counts = self.take("nr_sv", _counts(k), f"{k} whole numbers")
        self.refuse_rest()
        if sum(counts) != total:
            raise self.fault(f"nr_sv: the numbers add up to {sum(counts)}, total_sv says {total}")
        vectors, coefficients, zero_based = self._counted_vectors(k, formula, total)
        terms = _our_terms(coefficients, np.repeat(np.arange(k), counts), k)
        function, features = self._function_of(formula, vectors, terms, rho, features)
        scheme = "binary" if k == 2 else "ovo"
        return self.made(formula, labels, features, function, scheme, f"LIBSVM {kind}", zero_based, extras)

    def _one_output(self, kind: str, formula: KernelFormula, features: int | None) -> Model:
        """A model of regression or of one class."""
        rho = self.take_numbers("rho", 1)
        total = self.take_whole("total_sv")
        for noise in ("probA", "prob_density_marks"):  # what LIBSVM knows of its errors has no place here
            self.fields.pop(noise, None)
        self.refuse_rest()
        vectors, terms, zero_based = self._counted_vectors(2, formula, total)
        function, features = self._function_of(formula, vectors, terms, rho, features)
        machine = OTHERS[kind]
        scheme, labels = ONE_OUTPUT[machine]
        origin = f"LIBSVM {kind}"
        return self.made(formula, labels, features, function, scheme, origin, zero_based, machine=machine)

    def _counted_vectors(self, k: int, formula: KernelFormula, total: int) -> tuple[Dataset, Dataset, bool]:
        precomputed = formula.name == "precomputed"
        vectors, coefficients, zero_based = self._vectors(k, precomputed)
        if vectors.n_rows != total:
            raise self.fault(f"the header says {total} support vectors, the file holds {vectors.n_rows}")
        return vectors, coefficients, zero_based and not precomputed

    def _function_of(
        self, formula: KernelFormula, vectors: Dataset, terms: Dataset, rho: Floats, features: int | None
    ) -> tuple[Function, int]:
        """The function, and the number of features."""
        precomputed = formula.name == "precomputed"
        if features is None:
            # LIBSVM has no width: features that no vector has count in the distances of rbf
            features = MAX_FEATURES if precomputed or formula.name == "rbf" else vectors.n_features
        function: Function
        if precomputed:
            function = PrecomputedFunction(self._serials(vectors), terms, 0.0, rho)
            if len(function.serials) and int(function.serials.max()) > features:
                raise ParameterError(f"features: the model has serial {function.serials.max()}")
        elif formula.name == "linear":
            function = _weights(vectors, terms, rho)
        else:
            function = KernelFunction(formula, vectors.with_features(features), terms, rho)
        if not precomputed and vectors.n_features > features:
            raise ParameterError(
                f"features: the vectors of the model have {vectors.n_features}, not {features}"
            )
        return function, features

    def _formula(self) -> KernelFormula:
        theirs = self.take("kernel_type", str, "a kernel")
        if theirs not in OUR_KERNELS:
            raise self.fault(f"kernel_type: expected one of {', '.join(OUR_KERNELS)}, found '{theirs[:60]}'")
        name = OUR_KERNELS[theirs]
        numbers: dict[str, Any] = {}
        for key in KernelFormula(name).parameter_names:
            if key == "degree":
                numbers[key] = self.take(key, whole(LARGEST_COUNT), f"a whole number from 1 to {MAX_DEGREE}")
            else:
                numbers[key] = float(self.take_numbers(key, 1)[0])
        try:
            return KernelFormula(name, **numbers)
        except ParameterError as error:
            raise self.fault(str(error)) from None

    def _vectors(self, k: int, precomputed: bool) -> tuple[Dataset, Dataset, bool]:
        """Vectors, k - 1 coefficients of each, and whether columns count from 0 (a column 0 is there)."""
        start, prefixes = self.body_start, None
        text: bytes | memoryview = memoryview(self.text)[start:]
        lead = np.empty((0, 0))
        if k > 2:
            text, lead, prefixes = self._parted(bytes(text), k)
        zero_based = precomputed
        while True:
            try:
                vectors, last = self._rows(text, None, zero_based)
                break
            except ModelFormatError as error:
                if zero_based or "an index of 1 or more" not in error.message:
                    raise self._shifted(error, prefixes) from None
                zero_based = True
        coefficients = np.column_stack([lead, last]) if k > 2 else last.reshape(-1, 1)
        return vectors, Dataset.from_any(coefficients), zero_based

    def _parted(self, text: bytes, k: int) -> tuple[bytes, Floats, list[int]]:
        """The lines without their first k - 2 coefficients, these, and how many bytes were taken."""
        rests, taken = [], []
        numbers: list[list[float]] = []
        for place, line in enumerate(text.split(b"\n") if text else []):
            words = line.split(None, k - 2)
            if not words and place == text.count(b"\n"):  # behind the last line end
                break
            found = [parse_number(word) for word in words[: k - 2]]
            if len(words) < k - 1 or any(value is None or not np.isfinite(value) for value in found):
                raise self.fault(
                    f"expected {k - 1} coefficients at the start of the line", self.body_line + place
                )
            numbers.append([float(value) for value in found if value is not None])
            rests.append(words[-1])
            taken.append(len(line.rstrip()) - len(words[-1].rstrip()))
        lead = np.array(numbers, dtype=np.float64).reshape(len(numbers), k - 2)
        return b"\n".join([*rests, b""]), lead, taken

    def _shifted(self, error: ModelFormatError, prefixes: list[int] | None) -> ModelFormatError:
        """The fault at its column in the file."""
        place = error.line - self.body_line
        shift = prefixes[place] if prefixes is not None and 0 <= place < len(prefixes) else 0
        return ModelFormatError(error.message, error.path, error.line, error.column + shift)

    def _serials(self, vectors: Dataset) -> Codes:
        single = np.diff(vectors.indptr) == 1
        if not single.all() or (vectors.n_nonzeros and vectors.indices.any()):
            wrong = np.flatnonzero(~single)
            line = self.body_line + (int(wrong[0]) if len(wrong) else int(np.argmax(vectors.indices > 0)))
            raise self.fault("a vector of a precomputed kernel is 0:serial", line)
        self._check_whole(vectors.values, 1, LARGEST_COUNT, "serial")
        return vectors.values.astype(np.int64)


def _our_terms(coefficients: Dataset, classes: Codes, k: int) -> Dataset:
    """Coefficients per output: a pair of classes each."""
    own = classes[coefficients.row_of_each()]
    other = coefficients.indices.astype(np.int64)
    other += other >= own
    outputs = pair_output(np.minimum(own, other), np.maximum(own, other), k)
    shape = coefficients.n_rows, k * (k - 1) // 2
    return from_entries(coefficients.row_of_each(), outputs, np.array(coefficients.values), shape)


def _weights(vectors: Dataset, terms: Dataset, rho: Floats) -> LinearFunction:
    """Vectors of a linear kernel summed up to weights."""
    columns = vectors.used_columns()  # the largest may be huge in a small file
    products = (vectors.on_columns(columns).to_scipy().T @ terms.to_scipy()).tocsr()
    sums = Dataset.from_any(products)
    used = np.flatnonzero(np.diff(sums.indptr))
    return LinearFunction(columns[used], sums.take(used), 0.0, np.zeros(terms.n_features), rho)


def _counts(k: int) -> Any:
    def convert(text: str) -> list[int]:
        words = text.split()
        if len(words) != k:
            raise ValueError
        return [whole(LARGEST_COUNT)(word) for word in words]

    return convert
