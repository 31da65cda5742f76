"""odm-train --loo: what it says, and when it writes a model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import odmlib

from .tools import WDBC, files

LINE = re.compile(
    r"Leave-one-out Accuracy = ([0-9.]+)% "
    r"\((\d+)/398; (\d+) errors, at most ([0-9]+) in true refits\)\n"
)


def test_estimate_without_a_model(tools):
    outcome = tools.train("--loo -t 0 -c 0.01", WDBC)
    assert outcome.code == 0
    accuracy, right, errors, bound = map(float, LINE.fullmatch(outcome.out).groups())
    expected = odmlib.leave_one_out(*odmlib.read_data(WDBC), kernel="linear", C=0.01)
    assert (right, errors) == (398 - expected.errors, expected.errors)
    assert accuracy == pytest.approx(100 * right / 398, abs=1e-3)
    assert errors <= bound
    assert bound == expected.bound
    assert files() == []


def test_estimate_and_model(tools):
    outcome = tools.train("-q --loo --json report.json", WDBC, "m")
    assert outcome.code == 0
    assert LINE.fullmatch(outcome.out)
    assert files() == ["m", "report.json"]
    found = json.loads(Path("report.json").read_text())["leave_one_out"]
    expected = odmlib.leave_one_out(*odmlib.read_data(WDBC))
    assert found["errors"] == expected.errors
    assert found["accuracy"] == pytest.approx(expected.accuracy)
    assert found["bound"] == expected.bound
    plain = tools.train("-q", WDBC, "plain")
    assert plain.code == 0
    assert Path("plain").read_bytes() == Path("m").read_bytes()


def test_probabilities_do_not_count_twice(tools, monkeypatch):
    from odmlib.selection import leave_one_out, probabilities

    calls = []

    def counted(*args):
        calls.append(args)
        return original(*args)

    original = leave_one_out.leave_one_out_of
    monkeypatch.setattr(leave_one_out, "leave_one_out_of", counted)
    monkeypatch.setattr(probabilities, "leave_one_out_of", counted)
    assert LINE.fullmatch(tools.train("-q --loo -b 1", WDBC, "m").out)
    assert len(calls) == 1
    assert LINE.fullmatch(tools.train("-q --loo -b 1", WDBC).out)  # no model, no probabilities
    assert len(calls) == 2


def test_a_model_on_stdout_keeps_it_for_itself(tools):
    outcome = tools.train("-q --loo", WDBC, "-")
    assert outcome.out.startswith("odmlib model 1\n")
    assert outcome.out.endswith("end\n")
    assert LINE.fullmatch(outcome.err)
    outcome = tools.train("-q --loo --json -", WDBC)
    assert json.loads(outcome.out)["leave_one_out"]["errors"] > 0
    assert LINE.fullmatch(outcome.err)


def test_from_a_pipe_no_model_need_be_named(tools):
    outcome = tools.train("-q --loo -", stdin=WDBC.read_bytes())
    assert LINE.fullmatch(outcome.out)


def test_no_bound_for_a_kernel_that_needs_a_shift(tools):
    outcome = tools.train("-q --loo -t 3 -g 1e-6 -r -1 --json r.json", WDBC)
    assert re.fullmatch(r"Leave-one-out Accuracy = [0-9.]+% \(\d+/398; \d+ errors\)\n", outcome.out)
    assert json.loads(Path("r.json").read_text())["leave_one_out"]["bound"] is None


def test_no_bound_for_odml(tools):
    outcome = tools.train("-q --loo -s 1 -t 0 -c 0.01", WDBC)
    assert re.fullmatch(r"Leave-one-out Accuracy = 9[0-9.]+% \(\d+/398; \d+ errors\)\n", outcome.out)


def test_too_large_is_one_line_and_no_model(tools):
    outcome = tools.train("-q --loo -m 0.1", WDBC, "m")
    assert outcome.code == 1
    assert outcome.out == ""
    assert re.fullmatch(r"odm-train: leave-one-out from one fit needs \d MB .* allow more, .*\n", outcome.err)
    assert files() == []
