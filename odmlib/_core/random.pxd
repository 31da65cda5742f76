# Seeded generator (SplitMix64) whose whole state is one caller-owned word: no global state, the same
# numbers on every platform.
from libc.stdint cimport int64_t, uint64_t


cdef inline uint64_t next_word(uint64_t *state) noexcept nogil:
    cdef uint64_t z
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline int64_t below(uint64_t *state, int64_t bound) noexcept nogil:
    """A number in 0 .. bound-1, uniform up to a bias of bound / 2^64."""
    return <int64_t>(next_word(state) % <uint64_t>bound)


cdef inline void shuffle(int64_t *items, int64_t n, uint64_t *state) noexcept nogil:
    cdef int64_t k, other, kept
    for k in range(n - 1, 0, -1):
        other = below(state, k + 1)
        kept = items[k]
        items[k] = items[other]
        items[other] = kept


cdef inline void shuffle_blocks(const int64_t *items, int64_t n, int64_t *blocks, int64_t size, int64_t *out,
                                uint64_t *state) noexcept nogil:
    """Items in blocks of `size` neighbours: the blocks in random order, the items within each too. `blocks` are the
    blocks' numbers. Neighbours in memory meet in the cache, where a shuffle of all items would miss it each time."""
    cdef int64_t b, k, begin, length, at = 0, n_blocks = (n + size - 1) // size
    shuffle(blocks, n_blocks, state)
    for b in range(n_blocks):
        begin = blocks[b] * size
        length = min(size, n - begin)
        for k in range(length):
            out[at + k] = items[begin + k]
        shuffle(out + at, length, state)
        at += length
