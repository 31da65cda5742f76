"""The caller's arrays change while a thread trains and predicts: results may be wrong, the process lives."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CODE = """
import threading, warnings
import numpy as np, odmlib
from scipy import sparse

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = sparse.csr_array(sparse.random(400, 30, density=0.3, random_state=0))
y = np.arange(400) % 2
X.has_canonical_format, X.has_sorted_indices
indptr, indices = X.indptr.copy(), X.indices.copy()
model = odmlib.train(X, y, kernel={kernel!r}, max_iter=5)
over = threading.Event()

def disturb():
    while not over.is_set():
        X.indices[:] = 2_000_000_000
        X.indptr[1:-1] = 1_000_000_000
        X.indices[:], X.indptr[:] = indices, indptr
        over.wait(0.003)  # whole for a moment, so that ten trainings find sound arrays

thread = threading.Thread(target=disturb)
thread.start()
done = refused = 0
try:
    while done < 10:  # however long the arrays are not whole: the other thread may be held up
        try:
            odmlib.train(X, y, kernel={kernel!r}, max_iter=5)
            model.predict(X)
            done += 1
        except odmlib.ParameterError:
            refused += 1
finally:
    over.set()
    thread.join()
print(done, refused)
"""


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_index_arrays_may_change_meanwhile(kernel):
    result = subprocess.run(
        [sys.executable, "-c", CODE.format(kernel=kernel)],
        cwd=ROOT, capture_output=True, timeout=300, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    done, _ = map(int, result.stdout.split())
    assert done == 10
