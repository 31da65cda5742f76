"""All benchmarks in one run: python -m benchmarks [--only reading,linear] [--quick] [--write]

Every benchmark is a module of this folder that prints its own tables, says what it compares, and ends with
lines `* work: ratio (target ...): met`. A machine that is otherwise idle gives figures worth keeping.
--write puts them into benchmarks/results.md together with the machine and the versions, the lines of all
modules first; that file is never edited by hand. Ctrl-C ends the run; nothing is written then.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import odmlib
from benchmarks._common import VERDICT, debian_version

FOLDER = Path(__file__).resolve().parent
# in this order, with minutes that a whole and a quick run take on two cores
MINUTES = {
    "reading": (2, 0.3),
    "linear": (8, 0.5),
    "kernels": (7, 0.5),
    "limits": (5, 0.5),
    "prediction": (1.5, 0.5),
    "latency": (0.5, 0.1),
    "end_to_end": (2.5, 0.3),
    "scaling": (1.5, 0.3),
    "gil": (0.5, 0.2),
    "startup": (0.3, 0.1),
    "model_files": (0.3, 0.1),
}
# of accuracy more than of speed, long, each with options of its own: python -m benchmarks.NAME
STUDIES = (
    "calibration", "certificate", "compress", "conformal", "csvc", "data", "defaults", "golden", "grid",
    "instructions", "kmomd", "leave_one_out", "mcodm", "multiclass", "novelty", "rbf_defaults",
    "regression", "sodm", "spark", "ssodm", "stream", "svm", "tuning", "versions",
)  # fmt: skip
PEERS = (
    "scikit-learn", "scikit-learn-intelex", "liblinear-multicore", "libsvm-official", "rehline", "snapml",
    "thundersvm-cpu",
)  # fmt: skip
PACKAGES = ("numpy", "scipy", *PEERS)
DEBIAN = ("liblinear-tools", "libsvm-tools")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(MINUTES), help=f"some of {', '.join(MINUTES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial, not a measurement")
    parser.add_argument("--write", action="store_true", help="write results.md")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    for name in names:
        if name not in MINUTES:
            parser.error(f"no benchmark '{name}'; there are {', '.join(MINUTES)}")
    print(f"about {sum(MINUTES[name][arguments.quick] for name in names):.0f} minutes on an idle machine")
    print(f"odmlib from {Path(odmlib.__file__).parent}")
    introduction = machine()
    print(introduction)
    parts, verdicts, failed = [], [], []
    for name in names:
        words = [name, *(["--quick"] if arguments.quick else [])]
        print(f"\n== {name}", flush=True)
        started = time.perf_counter()
        lines, code = run_module(words)
        minutes = (time.perf_counter() - started) / 60
        print(f"== {name}: {minutes:.1f} minutes" + (f", FAILED with exit code {code}" if code else ""))
        if code:
            failed.append(name)
        verdicts += [f"{VERDICT}{name}: {line[len(VERDICT) :]}" for line in lines if line.startswith(VERDICT)]
        title = f"## {name}\n\n`python -m benchmarks.{' '.join(words)}`, {minutes:.1f} minutes"
        parts.append(f"{title}{', **failed**' if code else ''}\n\n```\n{''.join(lines).strip()}\n```\n")
    print("\n== summary\n" + "".join(verdicts))
    if failed:
        print(f"failed: {', '.join(failed)}")
    if arguments.write:
        command = f"python -m benchmarks --only {arguments.only}{' --quick' * arguments.quick} --write"
        head = f"# Results\n\nMade by `{command}`; times are ratios ours / theirs.\n\n{introduction}\n"
        summary = "## summary\n\n" + "".join(verdicts)
        (FOLDER / "results.md").write_text("\n".join([head, summary, *parts]))
    return int(bool(failed))


def run_module(words: list[str]) -> tuple[list[str], int]:
    """Run a module, showing its lines as they come; these lines and its exit code."""
    lines = []
    command = [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]]
    with subprocess.Popen(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return lines, process.returncode


def machine() -> str:
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    versions = [f"odmlib {odmlib.__version__}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    versions += [f"{package} {debian_version(package) or 'not installed'} (Debian)" for package in DEBIAN]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{date.today()}; {processor}, {os.cpu_count()} cores, load {load:.1f} at the start; "
        f"{platform.system()}; {', '.join(versions)}."
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; nothing written", file=sys.stderr)
        sys.exit(130)
