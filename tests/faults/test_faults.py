"""System calls that fail one at a time, and kills at each: the old file or the whole new one, no litter.

shim.cc stands between Python and the C library, driver.py counts through the calls.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import SANITIZING, compiled

from .driver import DONE, OLD, REFUSED

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the shim knows glibc"),
    pytest.mark.skipif(SANITIZING, reason="only one of them can be preloaded first"),
]

HALF, KILL_BEFORE, KILL_AFTER = 0, -1, -2
FILE_CALLS = "open+write+fsync+rename+mode+close"
TEMPORARY = re.compile(r"\.odm-\d+-[0-9a-f]{12}\.tmp")
slow = pytest.mark.slow
WRITERS = [
    "save_model",
    *(pytest.param(work, marks=slow) for work in ("write_data", "train_tool", "write_ranges")),
]
WRITERS += [pytest.param(work, marks=slow) for work in ("predict_tool", "stream_tool", "wide_stream_tool")]


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    return compiled("faults/shim.cc", tmp_path_factory.mktemp("shim") / "shim.so", "-shared", "-fPIC", "-ldl")


@pytest.fixture
def points(shim, tmp_path):
    """The points of a piece of work, and what it leaves when nothing fails."""

    def run(
        work: str, calls: str, fault: int, mode: str = "600"
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        environment = os.environ | {"LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.faults.driver", work, calls, str(fault), mode, str(folder)]
        ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert "Error: " not in ended.stderr.replace("odm-", ""), ended.stderr
        found = json.loads(ended.stdout)
        assert found["whole"]["code"] == DONE
        return found["whole"], found["points"]

    return run


def expected_mode(mode: str) -> int:
    return 0o644 if mode == "new" else int(mode, 8)


def check_file(point: dict[str, Any], whole: dict[str, Any], mode: str) -> None:
    """The old file or the whole new one, with the rights of the old."""
    old = None if mode == "new" else OLD.decode()
    assert point["text"] in (old, whole["text"])
    if point["text"] is not None:
        assert point["mode"] == expected_mode(mode)


@pytest.mark.parametrize("mode", ["600", pytest.param("664", marks=slow), "new"])
@pytest.mark.parametrize("work", WRITERS)
def test_a_call_that_fails(work, mode, points):
    n_points = 0
    for fault in (errno.ENOSPC, errno.EIO):
        whole, found = points(work, FILE_CALLS, fault, mode)
        n_points += len(found)
        for point in found:
            check_file(point, whole, mode)
            assert set(point["names"]) <= {"target"}
            if point["code"] == DONE:
                assert point["text"] == whole["text"]
            else:
                assert point["code"] in (1, REFUSED)
        assert any(point["code"] != DONE for point in found)
    assert n_points >= 10


@pytest.mark.parametrize("fault", [errno.EINTR, HALF], ids=["interrupted", "half"])
@pytest.mark.parametrize("work", WRITERS)
def test_writes_that_do_less_are_gone_on_with(work, fault, points):
    whole, found = points(work, "write", fault)
    assert found
    for point in found:
        assert point["code"] == DONE
        assert point["text"] == whole["text"]
        assert point["names"] == ["target"]


@pytest.mark.parametrize("mode", ["600", pytest.param("new", marks=slow)])
@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER], ids=["before", "after"])
@pytest.mark.parametrize("work", WRITERS)
def test_a_kill_at_each_call(work, fault, mode, points):
    whole, found = points(work, FILE_CALLS + "+unlink", fault, mode)
    assert len(found) >= 6
    for point in found:
        assert point["code"] == -signal.SIGKILL
        check_file(point, whole, mode)
        caches = [name for name in point["names"] if name.endswith(".odmrows")]
        assert len(caches) <= ("stream" in work)  # the next run goes on from it, and removes it
        litter = set(point["names"]) - {"target", *caches}
        assert len(litter) <= 1
        assert all(TEMPORARY.fullmatch(name) for name in litter)
        assert point["after"]["names"] == ["target"]
        assert point["after"]["text"] == whole["text"]
        assert point["after"]["mode"] == expected_mode(mode)


READERS = [
    "read_data",
    *(pytest.param(work, marks=slow) for work in ("load_model", "train_linear", "train_threads")),
]
READERS += ["train_kernel", pytest.param("train_others", marks=slow)]


@pytest.mark.parametrize("work", READERS + [each for each in WRITERS if "write_ranges" not in str(each)])
def test_memory_that_is_refused(work, points):
    """Memory for compiled modules: a typed error or the right result, never the end of the process."""
    whole, found = points(work, "allocate", errno.ENOMEM)
    assert found
    for point in found:
        assert point["code"] in (DONE, REFUSED) or (point["code"] == 1 and "tool" in work), point
        assert point["names"] == ["target"]
        check_file(point, whole, "600")
