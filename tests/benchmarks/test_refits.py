"""The benchmark of refits runs; its bounds are checked on demand (-m benchmark -s)."""

from __future__ import annotations

import pytest

from . import models, refits


@pytest.mark.full
def test_the_comparison_measures_all_sides():
    data = models.simulate(300, n_regressors=2)
    figures = refits.compare(data, 6, singles=2, fits=2, plains=1)
    assert figures["failed"] == 0
    assert min(value for name, value in figures.items() if "slower" in name) > 0.0


@pytest.mark.benchmark
def test_a_batch_against_loops(shared):
    figures = refits.compare(refits.german(shared), 999)
    models.show("German credit, n = 700", figures)
    assert figures["single fits, times slower"] >= 3.0
    assert figures["model.fit(), times slower"] >= 10.0
    assert figures["plain model, times slower"] >= 300.0
    assert figures["peak memory, MB"] < 256.0
