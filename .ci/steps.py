#!/usr/bin/env python3
"""What continuous integration runs, and with the word "release" all that must pass before a release.

Every step is a make target (exit code 77: not possible here). The page at the end has one line per step.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# where versions of Python and of other packages make a difference
SOME = "TESTS=tests/test_package.py tests/data tests/model tests/core tests/sklearn tests/cli/test_train.py"
# tests that root cannot run
RIGHTS = "TESTS=tests/data/test_files.py tests/cli/test_bad_input.py tests/cli/test_scale.py"

# a Python that every user can start, where root's own lies in root's home
SYSTEM = "/usr/bin/python3"
USER = ["test-user"]
if str(Path(sys.executable).resolve()).startswith("/root/") and os.path.exists(SYSTEM):
    USER += ["VENV=.venv-user", f"PYTHON={SYSTEM}"]

CI = [
    ["test"],
    ["lint"],
    ["docs"],
    ["test-checked"],
    [*USER, RIGHTS],
    ["test-wheel", SOME],
    ["test-minimum", SOME],
    ["test-python", "VERSION=3.12", SOME],
    ["test-python", "VERSION=3.13", SOME],
]
RELEASE = [
    ["test"],
    ["lint"],
    ["docs"],
    ["test-checked"],
    USER,
    ["dist"],
    ["test-minimum"],
    ["test-python", "VERSION=3.12"],
    ["test-python", "VERSION=3.13"],
    ["test-slow"],
]

# Programs that tests compare odmlib with and that pip does not have, and Debian's packages of them.
# gnuplot comes first: libsvm-tools would take the one with windows.
TOOLS = {
    "gnuplot": "gnuplot-nox",
    "svm-train": "libsvm-tools",
    "liblinear-train": "liblinear-tools",
    "mandoc": "mandoc",
    "tcc": "tcc",
    "zsh": "zsh",
    "fish": "fish",
}


def install_tools() -> None:
    """For root on Debian; the tests of what is missing afterwards are skipped."""
    missing = [package for program, package in TOOLS.items() if shutil.which(program) is None]
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    install = [["install", "--yes", "--no-install-recommends", package] for package in missing]
    for words in (["update"], *install):
        try:
            subprocess.run(
                ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=30", "-o", "Acquire::http::Timeout=20", *words],
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=90,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            print(f"not installed: {error}", flush=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"no programs for tests are installed: {error}", flush=True)
            return


def short(words: list[str]) -> str:
    """A step in one line."""
    shown = [word for word in words if not re.match("TESTS|VENV|PYTHON", word)]
    return " ".join(shown).replace("VERSION=", "")


def run(words: list[str]) -> tuple[str, float, str]:
    """(result, seconds, last line of pytest); the output goes to the terminal as it comes."""
    began = time.monotonic()
    process = subprocess.Popen(
        ["make", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        if re.match(r"=* ?\d+ (passed|failed|skipped|error)|not tested: ", line):
            said = line.strip("= \n")
    process.wait()
    # make hides the exit code 77 of a step
    result = (
        "passed" if process.returncode == 0 else "not here" if said.startswith("not tested") else "FAILED"
    )
    print(f"make {short(words)}: {result}", flush=True)
    return result, time.monotonic() - began, said


def main() -> int:
    steps = RELEASE if sys.argv[1:] == ["release"] else CI
    install_tools()
    results = [run(words) for words in steps]
    print(f"\nodmlib on {os.uname().sysname} {os.uname().machine}, Python {sys.version.split()[0]}\n")
    for words, (result, seconds, said) in zip(steps, results, strict=True):
        print(f"make {short(words):20} {result:9} {seconds:6.0f} s   {said}")
    print(f"{'together':25} {'':9} {sum(seconds for _, seconds, _ in results):6.0f} s")
    return int(any(result == "FAILED" for result, *_ in results))


if __name__ == "__main__":
    os.environ.pop("MAKEFLAGS", None)  # options of an outer make are not for the steps
    sys.exit(main())
