"""odm-convert to C and ONNX: they answer as odm-predict does; misuse is told in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import convert, scale
from odmlib.data.reading import read_dataset

from ..model.export.c_program import compile_c, compiler_or_skip
from .tools import ROOT, Tools, files, toy

DATA = ROOT / "data"

# reads a data file in LIBSVM format, writes a label and the scores of each row
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "m.h"

int main(void)
{
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        m_real x[M_FEATURES] = {0}, scores[M_OUTPUTS];
        char *rest;
        int k;
        strtod(line, &rest);
        for (;;) {
            char *after;
            const long j = strtol(rest, &after, 10);
            if (after == rest) {
                break;
            }
            x[j - 1] = (m_real)strtod(after + 1, &rest);
        }
        m_scores(x, scores);
        printf("%s", m_label(m_predict(x)));
        for (k = 0; k < M_OUTPUTS; k++) {
            printf(" %.17g", scores[k]);
        }
        printf("\\n");
    }
    return 0;
}
"""


def converted(tools: Tools, *words):
    return tools._run(convert.main, words, None)


def program_lines(test: Path) -> list[list[str]]:
    """What a program made of m.c writes for a data file."""
    Path("main.c").write_text(PROGRAM)
    compile_c(compiler_or_skip(), "main.c", "m.c", "-o", "program", "-lm")
    with open(test, "rb") as stream:
        out = subprocess.run(["./program"], stdin=stream, capture_output=True, timeout=300, check=True).stdout
    return [line.split() for line in out.decode().splitlines()]


def assert_agree(ours: Path, theirs: list[list[str]]) -> None:
    lines = [line.split() for line in ours.read_text().splitlines()]
    assert [line[0] for line in lines] == [line[0] for line in theirs]
    for line, other in zip(lines, theirs, strict=True):
        assert [float(word) for word in other[1:]] == pytest.approx(
            [float(word) for word in line[1:]], rel=1e-12, abs=1e-12
        )


@pytest.mark.parametrize("options", ["-t 2 -g 0.1", "-t 0", "-s mcodm -t 0"])
def test_a_program_with_scaling_writes_what_the_tools_write(tools, options):
    train, test = DATA / "wdbc.train.txt", DATA / "wdbc.test.txt"
    Path("scaled").write_text(tools._run(scale.main, ("-s", "range", train), None).out)
    Path("scaled.t").write_text(tools._run(scale.main, ("-r", "range", test), None).out)
    assert tools.train("-q", options, "scaled m").code == 0
    assert tools.predict("-q --scores scaled.t m out").code == 0
    code, out, err = converted(tools, "--to c --range range m m.c")
    assert (code, out) == (0, "")
    assert "C code written to m.c and m.h; " in err and " bytes of constants, " in err
    assert_agree(Path("out"), program_lines(test))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--to c m -", "C code is two files, NAME.c and NAME.h: it cannot go to standard output"),
        ("--to c m m.txt", "the name of a C file must begin with a letter"),
        ("--float32 m f", "--float32 is for --to c"),
        ("--range r --to libsvm m f", "--range is for --to c"),
        ("--to c --opset 20 m f.c", "--opset is for --to onnx"),
        ("--to c h.h h.c", "the output would replace the input h.h"),
    ],
)
def test_misuse(tools, words, message):
    Path("d").write_text(toy())
    tools.train("-q d m")
    Path("h.h").write_bytes(Path("m").read_bytes())
    before = files()
    code, out, err = converted(tools, words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert files() == before


def test_onnx_answers_as_odm_predict(tools):
    onnxruntime = pytest.importorskip("onnxruntime")
    assert tools.train("-q -b 1", DATA / "iris.txt", "m").code == 0
    assert tools.predict("-q -b 1", DATA / "iris.txt", "m out").code == 0
    code, out, err = converted(tools, "--to onnx --opset 21 m m.onnx")
    assert (code, out) == (0, "")
    assert err.startswith("odm-convert: odm, rbf kernel, 3 classes: ONNX graph written to m.onnx; ")
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    rows = read_dataset(DATA / "iris.txt")[0].to_dense()
    label, probabilities = session.run(["label", "probabilities"], {"X": rows})
    lines = [line.split() for line in Path("out").read_text().splitlines()[1:]]
    assert [str(place) for place in label] == [line[0] for line in lines]
    assert np.abs(probabilities - np.array([line[1:] for line in lines], dtype=float)).max() < 1e-9


def test_onnx_without_the_package(tools, monkeypatch):
    Path("d").write_text(toy())
    tools.train("-q d m")
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = converted(tools, "--to onnx m f")
    assert (code, err) == (1, "odm-convert: ONNX needs the package onnx: pip install 'odmlib[onnx]'\n")
    assert files() == ["d", "m"]


@pytest.mark.parametrize("form", ["c", "onnx"])
def test_bad_input_leaves_nothing_behind(tools, form):
    if form == "onnx":
        pytest.importorskip("onnx")
    Path("d").write_text("1 0:1 1:1 2:0\n-1 0:2 1:0 2:1\n")
    assert tools.train("-q -t 4 d m").code == 0
    Path("range").write_text("x\n-1 1\n1 a 2\n")
    Path("good").write_text(toy())
    tools.train("-q good g")
    before = files()
    code, out, err = converted(tools, f"--to {form} m f.{form}")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert err.startswith("odm-convert: m: a model with precomputed kernel cannot become ")
    code, _, err = converted(tools, f"--to {form} --range range g f.{form}")
    assert code == 1 and err.startswith("odm-convert: range:3:3: expected a finite number, found 'a'")
    code, _, err = converted(tools, f"--to {form} --range none g f.{form}")
    assert code == 1 and err.startswith("odm-convert: none: ") and err.count("\n") == 1
    assert files() == before
