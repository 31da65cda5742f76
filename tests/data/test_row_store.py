"""Rows in a file of checked blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.data.row_store import CacheFormatError, Identity, RowStore, Sample
from odmlib.errors import ParameterError


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("source").write_text("anything\n")


def matrix(n_rows: int = 60, n_features: int = 5) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.6)


def parts_of(X, y, size=7, weights=None):
    for first in range(0, len(X), size):
        some = slice(first, first + size)
        yield Dataset.from_any(X[some]), y[some], None if weights is None else weights[some]


def identity() -> Identity:
    return Identity.of_file("source", None, False, 1000)


def make(**more) -> RowStore:
    X, y = matrix(), np.where(np.arange(60) % 3, -1.0, 1.0)
    return RowStore.make("cache", parts_of(X, y), 1000, identity(), **more)


@pytest.mark.parametrize("block_bytes", [1, 500, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_gives_the_rows_back_in_order(block_bytes, weighted):
    X, y, weights = matrix(), np.arange(60) % 4 + 0.5, np.arange(60.0) if weighted else None
    with RowStore.make("cache", parts_of(X, y, weights=weights), block_bytes) as store:
        for _ in range(2):  # the second pass trusts what the first has checked
            blocks = [
                (block.first, block.rows.to_dense(), block.codes.copy(), block.weights)
                for block in store.blocks()
            ]
            assert (np.concatenate([rows for _, rows, _, _ in blocks]) == X).all()
            codes = np.concatenate([codes for _, _, codes, _ in blocks])
            assert (np.array(store.labels.found)[codes] == y).all()
            assert [first for first, *_ in blocks] == np.cumsum([0, *(len(b[1]) for b in blocks)])[
                :-1
            ].tolist()
            assert all((own is None) != weighted for *_, own in blocks)
        assert store.passes == 2
        assert len(blocks) == store.n_blocks == {1: 60, 10**6: 1}.get(block_bytes, store.n_blocks)
        sums = np.ones(60) if weights is None else weights
        assert store.class_weights.tolist() == np.bincount(np.arange(60) % 4, sums).tolist()


@pytest.mark.parametrize("size", [1, 4])
def test_labels_that_begin_with_minus_one_are_turned_round(size):
    X, y = matrix(4), np.array([-1, 1, -1, 1])
    with RowStore.make("cache", parts_of(X, y, size), 100) as store:
        labels, codes = store.labels.order()
        assert labels.tolist() == [1, -1]
        assert np.array(store.labels.found)[codes].tolist() == [1, -1]


def test_a_cache_serves_the_same_source_only():
    make().close()
    with RowStore.reopen("cache", identity()) as store:
        assert store.n_rows == 60
    for other in (("source", 5, False, 1000), ("source", None, True, 1000), ("source", None, False, 999)):
        assert RowStore.reopen("cache", Identity.of_file(*other)) is None
    os.utime("source", (1, 1))
    assert RowStore.reopen("cache", identity()) is None
    assert RowStore.reopen("no cache", identity()) is None


def read_all() -> None:
    store = RowStore.reopen("cache", identity())
    if store is not None:
        with store:
            list(store.blocks())


def test_damage_is_found_wherever_it_is():
    X = matrix(9, 3)  # few bytes: each of them is damaged once
    parts = parts_of(X, np.arange(9) % 2, 3, np.arange(1.0, 10.0))
    RowStore.make("cache", parts, 300, identity()).close()
    read_all()
    whole = Path("cache").read_bytes()
    for place in range(len(whole)):
        Path("cache").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CacheFormatError, match=r"^cache: .*delete the file"):
            read_all()
    for length in (0, 5, len(whole) // 2, len(whole) - 1):
        Path("cache").write_bytes(whole[:length])
        with pytest.raises(CacheFormatError, match="no whole cache"):
            RowStore.reopen("cache", identity())


def test_a_wrong_value_in_a_block_is_a_wrong_checksum():
    make().close()
    whole = bytearray(Path("cache").read_bytes())
    whole[16] ^= 1
    Path("cache").write_bytes(whole)
    with (
        RowStore.reopen("cache", identity()) as store,
        pytest.raises(CacheFormatError, match="block 1 is damaged \\(wrong checksum\\)"),
    ):
        list(store.blocks())


def test_a_source_that_fails_leaves_nothing():
    def parts():
        yield from parts_of(matrix(), np.ones(60))
        raise ParameterError("no more")

    with pytest.raises(ParameterError, match="no more"):
        RowStore.make("cache", parts(), 100)
    with pytest.raises(ParameterError, match="more than 1000 different labels"):
        RowStore.make("cache", parts_of(matrix(2000), np.arange(2000)), 100)
    with pytest.raises(ParameterError, match="no rows"):
        RowStore.make("cache", [], 100)
    assert os.listdir() == ["source"]


def test_a_pass_may_be_left():
    with make() as store:
        for _ in range(3):
            next(iter(store.blocks()))
        assert len(list(store.blocks())) == store.n_blocks


def test_a_sample_is_fair_and_the_same_from_the_file():
    X, y = np.arange(1.0, 5001.0).reshape(-1, 1), np.arange(5000) % 2
    first = Sample(50_000, seed=3)
    with RowStore.make("cache", parts_of(X, y, 100), 1000, sample=first) as store:
        again = Sample(50_000, seed=3)
        store.draw(again)
        found, same = first.block(1), again.block(1)
    assert (found.rows.values == same.rows.values).all()
    assert 50_000 / 2 / 268 * 0.8 < found.rows.n_rows <= 50_000 / 268
    assert abs(found.rows.values.mean() - 2500) < 5 * 5000 / np.sqrt(12 * found.rows.n_rows)
    assert (found.codes == (found.rows.values - 1) % 2).all()
