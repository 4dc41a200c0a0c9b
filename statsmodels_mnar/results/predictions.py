"""Predictions of a fitted selection model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.base.model import GenericLikelihoodModelResults
from statsmodels.tools._decorators import cache_readonly

from ..inference.prediction import Prediction, predict_with_errors

Floats = NDArray[np.float64]


class Predictions(GenericLikelihoodModelResults):
    """Probabilities and indices, for the model's rows or new ones."""

    cov_params_default: Floats  # of SelectionResults

    def predict(
        self,
        exog: Any = None,
        exog_select: Any = None,
        transform: bool = True,
        *,
        which: str = "mean",
        offset: Any = None,
        offset_select: Any = None,
    ) -> Any:
        """Probabilities and indices, for the model's rows or new ones.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            For a model built from formulas: new data, which need only the columns that ``which``
            reads. Otherwise the outcome design.
        exog_select : array_like, optional
            Selection design, for models built from arrays (or with ``transform=False``).
        transform : bool
            Pass ``exog`` through the formulas.
        which : str
            See the model's ``predict``.
        offset, offset_select : array_like, optional
            For new data zero by default, or their own column where the model's offset was given by
            column name.
        """
        keywords, index = self._inputs(exog, exog_select, transform, which, offset, offset_select)
        values = self.model.predict(self.params, **keywords)
        if index is not None and len(index) == len(values):
            return pd.Series(values, index=index)
        return values

    def _inputs(
        self,
        exog: Any,
        exog_select: Any,
        transform: bool,
        which: str,
        offset: Any,
        offset_select: Any,
    ) -> tuple[dict[str, Any], pd.Index | None]:
        """Keywords for the model's ``predict``, and the index of the rows."""
        formulas = self.model.design.outcome_spec is not None
        if exog is not None and transform and formulas and exog_select is None:
            offset, offset_select = self.model.offsets_for(exog, which, offset, offset_select)
            exog, exog_select = self.model.design_for(exog, which)
        index = None
        for frame in (exog, exog_select):
            if index is None and isinstance(frame, pd.DataFrame | pd.Series):
                index = frame.index
        keywords = {
            "exog": exog,
            "exog_select": exog_select,
            "which": which,
            "offset": offset,
            "offset_select": offset_select,
        }
        return keywords, index

    def get_prediction(
        self,
        exog: Any = None,
        exog_select: Any = None,
        transform: bool = True,
        *,
        which: str = "mean",
        average: bool = False,
        agg_weights: Any = None,
        offset: Any = None,
        offset_select: Any = None,
    ) -> Prediction:
        """Predictions with delta-method standard errors and intervals.

        Parameters
        ----------
        exog, exog_select, transform, which, offset, offset_select
            As in :meth:`predict`.
        average : bool
            Predict the mean over the rows, such as the prevalence in the population.
        agg_weights : array_like, optional
            Weights of that mean.

        Returns
        -------
        Prediction
            With ``predicted``, ``se``, ``conf_int()`` and ``summary_frame()``; intervals of
            probabilities are made on the log-odds and stay inside (0, 1).
        """
        keywords, index = self._inputs(exog, exog_select, transform, which, offset, offset_select)
        if exog is None and exog_select is None:
            index = self.model.design.index

        def function(params: Floats) -> Floats:
            return self.model.predict(params, **keywords)

        params = np.asarray(self.params, dtype=float)
        weights = None
        if average or agg_weights is not None:
            n = len(function(params))
            weights = np.ones(n) if agg_weights is None else np.asarray(agg_weights, dtype=float)
            if weights.shape != (n,):
                raise ValueError(f"agg_weights must be {n} numbers, got shape {weights.shape}")
        return predict_with_errors(
            function,
            params,
            np.asarray(self.cov_params_default),
            index=index,
            probability=which not in ("linear", "linear-select"),
            average=weights,
        )

    @cache_readonly
    def fittedvalues(self) -> Floats:
        """P(y = 1) in the population, for every row."""
        return self.model.predict(self.params)

    @cache_readonly
    def resid(self) -> Floats:
        """Outcome less :attr:`fittedvalues`; NaN where unlabelled."""
        return self.model.endog - self.fittedvalues
