"""The suite. pytest keeps the asserts of the helpers too when `python -O` removes asserts elsewhere."""

import pkgutil

import pytest

pytest.register_assert_rewrite(*(f"tests.{module.name}" for module in pkgutil.iter_modules(__path__)))
