"""Kernel: k(rows, all rows) in blocks, and the diagonal. The formulas are in formula.py, the loops in panel.h.

Precision. Rows are delivered as float32, or as float64 all through where the caller asks for it (`wide`). For
float32 rows, products are summed in float32, or in float64 where float32 would put more than about MAX_ERROR into a kernel value (the exponent of the RBF kernel is a small difference of large
squared norms when the data are far from the origin). Squared norms are always summed in float64, over the
values that the products see. k(i, j) and k(j, i) are the same bits; the diagonal of the RBF kernel is exact.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uintptr_t

import numpy as np

from odmlib._core.parallel cimport odm_use_pool, parallel_for
from odmlib._core.types cimport column_t, index_t, kernel_t, value_t

cdef extern from "panel.h" nogil:
    int odm_kernel_block(const odm_block_job *job, bint precise) noexcept
    int odm_kernel_sums(odm_sums_job *job) noexcept
    int odm_kernel_symmetric(odm_symmetric_job *job) noexcept

odm_use_pool(parallel_for)

from odmlib._core.vectors import squared_norms, taken_rows
from odmlib.errors import ParameterError

cdef double MAX_ERROR = 1e-6
cdef double SINGLE_ROUNDING = 2.0 ** -24
cdef double LARGEST_SINGLE = 3e38
cdef double SMALLEST_SINGLE = 1e-30   # a kernel whose largest value is below has no digits left in float32
cdef double SLICE_WORK = 1e9          # multiply-adds between two looks at Ctrl-C: about 0.1 s on one core
cdef index_t PAIR_WORK = 16           # multiply-adds that the map of one value costs
cdef index_t PANEL_ROWS = 64
cdef index_t SLAB_COLUMNS = 96        # of a dense panel: 24 kB, so that a slab stays in the first-level cache
cdef index_t SLAB_NONZEROS = 64       # sparse data: columns that hold about so many values of a row
SYMMETRY_TOLERANCE = 1e-8             # of a precomputed matrix, relative to its largest entry
FEW_COLUMNS = 4096                    # ODM_DIRECT_COLUMNS of panel.h: up to here a panel has a line per column
CHECK_ROWS = 256                      # rows of such a matrix that are checked at a time


cdef int kernel_sums(odm_sums_job *job) noexcept nogil:
    return odm_kernel_sums(job)


cdef int kernel_symmetric(odm_symmetric_job *job) noexcept nogil:
    return odm_kernel_symmetric(job)


cdef odm_kernel_formula compiled_formula(formula):
    cdef odm_kernel_formula result
    kinds = {"linear": ODM_LINEAR, "poly": ODM_POLY, "rbf": ODM_RBF, "sigmoid": ODM_SIGMOID}
    result.kind = kinds[formula.name]
    result.degree = formula.degree if formula.name == "poly" else 1
    result.gamma = formula.gamma if formula.name != "linear" else 1.0
    result.coef0 = formula.coef0
    result.bias_squared = formula.bias * formula.bias
    return result


cdef index_t slab_columns(index_t n_rows, index_t n_columns, index_t n_nonzeros) noexcept nogil:
    if n_nonzeros == 0:
        return max(<index_t>1, n_columns)
    return max(SLAB_COLUMNS, <index_t>(SLAB_NONZEROS * (<double>n_rows * n_columns / n_nonzeros)))


cdef class Kernel:
    """The kernel between all rows of a Dataset (or a precomputed square matrix).

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> kernel = Kernel(KernelFormula("linear"), Dataset.from_any([[1.0, 0.0], [3.0, 4.0]]))
    >>> kernel.block([1])
    array([[ 3., 25.]], dtype=float32)
    >>> kernel.diagonal()
    array([ 1., 25.])
    """

    def __init__(self, formula, data, int threads=1):
        self.formula = formula
        self.threads = threads
        if formula.name == "precomputed":
            self._precomputed = True
            self._take_matrix(data)
        else:
            self._take_rows(data)

    def _take_rows(self, data):
        self._compiled = compiled_formula(self.formula)
        self.n_rows = data.n_rows
        exact_norms = squared_norms(data.indptr, data.values)
        largest = float(exact_norms.max(initial=0.0))
        self._check_range(self.formula.bound(largest), largest)
        self.precise = float32_is_too_coarse(self.formula, largest)
        data, _ = data.compact(FEW_COLUMNS)
        self._n_columns = data.n_features
        self._slab = slab_columns(data.n_rows, data.n_features, data.n_nonzeros)
        self._starts, self._columns, self._doubles = data.indptr, data.indices, data.values
        self._norms = exact_norms
        if not self.precise:
            singles = data.values.astype(np.float32)
            self._singles = singles
            self._single_norms = squared_norms(data.indptr, singles.astype(np.float64))
            self.exact_products = products_are_exact(data.values, largest)
        self._diagonal = self.formula.on_diagonal(exact_norms)

    def _take_matrix(self, matrix):
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ParameterError(f"a precomputed kernel must be a square matrix, found shape {matrix.shape}")
        largest = check_symmetric(matrix)
        self.n_rows = matrix.shape[0]
        self._compiled.bias_squared = self.formula.bias * self.formula.bias
        self._check_range(largest + self._compiled.bias_squared, None)
        self._matrix = matrix
        self._diagonal = np.diagonal(matrix) + self._compiled.bias_squared

    def _check_range(self, bound, squared_norm):
        if not bound <= LARGEST_SINGLE:
            advice = "scale the data" + (" or lower the degree" if self.formula.name == "poly" else "")
            raise ParameterError(f"values of the {self.formula.name} kernel reach {bound:.3g}, too large to work"
                                 f" with; {advice}")
        if squared_norm and bound < SMALLEST_SINGLE:
            raise ParameterError(f"values of the {self.formula.name} kernel stay below {bound:.3g}, too small to"
                                 " work with; scale the data")

    def __len__(self):
        return self.n_rows

    def diagonal(self):
        """k(i, i) of every row, float64."""
        return np.array(self._diagonal)

    def squared_norms(self):
        """|x|^2 of every row; 0 for a precomputed kernel, which has no rows."""
        return np.zeros(self.n_rows) if self._precomputed else np.array(self._norms)

    @property
    def most_nonzeros(self):
        """Of any row."""
        cdef index_t i, most = 0
        if not self._precomputed:
            for i in range(self.n_rows):
                most = max(most, self._starts[i + 1] - self._starts[i])
        return most

    def bound(self):
        """No value is larger in size; without the shift."""
        if self._precomputed:
            return float(self.row_bounds().max(initial=0.0))
        if self._bound is None:
            self._bound = self.formula.bound(float(np.asarray(self._norms).max(initial=0.0)))
        return self._bound

    def row_bounds(self):
        """No value of a row of the matrix is larger in size; without the shift. Of a precomputed kernel alone."""
        if self._bound is None:
            matrix = np.asarray(self._matrix)  # np.abs would copy it
            largest = np.maximum(matrix.max(axis=1, initial=0.0), -matrix.min(axis=1, initial=0.0))
            self._bound = largest + self._compiled.bias_squared
        return self._bound

    def shift_diagonal(self, double shift):
        """Add `shift` to k(i, i) of every row from now on."""
        self._diagonal = np.asarray(self._diagonal) + shift
        self.shift += shift

    def restricted(self, rows):
        """The kernel between some of the rows only (ascending); every value keeps its bits."""
        cdef Kernel part = Kernel.__new__(Kernel)
        rows = np.asarray(rows, dtype=np.int64)
        part.n_rows = len(rows)
        part.formula, part.precise, part.threads = self.formula, self.precise, self.threads
        part.exact_products = self.exact_products
        part._compiled, part._n_columns, part._slab = self._compiled, self._n_columns, self._slab
        part._diagonal = np.asarray(self._diagonal)[rows]
        part.shift, part._precomputed = self.shift, self._precomputed
        if self._precomputed:
            part._matrix = np.ascontiguousarray(np.asarray(self._matrix)[np.ix_(rows, rows)])
            return part
        starts, columns, doubles = np.asarray(self._starts), np.asarray(self._columns), np.asarray(self._doubles)
        part._norms = np.asarray(self._norms)[rows]
        if self.precise:
            part._starts, part._columns, part._doubles = taken_rows(starts, rows, columns, doubles)
        else:
            singles = np.asarray(self._singles)
            part._starts, part._columns, part._doubles, part._singles = taken_rows(starts, rows, columns, doubles, singles)
            part._single_norms = np.asarray(self._single_norms)[rows]
        return part

    def block(self, rows, out=None, Kernel onto=None, bint wide=False):
        """Rows k(rows[r], all) as float32, or float64 if `wide`; into `out` (len(rows) x n_rows) when given.

        With `onto`, a restriction of this kernel: the values with the rows of that one. The diagonal of
        the RBF kernel is then as exact as any other value.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if rows.ndim != 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < self.n_rows):
            raise ParameterError(f"rows must be a list of numbers from 0 to {self.n_rows - 1}")
        shape = (len(rows), self.n_rows if onto is None else onto.n_rows)
        dtype = np.dtype(np.float64 if wide else np.float32)
        if out is None:
            out = np.empty(shape, dtype)
        if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
            raise ParameterError(f"out must have shape {shape} and type {dtype}, found {out.shape}, {out.dtype}")
        cdef const index_t[::1] wanted = rows
        cdef index_t n = shape[0], row_bytes = shape[1] * out.itemsize
        if n == 0 or row_bytes == 0:
            return out
        cdef const uintptr_t[::1] addresses = out.ctypes.data + np.arange(n, dtype=np.uintp) * np.uintp(row_bytes)
        with nogil:
            if onto is None:
                self.fill(&wanted[0], n, <void **>&addresses[0], wide)
            else:
                self.fill_onto(onto, &wanted[0], n, <void **>&addresses[0], wide)
        return out

    cdef odm_rows _compiled_rows(self, bint precise) noexcept nogil:
        cdef odm_rows result
        result.starts = &self._starts[0]
        result.norms = &self._norms[0] if precise else &self._single_norms[0]
        result.columns = NULL
        result.values = NULL
        if self._columns.shape[0]:
            result.columns = &self._columns[0]
            result.values = <const void *>&self._doubles[0] if precise else <const void *>&self._singles[0]
        return result

    cdef int fill(self, const index_t *rows, index_t n, void **out, bint wide) except -1 nogil:
        cdef index_t r
        if n == 0 or self.n_rows == 0:
            return 0
        if self._precomputed:
            self._copy_rows(rows, n, out, wide)
        else:
            self.fill_onto(self, rows, n, out, wide)
        if self._compiled.kind == ODM_RBF or self.shift != 0:
            for r in range(n):
                if wide:
                    (<double *>out[r])[rows[r]] = self._diagonal[rows[r]]
                else:
                    (<kernel_t *>out[r])[rows[r]] = <kernel_t>self._diagonal[rows[r]]
        return 0

    cdef int fill_onto(self, Kernel onto, const index_t *rows, index_t n, void **out, bint wide) except -1 nogil:
        cdef odm_block_job job
        cdef bint precise = self.precise or wide
        job.formula = self._compiled
        job.source = self._compiled_rows(precise)
        job.data = onto._compiled_rows(precise)
        job.wide = wide
        job.n_columns = self._n_columns
        job.slab = self._slab
        job.n_threads = self.threads
        # slices: few enough rows first, and where one panel is too much already, few enough columns
        cdef double work_per_row = onto._starts[onto.n_rows] + PAIR_WORK * onto.n_rows
        cdef index_t batch = <index_t>(SLICE_WORK * self.threads / work_per_row) // PANEL_ROWS * PANEL_ROWS
        cdef index_t span = onto.n_rows
        if batch < PANEL_ROWS:
            batch = PANEL_ROWS
            span = max(<index_t>1024, <index_t>(onto.n_rows * SLICE_WORK * self.threads / (work_per_row * batch)))
        cdef index_t r = 0, start
        while r < n:
            job.rows = rows + r
            job.n_rows = min(batch, n - r)
            job.out = out + r
            r += job.n_rows
            start = 0
            while start < onto.n_rows:
                job.first = start
                start = job.last = min(start + span, onto.n_rows)
                if odm_kernel_block(&job, precise) != 0:
                    with gil:
                        raise MemoryError("no memory for a block of kernel rows")
                if r < n or start < onto.n_rows:
                    with gil:
                        PyErr_CheckSignals()
        return 0

    cdef int _copy_rows(self, const index_t *rows, index_t n, void **out, bint wide) noexcept nogil:
        cdef index_t r, j
        cdef double value
        for r in range(n):
            for j in range(self.n_rows):
                value = self._matrix[rows[r], j] + self._compiled.bias_squared
                if wide:
                    (<double *>out[r])[j] = value
                else:
                    (<kernel_t *>out[r])[j] = <kernel_t>value
        return 0


def float32_is_too_coarse(formula, double squared_norm):
    """Whether products of float32 would put more than MAX_ERROR into a value of the kernel.

    `squared_norm` is the largest of any row. RBF and sigmoid: absolute error (typical; the worst of many
    values is a few times that), poly: relative to the largest value.
    """
    cdef double spread = SINGLE_ROUNDING * formula.gamma * squared_norm
    if squared_norm > 1e30 or 0 < squared_norm < 1e-30:
        return formula.name != "linear"   # squares near the ends of the range of float32
    if formula.name == "rbf":
        return 2 * spread > MAX_ERROR
    if formula.name == "sigmoid":
        return spread > MAX_ERROR
    if formula.name == "poly":
        bound = formula.bound(squared_norm)
        return 3 * formula.degree * SINGLE_ROUNDING * bound > MAX_ERROR * abs(float(formula.on_diagonal(np.array(squared_norm))))
    return False


def products_are_exact(values, double squared_norm):
    """Whether float32 holds all products x'z and their partial sums exactly: values on a coarse grid, as counts and
    zeros and ones are."""
    for bits in (0, 1, 2, 4):
        if squared_norm * 4.0 ** bits >= 2.0 ** 24:
            return False
        for some in (values[:1000], values):
            scaled = some * 2.0 ** bits
            if not np.array_equal(scaled, np.rint(scaled)):
                break
        else:
            return True
    return False


def check_symmetric(matrix):
    """The largest absolute entry of a square matrix; ParameterError if it is not finite or not symmetric."""
    largest = max((float(np.abs(matrix[i]).max()) for i in range(len(matrix))), default=0.0)
    if not np.isfinite(largest):
        raise ParameterError("the precomputed kernel holds NaN or infinity; every value must be finite")
    for start in range(0, len(matrix), CHECK_ROWS):
        rows = slice(start, start + CHECK_ROWS)
        bad = np.abs(matrix[rows] - matrix[:, rows].T) > SYMMETRY_TOLERANCE * largest
        if bad.any():
            i, j = (int(place[0]) for place in np.nonzero(bad))
            i += start
            raise ParameterError(
                f"the precomputed kernel is not symmetric: entry ({i + 1}, {j + 1}) is {float(matrix[i, j])!r},"
                f" entry ({j + 1}, {i + 1}) is {float(matrix[j, i])!r}"
            )
    return largest
