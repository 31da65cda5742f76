"""That `make test-asan` would see a fault: modules are instrumented, and deliberate faults end a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import odmlib
from tests.compiling import SANITIZING, compiled, flags_of_the_build

pytestmark = pytest.mark.skipif(not SANITIZING, reason="for make test-asan")


def modules() -> list[Path]:
    return sorted(Path(odmlib.__file__).parent.rglob("*.so"))


def test_every_module_is_instrumented():
    assert len(modules()) > 20
    for path in modules():
        symbols = path.read_bytes()
        assert b"__asan_init" in symbols, path
        assert b"__ubsan_handle" in symbols, path


@pytest.mark.parametrize(
    ("call", "report"),
    [
        ("read_behind(10)", "heap-buffer-overflow"),
        ("add_one(2**31 - 1)", "signed integer overflow"),
    ],
)
def test_a_deliberate_fault_is_caught(call, report, tmp_path):
    library = compiled(
        "sanitizers/faults.cc", tmp_path / "faults.so", "-shared", "-fPIC", *flags_of_the_build()
    )
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).{call})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert report in found.stderr


def test_what_is_no_fault_is_not_reported(tmp_path):
    library = compiled(
        "sanitizers/faults.cc", tmp_path / "faults.so", "-shared", "-fPIC", *flags_of_the_build()
    )
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).add_one(1))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "2\n")


def test_a_buffer_that_is_too_short_is_seen_inside_of_odmlib():
    """Memory of numpy and of Python is watched as well: the reader's own guard is what keeps it in bounds."""
    code = (
        "import ctypes, numpy as np; a = np.zeros(100); f = ctypes.CDLL(None).memchr; "
        "f.restype = ctypes.c_void_p; f(ctypes.c_void_p(a.ctypes.data), 1, 801)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert "heap-buffer-overflow" in found.stderr
