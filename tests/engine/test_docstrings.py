"""The examples in the engine's docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import statsmodels_mnar.engine as engine

MODULES = [f"{engine.__name__}.{module.name}" for module in pkgutil.iter_modules(engine.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_everything_public_has_a_docstring():
    missing = [name for name in engine.__all__ if not (getattr(engine, name).__doc__ or "").strip()]
    assert missing == []
