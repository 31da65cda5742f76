"""odm-grid [grid options] [odm-train options] dataset

Search the best parameters, as LIBSVM's grid.py does; the last line of stdout is `C gamma rate`.

    odm-grid heart.scale                                C and gamma of ODM by 5-fold cross-validation
    odm-grid -log2c -1,7,2 -nu 0.1,0.9,0.2 heart.scale  C, gamma and nu
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odmlib._version import __version__
from odmlib.cli.common import ProgressLine, Terminated, ToolParser, UsageError, run_tool, say, warn
from odmlib.cli.parser import whole_number
from odmlib.cli.train import (
    add_training_options,
    check_folds,
    check_leave_one_out,
    checked_options,
    describe_data,
    given_options,
    open_report,
    read_problem,
    refuse_overwriting,
    teller,
)
from odmlib.errors import OdmError, ParameterError

if TYPE_CHECKING:
    from odmlib.data.problem import Problem
    from odmlib.options import TrainOptions
    from odmlib.selection.grid import GridPoint, GridResult

PROGRAM = "odm-grid"
FOLDS = 5
LOG2C, LOG2G = "-5,15,2", "3,-15,-2"  # grid.py's
# odm-train -C: the linear machine's C in finer steps, and gamma around `-g scale`
SHORT_LOG2C, SHORT_LINEAR_LOG2C, SHORT_GAMMAS = (-5.0, 11.0, 2.0), (-10.0, 10.0, 1.0), (-4, -2, 0, 2, 4)

DESCRIPTION = """\
Search parameters by validation: every point of a grid, then (--refine) finer ones
around the best. Options of odm-train are passed on; those that name a parameter
(-c, -g, -n, -p, --lambda1, --lambda2) fix it. stdout has a line per point and, last,
`C gamma rate`, with nu=, theta=, lambda1=, lambda2= behind where they were searched.
Ctrl-C prints the best so far; -resume goes on from the result file.
"""

EXAMPLES = """\
examples:
  odm-grid heart.scale                                 C and gamma, 5-fold cross-validation
  odm-grid -log2c -1,9,2 -log2g null -g 0.1 a.txt      C alone
  odm-grid -s svm -v 10 -j 4 -png a.svg a.txt          C-SVM, ten folds, four threads
  odm-grid --loo -nu 0.2,1,0.2 -theta 0,0.4,0.1 a.txt  four parameters by leave-one-out
  odm-grid -resume a.txt                               go on where Ctrl-C ended it

Ranges are BEGIN,END,STEP or null (not searched), of powers of two where the option says log2.
"""

GROUP = "grid options"
RANGES = {"C": "log2c", "gamma": "log2g", "lambda1": "log2lambda1", "lambda2": "log2lambda2"}


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool(PROGRAM, lambda: run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    find(argv)
    return 0


def find(argv: Sequence[str]) -> GridResult:
    """The whole tool; also what it found."""
    arguments = make_parser().parse(with_resume_file(argv))
    check_folds(arguments.v)
    if arguments.v is not None and arguments.loo:
        raise UsageError("-v and --loo are two ways to the same end; give one of them")
    given = given_options(arguments)
    options = checked_options(given)
    check_leave_one_out(arguments.loo, options)
    axes = wanted_axes(arguments, given, options)
    if arguments.svmtrain is not None:
        warn(PROGRAM, f"-svmtrain {arguments.svmtrain} has no meaning here: odm-grid trains by itself")
    if arguments.gnuplot not in (None, "null"):
        warn(PROGRAM, f"-gnuplot {arguments.gnuplot} is not used: matplotlib draws the picture, if installed")
    name = os.path.basename(arguments.training_set_file) if arguments.training_set_file != "-" else "stdin"
    out = f"{name}.out" if arguments.out is None else arguments.out
    png = f"{name}.png" if arguments.png is None else arguments.png
    if arguments.gnuplot == "null" and arguments.png is None:
        png = "null"
    for output in (out, png, arguments.json):
        refuse_overwriting(output, [arguments.training_set_file, arguments.weights])
    if out == "-" or png == "-":
        raise UsageError("results and picture need files of their own; stdout has a line per point")
    return search_grid(arguments, options, axes, out, png)


def make_parser() -> ToolParser:
    parser = ToolParser(
        PROGRAM,
        DESCRIPTION,
        usage="odm-grid [grid options] [odm-train options] dataset",
        epilog=EXAMPLES,
        help_flags=("--help",),
    )
    add_grid_options(parser)
    parser.option(
        "-out", metavar="FILE", group=GROUP, help="result file, or null (default: dataset + .out, here)"
    )
    parser.option(
        "-png",
        metavar="FILE",
        group=GROUP,
        help="heat map (also .svg, .pdf), or null (default: dataset + .png)",
    )
    parser.option(
        "-resume",
        metavar="[FILE]",
        group=GROUP,
        help="take over the points of a result file (default: dataset + .out)",
    )
    parser.option("-gnuplot", metavar="null", group=GROUP, help="null: no picture; gnuplot is never used")
    parser.option("-svmtrain", metavar="PATH", group=GROUP, help="has no meaning here; accepted for scripts")
    add_training_options(parser, without=("init",))
    parser.option("--json", metavar="FILE", help="write all points as JSON")
    parser.switch("-q", "--quiet", help="only the last line and warnings")
    parser.add_argument("training_set_file", metavar="dataset")
    return parser


def add_grid_options(parser: ToolParser) -> None:
    """What is searched, and how it is validated."""
    for flag, what, default in (
        ("-log2c", "C", LOG2C),
        ("-log2g", "gamma", LOG2G),
        ("-nu", "nu", "null"),
        ("-theta", "theta", "null"),
        ("-log2lambda1", "lambda1 of odml", "null"),
        ("-log2lambda2", "lambda2 of odml", "null"),
    ):
        powers = "powers of two for " if flag.startswith("-log2") else "values of "
        parser.option(
            flag,
            dest="range_" + flag[1:],
            type=span,
            metavar="B,E,S",
            group=GROUP,
            help=f"{powers}{what}: begin,end,step, or null (default {default})",
        )
    parser.option("-v", type=whole_number, metavar="N", group=GROUP, help="folds (default 5)")
    parser.switch("--loo", group=GROUP, help="leave-one-out from one fit instead of folds (odm)")
    parser.option(
        "--refine",
        type=whole_number,
        default=0,
        metavar="N",
        group=GROUP,
        help="N more rounds around the best, each with half the steps (default 0)",
    )


def with_resume_file(argv: Sequence[str]) -> list[str]:
    """The command line with a file behind every -resume: grid.py's rule is that the last word is the data."""
    words = list(argv)
    for place, word in enumerate(words):
        if word == "-resume" and (place + 2 >= len(words) or words[place + 1].startswith("-")):
            words[place] = f"-resume={os.path.basename(words[-1])}.out"
    return words


def span(text: str) -> tuple[float, ...]:
    """begin, end and step; nothing for null."""
    if text == "null":
        return ()
    try:
        begin, end, step = (
            float(number) if "_" not in number else float("nan") for number in text.split(",")
        )
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected begin,end,step or null, found '{text}'") from None
    return begin, end, step


def wanted_axes(
    arguments: argparse.Namespace, given: dict[str, Any], options: TrainOptions
) -> dict[str, list[float]]:
    """The values to search: of the ranges named, and of C and gamma unless they are given."""
    from odmlib.selection.grid import AXES, is_searchable, make_axes, values_of, with_parameters

    ranges = {}
    for name in AXES:
        flag = RANGES.get(name, name)
        wish = getattr(arguments, f"range_{flag}")
        fixed = name in given or (name == "C" and "lambda_" in given)
        if wish and fixed:
            raise UsageError(f"-{flag} searches what another option fixes; give one of them")
        if wish and not is_searchable(name, options):
            raise UsageError(f"-{flag}: machine {options.machine} with kernel {options.kernel} has no {name}")
        if wish is None and not fixed and name in ("C", "gamma"):
            wish = span(LOG2C if name == "C" else LOG2G)
        if wish:
            ranges[name] = wish
    try:
        axes = make_axes(options, ranges)
        for name in axes:  # a value out of range must not wait for its turn
            for value in values_of(name, ranges[name]):
                with_parameters(options, {name: value})
    except ParameterError as error:
        raise UsageError(str(error)) from None
    return axes


# ---------------------------------------------------------------------------------------- work


def search_grid(
    arguments: argparse.Namespace, options: TrainOptions, axes: dict[str, list[float]], out: str, png: str
) -> GridResult:
    from odmlib.selection.grid import GridResult, search
    from odmlib.selection.grid_file import ResultFile, as_resumed, head_line, read_points

    head, known = read_points(arguments.resume) if arguments.resume is not None else (None, [])
    tell = teller(arguments, PROGRAM)
    with open_report(arguments.json) as write_report:
        problem, _, _ = read_problem(arguments, options)
        tell(describe_data(problem))
        validation = "leave-one-out" if arguments.loo else f"folds={arguments.v or FOLDS}"
        ours = head_line(problem, options, axes, validation)
        if head is not None and head != ours:
            raise OdmError(
                f"{arguments.resume}: belongs to another search: '{head.strip()}', "
                f"this one is '{ours.strip()}'"
            )
        if known and head is None:
            warn(PROGRAM, f"{arguments.resume} does not say what its rates belong to; they are believed")
        folds = arguments.v or FOLDS
        if folds > problem.rows.n_rows and not arguments.loo:
            warn(PROGRAM, f"{folds} folds for {problem.rows.n_rows} rows: leaving out one row at a time")
        result = GridResult(axes, 0)
        file = None if out == "null" else ResultFile(out, ours, known)
        try:
            with ProgressLine(None if arguments.quiet else sys.stderr) as line:
                follow = Follower(line, file, arguments.quiet)
                try:
                    result = search(
                        problem,
                        options,
                        axes,
                        folds=folds,
                        loo=arguments.loo,
                        refine=arguments.refine,
                        known=as_resumed(known, axes),
                        tell=follow.point,
                        progress=follow.progress,
                    )
                except (KeyboardInterrupt, Terminated):
                    line.clear()
                    print_best(follow.result)  # what is known is worth having
                    raise
        finally:
            if file is not None:
                file.close()
        if result.best is None:
            raise OdmError("the time limit (--time-limit) was reached before the first point was known")
        if not result.complete:
            warn(
                PROGRAM,
                f"the time limit was reached: {len(result.points)} of {result.n_points} points are known",
            )
        unfinished = sum(point.unfinished for point in result.points)
        if unfinished:
            warn(PROGRAM, f"{unfinished} trainings did not converge")
        draw(result, png, arguments)
        write_report(
            {
                "version": __version__,
                "machine": options.machine,
                "kernel": options.kernel,
                "rows": problem.rows.n_rows,
                "features": problem.rows.n_features,
                "validation": validation,
                "seed": options.seed,
                "threads": options.n_threads,
                "search": result.report(),
            }
        )
        print_best(result, to_stderr=arguments.json == "-")
    return result


class Follower:
    """What happens with each point while the search goes on."""

    def __init__(self, line: ProgressLine, file: Any, quiet: bool):
        self.line, self.file, self.quiet = line, file, quiet
        self.result: GridResult | None = None
        self.started, self.done = time.monotonic(), 0

    def point(self, point: GridPoint, result: GridResult) -> None:
        self.result = result
        if self.file is not None and not point.resumed:
            self.file.add(point)
        self.done += not point.resumed
        if not self.quiet:
            self.line.clear()
            print(point_talk(point, result), flush=True)
        self.progress()

    def progress(self, progress: object = None) -> None:
        self.line.show(self.text)

    def text(self) -> str:
        if self.result is None or not self.done:
            return f"searching  {time.monotonic() - self.started:.0f} s"
        known, wanted = len(self.result.points), self.result.n_points
        seconds = time.monotonic() - self.started
        left = seconds / self.done * (wanted - known)
        best = "" if self.result.best is None else f"  best {self.result.best.rate:g} %"
        return f"point {known} of {wanted}{best}  {seconds:.0f} s, about {left:.0f} s left"


def point_talk(point: GridPoint, result: GridResult) -> str:
    """grid.py's line: `[local] log2c log2g rate (best c=..., g=..., rate=...)`."""
    from odmlib.selection.grid import AXES, on_axis

    assert result.best is not None
    best = result.best
    letters = {"C": "c", "gamma": "g"}
    names = [name for name in AXES if name in point.parameters]
    values = " ".join(f"{on_axis(name, point.parameters[name]):g}" for name in names)
    bests = ", ".join(f"{letters.get(name, name)}={best.parameters[name]}" for name in names)
    who = "resumed" if point.resumed else "local"
    return f"[{who}] {values} {point.rate:g} (best {bests}, rate={best.rate:g})"


def best_line(best: GridPoint) -> str:
    """`C gamma rate`, then the other parameters by name."""
    words = [str(best.parameters[name]) for name in ("C", "gamma") if name in best.parameters]
    others = [f"{name}={value}" for name, value in best.parameters.items() if name not in ("C", "gamma")]
    return " ".join([*words, f"{best.rate:g}", *others])


def print_best(result: GridResult | None, to_stderr: bool = False) -> None:
    if result is not None and result.best is not None:
        print(best_line(result.best), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def draw(result: GridResult, png: str, arguments: argparse.Namespace) -> None:
    """The heat map, as a picture where matplotlib is there, and as text for whoever watches."""
    from odmlib.selection.heat_map import draw_heat_map, text_heat_map

    if not arguments.quiet:
        for text in text_heat_map(result).splitlines():
            say(PROGRAM, text)
    if png == "null":
        return
    try:
        draw_heat_map(result, png, os.path.basename(arguments.training_set_file))
    except ImportError:
        if arguments.png is not None:
            warn(PROGRAM, f"{png} is not drawn: matplotlib is not installed")


# ---------------------------------------------------------------------------------------- odm-train -C


def short_search(
    arguments: argparse.Namespace, options: TrainOptions, problem: Problem
) -> tuple[TrainOptions, dict[str, Any]]:
    """odm-train -C: the options with the best C and gamma, and the report; LIBLINEAR's lines are printed."""
    from odmlib.machines.training import kernel_formula
    from odmlib.selection.grid import is_searchable, search, values_of, with_parameters

    program = "odm-train"
    axes: dict[str, list[float]] = {}
    if arguments.C is None and arguments.lambda_ is None:
        axes["C"] = values_of("C", SHORT_LINEAR_LOG2C if options.kernel == "linear" else SHORT_LOG2C)
    if arguments.gamma is None and is_searchable("gamma", options):
        scale = kernel_formula(problem.rows, options).gamma
        axes["gamma"] = [scale * 2.0**power for power in SHORT_GAMMAS]
    if not axes:
        raise UsageError("-C has nothing to search: -c (and -g) are given")
    folds = arguments.v or FOLDS
    how = "leave-one-out from one fit" if arguments.loo else f"{folds}-fold cross validation"
    to_stderr = "-" in (arguments.json, arguments.model_file, arguments.margins)
    stream = sys.stderr if to_stderr else sys.stdout
    if not arguments.quiet:
        print(f"Doing parameter search with {how}.", file=stream, flush=True)
    with ProgressLine(None if arguments.quiet else sys.stderr) as line:
        follow = ShortFollower(line, arguments.quiet, stream)
        try:
            result = search(
                problem,
                dataclasses.replace(options, probability=False),
                axes,
                folds=folds,
                loo=arguments.loo,
                tell=follow.point,
                progress=follow.progress,
            )
        except (KeyboardInterrupt, Terminated):
            line.clear()
            if follow.result is not None:
                print(short_best(follow.result), file=stream, flush=True)
            raise
    if result.best is None:
        raise OdmError("the time limit (--time-limit) was reached before the first point was known")
    if not result.complete:
        warn(program, f"the time limit was reached: {len(result.points)} of {result.n_points} points known")
    best = result.best.parameters
    if "C" in best and best["C"] == max(axes["C"]):
        warn(program, "the best C is the largest tried; odm-grid -log2c tries others")
    print(short_best(result), file=stream, flush=True)
    found = {
        "version": __version__,
        "machine": options.machine,
        "kernel": options.kernel,
        "rows": problem.rows.n_rows,
        "validation": "leave-one-out" if arguments.loo else f"folds={folds}",
        "search": result.report(),
    }
    return with_parameters(options, best), found


class ShortFollower(Follower):
    def __init__(self, line: ProgressLine, quiet: bool, stream: Any):
        super().__init__(line, None, True)
        self.talks, self.stream = not quiet, stream

    def point(self, point: GridPoint, result: GridResult) -> None:
        super().point(point, result)
        if self.talks:
            from odmlib.selection.grid import on_axis

            names = {"C": "log2c", "gamma": "log2g"}
            words = [f"{names[name]}={on_axis(name, value):7.2f}" for name, value in point.parameters.items()]
            self.line.clear()
            print("\t".join([*words, f"rate={point.rate:g}"]), file=self.stream, flush=True)


def short_best(result: GridResult) -> str:
    assert result.best is not None
    words = [f"{name} = {value:.12g}" for name, value in result.best.parameters.items()]
    return f"Best {'  '.join(words)}  CV accuracy = {result.best.rate:g}%"


if __name__ == "__main__":
    sys.exit(main())
