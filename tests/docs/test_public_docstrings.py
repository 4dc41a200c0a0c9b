"""Everything public has a numpydoc docstring: a summary, parameters, an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from statsmodels.tools.docstring import NumpyDocString

import statsmodels_mnar
from examples import replication
from statsmodels_mnar import baselines, comparison, datasets, learn
from statsmodels_mnar.bias_theory import BiasCondition
from statsmodels_mnar.montecarlo import MonteCarlo
from statsmodels_mnar.post.dependence import IndependenceTest
from statsmodels_mnar.post.door import INSIDE
from statsmodels_mnar.post.metrics import PopulationMetrics
from statsmodels_mnar.post.prediction import Prediction
from statsmodels_mnar.post.profile import Profile
from statsmodels_mnar.post.sensitivity import Identification, Sensitivity
from statsmodels_mnar.results.bootstrap import BootstrapResults
from statsmodels_mnar.results.corrected import BiasCorrResults
from statsmodels_mnar.results.effects import MarginalEffects
from statsmodels_mnar.results.fitted import SelectionResults
from statsmodels_mnar.results.imputation import Imputations, Pooled
from statsmodels_mnar.results.predicting import Influence
from statsmodels_mnar.results.refits import JackknifeResults, SimulationError

PACKAGES = (statsmodels_mnar, baselines, comparison, datasets, learn)
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if callable(getattr(package, name))  # FORMULAS and EXPERIMENTS are tables
}
# What users hold without ever importing it: their docstrings are read through `help`.
RETURNED = (
    BiasCondition, BiasCorrResults, BootstrapResults, Identification, Imputations,
    IndependenceTest, Influence, JackknifeResults, MarginalEffects, MonteCarlo, Pooled,
    PopulationMetrics, Prediction, Profile, SelectionResults, Sensitivity, SimulationError,
)  # fmt: skip
CLASSES = {thing for thing in (*PUBLIC.values(), *RETURNED) if inspect.isclass(thing)}
EXCEPTIONS = {thing for thing in CLASSES if issubclass(thing, Exception)}


def parameters(function: Any) -> set[str]:
    signature = inspect.signature(function)
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name
        for name, value in signature.parameters.items()
        if name not in ("self", "cls") and value.kind not in starred
    }


def described(doc: NumpyDocString) -> set[str]:
    sections = ("Parameters", "Other Parameters", "Attributes")
    names = [entry.name for section in sections for entry in doc[section]]
    return {name.strip().lstrip("*") for several in names for name in several.split(",")}


def gaps(thing: Any, *, example: bool) -> list[str]:
    """What the docstring lacks; a short one may name a parameter as ``name`` in its sentence."""
    text = inspect.getdoc(thing) or ""
    doc = NumpyDocString(text)
    found = []
    if not " ".join(doc["Summary"]).strip():
        found.append("a summary")
    missing = parameters(thing) - described(doc)
    found += sorted(name for name in missing if example or f"``{name}``" not in text)
    if example and ">>>" not in "".join(doc["Examples"]):
        found.append("an example")
    return found


def methods() -> Iterator[tuple[str, Any]]:
    """Public methods that this package defines, each once."""
    seen = set()
    for cls in CLASSES:
        for base in cls.__mro__:
            if not base.__module__.startswith(statsmodels_mnar.__name__):
                continue
            for name, member in vars(base).items():
                function = getattr(member, "__func__", member)
                if name.startswith("_") or name in INSIDE or function in seen:
                    continue
                if not inspect.isfunction(function):
                    continue
                seen.add(function)
                yield f"{base.__name__}.{name}", function


def test_public_names_have_summary_parameters_and_example():
    lacking = {
        name: gaps(thing, example=True)
        for name, thing in PUBLIC.items()
        if thing not in EXCEPTIONS and not hasattr(thing, "__members__")  # Status: values, no call
    }
    assert {name: what for name, what in lacking.items() if what} == {}


def test_exceptions_and_enumerations_say_what_they_mean():
    others = [*EXCEPTIONS, statsmodels_mnar.Status]
    texts = {thing.__name__: vars(thing).get("__doc__") or "" for thing in others}
    assert [
        name for name, text in texts.items() if len(text.split()) < 5 or ">>>" not in text
    ] == []


def test_everything_is_in_the_api_reference():
    page = Path(__file__).resolve().parents[2] / "docs" / "api" / "index.md"
    listed = {line.strip().rpartition(".")[2] for line in page.read_text("utf-8").splitlines()}
    names = {name.rpartition(".")[2] for name in PUBLIC} | {cls.__name__ for cls in RETURNED}
    assert names - listed == set()


@pytest.mark.parametrize("cls", RETURNED, ids=lambda cls: cls.__name__)
def test_what_methods_return_describes_itself(cls):
    doc = NumpyDocString(inspect.getdoc(cls) or "")
    assert " ".join(doc["Summary"]).strip()
    assert doc["Attributes"] or doc["Parameters"]


def test_methods_describe_their_parameters():
    lacking = {name: gaps(function, example=False) for name, function in methods()}
    assert {name: what for name, what in lacking.items() if what} == {}


def test_properties_have_a_docstring():
    lacking = [
        f"{cls.__name__}.{name}"
        for cls in CLASSES
        for name, member in vars(cls).items()
        if isinstance(member, property)
        and not name.startswith("_")
        and not member.__doc__
        and name not in INSIDE
    ]
    assert sorted(lacking) == []


# -- the examples run ------------------------------------------------------------------------------

MODULES = sorted(
    module.name
    for package in (statsmodels_mnar, replication)
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    if not module.name.endswith("__main__")
)


# Of a second and more each; what they show is tested elsewhere.
LONG = (
    "montecarlo", "models.first_stage", "results.plots", "results.robustness", "demo",
    "comparison", "results.imputation", "results.drawing",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if name.endswith(LONG) else ()) for name in MODULES],
)
def test_examples_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
