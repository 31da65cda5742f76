"""Which rows make the next block: a part of the last one, and the rows of largest gain.

Equal gains are decided by the rows' numbers, so that a choice depends on nothing else.
"""

from libc.math cimport INFINITY
from libcpp.algorithm cimport nth_element, sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

import numpy as np

from odmlib._core.types cimport index_t


cdef class BlockChoice:
    """The rows of the last block, in the order in which they stay, and the choice of the next block."""

    cdef index_t n_rows
    cdef vector[index_t] last
    cdef vector[char] is_last       # by row
    cdef vector[index_t] known, chosen
    cdef vector[pair[double, index_t]] worthwhile

    def __cinit__(self, index_t n_rows):
        self.n_rows = n_rows
        self.is_last.resize(n_rows, 0)

    def choose(self, double[::1] gains, index_t size, double kept, must=None):
        """At most `size` rows, ascending: those of `must`, the part `kept` of the last block, and those of largest
        gain above 0; changes the gains."""
        cdef index_t i, k, n_new, room, most_kept = <index_t>(kept * size)
        cdef const index_t[::1] wanted
        if gains.shape[0] != self.n_rows:
            raise ValueError("a gain for each row is needed")
        self.chosen.clear()
        self.worthwhile.clear()
        room = size
        if must is not None:
            wanted = must
            for k in range(wanted.shape[0]):
                self._check(wanted[k])
                gains[wanted[k]] = INFINITY
            room -= wanted.shape[0]
        with nogil:
            for k in range(min(most_kept, <index_t>self.last.size())):
                i = self.last[k]
                if <index_t>self.chosen.size() < room and gains[i] != INFINITY:
                    self.chosen.push_back(i)
                    gains[i] = -1.0
            n_new = size - <index_t>self.chosen.size()
            for i in range(self.n_rows):
                if gains[i] > 0:
                    self.worthwhile.push_back(pair[double, index_t](-gains[i], i))
            if <index_t>self.worthwhile.size() > n_new:
                nth_element(self.worthwhile.begin(), self.worthwhile.begin() + n_new, self.worthwhile.end())
                self.worthwhile.resize(n_new)
            for k in range(<index_t>self.worthwhile.size()):
                self.chosen.push_back(self.worthwhile[k].second)
            sort(self.chosen.begin(), self.chosen.end())
        return copied(self.chosen)

    def note(self, const index_t[::1] block, const double[::1] duals):
        """Remember a block that was solved: rows with a dual, the latest ones first, stay longest. How many those
        are."""
        cdef index_t i, k, n_with_dual
        cdef int turn
        for k in range(block.shape[0]):
            self._check(block[k])
        if duals.shape[0] != self.n_rows:
            raise ValueError("a dual for each row is needed")
        with nogil:
            self.known.clear()
            self.chosen.clear()
            for k in range(block.shape[0]):
                if self.is_last[block[k]]:
                    self.known.push_back(block[k])
                else:
                    self.chosen.push_back(block[k])
            sort(self.known.begin(), self.known.end())
            for k in range(<index_t>self.known.size()):
                self.chosen.push_back(self.known[k])
            for k in range(<index_t>self.last.size()):
                self.is_last[self.last[k]] = 0
            self.last.clear()
            n_with_dual = 0
            for turn in range(2):
                for k in range(<index_t>self.chosen.size()):
                    i = self.chosen[k]
                    if (duals[i] == 0) == (turn == 1):
                        self.last.push_back(i)
                        self.is_last[i] = 1
                if turn == 0:
                    n_with_dual = self.last.size()
        return n_with_dual

    cdef int _check(self, index_t row) except -1:
        if not 0 <= row < self.n_rows:
            raise ValueError(f"there is no row {row} among {self.n_rows}")
        return 0


cdef copied(const vector[index_t] &rows):
    cdef index_t k, n = rows.size()
    result = np.empty(n, dtype=np.int64)
    cdef index_t[::1] out = result
    for k in range(n):
        out[k] = rows[k]
    return result
