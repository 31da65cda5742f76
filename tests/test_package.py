"""The public face: names, import cost, and odmlib.train as help() shows it."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.options import option_fields

from .cli.tools import run_python


def test_public_names():
    assert sorted(odmlib.__all__) == odmlib.__all__
    for name in odmlib.__all__:
        assert getattr(odmlib, name) is not None
        assert name in dir(odmlib)
    assert set(odmlib.__all__) - {"__version__"} == set(odmlib._HOMES)
    with pytest.raises(AttributeError, match="has no attribute 'fit'"):
        odmlib.fit  # noqa: B018
    assert not hasattr(odmlib, "nonsense")


def test_errors_are_what_they_say():
    for name in ("ParameterError", "DataFormatError", "ModelFormatError", "RangeFormatError"):
        error = getattr(odmlib, name)
        assert issubclass(error, odmlib.OdmError)
        assert issubclass(error, ValueError)
    assert issubclass(odmlib.ConvergenceWarning, UserWarning)


def modules_after(code: str) -> set[str]:
    result = run_python(f"import sys\n{code}\nprint('modules:', *sys.modules)")
    assert result.returncode == 0, result.stderr
    return set(result.stdout.partition("modules:")[2].split())


def test_minimum_versions_are_those_that_are_tested():
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["sklearn"]]
    declared += project["optional-dependencies"]["plot"]
    tested = [line for line in (root / ".ci" / "minimum.txt").read_text().splitlines() if "==" in line]
    assert len(tested) == len(declared) > 0
    for bound, pin in zip(declared, tested, strict=True):
        name, version = bound.split(">=")
        assert pin in (f"{name}=={version}", f"{name}=={version}.0")


def test_import_is_light():
    modules = modules_after("import odmlib")
    assert not {"numpy", "scipy", "argparse", "dataclasses"} & modules
    assert len([name for name in modules if name.startswith("odmlib")]) <= 2


@pytest.mark.parametrize("tool", ["train", "grid", "easy", "predict", "scale"])
def test_help_is_light(tool):
    modules = modules_after(f"from odmlib.cli.{tool} import main\nmain(['--help']) and sys.exit(3)")
    assert not {"numpy", "scipy", "shutil", "traceback"} & modules


def test_no_scipy_and_little_else_on_the_way_to_a_prediction(tmp_path):
    from tests.model.examples import make_model

    make_model("rbf").save(tmp_path / "m")
    (tmp_path / "d").write_text("1 1:1\n")
    modules = modules_after(
        "from odmlib.cli.predict import main\n"
        f"main(['-q', *({str(tmp_path)!r} + '/' + name for name in 'dmo')]) and sys.exit(3)"
    )
    heavy = {
        "scipy",
        "json",
        "shutil",
        "lzma",
        "bz2",
        "traceback",
        "difflib",
        "odmlib.options",
        "odmlib.machines.training",
    }
    assert not heavy & modules


def test_train_shows_its_options():
    signature = inspect.signature(odmlib.train)
    assert list(signature.parameters) == ["X", "y", *(option.name for option in option_fields())]
    for option in option_fields():
        parameter = signature.parameters[option.name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default == option.default
        assert f"    {option.name}: {option.metadata['help']}" in odmlib.train.__doc__


def test_unknown_options_get_a_suggestion():
    X, y = np.array([[1.0], [-1.0]]), [1, -1]
    with pytest.raises(TypeError, match=r"train\(\) has no option 'kernal'; did you mean 'kernel'\?"):
        odmlib.train(X, y, kernal="linear")
    with pytest.raises(TypeError, match=r"train\(\) has no option 'zzz'$"):
        odmlib.train(X, y, zzz=1)
    with pytest.raises(TypeError):
        odmlib.train(X, y, "linear")


def test_not_converged_is_a_warning_at_the_callers_line():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 3))
    y = random.choice([1, -1], 50)
    with pytest.warns(odmlib.ConvergenceWarning, match="not converged: the limit of 1 iterations") as caught:
        model = odmlib.train(X, y, kernel="linear", solver="dcd", tol=1e-12, max_iter=1)
    assert caught[0].filename == __file__
    assert model.report["status"] == "max_iter"
    with pytest.warns(odmlib.ConvergenceWarning, match="the callback asked to stop"):
        model = odmlib.train(X, y, kernel="linear", solver="dcd", tol=1e-12, callback=lambda progress: True)
    assert model.report["status"] == "stopped"


def test_a_callbacks_exception_comes_through():
    def fail(progress):
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        odmlib.train(np.array([[1.0], [-1.0]]), [1, -1], kernel="linear", callback=fail)


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "import odmlib; odmlib.train"],
        ["-c", "import odmlib.data.reading"],
        ["-c", "from odmlib.sklearn import ODMClassifier"],
        ["-m", "odmlib.cli.train", "--help"],
    ],
)
def test_sources_that_are_not_compiled_say_so(tmp_path, words):
    """As in a clone beside an installed odmlib, when Python is started in the clone."""
    source = Path(odmlib.__file__).parent
    for path in source.rglob("*.py"):
        target = tmp_path / "odmlib" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment)
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and "which are not compiled" in last and "build_ext --inplace" in last
