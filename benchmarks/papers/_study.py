"""Study: one table or figure of a paper. Results go to a CSV file, a line per number; a page is made of
that.

A study is cut into cells: a set, a repeat, a method. Each cell is run once and its numbers are appended
to the file, so that a run that was ended goes on where it stopped. Numbers of a table are named
(accuracy, seconds); numbers of a figure have their place on the x axis as a name.
"""

from __future__ import annotations

import csv
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import data
from odmlib.values import counted

Cell = tuple[str, int, str]  # set, repeat, method
Numbers = dict[str, float]
Results = dict[Cell, Numbers]
HEAD = ("set", "repeat", "method", "measure", "value")
LEVEL, FEWEST = 0.05, 3  # of the paired t-tests: level, and repeats without which there is none


@dataclass(frozen=True)
class Study:
    name: str  # paper.table2
    title: str
    sets: tuple[str, ...]  # by the paper's names: benchmarks/data.py
    methods: tuple[str, ...]
    run: Callable[[str, int, str, bool], Numbers]  # set, repeat, method, quick
    repeats: int
    quick_repeats: int
    hours: float  # of the whole study on two quiet cores, for the sets that we have; estimated
    against: str | None = None  # the method that the t-tests compare with
    measure: str = "accuracy"
    smaller_is_better: bool = False
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # set, method: the printed number
    axes: tuple[str, str] | None = None  # of a figure; None: a table
    logarithmic: bool = False  # the x axis
    quick_sets: tuple[str, ...] | None = None
    note: str = ""
    needs_spark: bool = False  # a master, given by --spark

    def cells(self, quick: bool) -> Iterator[Cell]:
        """All sets for a repeat before the next repeat: a run that is ended early is a sample of all sets."""
        sets = self.quick_sets if quick and self.quick_sets is not None else self.sets
        for repeat in range(self.repeats_of(quick)):
            for name in sets:
                for method in self.methods:
                    yield name, repeat, method

    def repeats_of(self, quick: bool) -> int:
        return self.quick_repeats if quick else self.repeats


def run_study(
    study: Study,
    folder: Path,
    quick: bool,
    talk: Callable[[str], None],
    most_repeats: int | None = None,
    sets: Collection[str] = (),
) -> Results:
    """Run the cells that are not in the file yet, and return all that it holds then.

    `most_repeats` and `sets` (none: all) run a part of the study. Sets that are not here are left out, with
    a line.
    """
    path = folder / f"{study.name}{'.quick' if quick else ''}.csv"
    results = read_results(path)
    wanted = [name for name in study.sets if not sets or name in sets]
    missing = {name for name in wanted if not data.is_here(name)}
    for name in sorted(missing):
        talk(f"{name}: left out, not here (python -m benchmarks.data get {name})")
    cells = [
        cell
        for cell in study.cells(quick)
        if cell[0] in wanted and cell[0] not in missing and (most_repeats is None or cell[1] < most_repeats)
    ]
    to_do = [cell for cell in cells if cell not in results]
    if len(to_do) < len(cells):
        talk(f"{len(cells) - len(to_do)} of {len(cells)} cells are in {path} already")
    started = time.monotonic()
    with path.open("a", newline="") as out:
        writer = csv.writer(out)
        if path.stat().st_size == 0:
            writer.writerow(HEAD)
        for done, cell in enumerate(to_do):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = study.run(*cell, quick) or {study.measure: math.nan}
            for measure, value in numbers.items():
                writer.writerow((*cell, measure, repr(float(value))))
            out.flush()
            results[cell] = numbers
            left = (time.monotonic() - started) / (done + 1) * (len(to_do) - done - 1)
            known = [f"{key} {value:.4g}" for key, value in numbers.items() if not math.isnan(value)]
            shown = ", ".join(known[:3]) or "no figure"
            talk(
                f"{study.name} {done + 1}/{len(to_do)}: {' '.join(map(str, cell))}: {shown}; "
                f"{_duration(left)} left"
            )
    return {cell: results[cell] for cell in study.cells(quick) if cell in results}


def read_results(path: Path) -> Results:
    """What a file holds; a last line that was cut off is left out with its cell."""
    results: Results = {}
    if not path.exists():
        return results
    text = path.read_text()
    kept = text[: text.rfind("\n") + 1]
    if kept != text:
        path.write_text(kept)
    for line in csv.DictReader(kept.splitlines()):
        cell = line["set"], int(line["repeat"]), line["method"]
        results.setdefault(cell, {})[line["measure"]] = float(line["value"])
    return results


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# -- statistics


def values_of(results: Results, name: str, method: str, measure: str) -> dict[int, float]:
    """Repeat: value."""
    return {
        repeat: numbers[measure]
        for (of_set, repeat, of_method), numbers in results.items()
        if of_set == name and of_method == method and measure in numbers and not math.isnan(numbers[measure])
    }


def compared(ours: Mapping[int, float], theirs: Mapping[int, float]) -> int:
    """1 where ours are significantly larger than theirs in a paired t-test, -1 where smaller, else 0."""
    from scipy.stats import ttest_rel

    common = sorted(ours.keys() & theirs.keys())
    difference = np.array([ours[repeat] - theirs[repeat] for repeat in common])
    if len(common) < FEWEST or not difference.any():
        return 0
    if np.ptp(difference) == 0:
        return int(np.sign(difference[0]))
    found = ttest_rel([ours[repeat] for repeat in common], [theirs[repeat] for repeat in common])
    return int(np.sign(difference.mean())) if found.pvalue < LEVEL else 0


# -- pages


def page(study: Study, results: Results, quick: bool, folder: Path) -> str:
    """The study as Markdown; a figure also as a picture in the folder."""
    lines = [f"# {study.name}: {study.title}", ""]
    names = [name for name in study.sets if any(cell[0] == name for cell in results)]
    done = repeats_run(results)
    kind = f"{_several(done.values())} of {study.repeats_of(quick)} repeats on {counted(len(names), 'set')}"
    kind = f"`--quick`: {kind}, a coarse grid" if quick else kind
    lines += [f"Made by `python -m benchmarks.papers {study.name}{' --quick' * quick}` ({kind}).", ""]
    if study.note:
        lines += [study.note, ""]
    if study.axes is None:
        lines += list(_table(study, results, names))
    else:
        lines += list(_figure(study, results, names, folder, quick))
    absent = [name for name in study.sets if name not in names]
    if absent:
        lines += ["", f"Not run: {', '.join(absent)}."]
    return "\n".join(lines) + "\n"


def repeats_run(results: Results) -> Counter[str]:
    """Set: how many repeats there are of it."""
    return Counter(name for name, _ in {cell[:2] for cell in results})


def _several(counts: Collection[int]) -> str:
    if not counts:
        return "0"
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _table(study: Study, results: Results, names: list[str]) -> Iterator[str]:
    """Mean and deviation per set; the printed number in brackets; marks and counts of the t-tests."""
    yield "| set | " + " | ".join(study.methods) + " |"
    yield "|---" * (len(study.methods) + 1) + "|"
    counts = {method: [0, 0, 0] for method in study.methods}
    means: dict[str, list[float]] = {method: [] for method in study.methods}
    for name in names:
        shown = []
        base = values_of(results, name, study.against, study.measure) if study.against else {}
        for method in study.methods:
            found = values_of(results, name, method, study.measure)
            printed = study.paper.get(name, {}).get(method)
            text = "-"
            if found:
                numbers = np.array(list(found.values()))
                text = f"{numbers.mean():.3f}"
                if len(numbers) > 1:
                    text += f" ± {numbers.std(ddof=1):.3f}"
                means[method].append(float(numbers.mean()))
                if base and method != study.against:
                    verdict = compared(found, base) * (-1 if study.smaller_is_better else 1)
                    counts[method][1 - verdict] += 1
                    text += {1: " •", -1: " ∘", 0: ""}[verdict]
            shown.append(text + ("" if printed is None else f" [{printed:g}]"))
        yield f"| {name} | " + " | ".join(shown) + " |"
    if study.measure != "seconds":
        taken = [_mean_of(results, names, method, "seconds") for method in study.methods]
        if any(taken):
            yield "| seconds, mean | " + " | ".join(taken) + " |"
    average = [f"{np.mean(means[method]):.3f}" if means[method] else "-" for method in study.methods]
    yield "| mean | " + " | ".join(average) + " |"
    if study.against is not None:
        cells = ["" if one == study.against else "{}/{}/{}".format(*counts[one]) for one in study.methods]
        yield f"| win/tie/loss against {study.against} | " + " | ".join(cells) + " |"
    yield ""
    yield "Numbers in brackets are the paper's."
    if study.against is not None:
        yield f"• and ∘: significantly better or worse than {study.against} (paired t-test, 95 %)."


def _mean_of(results: Results, names: list[str], method: str, measure: str) -> str:
    found = [value for name in names for value in values_of(results, name, method, measure).values()]
    return f"{np.mean(found):.3g}" if found else ""


def _figure(study: Study, results: Results, names: list[str], folder: Path, quick: bool) -> Iterator[str]:
    from odmlib.plots.chart import Chart, Series
    from odmlib.plots.svg import svg_document

    assert study.axes is not None
    charts = []
    for name in names:
        series = []
        for method in study.methods:
            curves = [
                {float(x): y for x, y in numbers.items() if not math.isnan(y)}
                for cell, numbers in results.items()
                if (cell[0], cell[2]) == (name, method)
            ]
            places = sorted({x for curve in curves for x in curve})
            if places:
                heights = [float(np.mean([curve[x] for curve in curves if x in curve])) for x in places]
                series.append(Series(method, places, heights))
        if series:
            charts.append(Chart(name, *study.axes, series, x_log=study.logarithmic))
    picture = f"{study.name}{'.quick' if quick else ''}.svg"
    (folder / picture).write_text(svg_document(charts))
    yield f"![{study.title}]({picture})"
    for chart in charts:
        yield ""
        yield f"## {chart.title}"
        yield ""
        places = sorted({x for one in chart.series for x in one.x})
        if len(places) > 12 and all(one.x == places for one in chart.series):
            places = places[:: math.ceil(len(places) / 12)]
        yield f"| {study.axes[0]} | " + " | ".join(one.name for one in chart.series) + " |"
        yield "|---" * (len(chart.series) + 1) + "|"
        for x in places:
            known = [dict(zip(one.x, one.y, strict=True)) for one in chart.series]
            yield f"| {x:g} | " + " | ".join(f"{one[x]:.4g}" if x in one else "-" for one in known) + " |"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
