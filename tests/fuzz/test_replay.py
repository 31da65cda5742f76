"""Every input of the corpus, and with it every input that ever broke a promise, through its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


def inputs(target: str) -> list[Path]:
    return sorted((CORPUS / target).iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_keeps_its_promises(target):
    for path in inputs(target):
        TARGETS[target](path.read_bytes())


def cut_short(target: str) -> int:
    """Comparisons over all beginnings of the inputs, and over the inputs without one of their lines."""
    compared = 0
    for path in inputs(target):
        data = path.read_bytes()[:1500]
        lines = data.splitlines(keepends=True)
        parts = [data[:place] for place in range(0, len(data) + 1, 1 + len(data) // 40)]
        parts += [b"".join(lines[:k] + lines[k + 1 :]) for k in range(len(lines))]
        compared += sum(TARGETS[target](part) for part in parts)
    return compared


# comparisons with scikit-learn, Python's float() or what was written: fewer would mean that an oracle sleeps
LEAST = {
    "reader": 150,
    "numbers": 450,
    "model": 20,
    "foreign_model": 75,
    "ranges": 40,
    "weights": 30,
    "grid": 35,
}


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_cut_short_keeps_them_too(target):
    assert cut_short(target) >= LEAST[target]
