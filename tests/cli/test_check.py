"""odm-check: what it prints, its exit codes, pipes and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from odmlib.cli import check

from .tools import WDBC, run


def checked(tools, *words, stdin=None):
    return tools._run(check.main, words, stdin)


def test_faults_and_exit_codes(tools):
    Path("good").write_text("1 1:0.5\n-1 1:-0.5\n1 1:0.4\n-1 1:-0.4\n")
    Path("bad").write_text("1 1:0.5\n-1 1:x 2:nan\nhello\n-1 1:-0.5\n")
    code, out, err = checked(tools, "bad")
    assert (code, err) == (1, "")
    assert out.splitlines()[:4] == [
        "bad:2:6: expected a number as value, found 'x'",
        "bad:2:10: expected a finite number, found 'nan'",
        "bad:3:1: expected a number as label, found 'hello'",
        "3 faults in 2 of 4 lines",
    ]
    assert checked(tools, "-q", "bad").out.count("\n") == 4
    assert checked(tools, "-q", "good") == (0, "", "")
    assert checked(tools, "--strict -q good").code == 0
    assert checked(tools, "--strict -q", WDBC).code == check.ADVISED
    assert (
        checked(tools, "--faults 1 -q bad").out.splitlines()[1]
        == "... and 2 faults more (--faults 0 shows all)"
    )
    assert checked(tools, "--features 1 -q bad").code == 1
    code, out, err = checked(tools, "none")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert checked(tools, "--fault 3 good").code == 2


def test_statistics_are_shown(tools):
    code, out, _ = checked(tools, WDBC)
    assert code == 0
    assert (
        "no faults in" in out and "classes     2:" in out and "advice: features range from 0 to 4,254" in out
    )


def test_pipe_and_json(tools):
    result = run("check", "--json", "-", "-", input=b"1 1:x\n2 1:1\n3 1:2\n")
    assert result.returncode == 1 and result.stderr == b""
    report = json.loads(result.stdout)
    assert report["faults"] == [{"line": 1, "column": 5, "message": "expected a number as value, found 'x'"}]
    assert report["statistics"]["rows"] == 2 and report["good"] is False and report["file"] == "<stdin>"
    code, out, _ = checked(tools, "--json j -q -", stdin=b"1 1:1\n2 1:2\n")
    assert (code, out) == (0, "")
    assert json.loads(Path("j").read_text())["good"] is True
