"""RowCache: rows of a kernel in float32 (or float64), least recently used out first, never above a budget of bytes.

Memory is taken some rows at a time and touched as it is needed. The budget counts the rows and the tables
that find them. The rows of one fetch are the most recently used ones while it runs, so that none of them can
be evicted by it.
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import numpy as np

from odmlib._core.types cimport index_t, kernel_t
from odmlib.kernels.kernel cimport Kernel

from odmlib.errors import ParameterError

cdef index_t SLOT_BYTES = sizeof(void *) + 3 * sizeof(index_t)
cdef index_t MEGABYTE = 1 << 20
cdef index_t MUCH_MEMORY = 16 << 20   # freed at once: it goes back to the system
# Rows whose memory is taken at once: the allocator keeps so much for the next task. Row by row, the system cleared
# small pages for a fifth of the time of training (10,000 to 20,000 rows).
cdef index_t SLAB_BYTES = 8 << 20
cdef index_t LARGE_PAGE = 2 << 20


cdef extern from "memory.h" nogil:
    void *odm_aligned_alloc(size_t alignment, size_t size) noexcept
    void odm_aligned_free(void *memory) noexcept
    void odm_prefer_large_pages(void *memory, size_t size) noexcept
    void odm_return_freed_memory() noexcept


def bytes_for_all(n_rows, wide):
    """The budget within which a cache holds all rows of a kernel of `n_rows` rows."""
    return n_rows * (row_bytes(n_rows, wide) + SLOT_BYTES) + n_rows * sizeof(int)


def bytes_for_two(n_rows, wide):
    """The least budget of a cache: two rows."""
    return 2 * (row_bytes(n_rows, wide) + SLOT_BYTES) + n_rows * sizeof(int)


cdef index_t row_bytes(index_t n_rows, bint wide):
    """Whole cache lines: rows start aligned."""
    return max(<index_t>1, (n_rows * <index_t>(sizeof(double) if wide else sizeof(kernel_t)) + 63) // 64) * 64


cdef class RowCache:
    """LRU cache of the rows of `kernel` within `budget_bytes`; at least two rows must fit. `wide`: float64.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> from odmlib.kernels.kernel import Kernel
    >>> cache = RowCache(Kernel(KernelFormula("linear"), Dataset.from_any([[1.0], [2.0]])), 1 << 20)
    >>> cache.rows([1, 0, 1])
    array([[2., 4.],
           [1., 2.],
           [2., 4.]], dtype=float32)
    >>> cache.hits, cache.misses
    (1, 2)
    """

    def __cinit__(self, Kernel kernel, budget_bytes, bint wide=False):
        self.kernel = kernel
        self.wide = wide
        self.n_columns = kernel.n_rows
        self._row_bytes = row_bytes(self.n_columns, wide)
        table_bytes = self.n_columns * <index_t>sizeof(int)
        least = bytes_for_two(self.n_columns, wide)
        if budget_bytes < least and self.n_columns > 1:
            raise ParameterError(
                f"the kernel cache of {budget_bytes / MEGABYTE:.3g} MB does not hold two kernel rows of"
                f" {self.n_columns} values; give at least {-(-least * 1000 // MEGABYTE) / 1000:g} MB"
            )
        self._slab_rows = max(<index_t>1, SLAB_BYTES // self._row_bytes)
        fitting = (int(budget_bytes) - table_bytes) // (self._row_bytes + SLOT_BYTES)
        self.capacity = max(1, min(fitting, self.n_columns))
        self._memory = <void **>calloc(self.capacity, sizeof(void *))
        self._row_of = <index_t *>malloc(self.capacity * sizeof(index_t))
        self._newer = <index_t *>malloc((self.capacity + 1) * sizeof(index_t))
        self._older = <index_t *>malloc((self.capacity + 1) * sizeof(index_t))
        self._slot_of = <int *>malloc(max(<index_t>1, self.n_columns) * sizeof(int))
        if not (self._memory and self._row_of and self._newer and self._older and self._slot_of):
            raise MemoryError("no memory for the tables of the kernel cache")
        cdef index_t i
        for i in range(self.n_columns):
            self._slot_of[i] = -1
        self._newer[self.capacity] = self._older[self.capacity] = self.capacity

    def __dealloc__(self):
        if self._memory:
            self._free_rows()
        free(self._memory)
        free(self._row_of)
        free(self._newer)
        free(self._older)
        free(self._slot_of)

    @property
    def bytes_used(self):
        """Bytes of all rows held and of the tables."""
        return (self._n_slots * self._row_bytes + self.capacity * SLOT_BYTES
                + self.n_columns * <index_t>sizeof(int))

    def resident(self):
        """Rows held, most recently used first."""
        result = []
        cdef index_t slot = self._older[self.capacity]
        while slot != self.capacity:
            if self._row_of[slot] >= 0:
                result.append(self._row_of[slot])
            slot = self._older[slot]
        return result

    def rows(self, wanted):
        """A copy of the given kernel rows, fetched in as many parts as the capacity asks for."""
        wanted = np.ascontiguousarray(wanted, dtype=np.int64)
        if wanted.ndim != 1 or (len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.n_columns):
            raise ParameterError(f"rows must be a list of numbers from 0 to {self.n_columns - 1}")
        result = np.empty((len(wanted), self.n_columns), dtype=np.float64 if self.wide else np.float32)
        cdef index_t start = 0, r, n, total = len(wanted), row_bytes = self.n_columns * result.itemsize
        if result.size == 0:
            return result
        cdef const index_t[::1] view = wanted
        cdef char[::1] out = result.reshape(-1).view(np.int8)
        cdef uintptr_t[::1] pointers = np.empty(self.capacity, np.uintp)
        with nogil:
            while start < total:
                n = min(self.capacity, total - start)
                self.fetch(&view[start], n, <void **>&pointers[0])
                for r in range(n):
                    memcpy(&out[(start + r) * row_bytes], <void *>pointers[r], row_bytes)
                start += n
        return result

    def fill(self, rows):
        """Compute the given rows, as many as may be held at a time, to have all of them at hand."""
        cdef const index_t[::1] wanted = np.ascontiguousarray(rows, dtype=np.int64)
        cdef index_t n = wanted.shape[0]
        cdef uintptr_t[::1] pointers = np.empty(n, np.uintp)
        if n:
            with nogil:
                self.fetch(&wanted[0], n, <void **>&pointers[0])

    def freeze(self):
        """All rows are held: from now on they stay, and any number of threads may fetch them."""
        if self._n_slots < self.n_columns or self._n_slots == 0 or self._row_of[self._newer[self.capacity]] < 0:
            raise ParameterError("only a cache that holds every row can be frozen")
        self.frozen = True

    def restricted(self, rows):
        """A frozen cache of the kernel between some of the rows (ascending), copied from this frozen one."""
        if not self.frozen:
            raise ParameterError("only a frozen cache can be restricted")
        cdef const index_t[::1] kept = np.ascontiguousarray(rows, dtype=np.int64)
        cdef RowCache part = RowCache(self.kernel.restricted(rows), bytes_for_all(kept.shape[0], self.wide), self.wide)
        cdef index_t i, slot
        with nogil:
            for i in range(part.n_columns):
                slot = part._claim(part.n_columns)
                if slot < 0:
                    with gil:
                        raise MemoryError("no memory for a kernel row")
                part._slot_of[i] = <int>slot
                part._row_of[slot] = i
                part._copy_columns(self._memory[self._slot_of[kept[i]]], &kept[0], part._memory[slot])
        part.freeze()
        return part

    cdef void _copy_columns(self, const void *source, const index_t *columns, void *target) noexcept nogil:
        """A row of this cache from the given columns of a longer one."""
        cdef index_t j
        if self.wide:
            for j in range(self.n_columns):
                (<double *>target)[j] = (<const double *>source)[columns[j]]
        else:
            for j in range(self.n_columns):
                (<kernel_t *>target)[j] = (<const kernel_t *>source)[columns[j]]

    def release(self):
        """Give back the memory of all rows; they are computed again when asked for."""
        cdef index_t slot
        for slot in range(self._n_slots):
            if self._row_of[slot] >= 0:
                self._slot_of[self._row_of[slot]] = -1
        self._free_rows()
        self._newer[self.capacity] = self._older[self.capacity] = self.capacity
        self.frozen = False

    cdef void _free_rows(self) noexcept nogil:
        cdef index_t slot
        for slot in range(self._n_slots):
            if slot % self._slab_rows == 0:
                odm_aligned_free(self._memory[slot])
        if self._n_slots * self._row_bytes >= MUCH_MEMORY:
            odm_return_freed_memory()
        self._n_slots = 0

    cdef bint holds(self, index_t row) noexcept nogil:
        return self._slot_of[row] >= 0

    cdef void _unchain(self, index_t slot) noexcept nogil:
        self._older[self._newer[slot]] = self._older[slot]
        self._newer[self._older[slot]] = self._newer[slot]

    cdef void _chain(self, index_t slot, index_t newer) noexcept nogil:
        """Put the slot right behind `newer`."""
        self._newer[slot], self._older[slot] = newer, self._older[newer]
        self._newer[self._older[newer]] = slot
        self._older[newer] = slot

    cdef void *_new_slab(self, index_t n_rows) noexcept nogil:
        """Memory of so many rows; large pages only where rows of the budget fill them."""
        cdef index_t size = n_rows * self._row_bytes
        if size < 2 * LARGE_PAGE:
            return odm_aligned_alloc(64, size)
        cdef void *memory = odm_aligned_alloc(LARGE_PAGE, (size + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE)
        if memory is not NULL:
            odm_prefer_large_pages(memory, size // LARGE_PAGE * LARGE_PAGE)
        return memory

    cdef index_t _claim(self, index_t at_once) noexcept nogil:
        """A slot with memory at the new end of the chain; -1 when there is none.

        With fewer slots than rows that are wanted at once, the oldest would be one of them: it is never taken.
        """
        cdef index_t slot, oldest = self._newer[self.capacity]
        # an emptied slot waits at the old end; new memory is taken only when there is none
        if self._n_slots < self.capacity and (self._n_slots == 0 or self._row_of[oldest] >= 0):
            slot = self._n_slots
            if slot % self._slab_rows:
                self._memory[slot] = <char *>self._memory[slot - 1] + self._row_bytes
            else:
                self._memory[slot] = self._new_slab(min(self._slab_rows, self.capacity - slot))
            if self._memory[slot] is not NULL:
                self._n_slots = self._n_slots + 1
                self._row_of[slot] = -1
                self._chain(slot, self.capacity)
                return slot
        if self._n_slots == 0 or (self._row_of[oldest] >= 0 and self._n_slots < at_once):
            return -1
        # also when the machine has less memory than the budget says
        if self._row_of[oldest] >= 0:
            self._slot_of[self._row_of[oldest]] = -1
            self._row_of[oldest] = -1
        self._unchain(oldest)
        self._chain(oldest, self.capacity)
        return oldest

    cdef void _forget(self, index_t row) noexcept nogil:
        cdef index_t slot = self._slot_of[row]
        if slot >= 0:
            self._slot_of[row] = -1
            self._row_of[slot] = -1
            self._unchain(slot)
            self._chain(slot, self._newer[self.capacity])

    cdef int fetch(self, const index_t *rows, index_t n, void **pointers) except -1 nogil:
        cdef index_t r, slot, n_missing = 0
        if n > self.capacity:
            with gil:
                raise ParameterError(f"{n} kernel rows wanted at once from a cache of {self.capacity}")
        if self.frozen:
            for r in range(n):
                pointers[r] = self._memory[self._slot_of[rows[r]]]
            return 0
        for r in range(n):
            slot = self._slot_of[rows[r]]
            if slot >= 0:
                self._unchain(slot)
                self._chain(slot, self.capacity)
        cdef index_t *missing = <index_t *>malloc(n * sizeof(index_t) + 1)
        cdef void **places = <void **>malloc(n * sizeof(void *) + 1)
        cdef bint done = False
        try:
            if missing is NULL or places is NULL:
                with gil:
                    raise MemoryError
            for r in range(n):
                slot = self._slot_of[rows[r]]
                if slot >= 0:
                    self.hits = self.hits + 1
                else:
                    slot = self._claim(n)
                    if slot < 0:
                        with gil:
                            raise MemoryError("no memory for a kernel row")
                    self.misses = self.misses + 1
                    self._slot_of[rows[r]] = <int>slot
                    self._row_of[slot] = rows[r]
                    missing[n_missing] = rows[r]
                    places[n_missing] = self._memory[slot]
                    n_missing += 1
                pointers[r] = self._memory[slot]
            self.kernel.fill(missing, n_missing, places, self.wide)
            done = True
        finally:
            if not done and missing is not NULL:
                for r in range(n_missing):
                    self._forget(missing[r])
            free(missing)
            free(places)
        return 0
