"""No fit lies below a point of its model: not of random starts, nor of a submodel.

All 300 sets, about an hour on one core: ``python -m tests.studies.maximum 300``.
"""

from __future__ import annotations

import pytest

from tests.studies.maximum import TOLERANCE, shortfalls


def check(seeds) -> None:
    found = {seed: shortfalls(seed) for seed in seeds}
    below = {
        (seed, form): value
        for seed, forms in found.items()
        for form, value in forms.items()
        if value > TOLERANCE
    }
    assert not below
    assert sum(bool(forms) for forms in found.values()) > 0.6 * len(found)  # others separate


@pytest.mark.full
def test_few_sets_have_no_higher_point():
    check([1, 5, 8])


@pytest.mark.slow
def test_many_sets_have_no_higher_point():
    check(range(300))
