from __future__ import annotations

import pytest

from .tools import Tools


@pytest.fixture
def tools(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Tools(capsys, monkeypatch)
