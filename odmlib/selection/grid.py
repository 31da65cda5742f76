"""Parameter search: validation of every point of a grid, and of finer ones around the best.

Points that differ in C only are a chain, validated together from small to large C (path_run.py); chains with
the same kernel follow each other, so that its rows are computed once. Chains come in the order of grid.py:
the middle of each range first, then the middles of its halves, so that what is known early covers the whole
grid.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.machines.training import make_problem, make_settings
from odmlib.options import TrainOptions
from odmlib.parameters import MACHINE_PARAMETERS
from odmlib.selection.cross_validation import cross_validate, cross_validate_targets
from odmlib.selection.leave_one_out import check_machine
from odmlib.selection.path_run import FoldPaths, PathRun, Rate, RateCallback, leave_one_out_rates
from odmlib.solvers.control import Control, Progress
from odmlib.values import Number

# what can be searched, in the order of result files; the first four of them in powers of two
AXES = ("C", "gamma", "lambda1", "lambda2", "nu", "theta", "epsilon")
POWERS = AXES[:4]
LOG2C, LOG2G = (-5.0, 15.0, 2.0), (3.0, -15.0, -2.0)  # grid.py's: begin, end, step
# of the others; and of the exponents that a search goes on to by itself
BOUNDS = {"nu": (0.0, math.inf), "theta": (0.0, math.nextafter(1, 0)), "epsilon": (0.0, math.inf)}
MOST_POWER = 30.0
RATE_DIGITS = 6  # of a percentage, as svm-train prints it

PointCallback = Callable[["GridPoint", "GridResult"], object]


@dataclass(frozen=True)
class GridPoint:
    """One point: the parameters searched, and what validation said."""

    parameters: dict[str, float]
    rate: float  # percent of the rows; regression: mean squared error
    unfinished: int = 0  # trainings that did not converge
    resumed: bool = False  # known from a file

    @property
    def key(self) -> tuple[float, ...]:
        return key_of(self.parameters)


@dataclass
class GridResult:
    """What a search found: `points` in the order they ended, and `best`."""

    axes: dict[str, list[float]]
    n_points: int  # how many were to be validated
    points: list[GridPoint] = field(default_factory=list, repr=False)
    best: GridPoint | None = None
    seconds: float = 0.0
    lower_is_better: bool = False  # regression, whose rates are errors
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=lambda: BOUNDS, repr=False)

    @property
    def complete(self) -> bool:
        return len(self.points) >= self.n_points

    def add(self, point: GridPoint) -> None:
        self.points.append(point)
        if self.best is None or _better(point, self.best, self.lower_is_better):
            self.best = point

    def report(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return {
            "axes": self.axes,
            "best": None if self.best is None else self.best.parameters | {"rate": self.best.rate},
            "points": [
                point.parameters | {"rate": point.rate, "unfinished": point.unfinished}
                for point in self.points
            ],
            "complete": self.complete,
            "seconds": self.seconds,
        }


def grid_search(
    X: Any,
    y: Any,
    *,
    log2c: Sequence[float] | None = LOG2C,
    log2g: Sequence[float] | None = LOG2G,
    nu: Sequence[float] | None = None,
    theta: Sequence[float] | None = None,
    epsilon: Sequence[float] | None = None,
    log2lambda1: Sequence[float] | None = None,
    log2lambda2: Sequence[float] | None = None,
    folds: int = 5,
    loo: bool = False,
    refine: int = 0,
    extend: int = 0,
    tell: PointCallback | None = None,
    **options: Any,
) -> GridResult:
    """Validate a grid of parameters and return all points and the best.

    log2c, log2g, log2lambda1, log2lambda2: (begin, end, step) of powers of two; nu, theta, epsilon: of the
    values themselves; None: not searched. `folds`-fold cross-validation, or with `loo` leave-one-out from
    one fit (machines odm and odmr). odmr: `rate` is the mean squared error, and the best point has the
    lowest. `extend`: as long as the best point lies on an edge of the grid, go one step beyond it, so many
    times at most. `refine`: so many more rounds, each with half the steps, around the best point. `tell` is
    called with each point and the result so far; a true answer ends the search. `options` are those of
    odmlib.train; C, gamma, ... given there are not searched. time_limit is that of the whole search.

    >>> import odmlib
    >>> X, y = odmlib.read_data("data/wdbc.train.txt")
    >>> result = odmlib.grid_search(X, y, log2c=(-3, 5, 4), log2g=(-14, -18, -2), folds=3)
    >>> len(result.points), sorted(result.best.parameters)
    (9, ['C', 'gamma'])
    """
    given = {name for name in (*AXES, "lambda_") if options.get(name) is not None}
    if "lambda_" in given:
        given.add("C")
    if options.get("gamma") == "scale":
        given.remove("gamma")
    spans = zip(AXES, (log2c, log2g, log2lambda1, log2lambda2, nu, theta, epsilon), strict=True)
    ranges = {name: span for name, span in spans if span is not None and name not in given}
    settings = make_settings(options)
    axes = make_axes(settings, ranges)
    problem = make_problem(X, y, settings)
    problem.require_classes(settings.machine)
    return search(problem, settings, axes, folds=folds, loo=loo, refine=refine, extend=extend, tell=tell)


def make_axes(options: TrainOptions, ranges: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The values of each parameter that the machine and kernel have; ranges of others are left out."""
    check_searchable(options)
    names = [name for name in AXES if name in ranges and is_searchable(name, options)]
    axes = {name: values_of(name, ranges[name]) for name in names}
    if not axes:
        raise ParameterError("nothing to search: every parameter is given")
    return axes


def check_searchable(options: TrainOptions) -> None:
    if options.declaration.learns == "one class":
        raise ParameterError(
            f"machine {options.machine} learns from one class: no accuracy tells which parameters are best"
        )


def is_searchable(name: str, options: TrainOptions) -> bool:
    """Whether the machine and kernel have this parameter; kmomd's lambda is searched as C."""
    if name == "gamma":
        return options.kernel in ("poly", "rbf", "sigmoid")
    return name == "C" or name in MACHINE_PARAMETERS[options.machine]


def values_of(name: str, span: Sequence[float]) -> list[float]:
    """begin, begin + step, ... up to and with end (a hair beyond, as steps such as 0.1 are not exact)."""
    if len(span) != 3 or not all(math.isfinite(number) for number in span):
        raise ParameterError(f"the range of {name} must be begin, end and step, found {list(span)}")
    begin, end, step = (float(number) for number in span)
    if step == 0 or (end - begin) * step < 0:
        raise ParameterError(f"the range of {name} never gets from {begin:g} to {end:g} by steps of {step:g}")
    n_values = int((end - begin) / step + 1e-9) + 1
    if n_values > MAX_VALUES:
        raise ParameterError(f"the range of {name} has {n_values} values, at most {MAX_VALUES} make sense")
    numbers = [round(begin + place * step, 12) for place in range(n_values)]
    if name not in POWERS:
        return numbers
    try:
        return [2.0**number for number in numbers]
    except OverflowError:
        raise ParameterError(f"the range of {name} goes beyond 2^1023") from None


MAX_VALUES = 10_000


def search(
    problem: Problem,
    options: TrainOptions,
    axes: Mapping[str, Sequence[float]],
    *,
    folds: int = 5,
    loo: bool = False,
    **how: Any,
) -> GridResult:
    """`grid_search` for checked data; `how` is for `search_rates`."""
    check_searchable(options)
    if folds < 2:
        raise ParameterError(f"cross-validation needs at least 2 folds, found {folds}")
    if loo:
        check_machine(options)
    paths = FoldPaths(problem, folds, options.seed)

    def validate(options: TrainOptions) -> Rate:
        if problem.targets is None:
            classes = cross_validate(problem, options, paths.n_folds)
            return Rate(classes.accuracy, classes.unfinished)
        targets = cross_validate_targets(problem, options, paths.n_folds)
        return Rate(targets.measures.mean_squared_error, targets.unfinished)

    def rates(settings: Sequence[TrainOptions], control: Control, on_rate: RateCallback) -> None:
        if loo:
            leave_one_out_rates(paths, settings, control, on_rate)
        elif paths.suits(settings[0]):
            PathRun(paths, settings, control, on_rate).run()
        else:
            one_by_one(validate, settings, control, on_rate)

    return search_rates(rates, options, axes, lower_is_better=problem.targets is not None, **how)


def search_rates(
    rates: Callable[[Sequence[TrainOptions], Control, RateCallback], None],
    options: TrainOptions,
    axes: Mapping[str, Sequence[float]],
    *,
    lower_is_better: bool = False,
    refine: int = 0,
    extend: int = 0,
    known: Iterable[GridPoint] = (),
    tell: PointCallback | None = None,
    progress: Callable[[Any], object] | None = None,
) -> GridResult:
    """The search itself; `rates` validates settings that differ in C only, whatever the data are.

    Points of these axes that are `known` are not validated again; solvers call `progress`.
    """
    control = Control(options.tol, options.max_iter, options.time_limit, progress)
    found = {point.key: point for point in known if set(point.parameters) == set(axes)}
    grid = {name: list(values) for name, values in axes.items()}
    n_points = math.prod(len(values) for values in grid.values())
    bounds = bounds_of(options)
    result = GridResult(dict(grid), n_points, lower_is_better=lower_is_better, bounds=bounds)
    started = time.perf_counter()

    def take(point: GridPoint) -> None:
        result.add(point)
        result.seconds = time.perf_counter() - started
        if tell is not None and tell(point, result):
            raise _Stopped

    def validate(chain: list[dict[str, float]], seen: set[tuple[float, ...]]) -> None:
        left = []
        for parameters in chain:
            key = key_of(parameters)
            if key in found and key not in seen:
                take(found[key])
            elif key not in seen:
                left.append(parameters)
        if not left or control.out_of_time() is not None:
            return

        def on_rate(place: int, rate: Rate) -> None:
            shown = rate.score if lower_is_better else 100 * rate.score
            take(GridPoint(left[place], float(f"{shown:.{RATE_DIGITS}g}"), rate.unfinished))

        rates([with_parameters(options, parameters) for parameters in left], control, on_rate)

    def validate_more(more: dict[str, list[float]]) -> None:
        for name, values in more.items():
            result.axes[name] = sorted({*result.axes[name], *values})
        seen = {point.key for point in result.points}
        result.n_points += sum(key_of(point) not in seen for chain in chains(more) for point in chain)
        for chain in chains(more):
            validate(chain, seen)

    try:
        for chain in chains(grid):
            validate(chain, set())
        for _ in range(extend):
            if not result.complete or not (beyond := _beyond(result)):
                break
            validate_more(beyond)
        for turn in range(1, refine + 1):
            if not result.complete or result.best is None:
                break
            validate_more(_around(result.best, grid, 0.5**turn, bounds))
    except _Stopped:
        pass
    result.seconds = time.perf_counter() - started
    return result


class _Stopped(Exception):
    """The callback asked to stop."""


def one_by_one(
    validate: Callable[[TrainOptions], Rate],
    settings: Sequence[TrainOptions],
    control: Control,
    on_rate: RateCallback,
) -> None:
    """As PathRun, for what cannot share its work."""

    def stops(progress: Progress) -> bool:
        wished = control.callback is not None and bool(control.callback(progress))
        return wished or control.out_of_time() is not None

    for place, options in enumerate(settings):
        rate = validate(dataclasses.replace(options, callback=stops, time_limit=None))
        if control.out_of_time() is not None:
            return
        on_rate(place, rate)


def with_parameters(options: TrainOptions, parameters: Mapping[str, float]) -> TrainOptions:
    """The options with the parameters of a point; C replaces lambda."""
    given: dict[str, Any] = dict(parameters)
    if "C" in given:
        given["lambda_"] = None
    return dataclasses.replace(options, **given)


def chains(axes: Mapping[str, Sequence[float]]) -> list[list[dict[str, float]]]:
    """The grid's points, those that differ in C only together and ascending; see the head of this file."""
    names = [name for name in AXES if name in axes and name != "C"]
    # gamma changes slowest: its kernel rows stay
    orders = [coarse_to_fine(list(axes[name])) for name in names]
    path = [{"C": C} for C in sorted(axes["C"])] if "C" in axes else [{}]
    return [
        [point | dict(zip(names, values, strict=True)) for point in path]
        for values in itertools.product(*orders)
    ]


def coarse_to_fine(values: list[float]) -> list[float]:
    """The middle, then the middles of the two halves in turn, and so on, as grid.py does.

    >>> coarse_to_fine([1, 2, 3, 4, 5])
    [3, 2, 5, 1, 4]
    """
    if len(values) <= 1:
        return values
    middle = len(values) // 2
    left, right = coarse_to_fine(values[:middle]), coarse_to_fine(values[middle + 1 :])
    order = [values[middle]]
    for one, other in itertools.zip_longest(left, right):
        order += [value for value in (one, other) if value is not None]
    return order


def key_of(parameters: Mapping[str, float]) -> tuple[float, ...]:
    """What tells points apart; a value read from a file is the one that was written."""
    names = [name for name in AXES if name in parameters]
    return tuple(float(f"{on_axis(name, parameters[name]):.9g}") for name in names)


def on_axis(name: str, value: float) -> float:
    """The number on a parameter's axis: its exponent, or itself."""
    return math.log2(value) if name in POWERS else value


def bounds_of(options: TrainOptions) -> dict[str, tuple[float, float]]:
    """BOUNDS, with the end of nu that a machine has."""
    own = options.declaration.kinds.get("nu")
    return BOUNDS | ({"nu": (own.low, own.high)} if isinstance(own, Number) else {})


def _around(
    best: GridPoint,
    axes: Mapping[str, Sequence[float]],
    part: float,
    bounds: Mapping[str, tuple[float, float]],
) -> dict[str, list[float]]:
    """Three values per parameter: the best, and one at `part` of the grid's step on either side."""
    finer = {}
    for name, values in axes.items():
        here = on_axis(name, best.parameters[name])
        places = sorted(on_axis(name, value) for value in values)
        if len(places) == 1:
            finer[name] = [best.parameters[name]]
            continue
        step = part * (places[-1] - places[0]) / (len(places) - 1)
        around = [here - step, here, here + step]
        if name in POWERS:
            finer[name] = [2.0**place for place in around]
        else:
            low, high = bounds[name]
            finer[name] = [place for place in around if low <= place <= high]
    return finer


def edges(result: GridResult) -> dict[str, float]:
    """The parameters whose best value is the smallest or the largest one tried, though others lie beyond it,
    and the next value in that direction. An equal rate further inside is as good: then there is no edge."""
    found: dict[str, float] = {}
    best = result.best
    if best is None:
        return found
    for name, values in result.axes.items():
        places = sorted(on_axis(name, value) for value in values)
        here = on_axis(name, best.parameters[name])
        if len(places) == 1 or here not in (places[0], places[-1]):
            continue
        equals = {on_axis(name, point.parameters[name]) for point in result.points if point.rate == best.rate}
        if any(places[0] < place < places[-1] for place in equals):
            continue
        following = 2 * here - places[1 if here == places[0] else -2]
        low, high = result.bounds.get(name, (-MOST_POWER, MOST_POWER))
        if low <= following <= high:
            found[name] = 2.0**following if name in POWERS else round(following, 12)
    return found


def _beyond(result: GridResult) -> dict[str, list[float]]:
    """The next values beyond each edge that the best point lies on, with the best and its neighbours of the
    other parameters; nothing where it lies on none."""
    following = edges(result)
    if not following or result.best is None:
        return {}
    more = {}
    for name, values in result.axes.items():
        here = result.best.parameters[name]
        ordered = sorted(values)
        place = int(np.abs(np.array(ordered) - here).argmin())
        near = ordered[max(0, place - 1) : place + 2]
        more[name] = [following[name], here] if name in following else near
    return more


def _better(point: GridPoint, best: GridPoint, lower: bool) -> bool:
    """A higher (or lower) rate; of equals at the same other parameters the smaller C, as in grid.py."""
    if point.rate != best.rate:
        return (point.rate < best.rate) == lower
    others = [{name: p.parameters[name] for name in p.parameters if name != "C"} for p in (point, best)]
    return others[0] == others[1] and point.parameters.get("C", 0) < best.parameters.get("C", 0)
