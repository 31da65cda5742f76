"""odm-convert: svm-predict and LIBLINEAR's predict (the programs, not ours) give our labels line for line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import convert

from .tools import ROOT, Tools, files, run, toy

DATA = ROOT / "data"
PREDICTORS = {"svm_type": "svm-predict", "solver_type": "liblinear-predict"}


def converted(tools: Tools, *words):
    return tools._run(convert.main, words, None)


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def their_lines(test: Path | str, model: str) -> bytes:
    """What the program that the model is for writes."""
    key = Path(model).read_bytes().split()[0].decode()
    subprocess.run(
        [program(PREDICTORS[key]), test, model, "theirs"], check=True, capture_output=True, timeout=300
    )
    return Path("theirs").read_bytes()


@pytest.mark.parametrize(
    ("name", "options", "form"),
    [
        ("wdbc.train.txt", "-t rbf -g 1e-5", "LIBSVM"),
        ("wdbc.train.txt", "-t linear --time-limit 20", "LIBLINEAR"),
        ("iris.txt", "", "LIBSVM"),
        ("iris.txt", "-B 2", "LIBSVM"),
        ("iris.txt", "-t linear --multiclass ovr", "LIBLINEAR"),
        ("iris.txt", "-t linear -B -1 --multiclass ovr", "LIBLINEAR"),
        ("iris.txt", "-t linear --multiclass ovo", "LIBSVM"),
        ("iris.txt", "-t poly --multiclass ovr", "LIBSVM"),
        ("iris.txt", "-s mcodm", "LIBSVM"),
        ("iris.txt", "-s mcodm -t linear", "LIBLINEAR"),
        ("iris.txt", "-s kmomd", "LIBSVM"),
        ("rings.txt", "-s svm", "LIBSVM"),
        ("wine.txt", "-g 1e-4", "LIBSVM"),
        ("digits.txt", "-g 0.001", "LIBSVM"),
    ],
)
def test_their_programs_predict_as_ours(tools, name, options, form):
    assert tools.train("-q", options, DATA / name, "m").code == 0
    assert tools.predict("-q", DATA / name, "m", "ours").code == 0
    code, out, err = converted(tools, "m", "f")
    assert (code, out) == (0, "") and f"{form} model written to f" in err
    assert Path("ours").read_bytes() == their_lines(DATA / name, "f")


@pytest.mark.parametrize("options", ["-t 0", "-t 1 -r 1", "-t 2", "-t 3 -g 0.01", "-s 1 -n 0.05"])
@pytest.mark.parametrize("name", ["rings.txt", "iris.txt"])
def test_models_of_svm_train(tools, options, name):
    trainer = program("svm-train")
    subprocess.run([trainer, "-q", *options.split(), DATA / name, "m"], check=True, timeout=300)
    theirs = their_lines(DATA / name, "m")
    assert converted(tools, "m", "ours.model").code == 0
    assert tools.predict("-q", DATA / name, "ours.model", "ours").code == 0
    assert Path("ours").read_bytes() == theirs


@pytest.mark.parametrize(
    "options", ["-s 0", "-s 1 -B 1", "-s 2", "-s 3 -B 0.5", "-s 4", "-s 5", "-s 6", "-s 7"]
)
@pytest.mark.parametrize("name", ["rings.txt", "iris.txt"])
def test_models_of_liblinear_train(tools, options, name):
    trainer = program("liblinear-train")
    subprocess.run(
        [trainer, "-q", *options.split(), DATA / name, "m"], check=True, capture_output=True, timeout=300
    )
    theirs = their_lines(DATA / name, "m")
    assert converted(tools, "m", "ours.model").code == 0
    assert tools.predict("-q", DATA / name, "ours.model", "ours").code == 0
    assert Path("ours").read_bytes() == theirs


def test_features_that_no_vector_has_count_as_in_libsvm(tools):
    """In rbf a new feature is a distance; odm-predict must not cut it off for a model of LIBSVM."""
    Path("d").write_text("1 1:1\n-1 1:-1\n")
    Path("t").write_text("1 1:0.01 7:100\n-1 1:-1 3:0.2\n")
    subprocess.run([program("svm-train"), "-q", "-g", "1", "d", "m"], check=True, timeout=300)
    theirs = their_lines("t", "m")
    assert converted(tools, "m", "o").code == 0
    code, _, err = tools.predict("--scores -q t o ours")
    assert (code, err) == (0, "")
    lines = Path("ours").read_text().splitlines()
    assert [line.split()[0] for line in lines] == theirs.decode().split()
    assert lines[0].split()[1] == "0.0"  # so far away that both vectors weigh nothing


def test_precomputed_kernels(tools):
    rows = [(1, 1.0), (1, 2.0), (-1, -1.5), (-1, -1.0), (1, 0.5)]
    text = "".join(
        f"{y} 0:{i} " + " ".join(f"{j}:{x * z:g}" for j, (_, z) in enumerate(rows, 1)) + "\n"
        for i, (y, x) in enumerate(rows, 1)
    )
    Path("d").write_text(text)
    assert tools.train("-q -t 4 -B 1 d m").code == 0
    tools.predict("-q d m ours")
    assert converted(tools, "m", "f").code == 0
    assert Path("ours").read_bytes() == their_lines("d", "f")
    assert converted(tools, "f", "back").code == 0
    tools.predict("-q d back again")
    assert Path("ours").read_bytes() == Path("again").read_bytes()


def test_labels_that_are_not_whole_are_refused(tools):
    Path("d").write_text(toy(labels=("1.5", "2.5")))
    tools.train("-q d m")
    before = files()
    code, out, err = converted(tools, "m", "f")
    assert (code, out) == (1, "")
    assert err.startswith("odm-convert: m: label 1.5 cannot be converted") and err.count("\n") == 1
    assert files() == before


def test_what_is_lost_is_said(tools):
    Path("d").write_text(toy())
    tools.train("-q -t linear -b 1 d m")
    code, _, err = converted(tools, "-q", "m", "f")
    assert code == 0
    assert err == (
        "odm-convert: warning: the probabilities are left out: "
        "LIBLINEAR has them for logistic regression only\n"
    )
    assert converted(tools, "-q --to libsvm m f").err == ""
    assert "probA" in Path("f").read_text()


def test_pipes_and_misuse(tools):
    Path("d").write_text(toy())
    tools.train("-q d m")
    there = run("convert", "-q", "-", "-", input=Path("m").read_bytes())
    assert there.returncode == 0 and there.stdout.startswith(b"svm_type c_svc\n")
    back = run("convert", "-q", "-", "-", input=there.stdout)
    assert back.returncode == 0 and back.stdout.startswith(b"odmlib model 1\n")
    assert b"status converted\n" in back.stdout
    assert converted(tools, "--to odmlib m f") == (
        1,
        "",
        "odm-convert: m: this is already a model in the form odmlib\n",
    )
    code, _, err = converted(tools, "m", "m")
    assert code == 2 and "would replace the input" in err
    assert converted(tools, "--to pmml m f").code == 2
    assert converted(tools, "m").code == 2
    code, _, err = converted(tools, "d", "f")
    assert code == 1 and "d:1: not an odmlib model" in err and "looks like a data file" in err
    code, _, err = converted(tools, "none", "f")
    assert code == 1 and err.count("\n") == 1
    Path("svm").write_bytes(there.stdout)
    code, _, err = converted(tools, "--features 2 svm f")
    assert code == 2 and "the vectors of the model have 4, not 2" in err
    assert not os.path.exists("f")
    assert tools.predict("d svm out").out == tools.predict("d m out").out  # needs no conversion


def test_binary_models_serve_all_tools(tools):
    """A model name that ends in .npz, conversion both ways, and tools that tell by what the file holds."""
    data = DATA / "iris.txt"
    assert tools.train("-q -b 1", data, "m").code == 0
    assert tools.train("-q -b 1", data, "m.npz").code == 0
    assert Path("m.npz").read_bytes().startswith(b"PK\x03\x04")
    for name, out in (("m", "one"), ("m.npz", "two")):
        assert tools.predict("-q -b 1", data, name, out).code == 0
    assert Path("one").read_bytes() == Path("two").read_bytes()
    code, _, err = converted(tools, "--to binary m b")
    assert code == 0 and "binary odmlib model written to b" in err
    assert Path("b").read_bytes() == Path("m.npz").read_bytes()
    assert converted(tools, "-q --to odmlib b again").code == 0
    assert Path("again").read_bytes() == Path("m").read_bytes()
    assert converted(tools, "-q b libsvm").code == 0 and Path("libsvm").read_text().startswith("svm_type")
    assert converted(tools, "-q --to binary libsvm theirs").code == 0
    assert converted(tools, "--to binary b f").err == (
        "odm-convert: b: this is already a model in the form binary\n"
    )
    assert tools.train("-q --init b", data, "warm").code == 0
    piped = run("predict", "-q", data, "-", "-", input=Path("b").read_bytes())
    assert piped.returncode == 0 and piped.stdout.split()[0] == b"1"
    with np.load("b", allow_pickle=False) as arrays:
        np.savez_compressed("packed.npz", **arrays)
    assert tools.predict("-q", data, "packed.npz out").code == 0
    code, _, err = tools.predict("--max-unpacked 100", data, "packed.npz out")
    assert code == 1 and "--max-unpacked" in err and err.count("\n") == 1
