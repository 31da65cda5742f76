"""The hot paths take no more instructions than recorded: a loss of speed shows on a busy machine, too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import odmlib
from benchmarks import instructions


def test_instructions_of_calls_are_not_those_of_the_caller():
    package = Path(odmlib.__file__).resolve().parent
    profile = f"""events: Ir
ob={package}/data/_reader.cpython-311-x86_64-linux-gnu.so
fl=???
fn=feed
0 10
cob=/usr/lib/libc.so.6
cfn=memcpy
calls=3 0
0 500
0 7
ob=/usr/lib/libc.so.6
fn=memcpy
0 500
ob={package}/_core/rows.cpython-311-x86_64-linux-gnu.so
fn=gram
0 4
"""
    assert instructions.module_counts(profile) == {"data._reader": 17, "_core.rows": 4}


def test_every_path_is_recorded():
    assert list(instructions.recorded()[1]) == list(instructions.PATHS)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_hot_paths_take_no_more_instructions_than_recorded():
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not on the PATH")
    made_by, before = instructions.recorded()
    if made_by != (here := instructions.compiler()):
        pytest.skip(f"recorded with another compiler or processor: {made_by}, here {here}")
    now = instructions.counts()
    for name, path in instructions.PATHS.items():
        assert 0 < now[name] <= instructions.ALLOWED * before[name], f"{path}: {now[name]} of {before[name]}"
