"""The robust bias-aware classifier on cases with a known answer."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, xlogy

from statsmodels_mnar.baselines import NaiveLogit, RobustBiasAware
from statsmodels_mnar.baselines.rba import robust_logit
from statsmodels_mnar.datasets import simulate_greene

# Rows of a discrete x with labelled (of which ones) and unlabelled counts.
CELLS = pd.DataFrame(
    {
        "x": [0, 1, 2, 3],
        "ones": [4, 12, 9, 30],
        "labelled": [20, 30, 15, 40],
        "other": [60, 30, 25, 4],
    }
)


@pytest.fixture(scope="module")
def data():
    rows = []
    for x, ones, labelled, other in CELLS.to_numpy():
        y = [1.0] * ones + [0.0] * (labelled - ones) + [np.nan] * other
        rows.append(pd.DataFrame({"x": x, "y": y}))
    return pd.concat(rows, ignore_index=True).assign(x=lambda d: d.x.astype(float))


def test_without_selection_bias_it_is_the_logit():
    data = simulate_greene(600, rng=1).data
    both = pd.concat([data.assign(y=data.y_full), data.assign(y=np.nan)])
    results = RobustBiasAware.from_formula("y ~ x1 + x2", "~ x1", both).fit()
    plain = NaiveLogit.from_formula("y ~ x1 + x2", "~ x1", both).fit()
    np.testing.assert_allclose(results.density_ratio(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(results.params, plain.params, rtol=1e-5)


@pytest.mark.parametrize("target", ["all", "unlabelled"])
def test_a_saturated_discriminator_finds_the_ratio_of_frequencies(data, target):
    model = RobustBiasAware.from_formula("y ~ C(x)", "~ C(x)", data, target=target)
    results = model.fit()
    other = CELLS.other + (CELLS.labelled if target == "all" else 0)
    expected = (CELLS.labelled / CELLS.labelled.sum()) / (other / other.sum())
    found = pd.Series(results.density_ratio()).groupby(data.x).first()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_it_has_the_largest_target_entropy_among_laws_with_the_sources_moments():
    """The primal problem of the paper on a discrete x, by a general solver."""
    x = CELLS.x.to_numpy(dtype=float)
    X = np.column_stack([np.ones(4), x])
    source = (CELLS.labelled / CELLS.labelled.sum()).to_numpy()
    target = ((CELLS.labelled + CELLS.other) / (CELLS.labelled + CELLS.other).sum()).to_numpy()
    rate = (CELLS.ones / CELLS.labelled).to_numpy()

    def minus_entropy(p):
        return target @ (xlogy(p, p) + xlogy(1 - p, 1 - p))

    best = minimize(
        minus_entropy, np.full(4, 0.5), method="SLSQP", bounds=[(1e-6, 1 - 1e-6)] * 4,
        constraints={"type": "eq", "fun": lambda p: X.T @ (source * (p - rate))},
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert best.success
    y = np.concatenate(
        [[1.0] * k + [0.0] * (m - k) for k, m in CELLS[["ones", "labelled"]].to_numpy()]
    )
    row = np.repeat(np.arange(4), CELLS.labelled)
    params, converged = robust_logit(y, X[row], (source / target)[row], ("const", "x"))
    assert converged
    found = expit(source / target * (X @ params))
    np.testing.assert_allclose(found, best.x, atol=1e-6)
    # No duality gap: the expected target log loss under the worst law is its entropy.
    dual = np.mean(
        np.logaddexp(0, -(2 * y - 1) * (source / target)[row] * (X[row] @ params))
        / (source / target)[row]
    )
    assert dual == pytest.approx(-best.fun, abs=1e-9)


def test_it_reproduces_the_sources_moments(data):
    results = RobustBiasAware.from_formula("y ~ x", "~ x", data).fit()
    seen = data.y.notna()
    miss = data.y[seen] - results.predict()[seen]
    assert abs(miss.sum()) < 1e-6 and abs((miss * data.x[seen]).sum()) < 1e-6


def test_it_is_undecided_where_the_source_has_no_rows(data):
    results = RobustBiasAware.from_formula("y ~ x", "~ x", data).fit()
    far = results.predict({"x": [-3.0, -30.0]})
    plain = NaiveLogit.from_formula("y ~ x", "~ x", data).fit().predict({"x": [-3.0, -30.0]})
    assert abs(far[1] - 0.5) < 0.02 and plain[1] < 1e-4 and plain[0] < far[0]


def test_the_ratio_is_clipped(data):
    results = RobustBiasAware.from_formula("y ~ x", "~ x", data, clip=1.5).fit()
    assert results.density_ratio().min() == pytest.approx(1 / 1.5)
    assert results.density_ratio().max() == pytest.approx(1.5)
