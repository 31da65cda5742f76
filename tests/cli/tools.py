"""Running odm-train and odm-predict, in this process where that will do."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from odmlib.cli import predict, train

ROOT = Path(__file__).parent.parent.parent
WDBC = ROOT / "data" / "wdbc.train.txt"
WDBC_TEST = ROOT / "data" / "wdbc.test.txt"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Tools:
    """`train` and `predict` in the current directory, which is a fresh one."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def train(self, *words: Any, stdin: bytes | None = None) -> Outcome:
        return self._run(train.main, words, stdin)

    def predict(self, *words: Any, stdin: bytes | None = None) -> Outcome:
        return self._run(predict.main, words, stdin)

    def _run(self, main: Callable[[list[str]], int], words: tuple, stdin: bytes | None) -> Outcome:
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        argv = [part for word in words for part in (word.split() if isinstance(word, str) else [str(word)])]
        code = main(argv)
        return Outcome(code, *self._capsys.readouterr())


def files() -> list[str]:
    return sorted(os.listdir())


def command(name: str) -> list[str]:
    return [sys.executable, "-m", f"odmlib.cli.{name}"]


def environment(**changes: str) -> dict[str, str]:
    return os.environ | changes


def start(name: str, *words: Any, **details: Any) -> subprocess.Popen[bytes]:
    details = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | details
    return subprocess.Popen([*command(name), *map(str, words)], **details)


def run(name: str, *words: Any, **details: Any) -> subprocess.CompletedProcess[bytes]:
    details = {"capture_output": True, "env": environment(), "timeout": 60, "check": False} | details
    return subprocess.run([*command(name), *map(str, words)], **details)


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=False,
    )


def toy(n_rows: int = 60, labels: tuple[str, str] = ("1", "-1"), seed: int = 0) -> str:
    """A small data file: two classes that overlap a little."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4)).round(3)
    first = X[:, 0] + 0.4 * random.normal(size=n_rows) > 0
    return "".join(
        labels[0 if is_first else 1] + "".join(f" {j}:{v}" for j, v in enumerate(row, 1)) + "\n"
        for is_first, row in zip(first, X.tolist(), strict=True)
    )
