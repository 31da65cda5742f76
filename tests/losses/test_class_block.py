"""One row's sub-problem of the multi-class machine against exact arithmetic and the spec's examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.losses.class_block import solve_class_block
from tests.reference_mcodm import exact_block


def test_examples_of_the_specification():
    scores = np.array([3.0, 0.0, 3.0])  # B = (3, 1, 4) with theta = 0
    zeta, beta = solve_class_block(scores, 0, 1.0, 1.0, 1.0, 0.0, other=1)
    assert zeta.tolist() == [0, 0, 0.625] and beta == 0.875
    zeta, beta = solve_class_block(scores, 0, 1.0, 1.0, 1.0, 0.0)
    np.testing.assert_allclose(zeta, [0, 0, 0.8], rtol=1e-15)
    assert beta == pytest.approx(1.4, rel=1e-15)


@pytest.mark.parametrize("margin", [-3.0, 0.5, 0.9, 1.0, 1.3, 5.0])
def test_two_classes_have_a_closed_form(margin):
    A, h, nu, theta = 0.7, 0.3, 0.4, 0.2
    zeta, beta = solve_class_block(np.array([0.25, 0.25 + margin]), 1, A, h, nu, theta, other=0)
    assert zeta[0] == pytest.approx(max(0, 1 - theta - margin) / (2 * A + h), rel=1e-14, abs=1e-15)
    assert beta == pytest.approx(max(0, margin - 1 - theta) / (2 * A + h / nu), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("exponent", [-12, -8, -3, 0, 2])
@pytest.mark.parametrize("frozen", [False, True])
def test_exact_solutions(exponent, frozen):
    """Random blocks with ties, from curvatures far below h to far above."""
    random = np.random.default_rng(100 + exponent)
    for k in (2, 3, 4, 5, 8, 13):
        for _ in range(12):
            scores = np.round(random.normal(size=k) * 2, random.integers(0, 6))  # few digits: ties
            label = int(random.integers(k))
            other = int((label + 1 + random.integers(k - 1)) % k)
            A, h = 10.0**exponent, float(10.0 ** random.uniform(-1, 1))
            nu, theta = float(random.choice([0.0, 0.25, 1.0])), float(random.choice([0.0, 0.2]))
            arguments = (scores, label, A, h, nu, theta)
            if frozen:
                expected, expected_beta = exact_block(*arguments, reference=0.5)
                zeta, beta = solve_class_block(*arguments, reference=0.5)
            else:
                expected, expected_beta = exact_block(*arguments, other=other)
                zeta, beta = solve_class_block(*arguments, other=other)
            expected = np.array([float(value) for value in expected])
            slack = 1e-12 * max(1.0, expected.sum(), float(expected_beta))
            np.testing.assert_allclose(zeta, expected, rtol=1e-10, atol=slack)
            assert beta == pytest.approx(float(expected_beta), rel=1e-10, abs=slack)


@given(
    st.lists(st.integers(-40, 40), min_size=2, max_size=40),
    st.data(),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.25, 0.9]),
    st.booleans(),
)
def test_sub_problem_is_solved(numbers, data, nu, theta, frozen):
    """Optimality conditions on blocks with many ties."""
    scores = np.array(numbers) / 8.0
    k = len(scores)
    label = data.draw(st.integers(0, k - 1))
    other = (label + data.draw(st.integers(1, k - 1))) % k
    A, h = data.draw(st.sampled_from([0.01, 1.0, 64.0])), data.draw(st.sampled_from([0.001, 1.0, 50.0]))
    zeta, beta = solve_class_block(
        scores, label, A, h, nu, theta, other=-1 if frozen else other, reference=0.25
    )
    assert (zeta >= 0).all() and zeta[label] == 0 and beta >= 0
    v = -zeta
    v[label] += zeta.sum() - beta
    if not frozen:
        assert zeta[other] * beta == 0
        v[other] += beta
    f = scores + A * v
    g = f + 1 - theta
    g[label] = f[label] + h * zeta.sum()
    size = 1e-11 * (1 + np.abs(scores).max()) * (1 + A / h)
    assert g.max() - g[label] <= size and g.max() - g[zeta > 0].min(initial=np.inf) <= size
    if nu > 0:
        slope = h * beta / nu + 1 + theta - f[label] + (0.25 if frozen else f[other])
        assert slope >= -size and (beta == 0 or slope <= size)
    else:
        assert beta == 0


def test_baseline_instructions_agree():
    """The variant for every processor gives what the chosen one gives."""
    import os
    import subprocess
    import sys

    code = (
        "import numpy as np; from odmlib.losses.class_block import solve_class_block\n"
        "r = np.random.default_rng(1)\n"
        "for k in (2, 5, 30):\n"
        "    zeta, beta = solve_class_block(r.normal(size=k), 0, .3, .2, .5, .1, other=1)\n"
        "    print(zeta.round(12).tolist(), round(beta, 12))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | extra, capture_output=True, text=True, check=True
        ).stdout
        for extra in ({}, {"ODMLIB_BASELINE": "1"})
    ]
    assert outputs[0] == outputs[1] != ""
