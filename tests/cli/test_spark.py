"""odm-train --spark as a user meets it; training itself is tested in tests/spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import odmlib
from odmlib.cli import spark as cli_spark

from ..spark.conftest import NOT_OURS, ROOT, collect_what_is_not_ours, spark  # noqa: F401
from .tools import command, environment

WDBC = str(ROOT / "data" / "wdbc.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "--spark is for machine sodm (-s 6), found machine odm"),
        ("-s 6 -v 3", "-v is not available with --spark"),
        ("-s 6 -b 1", "-b 1 is not available with --spark"),
        ("-s 6 --margins x", "--margins is not available with --spark"),
        ("-s 6 -t sigmoid", "on Spark the kernel must be linear, rbf or poly, found sigmoid"),
        ("-s 6 --engine barrier", 'engine "barrier" is for kernel linear and for approx nystrom'),
        ("-s 6 --multiclass ovo", "more than two classes are trained as ovr, found ovo"),
        ("-s 6 --engine best", "engine must be one of jobs, barrier, found best"),
        ("-s 6 --partition dc", "on Spark the partition must be one of"),
        ("-s 6 -t linear --solver dsvrg", "on Spark solver dsvrg needs engine barrier"),
        (
            "-s 6 --approx nystrom --solver dcd",
            "the solver must be auto, newton, lbfgs; found dcd",
        ),
    ],
)
def test_what_is_not_available_is_told_before_spark_starts(tools, options, message):
    code, out, err = tools.train(f"{options} --spark local[2] {WDBC} m")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_the_engine_is_for_clusters(tools):
    code, _, err = tools.train(f"-s 6 -t linear --engine barrier {WDBC} m")
    assert code == 2 and "--engine is for --spark" in err


def test_standard_input_is_not_for_clusters(tools):
    code, _, err = tools.train("-s 6 --spark local[2] - m")
    assert code == 2 and "not standard input" in err


def test_what_is_missing(tools, monkeypatch):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, _, err = tools.train(f"-s 6 --spark local[2] {WDBC} m")
    assert code == 1 and err.count("\n") == 1
    assert "--spark needs Java" in err and "JAVA_HOME is /nowhere" in err
    monkeypatch.setitem(sys.modules, "grpc", None)
    code, _, err = tools.train(f"-s 6 --spark sc://localhost {WDBC} m")
    assert code == 1 and err.count("\n") == 1
    assert "--spark sc:// needs grpcio, which is not installed" in err
    monkeypatch.setitem(sys.modules, "pyspark", None)
    code, _, err = tools.train(f"-s 6 --spark local[2] {WDBC} m")
    assert code == 1 and err.count("\n") == 1
    assert "--spark needs pyspark, which is not installed" in err
    assert not Path("m").exists()


@pytest.fixture
def closed_port():
    """A port of this machine at which nobody listens."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        yield door.getsockname()[1]


@pytest.mark.parametrize("address", ["sc://127.0.0.1:{}/;token=x", "spark://127.0.0.1:{0},127.0.0.1:{0}"])
def test_a_cluster_that_is_not_there_is_told_at_once(closed_port, monkeypatch, address):
    """Spark itself tries for one minute, Spark Connect for ten."""
    monkeypatch.setattr(cli_spark, "require_spark", lambda java: None)
    told = rf"nobody listens there \(127.0.0.1:{closed_port}: .*refused"
    with pytest.raises(odmlib.OdmError, match=told), cli_spark.session(address.format(closed_port)):
        pass


def test_addresses_that_only_spark_knows_are_left_to_it():
    for address in ("local[2]", "yarn", "k8s://https://x:1", "sc://no.such.host.invalid", "spark://:x"):
        cli_spark.require_listener(address)
    with socket.create_server(("127.0.0.1", 0)) as door:
        cli_spark.require_listener(f"sc://127.0.0.1:{door.getsockname()[1]}")


def test_the_line_that_matters():
    pages = "Py4JJavaError: An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat x\n"
    assert cli_spark.reason(pages) == "org.apache.spark.SparkException: Job aborted"
    assert (
        cli_spark.reason(pages + "Caused by: java.io.IOException: gone\n\tat y")
        == "java.io.IOException: gone"
    )
    told = cli_spark.reason(pages + "ModuleNotFoundError: No module named 'odmlib'\n")
    assert told.startswith("the executors have no odmlib")
    assert cli_spark.reason("WARNING: nothing\n") == ""
    for said, expected in (
        (
            "Traceback (most recent call last):\n  x\nnumpy._core._exceptions._ArrayMemoryError: Unable to a",
            "a task had too little memory (MemoryError: Unable to a); give executors more",
        ),
        (
            "Caused by: java.lang.OutOfMemoryError: Java heap space",
            "a task had too little memory (OutOfMemoryError: Java heap space); give executors more",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\nCaused by: EOF",
            "the process of a task was killed, as systems do that are short of memory; give executors more",
        ),
    ):
        assert cli_spark.reason(pages + said).startswith(expected)


def test_ctrl_c_is_seen_behind_what_fails_after_it():
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("the way to Java is cut")
    except OSError as error:
        assert isinstance(cli_spark.interruption_behind(error), KeyboardInterrupt)
    assert cli_spark.interruption_behind(OSError("alone")) is None


@pytest.fixture
def shared_session(monkeypatch, request):
    """The session of tests/spark in the place of a new one."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    session = request.getfixturevalue("spark")

    @contextmanager
    def existing(master):
        yield session

    monkeypatch.setattr(cli_spark, "session", existing)


@pytest.mark.filterwarnings(*NOT_OURS)
def test_a_directory_becomes_a_model_file(tools, shared_session):
    lines = Path(WDBC).read_text().splitlines(keepends=True)
    os.mkdir("parts")
    for k in range(3):
        Path(f"parts/part-{k}").write_text("".join(lines[k::3]))
    words = "-s 6 -t linear -c 1e-7 -w-1 2 --spark local[2]"
    code, out, err = tools.train(f"{words} --json j --report r parts/")
    assert (code, out) == (0, "")
    assert "odm-train: 569 rows, 30 features" in err and "converged after" in err
    report = json.loads(Path("j").read_text())
    assert report["solver"] == "newton" and report["gap"] <= 1e-3 and report["trace"]
    page = Path("r").read_text()
    assert "training accuracy" in page and "569" in page
    code, out, _ = tools.predict(f"{WDBC} parts.model o")
    right = sum(report["details"]["right"])
    assert code == 0 and f"({right}/569)" in out
    code, _, _ = tools.train(f"{words} -q --engine barrier parts/ n")
    weights = [Path(name).read_text().partition("weights")[2] for name in ("parts.model", "n")]
    assert code == 0 and weights[0] == weights[1] != ""
    # a fault is one line with its place, and leaves no file
    with open("parts/part-1", "a") as stream:
        stream.write("1 3:1 2:1\n")
    code, _, err = tools.train("-q -s 6 -t linear --spark local[2] parts m")
    assert code == 1 and err.count("\n") == 1
    assert "part-1:191:7: expected an index above 3" in err
    assert not Path("m").exists()


def programs_below(process):
    """The command lines of the processes that this one has started, and they in their turn."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parents[folder.name] = (folder / "stat").read_text().rpartition(") ")[2].split()[1]
            lines[folder.name] = (folder / "cmdline").read_bytes()
    below = {str(process)}
    while more := {one for one, parent in parents.items() if parent in below} - below:
        below |= more
    return [lines[one] for one in below - {str(process)} if one in lines]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tool_itself_and_ctrl_c(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the PATH")
    words = [*command("train"), "-s", "6", "-t", "linear", "--spark", "local[2]"]
    here = {"cwd": tmp_path, "env": environment(PYTHONPATH=str(ROOT)), "stderr": subprocess.PIPE}
    done = subprocess.run([*words, "-q", "-c", "1e-7", WDBC, "m"], check=False, **here)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "m").exists()
    wrong = subprocess.run([*words[:-1], "nonsense", WDBC, "n"], check=False, **here)
    assert wrong.returncode == 1 and b"Master must either be" in wrong.stderr
    for program in (b"java", b"pyspark.daemon"):  # while Java starts, and while tasks run
        with subprocess.Popen([*words, "-c", "1000", "-e", "1e-12", WDBC, "n"], **here) as process:
            while not any(program in line for line in programs_below(process.pid)):
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=300)
            assert process.returncode == 130
            assert said == b"odm-train: interrupted\n"
    assert os.listdir(tmp_path) == ["m"]
