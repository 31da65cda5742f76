"""odm-info: what is in a model file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import one_line, run_tool, shown_name
from odmlib.cli.parser import ToolParser

if TYPE_CHECKING:
    from odmlib.model.model import Model

PROGRAM = "odm-info"

DESCRIPTION = """\
Tell what is in a model file of odmlib, LIBSVM or LIBLINEAR: the machine with all of its
parameters, the labels, the features, and how training went.
model_file may be - (standard input) and may be packed with gzip, bzip2 or xz.
"""

EXAMPLES = """\
examples:
  odm-info heart.model
  odm-info --json - heart.model | jq .parameters.gamma
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    from odmlib.cli.reports import open_wanted, write_report
    from odmlib.model.text_format import load_model

    model = load_model(arguments.model_file)
    with open_wanted(arguments.json) as stream:
        write_report(stream, description(model))
    if arguments.json != "-":
        print(f"{one_line(shown_name(arguments.model_file))}: {one_line(title(model))}")
        width = max(len(name) for name, _ in model.summary())
        for name, value in model.summary():
            print(f"  {name:{width}}  {one_line(value)}")
    return 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] model_file", DESCRIPTION, EXAMPLES)
    parser.option("--json FILE", "write all as JSON; - is stdout, then without the text")
    parser.add_argument("model_file")
    return parser


def title(model: Model) -> str:
    """The machine, or the program that the model comes from and that program's name for it."""
    solver = str(model.report["solver"])
    foreign = solver.startswith(("LIBSVM", "LIBLINEAR"))
    return solver if foreign else f"{model.machine}, {model.formula.name} kernel"


def description(model: Model) -> dict[str, Any]:
    """The model without its weights and vectors."""
    extras = {name: list(values) for name, values in model.extras.items()}
    return model.report | {
        "outputs": model.n_outputs,
        "zero_based": model.zero_based,
        "columns": None if model.columns is None else list(model.columns),
        "probability": "probability_slopes" in model.extras,
        "extras": extras,
    }


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
