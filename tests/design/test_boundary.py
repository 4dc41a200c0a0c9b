"""What fuzzing found at the boundary between users' data and the design; see tests/trust."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.design import design_from_arrays, design_from_formula
from statsmodels_mnar.design.formula import errors_named
from statsmodels_mnar.errors import DesignError

N = 40


@pytest.fixture
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 2)), columns=["x", "z"])
    return frame.assign(y=rng.integers(0, 2, N), s=rng.integers(0, 2, N))


@pytest.mark.parametrize("hole", [None, np.nan])
def test_a_factor_without_any_value(hole, data):
    data["g"] = pd.Series([hole] * N, dtype=object)
    with pytest.raises(DesignError, match=f"no rows are left: .* {N} have missing covariates"):
        design_from_formula("y ~ C(g)", "s ~ x + z", data)


@pytest.mark.parametrize(("name", "left"), [("offset", "s"), ("y_observed", "")])
def test_a_covariate_of_the_name_of_a_role_is_cleaned_before_it_is_centred(name, left, data):
    data[name] = data["x"].where(data.index != 3)
    design = design_from_formula(f"y ~ center({name})", f"{left} ~ z", data, offset=np.zeros(N))
    assert 3 not in design.kept
    assert design.nobs == N - 1
    np.testing.assert_allclose(design.X[:, 1].mean(), 0.0, atol=1e-12)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, {1}, np.ones(2)])
def test_an_outcome_of_values_without_a_hash(value, data):
    data["y"] = pd.Series([value] * N, dtype=object)
    with pytest.raises(DesignError, match="outcome 'y' is of type object"):
        design_from_formula("y ~ x", "s ~ x + z", data)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_a_covariate_of_values_without_a_hash(value, data):
    data["x"] = pd.Series([value] * N, dtype=object)
    with pytest.raises(DesignError, match="x in '~ x' holds lists or other nested values, neither"):
        design_from_formula("y ~ x", "s ~ z", data)


def test_an_outcome_of_uneven_lists():
    with pytest.raises(DesignError, match="outcome 'y' must be one variable"):
        design_from_arrays([[1, 2], [3]], np.ones((2, 1)))


def test_a_mask_of_other_rows(data):
    mask = pd.Series(True, index=range(100, 100 + N))
    with pytest.raises(DesignError, match="subset does not select rows"):
        design_from_formula("y ~ x", "s ~ x + z", data, subset=mask)


@pytest.mark.parametrize("missing", [np.ones(3), pd.NA, None])
def test_missing_that_is_no_word(missing, data):
    with pytest.raises(DesignError, match="missing must be"):
        design_from_formula("y ~ x", "s ~ x + z", data, missing=missing)


def test_a_column_of_any_identifier(data):
    design = design_from_formula("y ~ _columns_", "s ~ z", data.assign(_columns_=data["x"]))
    np.testing.assert_array_equal(design.X[:, 1], data["x"])


def test_clusters_of_values_without_a_hash(data):
    model = GreeneSelectionLogit.from_formula(
        "y ~ x", "s ~ x + z", data, normalization={"sigma": 1.0, "rho": 0.0}
    )
    groups = pd.Series([[1]] * N)
    with pytest.raises(ValueError, match="groups must be numbers, text or dates"):
        model.fit(cov_type="cluster", cov_kwds={"groups": groups})


def test_errors_of_the_system_stay_what_they_are():
    """Chunks of data are read while formulas learn from them."""
    with pytest.raises(FileNotFoundError), errors_named("~ x"):
        raise FileNotFoundError("part.7.parquet")
