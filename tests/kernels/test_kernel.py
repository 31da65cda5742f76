"""Kernel blocks against a plain NumPy reference in extended precision."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from odmlib._core.vectors import squared_norms
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel, float32_is_too_coarse
from tests.reference_kernel import kernel_matrix, random_rows
from tests.turns import turns_during

FORMULAS = [
    KernelFormula("linear"),
    KernelFormula("linear", bias=2.0),
    KernelFormula("poly", gamma=0.1, coef0=1.0, degree=3),
    KernelFormula("poly", gamma=0.1, coef0=-0.5, degree=6, bias=0.5),
    KernelFormula("rbf", gamma=0.05),
    KernelFormula("rbf", gamma=0.05, bias=1.0),
    KernelFormula("rbf", gamma=20.0),
    KernelFormula("sigmoid", gamma=0.02, coef0=-0.3),
    KernelFormula("sigmoid", gamma=1e-7),
]
SHAPES = [
    (1, 1, 1.0),
    (5, 3, 1.0),
    (70, 6, 0.9),
    (70, 22, 1.0),
    (100, 130, 0.4),
    (70, 700, 0.1),
    (40, 5000, 0.003),
]


def relative_error(found, expected) -> float:
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_block_agrees_with_reference(formula, shape):
    X = random_rows(np.random.default_rng(1), *shape)
    kernel = Kernel(formula, Dataset.from_any(X))
    rows = np.random.default_rng(2).permutation(len(X))
    expected = kernel_matrix(formula, X)
    block = kernel.block(rows)
    assert block.dtype == np.float32
    assert relative_error(block, expected[rows]) < 1e-6
    assert relative_error(kernel.diagonal(), np.diag(expected)) < 1e-14
    whole = kernel.block(np.arange(len(X)))
    assert np.array_equal(whole, whole.T)
    assert np.array_equal(whole[rows], block)
    if formula.name == "rbf":
        assert (np.diag(whole) == np.float32(1 + formula.bias**2)).all()


def test_distances_survive_data_far_from_the_origin():
    X = 1000.0 + random_rows(np.random.default_rng(3), 80, 6)
    formula = KernelFormula("rbf", gamma=0.5)
    kernel = Kernel(formula, Dataset.from_any(X))
    assert kernel.precise
    assert np.abs(kernel.block(range(80)) - kernel_matrix(formula, X)).max() < 1e-6


def test_choice_of_precision():
    assert not float32_is_too_coarse(KernelFormula("rbf", gamma=1.0), 1.0)
    assert float32_is_too_coarse(KernelFormula("rbf", gamma=1.0), 100.0)
    assert not float32_is_too_coarse(KernelFormula("linear"), 1e6)
    assert not float32_is_too_coarse(KernelFormula("poly", gamma=1.0, coef0=1.0), 1e6)
    assert float32_is_too_coarse(KernelFormula("poly", gamma=1.0, coef0=-99.9, degree=3), 100.0)
    assert float32_is_too_coarse(KernelFormula("sigmoid", gamma=1.0), 100.0)
    assert float32_is_too_coarse(KernelFormula("rbf", gamma=1e-35), 1e35)


def test_exponential_over_its_whole_range():
    # the first row of a one-column RBF kernel is exp itself
    exponents = np.concatenate([np.linspace(0, 8, 20001), np.linspace(8, 110, 1001)])
    for largest in (8.0, 110.0):
        X = np.sqrt(exponents[exponents <= largest])[:, None].astype(np.float32)
        kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(X))
        assert kernel.precise == (largest > 8)
        values = kernel.block([0])[0].astype(float)
        expected = np.exp(-(X[:, 0].astype(float) ** 2))
        normal = expected > np.finfo(np.float32).tiny
        # the exponent is rounded to float32 once, or in every step where the products are float32
        rounding = 2.0**-24 * (1 if kernel.precise else 4)
        relative = np.abs(values[normal] / expected[normal] - 1)
        assert (relative < rounding * (2 - np.log(expected[normal]))).all()
        assert np.abs(values - expected).max() < 2 * rounding
        assert (values[~normal] == 0).all()


def test_float32_exponential_ends_in_zero():
    # two far points and two near ones: products stay in float32 although the distances differ a lot
    kernel = Kernel(KernelFormula("rbf", gamma=4.0), Dataset.from_any([[1.4], [-1.4], [0.0]]))
    assert not kernel.precise
    expected = [1.0, np.exp(-4 * 2.8**2), np.exp(-4 * 1.4**2)]
    assert kernel.block([0])[0] == pytest.approx(expected, rel=4e-6)
    many = Dataset.from_any(np.concatenate([np.full((1, 100), 0.28), np.full((1, 100), -0.28)]))
    assert Kernel(KernelFormula("rbf", gamma=1.0), many).block([0])[0, 1] == pytest.approx(
        np.exp(-31.36), rel=1e-4
    )


def test_far_columns_cost_no_memory():
    columns = np.array([0, 2**31 - 2, 5, 2**31 - 3], dtype=np.int32)
    data = Dataset(np.array([0, 2, 4]), columns, np.array([1.0, 2.0, 3.0, 4.0]), 2**31 - 1)
    assert Kernel(KernelFormula("linear"), data).block([0, 1]).tolist() == [[5, 0], [0, 25]]


def test_empty_rows_and_empty_data():
    zeros = Dataset.from_any(np.zeros((3, 4)))
    assert (Kernel(KernelFormula("rbf"), zeros).block([0, 2]) == 1).all()
    assert (Kernel(KernelFormula("linear", bias=2.0), zeros).block([1]) == 4).all()
    nothing = Dataset.from_any(np.zeros((0, 4)))
    assert Kernel(KernelFormula("rbf"), nothing).block([]).shape == (0, 0)
    no_columns = Dataset.from_any(np.zeros((2, 0)))
    assert (Kernel(KernelFormula("rbf"), no_columns).block([0, 1]) == 1).all()


def test_same_bits_for_every_thread_count_and_batch():
    X = random_rows(np.random.default_rng(4), 1500, 40, 0.5)
    for formula in (KernelFormula("rbf", gamma=0.01), KernelFormula("rbf", gamma=1.0)):
        data = Dataset.from_any(X)
        one = Kernel(formula, data, threads=1).block(range(100))
        three = Kernel(formula, data, threads=3).block(range(100))
        assert np.array_equal(one, three)
        single = Kernel(formula, data)
        assert all(np.array_equal(single.block([i])[0], one[i]) for i in (0, 63, 64, 99))


def test_block_into_given_memory():
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any(np.eye(3)))
    out = np.empty((2, 3), dtype=np.float32)
    assert kernel.block([2, 0], out) is out
    assert out.tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(ParameterError, match="out must have shape"):
        kernel.block([0], out)
    for rows in ([3], [-1], [[0]]):
        with pytest.raises(ParameterError, match="rows must be"):
            kernel.block(rows)


def test_overflow_is_an_error_with_advice():
    data = Dataset.from_any([[1e15, 0.0], [1.0, 1.0]])
    with pytest.raises(ParameterError, match=r"poly kernel reach 1e\+90.*scale the data or lower the degree"):
        Kernel(KernelFormula("poly"), data)
    with pytest.raises(ParameterError, match=r"linear kernel reach .*scale the data"):
        Kernel(KernelFormula("linear"), Dataset.from_any([[1e200]]))
    with pytest.raises(ParameterError, match="stay below"):
        Kernel(KernelFormula("linear"), Dataset.from_any([[1e-20]]))
    assert Kernel(KernelFormula("poly", degree=2), Dataset.from_any([[1e9]])).block([0])[0, 0] == np.float32(
        1e36
    )


def test_precomputed_rows_are_copied():
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    kernel = Kernel(KernelFormula("precomputed", bias=2.0), matrix)
    assert kernel.block([1, 0]).tolist() == [[5, 7], [6, 5]]
    assert kernel.diagonal().tolist() == [6, 7]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"square matrix, found shape \(2, 3\)"),
        (np.ones(4), "square matrix"),
        ([[1.0, np.nan], [np.nan, 1.0]], "NaN or infinity"),
        (
            [[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.26, 1.0]],
            r"entry \(2, 3\) is 0.25, entry \(3, 2\) is 0.26",
        ),
        ([[1e39]], "too large"),
    ],
    ids=["rectangle", "vector", "nan", "asymmetric", "huge"],
)
def test_bad_precomputed_matrices(matrix, message):
    with pytest.raises(ParameterError, match=message):
        Kernel(KernelFormula("precomputed"), np.asarray(matrix))


def test_rounding_differences_are_still_symmetric():
    matrix = np.array([[1.0, 0.3], [0.3 + 1e-12, 1.0]])
    assert Kernel(KernelFormula("precomputed"), matrix).n_rows == 2


def test_squared_norms_with_empty_rows_at_the_end():
    starts = np.array([0, 2, 2, 3, 3])
    assert squared_norms(starts, np.array([3.0, 4.0, 2.0])).tolist() == [25.0, 0.0, 4.0, 0.0]


def test_other_python_threads_run_while_a_block_is_computed():
    data = Dataset.from_any(np.random.default_rng(5).random((4000, 200)))
    kernel = Kernel(KernelFormula("rbf", gamma=0.001), data)
    found = turns_during(lambda: kernel.block(range(1500)), lambda turns, seconds: turns > 2)
    assert found[0] > 2, found


INTERRUPTED = """
import os, signal, threading
import numpy as np
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
data = Dataset.from_any(np.random.default_rng(5).random((4000, 400)))
kernel = Kernel(KernelFormula("rbf", gamma=0.0001), data)
out = np.empty((4000, 4000), dtype=np.float32)
begun = threading.Event()
def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt).start()
    while True:
        begun.set()
        kernel.block(np.arange(4000), out)
except KeyboardInterrupt:
    print("interrupted")
"""


def run_python(code, **environment):
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_interrupt_is_seen_between_slices():
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert run_python(INTERRUPTED) == "interrupted\n"


@pytest.mark.parametrize("baseline", ["1", "avx2"])
def test_older_instructions_agree_with_reference(baseline):
    # the variants for older processors, in a process of their own because the choice is made once
    code = "from tests.kernels.test_kernel import check_everything; check_everything()"
    run_python(code, ODMLIB_BASELINE=baseline)


BITS = """
import hashlib, numpy as np
from odmlib.data.dataset import Dataset
from odmlib.kernels.expansion import kernel_scores
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for X in (rng.standard_normal((203, 130)), rng.standard_normal((203, 130)) * (rng.random((203, 130)) < 0.3)):
    data = Dataset.from_any(X)
    for name in ("linear", "rbf", "poly"):
        formula = KernelFormula(name, gamma=0.01)
        kernel = Kernel(formula, data)
        for wide in (False, True):
            digest.update(kernel.block(np.arange(203), wide=wide))
        digest.update(kernel_scores(formula, data, rng.standard_normal((203, 3)), data))
print(digest.hexdigest())
"""


def test_wider_vectors_change_no_bit():
    # a lane is a running sum over ascending columns, however many lanes there are
    assert run_python(BITS) == run_python(BITS, ODMLIB_BASELINE="avx2")


def check_everything():
    for formula in FORMULAS:
        for shape in SHAPES:
            test_block_agrees_with_reference(formula, shape)


@pytest.mark.parametrize("gamma", [0.01, 5.0])
def test_restricted_kernels_keep_the_bits(gamma):
    X = random_rows(np.random.default_rng(6), 150, 300, 0.3)
    kernel = Kernel(KernelFormula("rbf", gamma=gamma, bias=1.0), Dataset.from_any(X), threads=2)
    whole = kernel.block(range(150))
    kept = np.flatnonzero(np.random.default_rng(7).random(150) < 0.4)
    part = kernel.restricted(kept)
    assert np.array_equal(part.block(range(len(kept))), whole[np.ix_(kept, kept)])
    assert np.array_equal(part.diagonal(), kernel.diagonal()[kept])
    others = np.setdiff1d(np.arange(150), kept)
    assert np.array_equal(kernel.block(others, onto=part), whole[np.ix_(others, kept)])
    assert kernel.block(others, onto=kernel.restricted([])).shape == (len(others), 0)


def test_restricted_precomputed_kernels_keep_bias_and_shift():
    matrix = np.arange(16.0).reshape(4, 4) + np.arange(16.0).reshape(4, 4).T
    kernel = Kernel(KernelFormula("precomputed", bias=2.0), matrix)
    kernel.shift_diagonal(0.5)
    part = kernel.restricted([1, 3])
    assert part.block([0, 1]).tolist() == [[14.5, 24.0], [24.0, 34.5]]
    assert part.diagonal().tolist() == [14.5, 34.5]


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_wide_rows_are_exact(formula):
    X = random_rows(np.random.default_rng(8), 100, 60, 0.5)
    kernel = Kernel(formula, Dataset.from_any(X))
    expected = kernel_matrix(formula, X)
    whole = kernel.block(range(100), wide=True)
    assert whole.dtype == np.float64
    assert relative_error(whole, expected) < 1e-13
    assert np.array_equal(whole, whole.T)
    part = kernel.restricted([3, 5, 70])
    assert np.array_equal(kernel.block([1, 2], onto=part, wide=True), whole[np.ix_([1, 2], [3, 5, 70])])
    matrix = whole.astype(np.float64)
    assert np.array_equal(Kernel(KernelFormula("precomputed"), matrix).block([7], wide=True)[0], matrix[7])
