"""A level that is none is refused wherever there is an interval."""

from __future__ import annotations

import numpy as np
import pytest

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.results.imputation import pool
from statsmodels_mnar.tools import check_alpha


@pytest.fixture(scope="module")
def results():
    sim = simulate_greene(300, rng=1)
    return GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization="loading"
    ).fit()


@pytest.fixture(scope="module")
def intervals(results):
    """By name, functions of alpha."""
    replicates = results.bootstrap(5, rng=0)
    metrics = results.population_metrics()
    return {
        "prediction": results.get_prediction().conf_int,
        "prediction's table": results.get_prediction(average=True).summary_frame,
        "margeff": results.get_margeff().conf_int,
        "dependence": results.dependence_table,
        "bootstrap": replicates.conf_int,
        "normal bootstrap": lambda alpha: replicates.conf_int(alpha, kind="normal"),
        "jackknife": results.jackknife(groups=np.arange(300) // 60).conf_int,
        "pooled": pool(np.eye(2), [np.eye(2)] * 2).conf_int,
        "metrics": metrics.summary_frame,
        "calibration": lambda alpha: metrics.calibration_table(alpha=alpha),
        "profile": lambda alpha: results.profile("x1", alpha=alpha),
        "report": results.identification_report,
        "sensitivity": lambda alpha: results.sensitivity(
            error_corr=[0.1], variable="x1", alpha=alpha
        ),
    }


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 5, np.nan])
def test_levels_out_of_range_are_refused_everywhere(intervals, alpha):
    for interval in intervals.values():
        with pytest.raises(ValueError, match=f"alpha={alpha!r} must lie between 0 and 1"):
            interval(alpha)


@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.999])
def test_levels_in_range_are_taken(alpha):
    check_alpha(alpha)
