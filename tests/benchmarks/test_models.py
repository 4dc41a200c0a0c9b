"""The benchmark of the models runs; its bounds are checked on demand (-m benchmark -s)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks import formulas, models


def test_both_comparisons_measure_the_same_problem():
    figures = models.against_statsmodels(2_000, repeat=1)
    assert 0.0 < figures["ratio of fits"] < 1_000.0
    assert figures["Newton iterations"] <= 15
    data = models.reference_data()
    few = replace(data, **{name: getattr(data, name)[:400] for name in ("y", "s", "X", "W")})
    plain = models.against_plain(few, repeat=1)
    assert plain["times faster"] > 0.0
    assert abs(plain["log-likelihood, ours - plain"]) < 1e-2
    assert plain["largest difference of params"] < 1e-2
    assert plain["largest relative difference of bse"] < 1e-2


def test_simulated_data_are_what_the_benchmark_says():
    data = models.simulate(5_000)
    assert data.X.shape == (5_000, 11)
    assert data.W.shape == (5_000, 12)
    assert 0.6 < data.s.mean() < 0.7
    assert (np.isnan(data.y) == (data.s == 0)).all()


def test_the_table_of_fits_by_formula_measures_all_sides():
    found = formulas.table((300,), repeat=1)
    assert found.columns.tolist()[:3] == list(formulas.SIDES)
    assert (found > 0.0).all(axis=None)


@pytest.mark.benchmark
def test_loading_fit_against_logit_and_probit():
    figures = models.against_statsmodels()
    models.show("n = 50,000, ten regressors", figures)
    assert figures["ratio of fits"] <= 4.0


@pytest.mark.benchmark
def test_loading_fit_against_a_plain_model():
    figures = models.against_plain(models.reference_data())
    models.show("n = 5,000, plain model", figures)
    assert figures["times faster"] >= 50.0
