"""statsmodels' own conformance classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.base.tests.test_generic_methods import CheckGenericMixin
from statsmodels.base.tests.test_shrink_pickle import RemoveDataPickle

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection

SIGMA_ONE = {"normalization": {"sigma": 1.0}}


def simulate(exog: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcome (NaN where unselected), selection and its design, from a loading of 0.8."""
    rng = np.random.default_rng(1)
    n = len(exog)
    z, u = rng.standard_normal((2, n))
    exog_select = np.column_stack([exog, z])
    s = (exog_select @ [0.4, 0.3, -0.2, 0.1, 0.9] + u > 0).astype(float)
    p = 1.0 / (1.0 + np.exp(-(exog @ [0.2, 0.7, -0.5, 0.3] + 0.8 * u)))
    y = np.where(s == 1, rng.random(n) < p, np.nan)
    return y, s, exog_select


class GenericMethods(CheckGenericMixin):
    model_class: type
    options: dict = {}  # noqa: RUF012
    repeated = 1  # times that statsmodels' rows are taken

    def setup_method(self):
        super().setup_method()
        self.exog = np.tile(self.exog, (self.repeated, 1))
        y, s, exog_select = simulate(self.exog)
        self.results = self.model_class(y, self.exog, s, exog_select, **self.options).fit()


@pytest.mark.full
class TestGreeneSigmaOne(GenericMethods):
    """On more rows: with 500 the likelihood is skewed in rho, and P-values are not a t-test's."""

    model_class = GreeneSelectionLogit
    options = SIGMA_ONE
    repeated = 8


class TestGreeneLoading(GenericMethods):
    """On more rows: with few labels P-values are those of the profile likelihood."""

    model_class = GreeneSelectionLogit
    options = {"normalization": "loading"}  # noqa: RUF012
    repeated = 4


class TestProbit(GenericMethods):
    model_class = ProbitSelection
    repeated = 4


class PickleOfArrays(RemoveDataPickle):
    wanted: type
    options: dict = {}  # noqa: RUF012

    def setup_method(self):
        super().setup_method()
        y, s, exog_select = simulate(self.exog)
        self.model_class = self.wanted
        self.model_args = (y, self.exog, s, exog_select)
        self.model_kwargs = self.options
        self.results = self.estimate_model()
        self.reduction_factor = (
            0.25  # a weak fit keeps 10 to 15 kB of refits over the error correlation
        )


class TestPickleGreene(PickleOfArrays):
    wanted = GreeneSelectionLogit
    options = SIGMA_ONE


@pytest.mark.full
class TestPickleGreeneFrames(PickleOfArrays):
    wanted = GreeneSelectionLogit
    options = SIGMA_ONE

    def setup_method(self):
        super().setup_method()
        y, exog, s, exog_select = self.model_args
        names = ["const", "a", "b", "c"]
        exog = pd.DataFrame(exog, columns=names)
        self.model_args = (pd.Series(y, name="y"), exog, s, exog_select)
        self.xf = pd.DataFrame(self.xf, columns=names)
        self.results = self.estimate_model()


class TestPickleProbit(PickleOfArrays):
    wanted = ProbitSelection


@pytest.mark.parametrize("model_class", [GreeneSelectionLogit, ProbitSelection])
def test_formula_results_predict_after_removing_the_data(model_class, logit_data):
    options = SIGMA_ONE if model_class is GreeneSelectionLogit else {}
    results = model_class.from_formula("y ~ x1 + C(x3)", "s ~ x1 + z", logit_data, **options).fit()
    before = results.predict(logit_data.iloc[:5])
    text = str(results.summary())
    results.remove_data()
    pd.testing.assert_series_equal(results.predict(logit_data.iloc[:5]), before)
    assert [*str(results.summary())][:500] == [*text][:500]
