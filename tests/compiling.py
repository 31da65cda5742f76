"""Compiling the C++ programs of tests. `make test-asan` and `make test-tsan` fail without a compiler."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent
SANITIZING = os.environ.get("ODMLIB_SANITIZE") == "1"
measures_memory = pytest.mark.skipif(SANITIZING, reason="sanitizers take memory of their own")
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # for the compiler itself


def flags_of_the_build() -> list[str]:
    """The flags with which `ODMLIB_SANITIZE=1` compiles odmlib."""
    found = re.search(r"^SANITIZERS = (\[.*\])$", (ROOT / "setup.py").read_text(), re.MULTILINE)
    assert found is not None
    return ast.literal_eval(found[1])


def compiled(source: str, target: Path, *flags: str) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None and not SANITIZING:
        pytest.skip("no C++ compiler here")
    assert compiler is not None
    command = [compiler, "-std=c++17", "-g", "-O1", "-pthread", f"-I{ROOT / 'odmlib' / '_core'}", *flags]
    made = subprocess.run(
        [*command, str(HERE / source), "-o", str(target)], env=PLAIN, capture_output=True, text=True
    )
    if made.returncode and "tsan" in made.stderr and not SANITIZING:
        pytest.skip("this compiler has no ThreadSanitizer")
    assert made.returncode == 0, made.stderr
    return target
