"""The thread pool under ThreadSanitizer: `make test-tsan`."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.compiling import PLAIN, compiled

pytestmark = pytest.mark.slow

OPTIONS = {"TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:exitcode=66"}


def run(program, *words):
    return subprocess.run([program, *words], env=PLAIN | OPTIONS, capture_output=True, text=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("words", [(), ("fork",)], ids=["threads", "fork"])
def test_the_pool_has_no_race(words, tmp_path):
    """Eight callers, jobs of all sizes, jobs inside of jobs; with `fork` also in children."""
    found = run(compiled("sanitizers/thread_pool.cc", tmp_path / "pool", "-fsanitize=thread"), *words)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 500_000  # chunks


def test_a_deliberate_race_is_caught(tmp_path):
    found = run(compiled("sanitizers/faults.cc", tmp_path / "race", "-fsanitize=thread", "-DFAULTS_MAIN"))
    assert found.returncode == 66
    assert "data race" in found.stderr
