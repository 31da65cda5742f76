"""Writing a model file, as text or binary; text_format.py says what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._version import __version__
from odmlib.data.dataset import Dataset, from_entries, stacked, without_zeros
from odmlib.data.labels import write_labels
from odmlib.data.writing import format_blocks
from odmlib.errors import ParameterError
from odmlib.model.functions import Function, LinearFunction, PrecomputedFunction, RoutedFunction
from odmlib.model.label_sets import LEVELS

if TYPE_CHECKING:
    from odmlib.model.model import Model

MAGIC = "odmlib model"
VERSION = 1


# Optional parts of a model: a list of numbers, one per output unless EXTRA_LENGTHS says otherwise, under each
# of these keys of the header. Files have them in this order. A model without one is as good as before; a file
# that has it twice, too short or too long is refused.
EXTRAS = (
    "theta_midpoint",  # kmomd: both thresholds, of which `offsets` are one
    "theta_kkt",
    "norm",  # kmomd: |v| of the nearest points' difference
    "semi_supervised",  # ssodm: 0 where the supervised machine was returned
    "relaxed",  # ssodm: J of the relaxation
    "disagreement",  # ssodm: share of the unlabeled rows labeled against the supervised machine
    "positives_low",  # ssodm: bounds for the number of positive labels among the unlabeled rows
    "positives_high",
    "probability_slopes",  # model/probability.py
    "probability_offsets",
    "coverage_margins",  # model/label_sets.py
)
EXTRA_LENGTHS = {"coverage_margins": len(LEVELS)}


# Further optional parts, each a list of any length; the members of a pair go together and are equally long.
LISTS = (
    ("conformal_scores", "conformal_levels"),  # odmo: decision values, and p-values below them
    ("residual_scores", "residual_levels"),  # odmr: targets less predictions of left-out rows; parts below
)


class Section(NamedTuple):
    """A part of the body: lines of a leading number and a row each."""

    name: str
    leading: Floats
    rows: Dataset


def model_text(model: Model) -> Iterator[bytes]:
    """The model file in pieces."""
    sections = body_sections(model.function)
    yield header_text(model)
    for section in sections:
        yield f"{section.name}\n".encode()
        # precomputed: `0:serial`
        zero_based = section.name == "SV" and isinstance(model.function, PrecomputedFunction)
        yield from format_blocks(section.rows, section.leading, zero_based)
    yield b"end\n"


def model_binary(model: Model) -> Iterator[bytes]:
    """The binary model file in pieces: the text's header, and four arrays for each of its sections."""
    from odmlib.model.npz_file import npz_pieces, smallest  # zip files load half of the standard library

    sections = body_sections(model.function)
    header = header_text(model) + f"{sections[0].name}\n".encode()
    arrays = [("header", np.frombuffer(header, np.uint8))]
    for name, leading, rows in sections:
        starts, columns = smallest(rows.indptr, rows.n_nonzeros + 1), smallest(rows.indices, rows.n_features)
        parts = (leading.astype("<f8"), starts, columns, rows.values.astype("<f8"))
        arrays += zip(array_names(name), parts, strict=True)
    return npz_pieces(arrays)


def array_names(section: str) -> list[str]:
    """The arrays of a section in a binary file: leading numbers, and rows in compressed form."""
    return [f"{section}_{part}" for part in ("leading", "starts", "columns", "values")]


def model_pieces(model: Model, target: Any) -> Iterator[bytes]:
    """The model file for this target: binary for a path that ends in .npz, else text."""
    is_path = isinstance(target, str | os.PathLike)
    return model_binary(model) if is_path and os.fspath(target).endswith(".npz") else model_text(model)


def header_text(model: Model) -> bytes:
    check_numbers(model)
    header = "".join(f"{key} {value}\n" for key, value in _header(model))
    return f"{MAGIC} {VERSION}\n{header}".encode()


def body_sections(function: Function) -> list[Section]:
    if isinstance(function, LinearFunction):
        columns, terms = _written_weights(function)
        return [Section("w", columns + 1.0, terms)]
    vectors = without_zeros(function.vectors)
    if function.terms.n_features == 1:
        return [Section("SV", function.terms.to_dense()[:, 0], vectors)]
    numbers = np.arange(1.0, function.terms.n_rows + 1)
    return [Section("coefficients", numbers, without_zeros(function.terms)), Section("SV", numbers, vectors)]


def check_numbers(model: Model) -> None:
    """Raise ParameterError where a number of the model is one that no model file may hold."""
    report, function = model.report, model.function
    known = {name: report[name] for name in ("primal", "dual", "gap") if report[name] is not None}
    numbers: dict[str, Any] = {
        name: value for name, value in model.parameters.items() if not isinstance(value, str)
    }
    numbers |= (
        known
        | {f"margin_{name}": value for name, value in report["margin"].items()}
        | model.extras
        | model.lists
    )
    numbers |= {"offsets": function.offsets, "coefficients": function.terms.values}
    if isinstance(function, LinearFunction):
        numbers["bias weights"] = function.bias_weights
    for name, given in numbers.items():
        values = np.asarray(list(given.values()) if isinstance(given, dict) else given, dtype=np.float64)
        allowed = ~np.isnan(values) if name in ("dual", "gap") else np.isfinite(values)
        if not allowed.all():
            raise ParameterError(
                f"the numbers of the model overflow: {name} is {values[~allowed][0]}, expected a finite "
                "number; scale the features, or lower C (-c) and the weights"
            )


def _written_weights(function: LinearFunction) -> tuple[Any, Dataset]:
    """Columns with a weight that is not 0, the bias feature as column -1 before them, and their weights."""
    columns, terms = function.columns.astype(np.int64), function.terms
    bias = Dataset.from_any(function.bias_weights.reshape(1, -1))
    written = without_zeros(stacked([bias, terms]))
    used, places = np.unique(written.row_of_each(), return_inverse=True)
    weights = from_entries(places, written.indices, written.values, (len(used), function.n_outputs))
    return np.concatenate([[-1], columns])[used], weights


def _header(model: Model) -> Iterator[tuple[str, object]]:
    try:
        label_type, labels = write_labels(model.labels)
    except ValueError as error:
        raise ParameterError(str(error)) from None
    report = model.report
    yield "tool", f"odmlib {__version__}"
    yield "machine", model.machine
    yield "kernel", model.formula.name
    for name, value in model.parameters.items():
        yield name, value if isinstance(value, str) else number_text(value)
    if model.scheme != "binary":
        yield "scheme", model.scheme
    if model.is_regression:
        yield "outputs", model.n_outputs
    else:
        yield "label_type", label_type
        yield "labels", labels
    yield "features", model.n_features
    yield "zero_based", int(model.zero_based)
    if model.columns is not None:
        yield "columns", write_labels(np.array(model.columns, dtype=object))[1]
    for name in ("rows", "nonzeros", "status", "solver", "iterations"):
        if report[name] is not None:  # of a model that another program trained
            yield name, report[name]
    for name in ("primal", "dual", "gap"):
        if report[name] is not None:
            yield name, number_text(report[name])
    for name, value in report["margin"].items():
        yield f"margin_{name}", numbers_text(value.values() if isinstance(value, dict) else [value])
    if report["seed"] is not None:
        yield "seed", report["seed"]
    if report.get("compressed_from"):
        yield "compressed_from", report["compressed_from"]
    for key in sorted(model.extras, key=EXTRAS.index):
        yield key, numbers_text(model.extras[key])
    for key in (key for pair in LISTS for key in pair if key in model.lists):
        yield key, numbers_text(model.lists[key])
    if model.function.offsets.any():
        yield "offsets", numbers_text(model.function.offsets)
    if isinstance(model.function, RoutedFunction):
        yield "regions", model.function.n_regions
    if isinstance(model.function, LinearFunction):
        yield "weights", len(_written_weights(model.function)[0])
    else:
        yield "support_vectors", model.function.n_vectors


def number_text(value: float) -> str:
    """A text that reads back to the same number, by C's strtod too."""
    return repr(float(value)).removesuffix(".0")


def numbers_text(values: Any) -> str:
    return " ".join(map(number_text, values))
