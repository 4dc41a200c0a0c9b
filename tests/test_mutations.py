"""The tests notice a package that is broken."""

from __future__ import annotations

import pytest

from .mutations import MUTATIONS, ROOT, check, locate


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_has_its_function_and_its_tests(mutation):
    owner, name, function = locate(mutation)
    assert callable(function) and name in vars(owner)
    assert callable(mutation.change(function))
    for test in mutation.tests.split():
        path, _, single = test.partition("::")
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert f"def {single}(" in text if single else True


def test_mutations_have_names_of_their_own():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.full
def test_a_wrong_weight_of_a_draw_is_caught():
    assert check([m for m in MUTATIONS if m.name == "nodes: weight of a draw"]) == []


@pytest.mark.slow
def test_every_mutation_is_caught():
    assert check(MUTATIONS) == []
