"""Runs beside shim.cc: does one piece of work again and again, in children whose nth system call fails.

python -m tests.faults.driver WORK CALLS FAULT MODE FOLDER prints JSON with an entry per point: what the child
said and what stands in the folder afterwards. One process for all points: numpy takes long to start.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import odmlib
from odmlib.cli import predict, train
from odmlib.data.dataset import Dataset
from odmlib.data.scaling import Scaling
from odmlib.errors import OdmError

CALLS = {
    "open": 1,
    "write": 2,
    "fsync": 4,
    "rename": 8,
    "mode": 16,
    "close": 32,
    "unlink": 64,
    "allocate": 128,
}
OLD = b"the old file\n"
MOST_POINTS = 20_000

DONE, REFUSED, RAISED = 0, 3, 4  # exit codes of a child

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 40))
Y = np.where(X[:, 0] > 0, 1, -1)
MODEL = odmlib.train(X, Y, kernel="rbf", threads=1)
SCORES = MODEL.decision_function(X)

warnings.simplefilter("error")  # less memory may not mean a worse solution


def save_model(target: str) -> None:
    MODEL.save(target)


def write_data(target: str) -> None:
    odmlib.write_data(target, X, Y)


def train_tool(target: str) -> int:
    return train.main(["-q", "-j", "1", "data", target])


def stream_tool(target: str) -> int:
    return _stream(target, "data")


def wide_stream_tool(target: str) -> int:
    """Whose duals lie in a file."""
    return _stream(target, "wide")


def _stream(target: str, data: str) -> int:
    folder = str(Path(target).parent)
    words = ["-q", "-j", "1", "-t", "0", "--stream", "-m", "100", "--cache-dir", folder, data, target]
    return train.main(words)


def write_ranges(target: str) -> None:
    Scaling.fit(Dataset.from_any(X)).write(target)


def predict_tool(target: str) -> int:
    return predict.main(["-q", "-j", "1", "data", "known.model", target])


def read_data(target: str) -> None:
    odmlib.read_data("data", threads=1)


def load_model(target: str) -> None:
    odmlib.load_model("known.model")


def train_kernel(target: str) -> None:
    scores = odmlib.train(X, Y, kernel="rbf", threads=1).decision_function(X, threads=1)
    np.testing.assert_allclose(scores, SCORES, atol=0.05)


def train_linear(target: str) -> None:
    odmlib.train(X, Y, kernel="linear", threads=1).decision_function(X, threads=1)


def train_threads(target: str) -> None:
    odmlib.train(X, Y, kernel="rbf", threads=3).decision_function(X, threads=3)


def train_others(target: str) -> None:
    labels = np.arange(60) % 3
    odmlib.train(X[:60], labels, machine="mcodm", kernel="linear", threads=1)
    odmlib.train(X[:60], labels, machine="mcodm", kernel="rbf", threads=1)
    odmlib.train(X[:60], Y[:60], machine="kmomd", threads=1)
    odmlib.train(X[:60], Y[:60], machine="sodm", threads=1)


WORKS: dict[str, Callable[[str], Any]] = {
    work.__name__: work
    for work in (
        *(save_model, write_data, train_tool, write_ranges, predict_tool, stream_tool, wide_stream_tool),
        *(read_data, load_model, train_kernel, train_linear, train_threads, train_others),
    )
}


def in_a_child(work: Callable[[str], Any], target: str, calls: int, nth: int, fault: int) -> tuple[int, int]:
    """(calls seen, how it ended): a code from above, another exit code, or minus the number of a signal."""
    shim = ctypes.CDLL(None)
    sys.stdout.flush()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = RAISED
        try:
            shim.arm(calls, ctypes.c_long(nth), fault)
            code = work(target) or DONE
        except (OSError, MemoryError, OdmError):
            code = REFUSED
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        seen = shim.seen()
        shim.arm(0, ctypes.c_long(0), 0)
        os.write(writes, str(seen).encode())
        os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        seen = int(pipe.read() or "0")
    return seen, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def make_folder(folder: Path, mode: int | None) -> None:
    for path in folder.iterdir():
        path.unlink()
    if mode is not None:
        (folder / "target").write_bytes(OLD)
        (folder / "target").chmod(mode)


def state(folder: Path) -> dict[str, Any]:
    target = folder / "target"
    there = target.exists()
    return {
        "names": sorted(path.name for path in folder.iterdir()),
        "text": target.read_bytes().decode("latin-1") if there else None,
        "mode": target.stat().st_mode & 0o7777 if there else None,
    }


def main() -> None:
    name, calls, fault, mode, folder = sys.argv[1:]
    work, mask = WORKS[name], sum(CALLS[call] for call in calls.split("+"))
    target = str(Path(folder) / "target")
    wanted = None if mode == "new" else int(mode, 8)
    os.umask(0o022)
    odmlib.write_data("data", X, Y)
    odmlib.write_data("wide", X.reshape(20, -1), Y[:20])
    MODEL.save("known.model")
    make_folder(Path(folder), wanted)
    code = in_a_child(work, target, 0, 0, 0)[1]  # and what is imported at first use
    whole = state(Path(folder)) | {"code": code}
    work(str(Path(folder) / "warm"))
    points = []
    for nth in range(1, MOST_POINTS):
        make_folder(Path(folder), wanted)
        seen, code = in_a_child(work, target, mask, nth, int(fault))
        if code >= 0 and seen < nth:
            break
        found = {"nth": nth, "code": code} | state(Path(folder))
        if code < 0:  # killed: the next writer cleans up
            in_a_child(work, target, 0, 0, 0)
            found["after"] = state(Path(folder))
        points.append(found)
    json.dump({"whole": whole, "points": points}, sys.stdout)


if __name__ == "__main__":
    main()
