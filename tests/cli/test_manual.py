"""Manual pages and completion: made for every tool, without numpy, and taken by their programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from odmlib.cli.manual import BASH, FISH, ZSH, files, options_of, parsers, write_files

from .tools import ROOT, run_python

PARSERS = {parser.prog: parser for parser in parsers()}


def output_of(*words: str) -> str:
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stderr) == (0, ""), words
    return result.stdout


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    write_files(folder)
    return folder


def test_every_tool_has_its_files():
    scripts = {path.name for path in (ROOT / "bin").glob("odm-*")}
    assert set(PARSERS) == scripts
    assert len(list(files())) == 4 * len(scripts)


def test_the_build_needs_no_numpy():
    result = run_python(
        "import sys\nfrom odmlib.cli.manual import files\nlist(files())\nprint('numpy' in sys.modules)"
    )
    assert result.stdout == "False\n", result.stderr


@pytest.mark.parametrize("tool", PARSERS)
def test_manual_pages_have_every_flag(share, tool):
    page = share / f"man/man1/{tool}.1"
    if shutil.which("mandoc"):
        text = output_of("mandoc", "-T", "ascii", str(page)).replace("\b", "")
        faults = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "error", str(page)], capture_output=True, check=False
        )
        assert faults.stdout == b""
    text = page.read_text().replace("\\-", "-")
    for action in options_of(PARSERS[tool]):
        for flag in action.option_strings:
            assert f"\\fB{flag}\\fR" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash(share):
    script = (
        f"source {share}/{BASH}/odm-train\n"
        + """
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _odm_train; echo "${COMPREPLY[*]}"; }
        ask odm-train -s o
        ask odm-train --max
        ask odm-train --multiclass ""
        """
    )
    assert output_of("bash", "-c", script).splitlines() == [
        "odml odm odmr odmo",
        "--max-unpacked --max-disagree --max-cuts --max-iter --max-vectors",
        "ovo ovr",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_knows_the_kinds_of_pictures(share):
    script = (
        f"source {share}/{BASH}/odm-plot\n"
        + """
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _odm_plot; echo "${COMPREPLY[*]}"; }
        ask odm-plot c
        ask odm-plot roc --pos
        ask odm-plot accuracy --over t
        """
    )
    assert output_of("bash", "-c", script).splitlines() == [
        "confusion calibration convergence",
        "--positive",
        "theta",
    ]
    page = (share / "man/man1/odm-plot.1").read_text()
    assert "the label to look for (default: the larger of two) (roc, pr, calibration)" in page


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not on the PATH")
def test_fish(share):
    asked = "complete -C 'odm-train --kernel p'; complete -C 'odm-train --se'"
    asked += (
        f"; source {share}/{FISH}/odm-plot.fish; complete -C 'odm-plot pr'; complete -C 'odm-plot roc --pos'"
    )
    script = f"source {share}/{FISH}/odm-train.fish; {asked}"
    words = [line.split("\t")[0] for line in output_of("fish", "-c", script).splitlines()]
    assert words == ["poly", "precomputed", "--search", "--seed", "pr", "predictions", "--positive"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not on the PATH")
@pytest.mark.parametrize("tool", PARSERS)
def test_zsh_takes_the_files(share, tool):
    path = Path(share, ZSH, f"_{tool}")
    output_of("zsh", "-n", str(path))
    # the words of _arguments as zsh splits them: one for each flag, and the files
    listed = output_of("zsh", "-c", f"_arguments() {{ print -l -- $# }}; source {path}")
    flags = [flag for action in options_of(PARSERS[tool]) for flag in action.option_strings]
    assert int(listed) == len(flags) + 1 + bool(PARSERS[tool].kinds)
