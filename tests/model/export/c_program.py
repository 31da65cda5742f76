"""C code of a model, compiled without a warning and run on rows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from odmlib.data.scaling import Scaling
from odmlib.model.export.c_code import save_c_code
from odmlib.model.model import Model

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]

# reads rows of doubles, writes place, scores and probabilities of each as doubles
DRIVER = """
#include <stdio.h>
#include <string.h>
#include "NAME.h"

int main(void)
{
    static double given[UPPER_FEATURES];
    static NAME_real x[UPPER_FEATURES], scores[UPPER_OUTPUTS], p[UPPER_CLASSES];
    double out;
    int j;
    for (j = 0; j < UPPER_CLASSES; j++) {
        fwrite(NAME_label(j), strlen(NAME_label(j)) + 1, 1, stdout);
    }
    if (NAME_label(-1) || NAME_label(UPPER_CLASSES)) {
        return 1;
    }
    while (fread(given, sizeof given, 1, stdin) == 1) {
        for (j = 0; j < UPPER_FEATURES; j++) {
            x[j] = (NAME_real)given[j];
        }
        out = NAME_predict(x);
        fwrite(&out, sizeof out, 1, stdout);
        NAME_scores(x, scores);
        if (NAME_decide(scores) != (int)out) {
            return 2;
        }
        for (j = 0; j < UPPER_OUTPUTS; j++) {
            out = scores[j];
            fwrite(&out, sizeof out, 1, stdout);
        }
        PROBABILITIES
        for (j = 0; j < UPPER_CLASSES; j++) {
            out = p[j];
            fwrite(&out, sizeof out, 1, stdout);
        }
    }
    return 0;
}
"""


# the same for a model of regression: writes the predictions of each row
REGRESSION_DRIVER = """
#include <stdio.h>
#include "m.h"

int main(void)
{
    static double given[M_FEATURES];
    static m_real x[M_FEATURES], scores[M_OUTPUTS];
    double out;
    int j;
    while (fread(given, sizeof given, 1, stdin) == 1) {
        for (j = 0; j < M_FEATURES; j++) {
            x[j] = (m_real)given[j];
        }
        m_scores(x, scores);
        CHECK
        for (j = 0; j < M_OUTPUTS; j++) {
            out = scores[j];
            fwrite(&out, sizeof out, 1, stdout);
        }
    }
    return 0;
}
"""


class Answers(NamedTuple):
    labels: list[bytes]
    places: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray


def compiler_or_skip(name: str = "") -> str:
    if (name and name not in COMPILERS) or not COMPILERS:
        pytest.skip(f"{name or 'a C compiler'} is not installed")
    return name or COMPILERS[0]


def compile_c(compiler: str, *words: str) -> None:
    result = subprocess.run(
        [compiler, *STRICT, *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0 and not result.stderr, result.stderr[:2000]


def answers_of(
    model: Model,
    rows: np.ndarray,
    folder: Path,
    compiler: str = "",
    precision: str = "float64",
    scaling: Scaling | None = None,
) -> Answers:
    """What the compiled code of the model says about dense rows."""
    compiler = compiler_or_skip(compiler)
    save_c_code(model, folder / "m.c", precision, scaling)
    return run_code(folder, "m", rows, model, compiler)


def predictions_of(
    model: Model,
    rows: np.ndarray,
    folder: Path,
    compiler: str = "",
    precision: str = "float64",
    scaling: Scaling | None = None,
) -> np.ndarray:
    """What the compiled code of a model of regression predicts: (rows x outputs)."""
    compiler = compiler_or_skip(compiler)
    save_c_code(model, folder / "m.c", precision, scaling)
    check = "if (m_predict(x) != scores[0]) return 1;" if model.n_outputs == 1 else ""
    numbers = _run(folder, "m", REGRESSION_DRIVER.replace("CHECK", check), rows, compiler)
    return np.frombuffer(numbers).reshape(len(rows), -1)


def run_code(folder: Path, name: str, rows: np.ndarray, model: Model, compiler: str) -> Answers:
    has_probabilities = "probability_slopes" in model.extras
    call = f"{name}_probabilities(scores, p);" if has_probabilities else "p[0] = 0;"
    driver = DRIVER.replace("PROBABILITIES", call).replace("UPPER", name.upper()).replace("NAME", name)
    *labels, numbers = _run(folder, name, driver, rows, compiler).split(b"\0", model.n_classes)
    table = np.frombuffer(numbers).reshape(len(rows), -1)
    places, scores, probabilities = np.split(table, [1, 1 + model.n_outputs], axis=1)
    return Answers(labels, places[:, 0].astype(int), scores, probabilities)


def _run(folder: Path, name: str, driver: str, rows: np.ndarray, compiler: str) -> bytes:
    (folder / "main.c").write_text(driver)
    program = str(folder / "program")
    compile_c(compiler, "-O1", str(folder / "main.c"), str(folder / f"{name}.c"), "-o", program, "-lm")
    given = np.ascontiguousarray(rows, dtype=np.float64).tobytes()
    return subprocess.run([program], input=given, capture_output=True, timeout=300, check=True).stdout
