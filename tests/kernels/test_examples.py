"""The examples in the docstrings of the compiled parts."""

import doctest

import pytest

from odmlib.kernels import cache, expansion, kernel


@pytest.mark.parametrize(
    ("thing", "module"),
    [(kernel.Kernel, kernel), (cache.RowCache, cache), (expansion.kernel_scores, expansion)],
)
def test_examples_are_true(thing, module):
    example = doctest.DocTestParser().get_doctest(thing.__doc__, vars(module), thing.__name__, None, 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
