"""KernelMatrix: products against the plain matrix, any number of threads, marked rows."""

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.matrix import KernelMatrix, matrix_bytes


def make_kernel(n_rows, seed=0, name="rbf", threads=2):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n_rows, 5)) * (random.random((n_rows, 5)) < 0.7)
    return Kernel(KernelFormula(name, gamma=0.3, bias=0.5), Dataset.from_any(X), threads)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 255, 256, 257, 700])
def test_product_equals_the_plain_one(n_rows):
    kernel = make_kernel(n_rows)
    plain = kernel.block(np.arange(n_rows)).astype(np.float64)
    v = np.random.default_rng(1).standard_normal(n_rows)
    product = KernelMatrix(kernel).product(v)
    np.testing.assert_allclose(product, plain @ v, rtol=1e-12, atol=1e-12 * np.abs(plain).sum())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_marked_rows_only(share):
    kernel = make_kernel(600)
    plain = kernel.block(np.arange(600)).astype(np.float64)
    random = np.random.default_rng(2)
    wanted = random.random(600) < share
    v = np.where(wanted, random.standard_normal(600), 0.0)
    product = KernelMatrix(kernel).product(v, wanted.view(np.uint8))
    np.testing.assert_allclose(product[wanted], (plain @ v)[wanted], rtol=1e-11, atol=1e-11)


def test_threads_do_not_change_a_bit():
    kernel = make_kernel(900)
    matrix = KernelMatrix(kernel)
    v = np.random.default_rng(3).standard_normal(900)
    first = matrix.product(v, None, 1)
    for threads in (2, 3, 7):
        assert matrix.product(v, None, threads).tobytes() == first.tobytes()


def test_precomputed_matrix():
    random = np.random.default_rng(4)
    root = random.standard_normal((300, 20))
    gram = root @ root.T
    matrix = KernelMatrix(Kernel(KernelFormula("precomputed", bias=2.0), gram))
    v = random.standard_normal(300)
    expected = (gram.astype(np.float32) + np.float32(4)) @ v
    np.testing.assert_allclose(matrix.product(v), expected, rtol=1e-5, atol=1e-3)


def test_memory_is_about_half_of_the_full_matrix():
    full = 4 * 5000**2
    assert 0.5 * full < matrix_bytes(5000) < 0.6 * full
