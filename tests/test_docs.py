"""Examples in docstrings and in README.md run and print what they say."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import odmlib

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(odmlib.__path__, "odmlib.")
    if ".cli." not in module.name or not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["odmlib", *MODULES])
def test_docstrings(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_some_docstrings_have_examples():
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 5


def test_readme_python(tmp_path, monkeypatch, capsys):
    readme = ROOT / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), flags=re.DOTALL)
    assert blocks
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(readme), "exec"), names)
    assert names["again"].report["status"] == "converged"


def test_readme_names_every_option():
    from odmlib.options import option_fields

    text = (ROOT / "README.md").read_text()
    for option in option_fields():
        names = option.metadata["flags"][:1] or (option.name,)
        assert f"`{names[0]}" in text, f"README does not mention {names[0]}"
