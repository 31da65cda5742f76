"""Kernel expansions: f(x) = sum_j coefficient_j k(support_j, x), for prediction and for certificates.

All in float64, whatever the size of the work: coefficients of large C cancel, and rounding each kernel value to
float32 would be felt in the score. Kernel values live in tiles of a few kilobytes; the matrix between test
and support rows is never held. The score of a row depends neither on the rows it is asked with nor on the
number of threads. Columns of a test row that no support row has count in its length (RBF) and nowhere else.
"""

from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from odmlib._core.types cimport column_t, index_t
from odmlib._core.views cimport data_of
from odmlib.kernels.kernel cimport (
    Kernel, compiled_formula, kernel_sums, kernel_symmetric, odm_rows, odm_sums_job, odm_symmetric_job, slab_columns,
)

from odmlib._core.vectors import squared_norms
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.kernel import FEW_COLUMNS

cdef double SLICE_WORK = 5e8      # multiply-adds of one core between two looks at Ctrl-C: about 0.1 s
cdef index_t PAIR_WORK = 32       # multiply-adds that the map of one value costs
cdef index_t CHUNK_ROWS = 128     # test rows that one thread takes at a time
cdef index_t PANEL_ROWS = 32      # of a symmetric product: a panel of panel.h holds so many rows of doubles
cdef index_t PARTS = 16           # of a symmetric product, each with sums of its own


def kernel_scores(formula, support, coefficients, test, int threads=1, norms=None):
    """Scores of the test rows, float64: (n,) for coefficients (n_support,), (n, k) for (n_support, k).

    Coefficients of many outputs may be a Dataset: a row per support row, a column per output. `norms`: the squared
    length of every support row, where it is known.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> support = Dataset.from_any([[1.0, 0.0], [0.0, 1.0]])
    >>> kernel_scores(KernelFormula("linear"), support, [2.0, -1.0], Dataset.from_any([[3.0, 1.0]]))
    array([5.])
    """
    if formula.name == "precomputed":
        raise ParameterError("a precomputed kernel has no formula to evaluate; multiply its rows by the coefficients")
    given = coefficients if isinstance(coefficients, Dataset) else np.asarray(coefficients, dtype=np.float64)
    if len(given.shape) not in (1, 2) or given.shape[0] != support.n_rows:
        raise ParameterError(f"expected one coefficient (or row of them) for each of {support.n_rows} support rows,"
                             f" found shape {given.shape}")
    flat = len(given.shape) == 1
    terms = Dataset.from_any(given.reshape(-1, 1) if flat else given, "coefficients")
    scores = np.zeros((test.n_rows, terms.n_features))
    if terms.n_nonzeros and test.n_rows:
        add_scores(formula, support, terms, test, scores, threads, norms)
    if not np.isfinite(scores).all():
        raise ParameterError(f"values of the {formula.name} kernel overflow on these rows; scale the data"
                             + (" or lower the degree" if formula.name == "poly" else ""))
    return scores[:, 0] if flat else scores


def add_scores(formula, support, terms, test, double[:, ::1] scores, int threads, norms):
    cdef const double[::1] support_norms = squared_norms(support.indptr, support.values) if norms is None else norms
    if support_norms.shape[0] != support.n_rows:
        raise ValueError("kernel_scores: a squared length for every support row is needed")
    cdef const double[::1] test_norms = squared_norms(test.indptr, test.values)
    support, columns = support.compact(FEW_COLUMNS)
    if columns is not None:
        test = test.on_columns(columns)
    cdef const index_t[::1] support_starts = support.indptr, test_starts = test.indptr
    cdef const column_t[::1] support_columns = support.indices, test_columns = test.indices
    cdef const double[::1] support_values = support.values, test_values = test.values
    cdef odm_sums_job job
    job.formula = compiled_formula(formula)
    job.support = odm_rows(&support_starts[0], NULL, data_of(support_values), &support_norms[0])
    if support_columns.shape[0]:
        job.support.columns = &support_columns[0]
    job.test = odm_rows(&test_starts[0], NULL, data_of(test_values), &test_norms[0])
    if test_columns.shape[0]:
        job.test.columns = &test_columns[0]
    job.n_columns = support.n_features
    job.slab = slab_columns(support.n_rows, support.n_features, support.n_nonzeros)
    run_sums(&job, terms, scores, support.n_nonzeros, test.n_rows, threads, None)


cdef bint run_sums(odm_sums_job *job, terms, double[:, ::1] scores, index_t support_nonzeros, index_t n_test,
                   int threads, over) except -1:
    """Add the terms of all support rows to the scores of the test rows, in slices; false if `over` said so."""
    cdef const index_t[::1] output_starts = terms.indptr
    cdef const column_t[::1] outputs = terms.indices
    cdef const double[::1] coefficients = terms.values
    job.output_starts = &output_starts[0]
    job.outputs = &outputs[0]
    job.coefficients = &coefficients[0]
    job.n_outputs = terms.n_features
    job.sums = &scores[0, 0]
    job.n_threads = threads

    # slices: as many test rows as fit the time, and if one chunk is too much already, fewer support rows
    cdef index_t n_support = terms.n_rows
    cdef double work = support_nonzeros + <double>n_support * PAIR_WORK + terms.n_nonzeros + job.n_outputs
    cdef index_t batch = max(<index_t>1, <index_t>(SLICE_WORK / (work * CHUNK_ROWS))) * threads * CHUNK_ROWS
    cdef index_t span = max(CHUNK_ROWS, <index_t>min(<double>n_support, n_support * SLICE_WORK / (work * CHUNK_ROWS)))
    cdef index_t test_start = 0, support_start
    cdef int failed = 0
    with nogil:
        while test_start < n_test:
            job.first_test = test_start
            test_start = job.last_test = min(test_start + batch, n_test)
            support_start = 0
            while support_start < n_support:
                job.first = support_start
                support_start = job.last = min(support_start + span, n_support)
                failed = kernel_sums(job)
                with gil:
                    if failed:
                        raise MemoryError("no memory for a panel of test rows")
                    PyErr_CheckSignals()
                    if over is not None and over():
                        return False
    return True


def symmetric_terms(n):
    """How many additions lead to a score of training_scores for one of n rows with a coefficient."""
    return 64 + n // 64 + n // (PANEL_ROWS * PARTS) + PANEL_ROWS + PARTS


def training_scores(Kernel kernel, coefficients, rows=None, int threads=1, over=None):
    """K c of the kernel's own rows in float64, its shift included: (n,) for c (n,), (n, k) for (n, k).

    With `rows`: only of these; their scores come in that order. Values between two rows with a coefficient
    are computed once for both where there is one output. None if `over()`, asked several times a second, is
    true before the end.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> from odmlib.kernels.kernel import Kernel
    >>> kernel = Kernel(KernelFormula("linear"), Dataset.from_any([[1.0], [2.0], [3.0]]))
    >>> training_scores(kernel, [1.0, 0.0, 1.0])
    array([ 4.,  8., 12.])
    """
    coefficients = np.asarray(coefficients, dtype=np.float64)
    if coefficients.ndim not in (1, 2) or len(coefficients) != kernel.n_rows:
        raise ParameterError(f"expected a coefficient for each of {kernel.n_rows} rows, found {coefficients.shape}")
    rows = np.arange(kernel.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    terms = coefficients if coefficients.ndim == 2 else coefficients[:, None]
    support = np.flatnonzero(terms.any(axis=1))
    scores = np.zeros((len(rows), terms.shape[1]))
    if kernel.formula.name == "precomputed":
        columns = np.ascontiguousarray(terms.T)
        for begin in range(0, len(rows), CHUNK_ROWS):
            if over is not None and over():
                return None
            some = slice(begin, begin + CHUNK_ROWS)
            add_long_products(kernel._matrix, rows[some], columns, scores[some])
        scores += kernel._compiled.bias_squared * terms.sum(axis=0)
    elif len(support) and len(rows):
        part = kernel.restricted(support)
        done = np.zeros(len(rows), dtype=bool)
        if terms.shape[1] == 1:
            place = np.searchsorted(support, rows)
            done = support[np.minimum(place, len(support) - 1)] == rows
            among = symmetric_scores(part, terms[support, 0].copy(), threads, over)
            if among is None:
                return None
            scores[done, 0] = among[place[done]]
        left = np.flatnonzero(~done)
        others = np.zeros((len(left), terms.shape[1]))
        test = kernel.restricted(rows[left])
        if not add_training_scores(part, Dataset.from_any(terms[support]), test, others, threads, over):
            return None
        scores[left] = others
    if kernel.shift != 0:
        scores += kernel.shift * terms[rows]
    return scores.reshape((len(rows), *coefficients.shape[1:]))


cdef void add_long_products(
    const double[:, ::1] matrix, const index_t[::1] rows, const double[:, ::1] columns, double[:, ::1] scores
):
    """Rows of a matrix times some columns, summed in the widest type there is: a matrix has no errors of its own."""
    cdef index_t r, k, j, n = matrix.shape[1]
    cdef long double even, odd
    cdef const double *row
    cdef const double *column
    with nogil:
        for r in range(rows.shape[0]):
            row = data_of(matrix[rows[r]])
            for k in range(columns.shape[0]):
                column = data_of(columns[k])
                even = odd = 0
                for j in range(0, n - 1, 2):
                    even += <long double>row[j] * column[j]
                    odd += <long double>row[j + 1] * column[j + 1]
                if n % 2:
                    even += <long double>row[n - 1] * column[n - 1]
                scores[r, k] += <double>(even + odd)


cdef bint add_training_scores(Kernel support, terms, Kernel test, double[:, ::1] scores, int threads, over) except -1:
    cdef odm_sums_job job
    if test.n_rows == 0:
        return True
    job.formula = support._compiled
    job.support = support._compiled_rows(True)
    job.test = test._compiled_rows(True)
    job.n_columns, job.slab = support._n_columns, support._slab
    return run_sums(&job, terms, scores, support._starts[support.n_rows], test.n_rows, threads, over)


cdef symmetric_scores(Kernel kernel, const double[::1] coefficients, int threads, over):
    cdef odm_symmetric_job job
    cdef index_t n = kernel.n_rows, n_panels = (n + PANEL_ROWS - 1) // PANEL_ROWS, panel = 0
    sums = np.zeros((PARTS, n))
    cdef double[:, ::1] view = sums
    cdef double work = kernel._starts[n] + <double>n * PAIR_WORK
    cdef index_t batch = max(PARTS, <index_t>(threads * SLICE_WORK / (work * PANEL_ROWS)))
    cdef int failed
    job.formula, job.rows = kernel._compiled, kernel._compiled_rows(True)
    job.n_rows, job.n_columns, job.slab = n, kernel._n_columns, kernel._slab
    job.coefficients, job.sums, job.n_parts, job.n_threads = &coefficients[0], &view[0, 0], PARTS, threads
    while panel < n_panels:
        job.first_panel = panel
        panel = job.last_panel = min(panel + batch, n_panels)
        with nogil:
            failed = kernel_symmetric(&job)
        if failed:
            raise MemoryError("no memory for a panel of rows")
        PyErr_CheckSignals()
        if over is not None and over():
            return None
    return sums.sum(axis=0)
