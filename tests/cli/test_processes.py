"""odm-train and odm-predict among other processes: signals, pipes, limits, rivals, locales."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from odmlib.model.text_format import load_model
from tests.compiling import measures_memory
from tests.model.examples import make_model

from .tools import ROOT, command, environment, files, run, start, toy


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_large(n_rows: int, n_features: int = 20, n_classes: int = 2) -> None:
    """Noise that no machine can learn: training to a tiny gap takes long."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features)).round(2)
    labels = random.choice([1, -1] if n_classes == 2 else np.arange(n_classes), n_rows)
    pattern = "%d " + " ".join(f"{j}:%g" for j in range(1, n_features + 1)) + "\n"
    rows = np.column_stack([labels, X]).tolist()
    Path("large").write_text("".join([pattern % tuple(row) for row in rows]))


def wait_for_training(process: subprocess.Popen[bytes]) -> None:
    """Return when the trainer has read its data, which it says, and has worked a little."""
    assert process.stderr is not None
    assert b"rows" in process.stderr.readline()
    time.sleep(0.2)


def end_of(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, err = process.communicate(timeout=300)  # a second or less, on a machine that has nothing else to do
    return process.returncode, err


@pytest.mark.parametrize(
    ("options", "n_rows", "n_classes"),
    [
        ("-t 0 --solver dcd -c 1000 -h 0", 30_000, 2),
        (
            "-t 0 --solver svrg -c 1000 -j 1 --multiclass ovr",
            30_000,
            300,
        ),  # SVRG soon ends: many tasks
        ("-t 2 -g 0.1 -c 1000 -m 20", 40_000, 2),
    ],
    ids=["dcd", "svrg", "kernel"],
)
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")]
)
def test_signals_end_training_at_once(options, n_rows, n_classes, number, code, word):
    write_large(n_rows, n_classes=n_classes)
    with start("train", *options.split(), "-e", "1e-15", "--max-iter", "100000000", "large", "m") as process:
        wait_for_training(process)
        process.send_signal(number)
        assert end_of(process) == (code, b"odm-train: " + word + b"\n")
    assert files() == ["large"]


@pytest.mark.parametrize(
    "options",
    [
        "-t 0 --solver dcd -c 1000 -h 0 -j 3 --multiclass ovr",
        "-t 0 --solver dcd -c 1000 -h 0 -j 1 --multiclass ovr",
        "-t 2 -g 0.1 -c 1000 -m 20 -j 2",
        "-t 2 -g 0.1 -c 1000 -m 20 -j 2 --multiclass ovr",
        "-t 2 -g 0.1 -c 1000 -m 200 -j 2 --multiclass ovr",
    ],
)
def test_signals_end_training_of_many_classes_at_once(options):
    write_large(40_000, n_classes=5)  # minutes of work: the signal must find it working
    with start("train", *options.split(), "-e", "1e-15", "--max-iter", "100000000", "large", "m") as process:
        wait_for_training(process)
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (130, b"odm-train: interrupted\n")
    assert files() == ["large"]


def test_interrupt_keeps_the_old_model():
    write_large(20_000)
    Path("m").write_text("old")
    with start(
        "train", "-t", "0", "--solver", "dcd", "-e", "1e-15", "-c", "1000", "large", "m", "--json", "r"
    ) as process:
        wait_for_training(process)
        process.send_signal(signal.SIGINT)
        assert end_of(process)[0] == 130
    assert Path("m").read_text() == "old"
    assert files() == ["large", "m"]


def test_reader_of_predictions_goes_away():
    Path("d").write_text("1 1:1\n" * 200_000)
    make_model().save("m")
    with start("predict", "--scores", "d", "m", "-") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"1 1.35\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=300) == 0


def test_full_stdout():
    Path("d").write_text(toy())
    make_model().save("m")
    with Path("/dev/full").open("wb") as full:
        result = run("predict", "d", "m", "-", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (1, b"odm-predict: <stdout>: No space left on device\n")


@measures_memory
def test_memory_limit_ends_in_one_line():
    """A small packed file that grows to more than the process may have."""
    Path("large").write_bytes(gzip.compress(b"1 1:1\n-1 1:-1\n" * 5_000_000, 1))
    megabytes = 200  # enough to start, not enough for 300 MB of rows

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    env = environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    result = run("train", "-q", "-t", "0", "-j", "1", "large", "m", preexec_fn=limit, env=env)
    assert result.returncode == 1
    assert result.stderr.startswith(b"odm-train: out of memory")
    assert result.stderr.count(b"\n") == 1
    assert files() == ["large"]


def test_two_trainers_leave_one_whole_model():
    Path("a").write_text(toy(seed=1))
    Path("b").write_text(toy(seed=2))
    for name in "ab":
        assert run("train", "-q", "-t", "0", name, f"{name}.model").returncode == 0
    wholes = {Path(f"{name}.model").read_bytes() for name in "ab"}
    processes = [start("train", "-q", "-t", "0", "--seed", "0", name, "m") for name in "ab" * 2]
    for process in processes:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert Path("m").read_bytes() in wholes
    assert files() == ["a", "a.model", "b", "b.model", "m"]


def test_locale_does_not_matter():
    Path("d").write_text(toy())
    results = []
    for locale in ("C", "de_DE.UTF-8", "tr_TR.UTF-8"):
        env = environment(LC_ALL=locale, LANG=locale)
        assert run("train", "-q", "-t", "0", "d", "m", env=env).returncode == 0
        predicted = run("predict", "--scores", "d", "m", "-", env=env)
        results.append((Path("m").read_bytes(), predicted.stdout, predicted.stderr))
    assert results[0] == results[1] == results[2]
    assert b"." in results[0][1]


def test_named_pipes():
    Path("d").write_text(toy())
    assert run("train", "-q", "-t", "0", "d", "m").returncode == 0
    for name in ("in", "out"):
        os.mkfifo(name)
    with start("predict", "-q", "in", "m", "out") as process:
        Path("in").write_text(toy())
        assert Path("out").read_text().count("\n") == 60
        assert process.communicate(timeout=300) == (b"", b"")
        assert process.returncode == 0
    assert files() == ["d", "in", "m", "out"]


def test_shell_pipeline():
    Path("d").write_text(toy())
    train, predict = " ".join(command("train")), " ".join(command("predict"))
    script = f"cat d | {train} -q -t 0 - - | {predict} d - - 2>/dev/null | sort | uniq -c | wc -l"
    result = subprocess.run(
        ["sh", "-c", script], capture_output=True, env=environment(), timeout=300, check=True
    )
    assert (result.stdout.strip(), result.stderr) == (b"2", b"")


def test_launchers():
    root = Path(__file__).parent.parent.parent
    Path("d").write_text(toy())
    for name, words in (
        ("odm-train", ["-q", "-t", "0", "d", "m"]),
        ("odm-predict", ["-q", "d", "m", "out"]),
        ("odm-check", ["-q", "d"]),
        ("odm-subset", ["-q", "d", "10", "few"]),
        ("odm-convert", ["-q", "m", "their"]),
        ("odm-plot", ["margins", "d", "m"]),
    ):
        launcher = root / "bin" / name
        result = subprocess.run(
            [command("train")[0], launcher, *words],
            capture_output=True,
            env=environment(),
            timeout=300,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, b"")
    assert load_model("m").n_features == 4


def test_a_file_name_may_be_any_bytes():
    """Names that are no text: on stdout as they are, in pages and JSON in escapes."""
    name = os.fsdecode(b"d\xff")
    Path(name).write_text("+1 1:1e200\n-1 1:-1\n+1 1:3\n-1 1:4\n")
    for words in (
        ("check", name),
        ("check", "--json", "-", name),
        ("easy", "-q", "-t", "0", "-log2c", "0,0,1", "-v", "2", name),
    ):
        found = run(*words)
        assert found.returncode == 0, found.stderr
    found = run("train", "-q", "-t", "0", "--report", os.fsdecode(b"r\xff"), name, "m")
    assert found.returncode == 0, found.stderr
    assert b"d\\udcff" in Path(os.fsdecode(b"r\xff")).read_bytes()


def test_ctrl_c_before_the_tool_itself_is_loaded(tmp_path):
    """Python would show where it came."""
    (tmp_path / "odmlib").mkdir()
    (tmp_path / "odmlib" / "__init__.py").write_text("raise KeyboardInterrupt")
    for script in sorted((ROOT / "bin").glob("odm-*")):
        env = environment(PYTHONPATH=str(tmp_path))
        found = subprocess.run(
            [sys.executable, script], env=env, capture_output=True, timeout=60, check=False
        )
        assert (found.returncode, found.stderr) == (130, b""), script
