"""odm-grid: search the best parameters, as LIBSVM's grid.py does."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from odmlib.cli import reports
from odmlib.cli.common import (
    Terminated,
    bad_values_as_usage,
    base_name,
    refuse_overwriting,
    refuse_twice,
    run_tool,
    say,
    warn,
)
from odmlib.cli.parser import ToolParser, UsageError
from odmlib.cli.progress import ProgressLine
from odmlib.cli.training import add_training_options, checked_options, given_options, read_problem
from odmlib.errors import OdmError, ParameterError
from odmlib.values import read_number, read_whole

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.data.problem import Problem
    from odmlib.data.row_store import RowStore
    from odmlib.options import TrainOptions
    from odmlib.selection.grid import GridPoint, GridResult
    from odmlib.selection.grid_file import ResultFile

PROGRAM = "odm-grid"
FOLDS = 5
LOG2C, LOG2G = "-5,15,2", "3,-15,-2"  # grid.py's
# odm-train -C: the linear machine's C in finer steps, and gamma around `-g scale`
SHORT_LOG2C, LINEAR_LOG2C, GAMMAS = (-5.0, 11.0, 2.0), (-10.0, 10.0, 1.0), (-4, -2, 0, 2, 4)

DESCRIPTION = """\
Search parameters by validation: every point of a grid, then (--refine) finer ones
around the best. Options of odm-train are passed on; those that name a parameter
(-c, -g, -n, -p, --lambda1, --lambda2) fix it. stdout has a line per point and, last,
`C gamma rate`, with nu=, theta=, epsilon=, lambda1=, lambda2= behind where they were
searched. The rate of odmr is the mean squared error, and the lowest one is the best.
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


def run(argv: Sequence[str]) -> int:
    find(argv)
    return 0


def find(argv: Sequence[str]) -> GridPoint:
    """The whole tool; the best point."""
    arguments = make_parser().parse(with_resume_file(argv))
    options = checked_options(arguments)
    axes = wanted_axes(arguments, given_options(arguments), options)
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
    refuse_twice([name for name in (out, png, arguments.json) if name != "null"])
    if out == "-" or png == "-":
        raise UsageError("results and picture need files of their own; stdout has a line per point")
    return search_grid(arguments, options, axes, out, png)


def make_parser() -> ToolParser:
    usage = "[grid options] [odm-train options] dataset"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES, help_flags="--help")
    add_grid_options(parser)
    for usage, help in (
        ("-out FILE", "result file, or null (default: dataset + .out, here)"),
        ("-png FILE", "heat map (also .svg, .pdf), or null (default: dataset + .png)"),
        ("-resume [FILE]", "take over the points of a result file (default: dataset + .out)"),
        ("-gnuplot null", "null: no picture; gnuplot is never used"),
        ("-svmtrain PATH", "has no meaning here; accepted for scripts"),
    ):
        parser.option(usage, help, group=GROUP)
    add_training_options(parser, without=("init",))
    parser.option("--json FILE", "write all points as JSON")
    parser.option("-q --quiet", "only the last line and warnings")
    parser.add_argument("training_set_file", metavar="dataset")
    return parser


def add_grid_options(parser: ToolParser) -> None:
    """What is searched, and how it is validated."""
    for flag, what, default in (
        ("-log2c", "C", LOG2C),
        ("-log2g", "gamma", LOG2G),
        ("-nu", "nu", "null"),
        ("-theta", "theta", "null"),
        ("-epsilon", "epsilon of odmr", "null"),
        ("-log2lambda1", "lambda1 of odml", "null"),
        ("-log2lambda2", "lambda2 of odml", "null"),
    ):
        powers = "powers of two for " if flag.startswith("-log2") else "values of "
        help = f"{powers}{what}: begin,end,step, or null (default {default})"
        parser.option(f"{flag} B,E,S", help, type=span, group=GROUP, dest="range_" + flag[1:])
    parser.option("-v N", "folds (default 5)", type=read_whole, group=GROUP)
    parser.option("--loo", "leave-one-out from one fit instead of folds (odml, odm, odmr)", group=GROUP)
    extend = "if the best point lies on an edge of the grid, go one step beyond, at most N times (default 0)"
    parser.option("--extend N", extend, type=read_whole, group=GROUP, default=0)
    refine = "N more rounds around the best, each with half the steps (default 0)"
    parser.option("--refine N", refine, type=read_whole, group=GROUP, default=0)


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
        begin, end, step = map(read_number, text.split(","))
    except ValueError:
        raise ValueError(f"expected begin,end,step or null, found '{text}'") from None
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
    with bad_values_as_usage():
        axes = make_axes(options, ranges)
        for name in axes:  # a value out of range must not wait for its turn
            for value in values_of(name, ranges[name]):
                with_parameters(options, {name: value})
    return axes


# ---------------------------------------------------------------------------------------- work


def search_grid(
    arguments: argparse.Namespace, options: TrainOptions, axes: dict[str, list[float]], out: str, png: str
) -> GridPoint:
    from odmlib.selection.grid import search
    from odmlib.selection.grid_file import ResultFile, head_line, read_points

    most = math.inf if options.declaration.learns == "targets" else 100.0
    head, known = read_points(arguments.resume, most) if arguments.resume is not None else (None, [])
    followed = FollowedSearch(PROGRAM, arguments, sys.stdout, point_talk, best_line)
    with reports.open_wanted(arguments.json) as report:
        problem, _, _ = read_problem(arguments, options)
        reports.tell_of_data(PROGRAM, problem, options, arguments)
        ours = head_line(problem, options, axes, followed.validation)
        if head is not None and head != ours:
            raise OdmError(
                f"{arguments.resume}: belongs to another search: '{head.strip()}', "
                f"this one is '{ours.strip()}'"
            )
        if known and head is None:
            warn(PROGRAM, f"{arguments.resume} does not say what its rates belong to; they are believed")
        if not arguments.loo:
            reports.warn_of_many_folds(PROGRAM, followed.folds, problem)
        with nullcontext() if out == "null" else closing(ResultFile(out, ours, known)) as followed.file:
            how = {"refine": arguments.refine, "extend": arguments.extend, "known": known}
            result, best = followed.run(partial(search, problem, options, axes, **how))
        for remark in () if arguments.quiet else edge_remarks(result):
            say(PROGRAM, f"{remark}; --extend 3 goes on from there")
        unfinished = sum(point.unfinished for point in result.points)
        if unfinished:
            warn(PROGRAM, f"{unfinished} trainings did not converge")
        draw(result, png, arguments)
        reports.write_report(report, followed.report(problem.rows, options, result))
        print(best_line(best), file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
    return best


class FollowedSearch:
    """A search, and what happens with each of its points: a line on `stream`, one in the result file."""

    def __init__(
        self,
        program: str,
        arguments: argparse.Namespace,
        stream: TextIO,
        point_line: Callable[[GridPoint, GridPoint], str],  # of a point and the best one
        best_line: Callable[[GridPoint], str],
    ):
        self.program, self.loo, self.quiet = program, arguments.loo, arguments.quiet
        self.stream, self.point_line, self.best_line = stream, point_line, best_line
        self.folds = arguments.v or FOLDS
        self.validation = "leave-one-out" if self.loo else f"folds={self.folds}"
        self.file: ResultFile | None = None
        self.line = ProgressLine(None if self.quiet else sys.stderr, program)
        self.result: GridResult | None = None
        self.started, self.done = 0.0, 0

    def run(self, search: Callable[..., GridResult]) -> tuple[GridResult, GridPoint]:
        """All points and the best; interrupted: prints the best so far."""
        self.started = time.monotonic()
        how: dict[str, Any] = {"loo": True} if self.loo else {"folds": self.folds}
        with self.line:
            try:
                result = search(tell=self.point, progress=self.progress, **how)
            except (KeyboardInterrupt, Terminated):
                self.line.clear()
                if self.result is not None and self.result.best is not None:  # what is known is worth having
                    print(self.best_line(self.result.best), file=self.stream, flush=True)
                raise
        if result.best is None:
            raise OdmError("the time limit (--time-limit) was reached before the first point was known")
        if not result.complete:
            known = f"{len(result.points)} of {result.n_points} points are known"
            warn(self.program, f"the time limit was reached: {known}")
        return result, result.best

    def report(self, rows: Dataset | RowStore, options: TrainOptions, result: GridResult) -> dict[str, Any]:
        found = {"validation": self.validation, "search": result.report()}
        return reports.report_head(rows, options) | found

    def point(self, point: GridPoint, result: GridResult) -> None:
        self.result = result
        if self.file is not None and not point.resumed:
            self.file.add(point)
        self.done += not point.resumed
        if not self.quiet:
            self.line.clear()
            print(self.point_line(point, result.best or point), file=self.stream, flush=True)
        self.progress()

    def progress(self, progress: object = None) -> None:
        self.line.show(self.text)

    def text(self) -> str:
        seconds = time.monotonic() - self.started
        if self.result is None or not self.done:
            return f"searching  {seconds:.0f} s"
        known, wanted = len(self.result.points), self.result.n_points
        left = seconds / self.done * (wanted - known)
        unit = "" if self.result.lower_is_better else " %"
        best = "" if self.result.best is None else f"  best {self.result.best.rate:g}{unit}"
        return f"point {known} of {wanted}{best}  {seconds:.0f} s, about {left:.0f} s left"


def point_talk(point: GridPoint, best: GridPoint) -> str:
    """grid.py's line: `[local] log2c log2g rate (best c=..., g=..., rate=...)`."""
    from odmlib.selection.grid import AXES, on_axis

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


def edge_remarks(result: GridResult) -> Iterator[str]:
    """A sentence for each parameter whose best value may lie beyond those tried."""
    from odmlib.selection.grid import edges

    for name, following in edges(result).items():
        best = result.best.parameters[name] if result.best is not None else following
        which = "largest" if following > best else "smallest"
        yield f"the best {name}, {best:g}, is the {which} that was tried"


def draw(result: GridResult, png: str, arguments: argparse.Namespace) -> None:
    """The heat map, as a picture where matplotlib is there, and as text for whoever watches."""
    from odmlib.plots.inside import tune_picture
    from odmlib.plots.picture import FORMATS, require_matplotlib, save_picture
    from odmlib.selection.heat_map import text_heat_map

    if not arguments.quiet:
        for text in text_heat_map(result).splitlines():
            say(PROGRAM, text)
    if png == "null":
        return
    ending = png.rpartition(".")[2].lower()
    kind = ending if ending in FORMATS else "png"
    try:
        if kind != "svg":
            require_matplotlib(png)
    except OdmError:
        if arguments.png is not None:
            warn(PROGRAM, f"{png} is not drawn: matplotlib is not installed")
        return
    try:
        picture = tune_picture(result, base_name(arguments.training_set_file))
    except ParameterError as error:
        warn(PROGRAM, f"{png} is not drawn: {error}")
        return
    save_picture([picture], png, kind)


# ---------------------------------------------------------------------------------------- odm-train -C


def short_search(
    arguments: argparse.Namespace, options: TrainOptions, problem: Problem
) -> tuple[TrainOptions, dict[str, Any]]:
    """The options with the best C and gamma where they are not given, and the report; LIBLINEAR's lines."""
    from odmlib.machines.building import kernel_formula
    from odmlib.selection.grid import check_searchable, is_searchable, search

    with bad_values_as_usage():
        check_searchable(options)
    gammas: list[float] = []
    if arguments.gamma is None and is_searchable("gamma", options):
        scale = kernel_formula(problem.rows, options).gamma
        gammas = [scale * 2.0**power for power in GAMMAS]
    lower_is_better = problem.targets is not None
    return short_search_of(
        arguments, options, problem.rows, partial(search, problem), gammas, lower_is_better
    )


def short_search_of(
    arguments: argparse.Namespace,
    options: TrainOptions,
    rows: Dataset | RowStore,
    search: Callable[..., GridResult],  # of these rows: of options and axes
    gammas: Sequence[float] = (),
    lower_is_better: bool = False,
) -> tuple[TrainOptions, dict[str, Any]]:
    """`short_search`, wherever the rows are."""
    from odmlib.selection.grid import values_of, with_parameters

    axes: dict[str, list[float]] = {}
    if arguments.C is None and arguments.lambda_ is None:
        axes["C"] = values_of("C", LINEAR_LOG2C if options.kernel == "linear" else SHORT_LOG2C)
    if gammas:
        axes["gamma"] = list(gammas)
    if not axes:
        raise UsageError("-C has nothing to search: -c (and -g) are given")
    to_stderr = "-" in (arguments.json, arguments.model_file, arguments.margins)
    stream = sys.stderr if to_stderr else sys.stdout
    followed = FollowedSearch("odm-train", arguments, stream, short_point, short_best)
    if not arguments.quiet:
        how = "leave-one-out from one fit" if arguments.loo else f"{followed.folds}-fold cross validation"
        print(f"Doing parameter search with {how}.", file=stream, flush=True)
    if lower_is_better:
        followed.point_line = partial(short_point, measure="MSE")
        followed.best_line = partial(short_best, lower_is_better=True)
    result, best = followed.run(partial(search, options.but(probability=False), axes))
    for remark in () if arguments.quiet else edge_remarks(result):
        say("odm-train", f"{remark}; odm-grid tries others")
    print(followed.best_line(best), file=stream, flush=True)
    return with_parameters(options, best.parameters), followed.report(rows, options, result)


def short_point(point: GridPoint, best: GridPoint, measure: str = "rate") -> str:
    from odmlib.selection.grid import on_axis

    names = {"C": "log2c", "gamma": "log2g"}
    words = [f"{names[name]}={on_axis(name, value):7.2f}" for name, value in point.parameters.items()]
    return "\t".join([*words, f"{measure}={point.rate:g}"])


def short_best(best: GridPoint, lower_is_better: bool = False) -> str:
    words = [f"{name} = {value:.12g}" for name, value in best.parameters.items()]
    if lower_is_better:
        return f"Best {'  '.join(words)}  CV MSE = {best.rate:g}"
    return f"Best {'  '.join(words)}  CV accuracy = {best.rate:g}%"


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
