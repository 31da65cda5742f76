"""Solvers side by side are answered as if they were alone."""

import threading

import pytest

from odmlib.spark.lockstep import side_by_side


def sum_of(n):
    def solver(ask):
        return sum(ask(k) for k in range(n))

    return solver


def test_each_gets_its_own_answers_and_rounds_are_shared():
    rounds = []

    def squares(requests):
        rounds.append(len(requests))
        return [request * request for request in requests]

    assert side_by_side([sum_of(n) for n in (3, 0, 5)], squares) == [5, 0, 30]
    assert rounds == [2, 2, 2, 1, 1]


@pytest.mark.parametrize("fault", [ZeroDivisionError, KeyboardInterrupt])
def test_a_fault_ends_all(fault):
    def fails(ask):
        ask(1)
        raise ValueError("of a solver")

    def answer(requests):
        if 2 in requests:
            raise fault
        return requests

    with pytest.raises(ValueError, match="of a solver"):
        side_by_side([sum_of(10), fails], lambda requests: requests)
    with pytest.raises(fault):
        side_by_side([sum_of(10), sum_of(4)], answer)
    left = [thread for thread in threading.enumerate() if thread.daemon and "run" in thread.name]
    for thread in left:
        thread.join(300)
        assert not thread.is_alive()
