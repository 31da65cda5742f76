"""The tables and figures of the five papers.

    python -m benchmarks.papers                        list them
    python -m benchmarks.papers odm.table3             run one
    python -m benchmarks.papers odm.table3 --quick     ... a sample: few repeats, a coarse grid
    python -m benchmarks.papers odm.table3 --repeats 3 --sets house sonar      a part, as printed
    python -m benchmarks.papers --all                  everything that the data at hand allow (days)

--repeats and --sets run a part of the printed protocol; more parts add to the same files. Results go to the
folder --out (default: papers): NAME.csv with all numbers, NAME.md with the page, NAME.svg with the pictures.
A run that was ended with Ctrl-C goes on where it stopped. Data sets: python -m benchmarks.data
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterable
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # before numpy is imported
    from benchmarks import data
    from benchmarks._common import OneLineParser
    from benchmarks.papers._study import page, run_study, say
    from benchmarks.papers.sodm import SPARK_MASTER
    from benchmarks.papers.studies import STUDIES

    parser = OneLineParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="few repeats and a coarse grid")
    parser.add_argument("--repeats", type=int, metavar="N", help="only the first N repeats; run more later")
    parser.add_argument("--sets", nargs="+", default=(), metavar="SET", help="only these sets")
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="for sodm.figure2.spark: {n} in it becomes the number of cores, as in 'local[{n}]'",
    )
    parser.add_argument("--all", action="store_true", help="all studies")
    parser.add_argument("--out", type=Path, default=Path("papers"), help="folder of the results")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in STUDIES]
    if unknown:
        hint = meant(unknown[0], STUDIES) or "; without a name all are listed"
        parser.error(f"no study '{unknown[0]}'{hint}")
    if arguments.repeats is not None and arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, found {arguments.repeats}")
    names = list(STUDIES) if arguments.all else arguments.names
    if not names and (arguments.quick or arguments.sets or arguments.repeats or arguments.spark):
        parser.error("which study? Give its name, or --all")
    spark = [name for name in names if STUDIES[name].needs_spark]
    if arguments.spark:
        os.environ[SPARK_MASTER] = arguments.spark
    elif arguments.all:
        say(f"{', '.join(spark)}: left out, needs a Spark master (--spark)")
        names = [name for name in names if name not in spark]
    elif any(name in spark for name in names):
        parser.error("this study needs a Spark master, such as --spark 'local[{n}]'")
    known = {one for name in names for one in STUDIES[name].sets}
    for one in arguments.sets:
        if one not in known:
            parser.error(f"no set '{one}' in {', '.join(names)}{meant(one, known)}")
    if arguments.sets:
        names = [name for name in names if set(arguments.sets) & set(STUDIES[name].sets)]
    if not names:
        width = max(map(len, STUDIES))
        print(f"{'name':<{width}} {'hours':>6} {'sets':>7}  what it is")
        for name, study in STUDIES.items():
            here = sum(data.is_here(one) for one in study.sets)
            print(f"{name:<{width}} {study.hours:>6g} {here:>3}/{len(study.sets):<3}  {study.title}")
        print("hours: estimated, for the sets that are here, on two quiet cores; --quick takes minutes")
        return 0

    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        parser.error(f"--out: {arguments.out} is not a folder")
    empty = 0
    for name in names:
        study = STUDIES[name]
        try:
            results = run_study(study, arguments.out, arguments.quick, say, arguments.repeats, arguments.sets)
        except KeyboardInterrupt:
            say(f"{name}: ended; the same command goes on from here")
            return 130
        if not results:
            say(f"{name}: none of its sets is here; python -m benchmarks.data lists them")
            empty += 1
            continue
        text = page(study, results, arguments.quick, arguments.out)
        target = arguments.out / f"{name}{'.quick' if arguments.quick else ''}.md"
        target.write_text(text)
        print(text)
    return int(empty == len(names))


def meant(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


if __name__ == "__main__":
    sys.exit(main())
