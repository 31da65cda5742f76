"""How tools end: exit codes, one-line messages, signals, broken and full outputs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from odmlib.cli import common
from odmlib.cli.common import one_line, run_tool, say, warn
from odmlib.cli.parser import Finished, UsageError
from odmlib.cli.progress import ProgressLine
from odmlib.errors import DataFormatError, ParameterError
from odmlib.solvers.control import Progress

ROOT = Path(__file__).parent.parent.parent


def failing(error):
    def body(argv):
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DataFormatError("expected index:value, found '3;0.5'", "heart.txt", 12, 7), 1,
         "heart.txt:12:7: expected index:value, found '3;0.5'"),
        (ParameterError("C must be positive"), 1, "C must be positive"),
        (DataFormatError("bad", "a\nb.txt", 1), 1, r"a\nb.txt:1: bad"),
        (FileNotFoundError(2, "No such file or directory", "x\r.txt"), 1,
         r"x\r.txt: No such file or directory"),
        (IsADirectoryError(21, "Is a directory", b"dir\xff"), 1, r"dir\udcff: Is a directory"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError("odd"), 1, "odd"),
        (MemoryError(), 1, "out of memory"),
        (MemoryError("Unable to allocate 7 TiB"), 1, "out of memory: Unable to allocate 7 TiB"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (common.Terminated(signal.SIGTERM), 143, "terminated"),
        (UsageError("-l needs a value"), 2, "-l needs a value (see odm-demo --help)"),
        (ZeroDivisionError("oops"), 1,
         "internal error: ZeroDivisionError: oops (please report it; ODMLIB_TRACEBACK=1 shows where)"),
    ],
)  # fmt: skip
def test_errors_become_one_line(error, code, message, capsys, monkeypatch):
    monkeypatch.delenv("ODMLIB_TRACEBACK", raising=False)
    assert run_tool("odm-demo", failing(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"odm-demo: {message}\n"


def test_success_help_and_broken_pipe_are_quiet(capsys):
    assert run_tool("odm-demo", lambda argv: 0) == 0
    assert run_tool("odm-demo", lambda argv: 1) == 1
    assert run_tool("odm-demo", failing(Finished())) == 0
    assert run_tool("odm-demo", failing(BrokenPipeError(32, "Broken pipe"))) == 0
    assert capsys.readouterr() == ("", "")


def test_traceback_on_request(capsys, monkeypatch):
    monkeypatch.setenv("ODMLIB_TRACEBACK", "1")
    assert run_tool("odm-demo", failing(ParameterError("C must be positive"))) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith("\nodm-demo: C must be positive\n")


def test_what_is_no_error_of_the_tool_goes_on():
    with pytest.raises(SystemExit):
        run_tool("odm-demo", failing(SystemExit(3)))


def test_signal_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    run_tool("odm-demo", lambda argv: 0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_termination_is_an_exception_on_the_way_out(capsys):
    cleaned = []

    def body(argv):
        try:
            signal.raise_signal(signal.SIGTERM)
            return 0
        finally:
            cleaned.append(True)

    assert run_tool("odm-demo", body) == 143
    assert cleaned == [True]


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:

        def body(argv):
            signal.raise_signal(signal.SIGHUP)
            return 0

        assert run_tool("odm-demo", body) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_messages(capsys):
    say("odm-demo", "a\nb\x1b[31m\tc\u2028é")
    warn("odm-demo", "careful")
    assert capsys.readouterr().err == "odm-demo: a\\nb\\x1b[31m\\tc\\u2028é\nodm-demo: warning: careful\n"
    assert one_line("plain – text") == "plain – text"


def test_no_stderr_is_no_reason_to_fail(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert run_tool("odm-demo", failing(ParameterError("x"))) == 1


def run_script(script, **options):
    code = "import sys\nfrom odmlib.cli.common import run_tool\n" + textwrap.dedent(script)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, timeout=300, **options
    )


WRITER = """
    def body(argv):
        print("x" * 100)  # stays in the buffer until the end
        return 0
    sys.exit(run_tool("odm-demo", body))
"""


def test_full_device():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with open("/dev/full", "wb") as full:
        done = run_script(WRITER, stdout=full)
    assert (done.returncode, done.stderr) == (1, "odm-demo: <stdout>: No space left on device\n")


def test_reader_gone():
    reading, writing = os.pipe()
    os.close(reading)
    done = run_script(WRITER, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_stdout_at_all():
    done = run_script("sys.stdout = None\nsys.exit(run_tool('odm-demo', lambda argv: 0))")
    assert (done.returncode, done.stderr) == (0, "")


def test_light_to_import():
    done = run_script("sys.exit('numpy' in sys.modules)")
    assert (done.returncode, done.stderr) == (0, "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_line_rewrites_one_line():
    clock = iter([1.0, 1.01, 2.0, 3.0])
    terminal = Terminal()
    with ProgressLine(terminal, clock=lambda: next(clock)) as line:
        line(Progress(1000, 12.3456789, 0.5, 0.01))
        line(Progress(1001, 12.3, 0.4, 0.02))  # too soon
        line(Progress(9, 1.0, float("inf"), 1.0))
        line(Progress(10, 0.5, 1e-3, 2.25))
    shown = terminal.getvalue().split("\r")
    assert shown[0] == ""
    assert shown[1] == "iteration 1000  objective 12.3457  gap 5.0e-01  0.0 s"
    assert shown[2].rstrip() == "iteration 9  objective 1  gap -  1.0 s"
    assert len(shown[2]) == len(shown[1])  # covers what was there
    assert shown[3].rstrip() == "iteration 10  objective 0.5  gap 1.0e-03  2.2 s"
    assert set(shown[4]) == {" "}
    assert shown[5] == ""
    assert "\n" not in terminal.getvalue()


def test_progress_line_says_nothing_to_files_in_a_short_run():
    for stream in (io.StringIO(), None):
        with ProgressLine(stream) as line:
            assert line(Progress(1, 1.0, 1.0, 1.0)) is None
    stream = io.StringIO()
    with ProgressLine(stream) as line:
        line(Progress(1, 1.0, 1.0, 1.0))
    assert stream.getvalue() == ""


def test_progress_in_a_file_is_a_line_every_ten_seconds():
    stream, clock = io.StringIO(), iter([0.0, 9.0, 10.5, 12.0, 20.4, 20.6])
    with ProgressLine(stream, "odm-train", lambda: next(clock)) as line:
        for iteration in range(1, 6):
            line(Progress(iteration, 1.0, 0.5, 1.0))
    assert stream.getvalue().splitlines() == [
        "odm-train: iteration 2  objective 1  gap 5.0e-01  1.0 s",
        "odm-train: iteration 5  objective 1  gap 5.0e-01  1.0 s",
    ]


def test_progress_line_survives_a_terminal_that_goes_away():
    class Gone(Terminal):
        def write(self, text):
            raise OSError(5, "Input/output error")

    with ProgressLine(Gone()) as line:
        line(Progress(1, 1.0, 1.0, 1.0))


def test_an_interrupt_inside_of_executed_text_ends_with_the_tools_exit_code(tmp_path):
    """Classes made by dataclass are executed text. `python -m` kills itself where Ctrl-C came there."""
    script = """
        import sys
        from odmlib.cli.common import run_tool

        def run(argv):
            exec("raise KeyboardInterrupt")

        sys.exit(run_tool("odm-demo", run))
        """
    (tmp_path / "demo_tool.py").write_text(textwrap.dedent(script))
    paths = [str(tmp_path), str(Path(common.__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, "-m", "demo_tool"]
    result = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (130, "odm-demo: interrupted\n")
