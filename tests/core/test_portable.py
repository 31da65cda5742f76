"""The loops compiled for other systems: portable.cc, which has no Python in it.

A wheel for Windows or aarch64 needs a Python of that system. Its compiler and processor can be tried here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).with_name("portable.cc")
FLAGS = ["-O3", "-std=c++17", "-pthread", "-static", "-Wall", "-Werror", "-Wno-unused-function"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def tool(name: str) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not on the PATH")
    return name


def compiled(compiler: str, target: Path, *flags: str) -> Path:
    folders = sorted({f"-I{header.parent}" for header in (ROOT / "odmlib").rglob("*.h")})
    assert folders, "the headers are in the sources, not beside the tests"
    words = [tool(compiler), *FLAGS, *flags, *folders, str(PROGRAM), "-o", str(target)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def numbers_of(*words: str, **settings: str) -> list[list[str]]:
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | settings)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return [line.split() for line in done.stdout.splitlines()]


def assert_same(ours: list[list[str]], theirs: list[list[str]]) -> None:
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    assert {line[0] for line in ours} == {"norms", "narrow", "wide", "solution", "classes", "number"}
    for (name, *a), (_, *b) in zip(ours, theirs, strict=True):
        # other instructions join multiplications and additions; exponentials of float32 differ a little
        rel, least = (1e-4, 1e-5) if name == "narrow" else (1e-10, 1e-12)
        assert [float(x) for x in b] == pytest.approx([float(x) for x in a], rel=rel, abs=least), name


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> list[list[str]]:
    return numbers_of(str(compiled("g++", tmp_path_factory.mktemp("here") / "portable")))


def test_every_processor_of_this_kind(here, tmp_path):
    assert_same(here, numbers_of(str(compiled("g++", tmp_path / "portable")), ODMLIB_BASELINE="1"))


def test_clang(here, tmp_path):
    assert_same(here, numbers_of(str(compiled("clang++", tmp_path / "portable"))))


def test_neon_under_qemu(here, tmp_path):
    program = compiled("aarch64-linux-gnu-g++", tmp_path / "portable")
    assert_same(here, numbers_of(tool("qemu-aarch64"), str(program)))


def test_windows_compiles(tmp_path):
    """Without -posix in its name the compiler may have no std::thread; the flag is that of setup.py."""
    compiled("x86_64-w64-mingw32-g++-posix", tmp_path / "portable.exe", "-Wa,-muse-unaligned-vector-move")
