"""The commands and programs of docs/tools.md run, in its order, and its pictures are there and small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .cli.tools import environment

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tools.md"
TOOLS = ("check", "subset", "plot", "convert", "train", "predict")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the example data and the tools of the odmlib under test."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in TOOLS:
        program = programs / f"odm-{name}"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m odmlib.cli.{name} "$@"\n')
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return environment(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")


def test_commands(place):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        result = subprocess.run(
            ["sh", "-e", "-c", block], env=place, capture_output=True, text=True, timeout=100, check=False
        )
        assert result.returncode == 0, (block, result.stderr)
    for name in ("check.json", "small.txt", "margins.svg", "page.html", "odm.libsvm", "again.model"):
        assert Path(name).stat().st_size > 0, name


def test_python(place, capsys):
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), {})
    assert "1 11 expected a number as value, found 'x'" in capsys.readouterr().out


def test_pictures():
    names = re.findall(r"!\[[^]]*\]\(([^)]*)\)", PAGE.read_text())
    assert len(names) >= 5
    for name in names:
        content = (PAGE.parent / name).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 60_000
