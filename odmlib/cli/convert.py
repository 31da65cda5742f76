"""odm-convert: turn a model of odmlib into one of LIBSVM or LIBLINEAR, or one of theirs into ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from odmlib.cli.common import bad_values_as_usage, refuse_overwriting, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, positive_whole_number

PROGRAM = "odm-convert"
FORMS = ("libsvm", "liblinear", "odmlib")

DESCRIPTION = """\
Convert a model file: one of odmlib becomes one of LIBLINEAR (linear kernel) or of LIBSVM
(any kernel), and theirs become ours; what the file holds decides. Predictions stay the same:
svm-predict, LIBLINEAR's predict and odm-predict give the same labels line for line.
Either file may be - (standard input, standard output).
"""

EXAMPLES = """\
examples:
  odm-convert heart.model heart.libsvm            to LIBSVM; then: svm-predict test.txt heart.libsvm out
  odm-convert --to libsvm linear.model l.libsvm   a linear model to LIBSVM as well
  odm-convert theirs.libsvm ours.model            from LIBSVM or LIBLINEAR

Labels must be whole numbers: LIBSVM and LIBLINEAR keep no others. Probabilities go to LIBSVM
for two classes and one-vs-one; its -b 1 then takes the most probable label.
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    source, target = arguments.model_file, arguments.output_file
    refuse_overwriting(target, [source])
    from odmlib.data.files import open_output
    from odmlib.errors import OdmError, ParameterError
    from odmlib.model.foreign.files import default_form, foreign_text, losses, read_any_model
    from odmlib.model.text_writer import model_text
    from odmlib.names import CONVERTED

    shown = shown_name(source)
    with bad_values_as_usage():
        model, came_as = read_any_model(source, arguments.features)
    form = arguments.to or (default_form(model) if came_as == "odmlib" else "odmlib")
    if form == came_as:
        raise OdmError(f"{shown}: this is a model of {form} already")
    remarks = [] if form == "odmlib" else losses(model, form)
    try:
        with open_output(target) as stream:
            stream.writelines(model_text(model) if form == "odmlib" else foreign_text(model, form))
    except ParameterError as error:
        raise OdmError(f"{shown}: {error.shell}") from None
    for remark in remarks:
        warn(PROGRAM, remark)
    if not arguments.quiet:
        origin = model.report["solver"] if model.report["status"] == CONVERTED else model.machine
        what = "standard output" if target == "-" else target
        program = {"libsvm": "LIBSVM", "liblinear": "LIBLINEAR", "odmlib": "odmlib"}[form]
        classes = f"{model.n_classes} classes"
        say(PROGRAM, f"{origin}, {model.formula.name} kernel, {classes}: {program} model written to {what}")
    return 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] model_file output_file", DESCRIPTION, EXAMPLES)
    parser.option(
        "--to FORM",
        "libsvm, liblinear or odmlib (default: liblinear for linear models of ours, libsvm for our others, "
        "odmlib for theirs)",
        choices=FORMS,
    )
    parser.option(
        "--features N",
        "from LIBSVM: number of features of the data, which its model files do not say (default: features "
        "that no vector has count as LIBSVM counts them)",
        type=positive_whole_number,
    )
    parser.option("-q --quiet", "say nothing but warnings")
    parser.add_argument("model_file")
    parser.add_argument("output_file")
    return parser


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
