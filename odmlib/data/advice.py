"""What to do about the data: the words of odm-check's advice and of odm-train's hints, in one place.

`found` are the statistics of the data (data/checking.py); `quick_statistics` has those that cost one look at
the values. Light: no numpy before it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from odmlib.values import counted

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.data.problem import Problem

WIDE_RANGE = 10.0  # values beyond: worth scaling
UNEVEN_RANGES = 1000.0  # ratio of the widest feature to the narrowest one: worth scaling
HALF_EMPTY = 0.5  # part of the entries that are stored, below which zeros should stay zero
RARE_CLASS = 0.1  # part of the rows
MANY_ROWS = 50_000  # kernels begin to cost minutes
WIDE_DATA = 5_000  # features, beyond which linear machines are usually as good
SPARSE = 0.1  # part of the entries that are stored
TOO_MANY_LABELS = 100  # as classes, if most stand once or twice
MANY_FRACTIONS = 20  # labels that are not whole numbers: no one numbers classes like that
FEW_FRACTIONS = 5  # the same, if half of the rows have one of their own


def advice(found: dict[str, Any], name: str) -> Iterator[str]:
    """Everything there is to say."""
    rows = found["rows"]
    yield from scale_advice(found, name)
    yield from label_advice(found)
    if not found["whole_labels"]:
        yield "labels are not whole numbers: kept here, but LIBSVM and LIBLINEAR cut them to whole ones"
    if found["constant_features"]:
        constant = counted(found["constant_features"], "feature")
        yield f"{constant} without any change: odm-scale leaves such out"
    if found["unavoidable_errors"]:
        yield (
            f"rows of the same features have different labels: any machine errs on at least "
            f"{counted(found['unavoidable_errors'], 'row')} ({100 * found['unavoidable_errors'] / rows:.2g}%)"
        )
    if found["duplicate_rows"] > rows / 10:
        yield (
            f"{found['duplicate_rows']} rows repeat others: cross-validation tests on copies of training rows"
        )
    if found["empty_rows"]:
        yield f"{counted(found['empty_rows'], 'row')} with nothing but zeros"
    yield from kernel_advice(found)
    if found.get("lines_without_row"):
        others = counted(found["lines_without_row"], "line")
        yield f"{others} blank or with a comment only: LIBSVM's programs refuse such files"


def training_hints(
    problem: Problem, kernel: str, name: str, table_flags: Sequence[str] = ()
) -> Iterator[str]:
    """What odm-train says before it begins, about data that another kernel or another form suits better.

    `table_flags` are the options that the tool was given to read a table.
    """
    if kernel == "precomputed":
        return
    found = quick_statistics(problem)
    yield from scale_advice(found, name, table_flags)
    if _has_classes(problem) and not looks_like_targets(found):  # which is a warning of its own
        yield from label_advice(found)
    if kernel != "linear":
        yield from kernel_advice(found)


def targets_message(problem: Problem, instead: str = "machine='odmr'") -> str | None:
    """What to say where the labels of a classifier look like targets of a regression."""
    if not _has_classes(problem):
        return None
    found = label_statistics(problem)
    if not looks_like_targets(found):
        return None
    return (
        f"the labels look like targets of a regression: {found['classes']} different labels in "
        f"{found['rows']} rows. A classifier takes each of them for a class; {instead} learns targets"
    )


def _has_classes(problem: Problem) -> bool:
    """Neither regression nor novelty detection."""
    return problem.targets is None and not problem.one_class


def looks_like_targets(found: dict[str, Any]) -> bool:
    classes, rows = found["classes"], found["rows"]
    if not found["whole_labels"]:
        return classes > MANY_FRACTIONS or (classes >= FEW_FRACTIONS and classes > rows / 2)
    return classes > TOO_MANY_LABELS and classes > rows / 3


def quick_statistics(problem: Problem) -> dict[str, Any]:
    """Statistics of training data that need no sorting of rows or columns."""
    labels = label_statistics(problem) if _has_classes(problem) else {}
    return row_statistics(problem.rows) | labels


def row_statistics(rows: Dataset) -> dict[str, Any]:
    """The part that is about features."""
    import numpy as np

    entries, values = rows.n_rows * rows.n_features, rows.values
    return {
        "rows": rows.n_rows,
        "features": rows.n_features,
        "density": rows.n_nonzeros / entries if entries else 0.0,
        "lowest": float(values.min(initial=0.0)),
        "highest": float(values.max(initial=0.0)),
        "counts": bool((values >= 0).all() and (values == np.floor(values)).all()),
    }


def label_statistics(problem: Problem) -> dict[str, Any]:
    import numpy as np

    from odmlib.data.labels import python_label

    labels = problem.labels
    counts = np.bincount(problem.codes[problem.codes >= 0], minlength=len(labels))
    return {
        "rows": int(counts.sum()),
        "classes": len(labels),
        "class_counts": {
            str(python_label(label)): int(count) for label, count in zip(labels, counts, strict=True)
        },
        "smallest_class": int(counts.min()) if len(counts) else 0,
        "largest_class": int(counts.max(initial=0)),
        "whole_labels": labels.dtype.kind != "f" or bool((labels == np.floor(labels)).all()),
    }


def scale_advice(found: dict[str, Any], name: str, table_flags: Sequence[str] = ()) -> Iterator[str]:
    low, high = found["lowest"], found["highest"]
    file = "FILE" if name.startswith("<") else quote(name)
    made = "FILE" if name.startswith("<") else quote(os.path.basename(name))
    flags = scaling_flags(found)
    command = " ".join(["odm-scale", *map(quote, table_flags), *flags])
    scale = f"scale first ({command} -s {made}.range {file} > {made}.scaled)"
    if max(-low, high) > WIDE_RANGE:
        if "--norm" in flags:
            what = "are counts up to" if found.get("counts") else "go up to"
            yield (
                f"features {what} {_shown(high)}: rows of unit length train faster and better "
                f"({' '.join(['odm-scale', *flags])} {file} > {made}.unit)"
            )
        else:
            yield f"features range from {_shown(low)} to {_shown(high)}: {scale}"
    elif "--norm" not in flags and found.get("widest_range", 0.0) > UNEVEN_RANGES * found.get(
        "narrowest_range", 0.0
    ):
        low, high = found["narrowest_range"], found["widest_range"]
        yield f"features have ranges from {low:.2g} to {high:.2g} wide: {scale}"


def scaling_flags(found: dict[str, Any]) -> list[str]:
    """The flags of odm-scale that suit the data: rows of unit length for text, and zeros that stay zero."""
    if is_wide_and_sparse(found) and found["lowest"] >= 0:
        return ["--norm", "l2"]
    return ["-l", "0"] if found["density"] < HALF_EMPTY else []


def label_advice(found: dict[str, Any]) -> Iterator[str]:
    if found["classes"] == 1:
        yield f"all rows have the label {next(iter(found['class_counts']))}: training needs two classes"
        return
    if looks_like_targets(found):
        yield f"{found['classes']} different labels: these look like targets of a regression, not classes"
        return
    part = found["smallest_class"] / found["rows"]
    label = min(found["class_counts"], key=lambda key: found["class_counts"][key])
    if found["smallest_class"] == 1:
        yield f"label {label} stands once: no cross-validation can test it"
    elif part < RARE_CLASS / max(1, found["classes"] - 1):
        weight = found["largest_class"] / found["smallest_class"]
        yield (
            f"label {label} has {found['smallest_class']} of {found['rows']} rows ({100 * part:.2g}%): "
            f"accuracy says little about it; weights may help (-w balanced, or -w{label} {weight:.2g})"
        )


def kernel_advice(found: dict[str, Any]) -> Iterator[str]:
    if is_wide_and_sparse(found):
        yield f"{found['features']} sparse features: a linear machine (-t linear) is usually as good and fast"
    elif found["rows"] > MANY_ROWS:
        rows = found["rows"]
        yield f"{rows} rows: try a linear machine first (-t linear), or a part of the rows (odm-subset)"


def is_wide_and_sparse(found: dict[str, Any]) -> bool:
    return found["features"] > WIDE_DATA and found["density"] < SPARSE


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 and abs(value) < 1e15 else f"{value:g}"
