"""odm-train --stream: same models, clear faults, nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.model.text_format import load_model
from odmlib.solvers.distributed.streamed import folds_of
from tests.compiling import measures_memory

from .tools import WDBC, command, environment, files

# minutes of work, however busy the machine is
LONG = ["-t", "0", "-s", "svm", "-e", "1e-9", "-C", "--stream", "-m", "500"]
STREAM = ("-t 0 --stream -c 0.01", "-m 2000")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_large(n_rows: int, n_features: int = 20) -> None:
    random = np.random.default_rng(0)
    pattern = "%d " + " ".join(f"{j}:%g" for j in range(1, n_features + 1)) + "\n"
    with open("large", "w") as stream:
        for first in range(0, n_rows, 1000):
            X = random.normal(size=(min(1000, n_rows - first), n_features)).round(3)
            labels = np.where(X.sum(axis=1) + random.normal(size=len(X)) > 0, 1, -1)
            stream.writelines(pattern % tuple(row) for row in np.column_stack([labels, X]).tolist())


def start(*words: str, **more) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*command("train"), *words], stderr=subprocess.PIPE, env=environment(), **more)


def wait_for(found, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while not found():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)


def test_the_model_is_that_of_training_in_memory(tools):
    assert tools.train("-q", *STREAM, WDBC, "streamed") == (0, "", "")
    assert tools.train("-q -t 0 -c 0.01", WDBC, "plain").code == 0
    streamed, plain = load_model("streamed"), load_model("plain")
    assert abs(streamed.report["primal"] - plain.report["primal"]) <= 1e-3 * plain.report["primal"]
    assert files() == ["plain", "streamed"]
    outcome = tools.train(*STREAM, WDBC, "streamed")
    assert "398 rows, 30 features" in outcome.err
    assert "passes over the cache" in outcome.err


def test_a_pipe_gives_the_same_model(tools):
    assert tools.train("-q", *STREAM, WDBC, "file").code == 0
    assert tools.train("-q", *STREAM, "- pipe", stdin=WDBC.read_bytes()).code == 0
    assert Path("pipe").read_bytes() == Path("file").read_bytes()
    assert files() == ["file", "pipe"]


def test_a_kept_cache_serves_training_and_validation(tools):
    os.mkdir("caches")
    for words in (("-v 3",), ("model",), ("again",)):
        outcome = tools.train("-q", *STREAM, "--keep-cache --cache-dir caches", WDBC, *words)
        assert outcome.code == 0
        if words == ("-v 3",):
            accuracy = float(outcome.out.removeprefix("Cross Validation Accuracy = ").removesuffix("%\n"))
            assert 90 < accuracy <= 100
            (made,) = os.listdir("caches")
            before = os.stat(f"caches/{made}").st_mtime_ns
    assert os.stat(f"caches/{made}").st_mtime_ns == before
    assert Path("model").read_bytes() == Path("again").read_bytes()


@pytest.mark.parametrize("machine", ["odm", "svm", "odml"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_are_those_of_training_in_memory(tools, machine, n_classes):
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 5)).round(3)
    scores = X @ random.normal(size=(5, n_classes)) + random.normal(size=(300, n_classes))
    y = scores.argmax(axis=1) + 1.0
    odmlib.write_data("data", X, y)
    words = "-t 0 -c 0.1 -w1 2 -v 4 --seed 7 -e 1e-8 --stream -m 2000 data"
    outcome = tools.train("-q", f"-s {machine}", words)
    folds, right = folds_of(0, 300, 4, 7), 0
    how = {"kernel": "linear", "C": 0.1, "class_weight": {1.0: 2.0}, "tol": 1e-8, "multiclass": "ovr"}
    for fold in range(4):
        kept = folds != fold
        model = odmlib.train(X[kept], y[kept], machine=machine, **how)
        right += int((model.predict(X[~kept]) == y[~kept]).sum())
    assert outcome == (0, f"Cross Validation Accuracy = {100 * right / 300:g}%\n", "")


def test_search(tools):
    """The points are those of -v, the model is that of the best C, and the cache is gone."""
    words = "-t 0 --stream -m 2000 -v 3"
    outcome = tools.train(words, "-C --json report", WDBC, "model")
    lines = outcome.out.splitlines()
    assert outcome.code == 0 and lines[0] == "Doing parameter search with 3-fold cross validation."
    found = json.loads(Path("report").read_text())["search"]
    assert len(found["points"]) == len(lines) - 2 == 21
    best = max(point["rate"] for point in found["points"])
    assert lines[-1] == f"Best C = {found['best']['C']:.12g}  CV accuracy = {best:g}%"
    for point in (found["points"][3], found["best"]):
        rate = tools.train("-q", words, f"-c {point['C']!r}", WDBC).out
        assert rate == f"Cross Validation Accuracy = {point['rate']:g}%\n"
    assert load_model("model").parameters["C"] == found["best"]["C"]
    assert files() == ["model", "report"]
    assert tools.train("-q -C", words, WDBC).out == lines[-1] + "\n"
    assert files() == ["model", "report"]
    assert "-C has nothing to search" in tools.train("-C -c 1", words, WDBC).err


def test_a_damaged_cache_is_one_line(tools):
    assert tools.train("-q", *STREAM, "--keep-cache", WDBC, "model").code == 0
    (name,) = set(files()) - {"model"}
    data = bytearray(Path(name).read_bytes())
    data[1000] ^= 4
    Path(name).write_bytes(data)
    message = f"odm-train: ./{name}: block 1 is damaged (wrong checksum); delete the file and run again\n"
    assert tools.train("-q", *STREAM, "--keep-cache", WDBC, "new") == (1, "", message)
    assert files() == sorted(["model", name])


def test_bad_usage(tools):
    for words, message in (
        ("--stream x", "a stream needs kernel linear (-t 0), found rbf"),
        ("-t 0 -s 3 --stream x", "a stream trains machines odm, svm, odml (-s), found mcodm"),
        ("-t 0 --stream -C --loo x", "--loo is not available with --stream"),
        ("-t 0 --stream -W w x", "-W is not available with --stream"),
        ("-t 0 --keep-cache x", "--keep-cache is about the cache of --stream, which is not given"),
        ("-t 0 --stream --keep-cache - m", "--keep-cache needs a file"),
        ("-t 0 --stream x.csv", "--stream reads LIBSVM format, not tables"),
    ):
        outcome = tools.train(words)
        assert outcome.code == 2 and message in outcome.err
    Path("x").write_text("1 1:1\n-1 1:2\n")
    assert "the program itself takes" in tools.train("-t 0 --stream -m 1 x").err
    outcome = tools.train("-t 0 --stream -m 2000 --cache-dir nowhere x")
    assert "(--cache-dir) does not exist: nowhere" in outcome.err
    Path("bad").write_text("1 1:1\n-1 1:x\n")
    outcome = tools.train("-t 0 --stream -m 2000 bad")
    assert outcome == (1, "", "odm-train: bad:2:6: expected a number as value, found 'x'\n")
    assert files() == ["bad", "x"]


def test_weights_that_memory_cannot_hold_are_refused(tools):
    Path("classes").write_text("".join(f"{label} {label + 1}:1 60000:1\n" for label in range(20)))
    outcome = tools.train("-q -t 0 --stream -m 80 classes model")
    assert outcome == (1, "", "odm-train: classes: 20 x 60000 weights need -m 449 or more\n")
    assert "need -m" in tools.train("-q -t 0 --stream -m 80 -v 3 classes").err
    assert tools.train("-q -t 0 --stream -m 449 -e 1 classes model").code == 0
    assert files() == ["classes", "model"]


def test_a_full_disk_while_caching_leaves_nothing():
    write_large(3000)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = start("-t", "0", "--stream", "-m", "500", "large", "model", preexec_fn=limit)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert err.startswith(b"odm-train: ./large-") and err.endswith(b".odmrows: File too large\n")
    assert files() == ["large"]


@pytest.mark.parametrize("keep", [False, True])
def test_ctrl_c_leaves_the_cache_only_if_it_is_to_be_kept(keep):
    write_large(40_000)
    flags = ["--keep-cache"] if keep else []
    process = start(*LONG, *flags, "large", "model")
    wait_for(lambda: any(name.endswith(".odmrows") for name in files()), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err.splitlines()[-1]) == (130, b"odm-train: interrupted")
    left = [name for name in files() if name != "large"]
    assert len(left) == keep and all(name.endswith(".odmrows") for name in left)


def test_a_killed_run_goes_on_from_its_cache():
    write_large(40_000)
    words = ["-q", "-t", "0", "--stream", "-m", "500"]
    process = start(*LONG, "large", "model")
    wait_for(lambda: any(name.endswith(".odmrows") for name in files()), process)
    process.kill()
    process.communicate(timeout=300)
    (cache,) = (name for name in files() if name.endswith(".odmrows"))
    data = bytearray(Path(cache).read_bytes())
    data[1000] ^= 4  # which only a run that uses this cache can see
    Path(cache).write_bytes(data)
    process = start(*words, "large", "model")
    assert b"wrong checksum" in process.communicate(timeout=300)[1]
    data[1000] ^= 4
    Path(cache).write_bytes(data)
    process = start(*words, "large", "model")
    assert process.communicate(timeout=300)[1] == b""
    assert process.returncode == 0
    assert files() == ["large", "model"]


@measures_memory
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc")
def test_memory_stays_below_the_cap():
    write_large(400_000)  # 100 MB of values
    script = (
        "import sys; from odmlib.cli.train import main; code = main(sys.argv[1:]);"
        "status = open('/proc/self/status').read();"
        "print(code, int(status.split('VmHWM:')[1].split()[0]) / 1024)"
    )
    words = ["-q", "-t", "0", "--stream", "-m", "100", "large", "model"]
    found = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, check=True)
    code, peak = found.stdout.split()
    assert code == b"0"
    assert float(peak) < 100
