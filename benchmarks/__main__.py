"""All benchmarks in one run: python -m benchmarks [--only reading,linear] [--write]

Every benchmark is a module of this folder that prints its own table and says what it compares; a machine
that is otherwise idle gives figures worth keeping. --write puts them into benchmarks/results.md together
with the machine and the versions; that file is never edited by hand.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("__"))
PEERS = ("numpy", "scipy", "scikit-learn", "liblinear-official", "libsvm-official")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--write", action="store_true", help="write results.md")
    arguments = parser.parse_args()
    parts = [f"# Results\n\nMade by `python -m benchmarks --only {arguments.only} --write`.\n\n{machine()}\n"]
    failed = False
    for name in arguments.only.split(","):
        if name not in NAMES:
            parser.error(f"no benchmark '{name}'; there are {', '.join(NAMES)}")
        print(f"== {name}", flush=True)
        lines = []
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        with subprocess.Popen(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        failed |= process.returncode != 0
        parts.append(f"## {name}\n\n`python -m benchmarks.{name}`\n\n```\n{''.join(lines)}```\n")
    if arguments.write and not failed:
        (FOLDER / "results.md").write_text("\n".join(parts))
    return int(failed)


def machine() -> str:
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    versions = [f"Python {platform.python_version()}"]
    for package in ("odmlib", *PEERS):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{date.today()}; {processor}, {os.cpu_count()} cores, load {load:.1f} at the start; "
        f"{platform.system()}; {', '.join(versions)}."
    )


if __name__ == "__main__":
    sys.exit(main())
