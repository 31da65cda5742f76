# RowCache: the least recently used rows of a kernel leave first, under a hard limit of memory.
from odmlib._core.types cimport index_t, kernel_t
from odmlib.kernels.kernel cimport Kernel


cdef class RowCache:
    cdef readonly Kernel kernel
    cdef readonly index_t n_columns
    cdef readonly bint wide             # rows of float64 instead of float32
    cdef readonly index_t capacity      # most rows that may be held
    cdef readonly bint frozen           # holds all rows for good: `fetch` changes nothing, not even the counts
    cdef readonly index_t hits
    cdef readonly index_t misses
    cdef index_t _row_bytes
    cdef index_t _slab_rows             # whose memory is taken at once
    cdef index_t _n_slots               # slots that have memory
    cdef void **_memory                 # of each slot
    cdef index_t *_row_of               # row held by a slot, -1 for none
    cdef index_t *_newer                # chain of use, a ring; `capacity`, no slot, stands between oldest and newest
    cdef index_t *_older
    cdef int *_slot_of                  # slot of a row, -1 for none

    # pointers[r] = the kernel row of rows[r] (kernel_t, or double if wide), all resident together; n <= capacity.
    # What is missing is computed in one Kernel.fill. The pointers are valid until the next fetch. On an exception
    # no row of this fetch that was missing is held.
    cdef int fetch(self, const index_t *rows, index_t n, void **pointers) except -1 nogil
    # whether a row is held (its use is not counted)
    cdef bint holds(self, index_t row) noexcept nogil

    cdef void _free_rows(self) noexcept nogil
    cdef void _copy_columns(self, const void *source, const index_t *columns, void *target) noexcept nogil
    cdef void _unchain(self, index_t slot) noexcept nogil
    cdef void _chain(self, index_t slot, index_t newer) noexcept nogil
    cdef void *_new_slab(self, index_t n_rows) noexcept nogil
    cdef index_t _claim(self, index_t at_once) noexcept nogil
    cdef void _forget(self, index_t row) noexcept nogil
