"""Many fits leak nothing, and large ones stay within their memory budgets."""

from __future__ import annotations

import sys

import pytest

from . import load

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc/self/status"
)


def check_growth(count: int, megabytes: float) -> None:
    figures = load.alone("growth", str(count))
    print(figures)
    assert figures["growth"] < megabytes
    assert figures["objects"] < 100  # not one for each fit


@pytest.mark.full
def test_fits_leak_no_memory():
    """A fit's design, rows and results take about 0.7 MB."""
    check_growth(40, 14.0)


@pytest.mark.slow
def test_a_thousand_fits_leak_no_memory():
    check_growth(1_000, 30.0)


@pytest.mark.full
def test_memory_of_an_evaluation_is_within_its_budget():
    figures = load.alone("peak", "many columns")
    assert 0.1 < figures["ratio"] < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("name", load.PEAKS)
def test_memory_is_within_its_budget(name):
    figures = load.alone("peak", name)
    print(name, figures)
    assert figures["ratio"] < 1.2
