"""Every tool has a page; what the pages make is there afterwards, and their pictures are there and small."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .doc_blocks import package_folder, pages, run_page, tool_folder

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "docs" / "commands"
TOOLS = sorted(tool.name for tool in (ROOT / "bin").glob("odm-*"))

# what the commands of a page leave behind
MADE = {
    "odm-check": ["check.json", "wdbc.model"],
    "odm-subset": ["small.txt", "test.txt", "small.model"],
    "odm-plot": ["margins.svg", "roc.svg", "all.svg", "run.json"],
    "odm-convert": ["odm.libsvm", "again.model", "odm.c", "odm.h", "odm.npz"],
    "odm-train": ["page.html", "report.json"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_a_page(tool):
    text = (COMMANDS / f"{tool}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {tool}\n\n    {tool} ")  # the title, and how it is called
    assert f"[{tool}](commands/{tool}.md)" in (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    assert re.search(r"^```(sh|console)$", text, flags=re.MULTILINE), "a page has an example that runs"


@pytest.mark.parametrize("tool", MADE)
def test_commands_make_their_files(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tool_folder()}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", package_folder())
    run_page(COMMANDS / f"{tool}.md", tmp_path)
    for name in MADE[tool]:
        assert Path(name).stat().st_size > 0, name


def test_pictures():
    found = [
        (page.parent / name, page)
        for page in pages()
        for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(found) >= 6
    for picture, page in found:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 60_000, f"{page.name}: {picture.name}"
