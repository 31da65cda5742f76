"""odm-convert: turn a model of odmlib into another form, or one of LIBSVM or LIBLINEAR into ours."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odmlib.cli.common import bad_values_as_usage, refuse_overwriting, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, UsageError, positive_whole_number

if TYPE_CHECKING:
    from odmlib.data.scaling import Scaling
    from odmlib.model.model import Model

PROGRAM = "odm-convert"
FORMS = {
    "libsvm": "LIBSVM model",
    "liblinear": "LIBLINEAR model",
    "odmlib": "odmlib model",
    "binary": "binary odmlib model",
    "c": "C code",
    "onnx": "ONNX graph",
}
CODE = ("c", "onnx")  # forms that run without a reader of models

DESCRIPTION = """\
Convert a model file: one of odmlib becomes one of LIBLINEAR (linear kernel) or of LIBSVM
(any kernel), and theirs become ours; what the file holds decides. Predictions stay the same:
svm-predict, LIBLINEAR's predict and odm-predict give the same labels line for line.
--to c writes C99 code that needs no library, NAME.c and NAME.h; --to onnx a graph for ONNX runtimes.
Either file may be - (standard input, standard output).
"""

EXAMPLES = """\
examples:
  odm-convert heart.model heart.libsvm            to LIBSVM; then: svm-predict test.txt heart.libsvm out
  odm-convert --to libsvm linear.model l.libsvm   a linear model to LIBSVM as well
  odm-convert theirs.libsvm ours.model            from LIBSVM or LIBLINEAR
  odm-convert --to c --range r heart.model heart.c   C code that scales its rows as odm-scale -r r
  odm-convert --to onnx --float32 heart.model heart.onnx

Labels must be whole numbers: LIBSVM and LIBLINEAR keep no others. Probabilities go to LIBSVM
for two classes and one-vs-one; its -b 1 then takes the most probable label.
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    source, target = arguments.model_file, arguments.output_file
    outputs = _checked_outputs(arguments)
    for output in outputs:
        refuse_overwriting(output, [source, arguments.range])
    from odmlib.errors import OdmError, ParameterError
    from odmlib.model.foreign.files import default_form, losses, read_any_model
    from odmlib.names import CONVERTED

    shown = shown_name(source)
    with bad_values_as_usage():
        model, came_as = read_any_model(source, arguments.features)
    form = arguments.to or (default_form(model) if came_as in ("odmlib", "binary") else "odmlib")
    if form == came_as:
        raise OdmError(f"{shown}: this is already a model in the form {form}")
    remarks = losses(model, form) if form in ("libsvm", "liblinear") else []
    try:
        size = _write(model, form, target, arguments)
    except ParameterError as error:
        raise OdmError(f"{shown}: {error.shell}") from None
    for remark in remarks:
        warn(PROGRAM, remark)
    if not arguments.quiet:
        origin = model.report["solver"] if model.report["status"] == CONVERTED else model.machine
        what = "standard output" if target == "-" else " and ".join(outputs)
        learned = {"odmr": "regression", "odmo": "one class"}
        classes = learned.get(model.machine, f"{model.n_classes} classes")
        say(
            PROGRAM,
            f"{origin}, {model.formula.name} kernel, {classes}: {FORMS[form]} written to {what}{size}",
        )
    return 0


def _checked_outputs(arguments: argparse.Namespace) -> list[str]:
    """All files that will be written; UsageError where options and names do not fit the form."""
    form, target = arguments.to, arguments.output_file
    for flag, given in (("--range", arguments.range), ("--float32", arguments.float32)):
        if given and form not in CODE:
            raise UsageError(f"{flag} is for --to {' and --to '.join(CODE)}")
    if arguments.opset is not None and form != "onnx":
        raise UsageError("--opset is for --to onnx")
    if form != "c":
        return [target]
    if target == "-":
        raise UsageError("C code is two files, NAME.c and NAME.h: it cannot go to standard output")
    from odmlib.model.export.c_code import header_name

    folder, name = os.path.split(target)
    with bad_values_as_usage():
        return [target, os.path.join(folder, header_name(name))]


def _write(model: Model, form: str, target: str, arguments: argparse.Namespace) -> str:
    """Write the model; what to say about the size."""
    from odmlib.data.files import open_output
    from odmlib.model.foreign.files import foreign_text
    from odmlib.model.text_writer import model_binary, model_text

    if form == "c":
        from odmlib.model.export.c_code import save_c_code

        code = save_c_code(model, target, _precision(arguments), _scaling(model, arguments))
        return f"; {code.data_bytes} bytes of constants, {code.stack_bytes} bytes of arrays on the stack"
    if form == "onnx":
        from odmlib.model.export.onnx_graph import DEFAULT_OPSET, save_onnx

        opset = arguments.opset or DEFAULT_OPSET
        size = save_onnx(model, target, _precision(arguments), _scaling(model, arguments), opset)
        return f"; {size} bytes, opset {opset}"
    writers = {"odmlib": model_text, "binary": model_binary}
    with open_output(target) as stream:
        stream.writelines(writers[form](model) if form in writers else foreign_text(model, form))
    return ""


def _precision(arguments: argparse.Namespace) -> str:
    return "float32" if arguments.float32 else "float64"


def _scaling(model: Model, arguments: argparse.Namespace) -> Scaling | None:
    if arguments.range is None:
        return None
    from odmlib.data.scaling import Scaling

    return Scaling.read(arguments.range, zero_based=model.zero_based)


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] model_file output_file", DESCRIPTION, EXAMPLES)
    parser.option(
        "--to FORM",
        "libsvm, liblinear, odmlib (text), binary, c or onnx (default: liblinear for linear models of ours, "
        "libsvm for our others, odmlib for theirs)",
        choices=tuple(FORMS),
    )
    parser.option(
        "--features N",
        "from LIBSVM: number of features of the data, which its model files do not say (default: features "
        "that no vector has count as LIBSVM counts them)",
        type=positive_whole_number,
    )
    parser.option("--range FILE", "to c or onnx: scale every row first, as odm-scale -r FILE does")
    parser.option("--float32", "to c or onnx: numbers of 32 bits instead of 64")
    parser.option("--opset N", "to onnx: version of the operators (default: 22)", type=positive_whole_number)
    parser.option("-q --quiet", "say nothing but warnings")
    parser.add_argument("model_file")
    parser.add_argument("output_file")
    return parser


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
