"""The free fit is the maximum of the closed model: nothing it contains has a larger likelihood."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit, Status, WeakIdentificationWarning
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.optimize.maximize import maximize

CONTAINED = ("loading", "probit", "independent", *({"sigma": s} for s in (0.3, 1.0, 3.0)))


def simulate(seed: int, n: int = 300) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """From the free model at a random rho and one of three sigmas."""
    rng = np.random.default_rng(seed)
    sigma, rho = rng.choice([0.3, 1.0, 3.0]), rng.uniform(-1.0, 1.0)
    x1, x2, z, u, v = rng.standard_normal((5, n))
    e = rho * u + np.sqrt(1.0 - rho**2) * v
    y = rng.random(n) < expit(x1 + sigma * e)
    exog = np.column_stack([np.ones(n), x1, x2])
    selected = 0.3 * x1 + z + u > 0
    return (np.where(selected, y, np.nan), exog), np.column_stack([exog, z])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 8))]
)
def test_nothing_in_the_closed_model_is_better(seed):
    arrays, exog_select = simulate(seed)

    def fit(normalization):
        return GreeneSelectionLogit(
            *arrays, exog_select=exog_select, normalization=normalization
        ).fit()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        free = fit("free")
    assert free.converged
    assert np.isfinite(free.bse).all()
    others = {str(normalization): fit(normalization).llf for normalization in CONTAINED}
    assert free.llf >= max(others.values()) - 1e-6, others
    face = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: "probit",
        Status.SIGMA_ZERO: "independent",
    }.get(free.status)
    if face is not None:
        assert free.llf == pytest.approx(others[face], abs=1e-8)
        assert free.model.normalization == face


def test_newton_never_goes_down_on_its_way_to_a_bound():
    """A step cut off at the bound of the loading once led down, and was taken."""
    simulated = simulate_greene(500, rng=3)
    model = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="loading"
    )
    with pytest.warns(WeakIdentificationWarning, match="perfectly correlated"):
        results = model.fit()
    assert results.status is Status.LOADING_INFINITE
    corner = GreeneSelectionLogit.from_formula(
        simulated.formula,
        simulated.select_formula,
        simulated.data,
        normalization={"sigma": 45.0, "rho": 1.0},
    ).fit()
    assert results.llf >= corner.llf
    assert "(loading held at 50)" in str(results.summary())
    outcome = slice(0, model.k_outcome)  # whose coefficients grow with the loading
    grown = results.params.iloc[outcome] / corner.params.iloc[outcome]
    np.testing.assert_allclose(grown, 50.0 / 45.0, rtol=2e-3)
    climb = maximize(
        model.objective(), np.append(results._fit_info.independent.params, 1.5), maxiter=200
    )
    values = [step.value for step in climb.trace]
    assert climb.status is Status.LOADING_INFINITE
    assert (np.diff(values) > -1e-8).all()
