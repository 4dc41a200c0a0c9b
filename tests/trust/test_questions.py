"""Every hostile question of the catalogue, and that no public keyword is left out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import statsmodels_mnar
from statsmodels_mnar import baselines, comparison, datasets
from statsmodels_mnar.post.door import INSIDE
from statsmodels_mnar.results.corrected import BiasCorrResults
from statsmodels_mnar.results.fitted import SelectionResults

from . import tables
from .questions import KEYWORDS, QUESTIONS, Question


def _name(question: Question) -> str:
    return f"{question.topic}: {question.name}"


# Of these, which write and read files, the default run takes every third.
LONG = ("Checkpoints", "Files of a data set")


def _questions(*, refused: bool) -> list[Any]:
    asked = [question for question in QUESTIONS if (question.raises is not None) is refused]
    return [
        pytest.param(
            question,
            id=_name(question),
            marks=pytest.mark.full if question.topic in LONG and turn % 3 else (),
        )
        for turn, question in enumerate(asked)
    ]


@pytest.mark.parametrize("question", _questions(refused=True))
def test_the_error_names_the_argument_and_the_remedy(question: Question):
    assert question.raises is not None
    with pytest.raises(question.raises) as caught:
        question.ask()
    for part in question.says:
        assert part in str(caught.value)


@pytest.mark.parametrize("question", _questions(refused=False))
def test_the_answer_is_that_of_a_clean_question(question: Question):
    assert question.equals is not None
    np.testing.assert_allclose(question.ask(), question.equals(), rtol=1e-7, atol=1e-12)


def test_the_page_shows_the_catalogue():
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page()
    summary = tables.tables().splitlines()[0]
    overview = tables.PAGE.with_name("reliability.md").read_text(encoding="utf-8")
    assert summary in overview.replace("\n", " ")


SPACES = (statsmodels_mnar, baselines, comparison, datasets)
PUBLIC = {name: getattr(space, name) for space in SPACES for name in space.__all__}
PUBLIC |= {kind.__name__: kind for kind in (SelectionResults, BiasCorrResults)}


def public_callables() -> Iterator[Any]:
    for thing in PUBLIC.values():
        if not inspect.isclass(thing):
            yield thing
            continue
        for name, member in inspect.getmembers(thing, callable):
            if name == "__init__" or not (name.startswith("_") or name in INSIDE):
                yield member


def named(path: str) -> Any:
    """The function behind ``Class.method``, ``Class`` or ``function``."""
    name, _, method = path.partition(".")
    thing = PUBLIC[name]
    return getattr(thing, method or "__init__") if inspect.isclass(thing) else thing


def test_every_public_callable_with_further_keywords_is_asked():
    found = set()
    for thing in public_callables():
        if not (getattr(thing, "__module__", None) or "").startswith("statsmodels_mnar"):
            continue
        parameters = inspect.signature(thing).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            found.add(thing.__qualname__)
    asked = {named(path).__qualname__ for path in KEYWORDS}
    assert found - {"local_workers"} == asked  # whose keywords are those of dask
