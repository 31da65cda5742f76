"""Model files of LIBSVM and LIBLINEAR: which is which, reading and writing."""

from __future__ import annotations

from collections.abc import Iterator

from odmlib.data.files import Source, Target, open_output
from odmlib.errors import ParameterError
from odmlib.model.foreign.liblinear import LiblinearReader, liblinear_text
from odmlib.model.foreign.libsvm import LibsvmReader, can_hold_probabilities, libsvm_text
from odmlib.model.functions import LinearFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.model.text_format import FOREIGN_FORMS, form_of, read_text, reader_of

FORMS = FOREIGN_FORMS


def load_foreign_model(source: Source, features: int | None = None, max_unpacked: int | None = None) -> Model:
    """Read a model file of LIBSVM or LIBLINEAR; our own are read too.

    source        a path, "-" for standard input, an open file, or bytes
    features      number of features of the data; LIBSVM's files do not say it. By default that of the model's
                  vectors, or without limit where unseen features count (rbf)
    max_unpacked  bytes to which a packed file may unpack; by default 200 times its size and 64 MB
    """
    return read_any_model(source, features, max_unpacked)[0]


def read_any_model(
    source: Source, features: int | None = None, max_unpacked: int | None = None
) -> tuple[Model, str]:
    """A model and what it was: odmlib, binary, libsvm or liblinear, told apart by what the file holds."""
    text, name = read_text(source, max_unpacked)
    form = str(form_of(text))
    if isinstance(text, memoryview) or form not in FORMS:
        return reader_of(text, name, max_unpacked).model(), form
    return foreign_model(text, name, form, features), form


def foreign_model(text: bytearray, name: str, form: str, features: int | None = None) -> Model:
    reader = LibsvmReader if form == "libsvm" else LiblinearReader
    return reader(text, name).read(features)


def default_form(model: Model) -> str:
    """LIBLINEAR for linear models that it can hold, else LIBSVM."""
    return "liblinear" if isinstance(model.function, LinearFunction) and model.scheme != "ovo" else "libsvm"


def foreign_text(model: Model, form: str | None = None) -> Iterator[bytes]:
    form = default_form(model) if form is None else form
    if form not in FORMS:
        raise ParameterError(f"form must be one of {', '.join(FORMS)}, found {form!r}")
    if isinstance(model.function, RoutedFunction):
        raise ParameterError("a model of several regions (partition dc) has no form that other programs read")
    return libsvm_text(model) if form == "libsvm" else liblinear_text(model)


def save_foreign_model(model: Model, target: Target, form: str | None = None) -> None:
    """Write the model as LIBSVM or LIBLINEAR does, so that their programs predict as it does.

    form  libsvm or liblinear; by default the latter for linear models
    """
    with open_output(target) as stream:
        stream.writelines(foreign_text(model, form))


def losses(model: Model, form: str) -> list[str]:
    """What the other format cannot hold of a model, in words."""
    lost = []
    program = {"libsvm": "LIBSVM", "liblinear": "LIBLINEAR"}[form]
    if "probability_slopes" in model.extras and (form == "liblinear" or not can_hold_probabilities(model)):
        why = "has them for logistic regression only" if form == "liblinear" else "has them for pairs only"
        lost.append(f"the probabilities are left out: {program} {why}")
    if model.lists:
        what = "p-values" if "conformal_scores" in model.lists else "prediction intervals"
        lost.append(f"the {what} are left out: {program} has none")
    if form == "liblinear" and model.zero_based:
        lost.append("the model counts features from 0, LIBLINEAR from 1: add 1 to every index of the data")
    return lost
