"""The tests notice a package that is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .mutations import MUTATIONS, ROOT, check, mutated


@pytest.mark.full
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_still_applies(mutation):
    compile(mutated(mutation), mutation.module, "exec")
    assert mutation.old != mutation.new
    for name in mutation.tests.split():
        assert (ROOT / "tests" / name.partition("::")[0]).is_file()


def test_mutations_have_names_of_their_own():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.full
def test_a_wrong_node_weight_is_caught_and_a_change_of_nothing_survives():
    weight = next(m for m in MUTATIONS if m.name == "nodes: weight of a draw")
    harmless = replace(weight, name="harmless", new="(1.0 / self.n_draws))")
    assert check([weight, harmless]) == [harmless]


@pytest.mark.slow
def test_every_mutation_is_caught():
    assert check(MUTATIONS) == []
