"""The row cache against a list that does the same by hand."""

import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from tests.compiling import measures_memory

M = 200


@pytest.fixture(scope="module")
def kernel():
    return Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(np.random.default_rng(0).random((M, 5))))


def budget_for(n_rows: int) -> int:
    row = -(-M * 4 // 64) * 64
    return n_rows * (row + 32) + 4 * M


class ListCache:
    """Most recently used first; a fetch touches what it finds, in order, then inserts what it lacks."""

    def __init__(self, capacity: int):
        self.capacity, self.held, self.hits, self.misses = capacity, [], 0, 0

    def fetch(self, wanted):
        for row in [row for row in wanted if row in self.held]:
            self.held.remove(row)
            self.held.insert(0, row)
        for row in wanted:
            if row in self.held:
                self.hits += 1
            else:
                self.misses += 1
                del self.held[self.capacity - 1 :]
                self.held.insert(0, row)


def test_rows_of_several_pieces_of_memory_are_each_their_own():
    m = 4000  # 8 MB hold 523 rows
    kernel = Kernel(
        KernelFormula("rbf", gamma=0.5), Dataset.from_any(np.random.default_rng(1).random((m, 3)))
    )
    cache = RowCache(kernel, 20 << 20)
    assert 1046 < cache.capacity < 1400
    rows = np.random.default_rng(2).permutation(m)[: cache.capacity]
    cache.fill(rows)
    assert cache.bytes_used <= 20 << 20
    some = rows[::37]
    assert np.array_equal(cache.rows(some), kernel.block(some)) and cache.hits == len(some)
    cache.release()
    assert np.array_equal(cache.rows(some), kernel.block(some))


def test_eviction_pattern_and_counters_follow_the_model(kernel):
    rng = np.random.default_rng(1)
    cache, model = RowCache(kernel, budget_for(17)), ListCache(17)
    everything = kernel.block(range(M))
    assert cache.capacity == 17
    for _ in range(300):
        wanted = rng.integers(0, 40, size=rng.integers(0, 18))
        assert np.array_equal(cache.rows(wanted), everything[wanted])
        model.fetch(wanted.tolist())
        assert cache.resident() == model.held
        assert (cache.hits, cache.misses) == (model.hits, model.misses)
        assert cache.bytes_used <= budget_for(17)
    assert cache.misses > 100 < cache.hits


def test_tiny_and_huge_budgets_give_the_same_rows(kernel):
    wanted = np.random.default_rng(2).integers(0, M, 500)
    tiny, huge = RowCache(kernel, budget_for(2)), RowCache(kernel, 1 << 30)
    assert np.array_equal(tiny.rows(wanted), huge.rows(wanted))
    assert tiny.capacity == 2
    assert huge.capacity == M
    assert huge.misses == len(set(wanted.tolist()))
    assert tiny.misses > huge.misses


def test_memory_is_taken_as_needed_and_never_above_the_budget(kernel):
    cache = RowCache(kernel, budget_for(50))
    before = cache.bytes_used
    cache.rows([1, 2, 3])
    assert cache.bytes_used == before + 3 * (-(-M * 4 // 64) * 64)
    cache.rows(range(M))
    assert cache.bytes_used == budget_for(50)


def test_less_than_two_rows_is_an_error(kernel):
    with pytest.raises(ParameterError, match=r"hold two kernel rows of 200 values; give at least 0\.003 MB"):
        RowCache(kernel, budget_for(2) - 1)
    one_row = Kernel(KernelFormula("rbf"), Dataset.from_any([[1.0]]))
    assert RowCache(one_row, 0).rows([0]).tolist() == [[1.0]]


def test_bad_rows(kernel):
    with pytest.raises(ParameterError, match="rows must be"):
        RowCache(kernel, 1 << 20).rows([M])


RESIDENT_GROWTH = """
import re
import numpy as np
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
kernel = Kernel(KernelFormula("linear"), Dataset.from_any(np.ones((20000, 1))))
kernel.block([0])
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
cache = RowCache(kernel, 40 << 20)
before = peak()
for start in range(0, 20000, 100):
    cache.rows(range(start, start + 100))
print(peak() - before, cache.capacity, cache.bytes_used)
"""


@measures_memory
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_the_process_grows_by_the_budget_and_no_more():
    from tests.kernels.test_kernel import run_python

    kilobytes, capacity, used = map(int, run_python(RESIDENT_GROWTH).split())
    assert capacity == (40 * 2**20 - 80000) // (80000 + 32)
    assert used <= 40 * 2**20
    # besides the rows: one copy of 100 rows (8 MB) for Python, and what malloc keeps
    assert 35 * 1024 < kilobytes < (40 + 8 + 4) * 1024


def test_wide_rows(kernel):
    cache = RowCache(kernel, 1 << 20, wide=True)
    assert np.array_equal(cache.rows([5, 6]), kernel.block([5, 6], wide=True))
    assert cache.rows([5]).dtype == np.float64
    assert RowCache(kernel, budget_for(40), wide=True).capacity == 40 * (832 + 32) // (1600 + 32)


def test_a_frozen_cache_serves_any_number_of_threads():
    kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(np.random.default_rng(4).normal(size=(60, 3))))
    cache = RowCache(kernel, bytes_for_all(60, False))
    assert cache.capacity == 60
    with pytest.raises(ParameterError, match="holds every row"):
        cache.freeze()
    cache.fill(np.arange(60))
    cache.freeze()
    whole, counts = kernel.block(range(60)), (cache.hits, cache.misses)
    failures = []

    def read(seed):
        for _ in range(200):
            rows = np.random.default_rng(seed).integers(0, 60, size=20)
            if not np.array_equal(cache.rows(rows), whole[rows]):
                failures.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (cache.hits, cache.misses) == counts == (0, 60)


def test_release_gives_the_memory_back():
    kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(np.random.default_rng(4).normal(size=(60, 3))))
    cache = RowCache(kernel, 1 << 20)
    empty = cache.bytes_used
    cache.fill(np.arange(40))
    assert cache.bytes_used > empty
    cache.release()
    assert (cache.bytes_used, cache.resident()) == (empty, [])
    assert np.array_equal(cache.rows([3, 5]), kernel.block([3, 5]))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 64, 100])
def test_bytes_for_all_rows_are_just_enough(n, wide):
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any(np.ones((n, 1))))
    assert RowCache(kernel, bytes_for_all(n, wide), wide).capacity == n
    if n > 2:
        assert RowCache(kernel, bytes_for_all(n, wide) - 1, wide).capacity == n - 1


@pytest.mark.parametrize("wide", [False, True])
def test_a_part_of_a_frozen_cache(kernel, wide):
    cache = RowCache(kernel, bytes_for_all(M, wide), wide)
    with pytest.raises(ParameterError, match="only a frozen cache"):
        cache.restricted([1, 2])
    cache.fill(np.arange(M))
    cache.freeze()
    rows = np.array([3, 4, 77, 150, 199])
    part = cache.restricted(rows)
    assert part.frozen and part.wide == wide and part.n_columns == part.kernel.n_rows == 5
    assert (part.rows([4, 0, 2]) == cache.rows(rows[[4, 0, 2]])[:, rows]).all()
    assert part.kernel.diagonal().tolist() == kernel.diagonal()[rows].tolist()
    assert part.misses == 0


RESIDENT = """
import re, threading
from pathlib import Path
import numpy as np
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel

kernel = Kernel(KernelFormula("rbf", gamma=1.0), Dataset.from_any(np.random.default_rng(0).random((6000, 2))))
sizes = []

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))

def work():
    cache = RowCache(kernel, 60 << 20)
    cache.fill(np.arange(2000))
    sizes.append(resident())

before = resident()
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(before, *sizes, resident())
"""


@measures_memory
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other systems have their own ways")
def test_memory_of_another_thread_is_given_back():
    """glibc keeps what a thread has freed for that thread: caches of two threads would take twice the cap.

    In a process of its own: what earlier tests have left in memory is none of the cache's."""
    command = [sys.executable, "-P", "-c", RESIDENT]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, largest, after = map(int, found.split())
    assert largest - before > 30_000  # kB
    assert after - before < 0.3 * (largest - before)
