"""The code blocks of Markdown pages, and running them as a reader would.

    ```python    runs; all blocks of a page share one namespace. Blocks of `>>>` lines are checked as doctests
    ```pycon     `>>>` lines and what they print
    ```console   `$ command` and what the terminal shows (nothing shown: not compared); `...` is anything
    ```sh        a script that must succeed

A page runs from top to bottom in one directory that holds data/. Blocks of other kinds (text, json, none) and
indented ones are not run; nor is one under a line `<!-- not run: why -->`.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import odmlib

ROOT = Path(__file__).resolve().parent.parent
PYTHON, SHELL = ("python", "pycon"), ("console", "sh", "bash", "shell")
OPTIONAL_MODULES = {
    "sklearn",
    "matplotlib",
    "pandas",
    "polars",
    "pyspark",
    "joblib",
    "tqdm",
    "onnx",
    "onnxruntime",
    "skl2onnx",
}
CHECKER = doctest.OutputChecker()
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_BLOCK = re.compile(
    r"^(?P<why><!-- not run: \S.*-->\n+)?^(?P<fence>```+)(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^(?P=fence)[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str
    runs: bool

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if not built(page))]


def built(page: Path) -> bool:
    return "_build" in page.relative_to(ROOT).parts


def blocks_of(page: Path) -> list[Block]:
    """The blocks in a language that can run."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    return [
        Block(
            name, text.count("\n", 0, match.start("text")) + 1, match["kind"], match["text"], not match["why"]
        )
        for match in _BLOCK.finditer(text)
        if match["kind"] in PYTHON + SHELL
    ]


def run_page(page: Path, folder: Path) -> dict:
    """Run a page in `folder`, which is the current directory; the names that its Python blocks leave."""
    (folder / "data").symlink_to(ROOT / "data")
    names: dict = {"__name__": "__main__"}
    for block in blocks_of(page):
        if not block.runs:
            continue
        if block.kind in PYTHON:
            run_python(block, names)
        elif block.kind == "console":
            for command, expected in commands_of(block):
                run_command(block.place, command, expected)
        else:
            run_command(block.place, f"set -e\n{block.text}", "")
    return names


def run_python(block: Block, names: dict) -> None:
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, names, block.place, block.page, block.line - 1)
        runner = doctest.DocTestRunner(CHECKER, verbose=False, optionflags=LOOSELY)
        said: list[str] = []
        runner.run(test, out=said.append, clear_globs=False)
        names.update(test.globs)
        assert not runner.failures, "".join(said)
        return
    code = compile("\n" * (block.line - 1) + block.text, str(ROOT / block.page), "exec", optimize=0)
    try:
        exec(code, names)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in OPTIONAL_MODULES:
            raise
        pytest.skip(f"{block.place} needs {error.name}")


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """(command, what it shows) of every `$` line; a command goes on where its line ends with a backslash."""
    command, shown, open_end = None, "", False
    for line in block.text.splitlines(keepends=True):
        if open_end:
            command, open_end = command + line, line.endswith("\\\n")
        elif line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown, open_end = line[2:], "", line.endswith("\\\n")
        else:
            assert command is not None, f"{block.place}: a console block starts with `$ command`"
            shown += line
    if command is not None:
        yield command, shown


def run_command(place: str, command: str, expected: str) -> None:
    """What is shown is standard output and error together, as on a terminal. A failure must be shown."""
    result = subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PATH": f"{tool_folder()}:{os.environ['PATH']}", "PYTHONPATH": package_folder()},
        timeout=300,
        check=False,
    )
    said = f"{place}: {command.strip()}\nsaid\n{result.stdout}\nexit code {result.returncode}"
    assert result.returncode == 0 or expected, said
    if expected:
        assert CHECKER.check_output(expected, result.stdout, LOOSELY), f"{said}, expected\n{expected}"


def package_folder() -> str:
    return str(Path(odmlib.__file__).resolve().parent.parent)


def tool_folder() -> Path:
    """A folder of the tools of bin/, each run by this Python on the odmlib that is being tested."""
    folder = Path("tools").resolve()
    if not folder.exists():
        folder.mkdir()
        for tool in sorted((ROOT / "bin").glob("odm-*")):
            wrapper = folder / tool.name
            wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tool}" "$@"\n')
            wrapper.chmod(0o755)
    return folder
