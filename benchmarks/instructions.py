"""Instructions of the hot paths, counted by valgrind: figures that do not depend on the load.

    python -m benchmarks.instructions            run, and compare with benchmarks/instructions.tsv
    python -m benchmarks.instructions --write    record

One program reads a text, trains four machines and predicts, with one thread. Counted are the instructions
inside of the compiled modules, each for its own path; Python, numpy and the C library do not count. The
compiler and its version stand in the table, because another one makes other code.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import odmlib

TABLE = Path(__file__).resolve().with_name("instructions.tsv")

# the module, and the path that it stands for
PATHS = {
    "data._reader": "reading text",
    "_core.rows": "sums over rows of Newton's method",
    "solvers.linear._dcd": "coordinate descent",
    "kernels.kernel": "kernel rows and predictions",
    "solvers.kernel._working_set": "working set",
    "solvers.multiclass._mcodm": "mcODM",
}
ALLOWED = 1.1  # times the recorded count; what it counts repeats to a few instructions

WORK = """
import warnings
import numpy as np
import odmlib
warnings.simplefilter("ignore")
random = np.random.default_rng(0)
X = random.normal(size=(600, 20)).round(4)
y = np.sign(X[:, 0] + random.normal(size=600))
odmlib.write_data("d", X, y)
X, y = odmlib.read_data("d")
fixed = {"threads": 1, "C": 1.0}
odmlib.train(X, y, kernel="linear", solver="newton", **fixed)
odmlib.train(X, y, kernel="linear", solver="dcd", max_iter=20, tol=1e-12, **fixed)
odmlib.train(X, y, kernel="rbf", **fixed).predict(X, threads=1)
odmlib.train(X, np.arange(600) % 5, machine="mcodm", kernel="linear", max_iter=20, tol=1e-12, **fixed)
"""


def counts() -> dict[str, int]:
    """Instructions of each compiled module during WORK."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
        words += ["--compress-pos=no", sys.executable, "-c", WORK]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        return module_counts(out.read_text(encoding="utf-8", errors="replace"))


def module_counts(profile: str) -> dict[str, int]:
    """The own instructions of odmlib's modules in a profile of callgrind, which has one object for each."""
    package = str(Path(odmlib.__file__).resolve().parent)
    found: Counter[str] = Counter()
    name, of_a_call = "", False
    for line in profile.splitlines():
        if line.startswith("ob="):
            path = line[3:]
            inside = path.startswith(package)
            name = path[len(package) + 1 :].split(".")[0].replace("/", ".") if inside else ""
        elif line.startswith("calls="):
            of_a_call = True
        elif line[:1].isdigit():
            if name and not of_a_call:
                found[name] += int(line.split()[-1])
            of_a_call = False
    return dict(found)


def compiler() -> str:
    """The compiler that made the modules, and whether this processor runs their loops for AVX2."""
    module = next(Path(odmlib.__file__).parent.glob("kernels/kernel.*.so"))
    made_by = re.search(rb"(GCC|clang)[^\0]* (\d+)\.\d+\.\d+", module.read_bytes())
    cpu = Path("/proc/cpuinfo")
    avx2 = cpu.exists() and " avx2 " in cpu.read_text()
    return f"{made_by[1].decode()} {made_by[2].decode()}{', AVX2' if avx2 else ''}" if made_by else "unknown"


def recorded() -> tuple[str, dict[str, int]]:
    """(compiler, instructions of the paths) of the table."""
    head, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    return head.removeprefix("# "), {name: int(n) for name, n, _ in (line.split("\t") for line in lines)}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help="record the counts")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    now = counts()
    if arguments.write:
        lines = [f"# {compiler()}", *(f"{name}\t{now[name]}\t{path}" for name, path in PATHS.items())]
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    made_by, before = recorded()
    print(f"recorded with {made_by}; here {compiler()}")
    for name, path in PATHS.items():
        print(f"{path:36} {now[name]:14,} {now[name] / before[name]:8.3f} of the recorded")
    return int(any(now[name] > ALLOWED * before[name] for name in PATHS))


if __name__ == "__main__":
    sys.exit(main())
