"""Hypothesis tests of a fitted selection model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.base.model import GenericLikelihoodModelResults
from statsmodels.stats.contrast import WaldTestResults

from ..inference import covariance, independence
from ..inference.independence import IndependenceTest


class HypothesisTests(GenericLikelihoodModelResults):
    """Independence of the equations, nested models and terms."""

    fit_info: Any  # of SelectionResults

    def test_independence(self, method: str | None = None) -> IndependenceTest:
        """Test that selection is ignorable.

        Parameters
        ----------
        method : {"lr", "wald", "score"}, optional
            By default "lr", "wald" with a robust covariance or a penalty, and "score" where
            neither rho nor the loading is estimated. "lr" compares with the two equations fitted
            apart, "score" needs only those.
        """
        robust = self.cov_type in covariance.ROBUST
        estimated = self.model.param_names[-1] in ("athrho", "loading")
        if method is None:
            wald = robust or self.fit_info.penalty
            method = "score" if not estimated else "wald" if wald else "lr"
        if method not in ("lr", "wald", "score"):
            raise ValueError(f"method={method!r} is unknown; use 'lr', 'wald' or 'score'")
        if method != "score" and not estimated and not (method == "lr" and self.status.boundary):
            raise ValueError(f"method={method!r} needs an estimated rho or loading; use 'score'")
        if method == "lr":
            if robust or self.fit_info.penalty:
                raise ValueError(
                    "method='lr' needs a likelihood: not valid with a robust covariance, sampling "
                    "weights or a penalty; use 'wald' or 'score'"
                )
            return independence.likelihood_ratio(self.llf, self.llindep)
        if method == "score":
            return independence.score(
                self.model._objective(),
                self.fit_info.independent,
                probit=self.model._probit_outcome,
                meat=self._meat if robust else None,
            )
        variance = float(np.asarray(self.cov_params_default)[-1, -1])
        return independence.wald(float(np.asarray(self.params)[-1]), variance)

    def compare_lr_test(self, restricted: Any) -> tuple[float, float, int]:
        """Likelihood ratio test against a restricted fit of the same rows.

        Returns
        -------
        statistic, pvalue, df
        """
        df = len(self.params) - len(restricted.params)
        same = restricted.nobs == self.nobs and restricted.nobs_selected == self.nobs_selected
        if df <= 0 or not same:
            raise ValueError(
                "restricted must be a fit to the same observations with fewer parameters"
            )
        statistic = 2.0 * (self.llf - restricted.llf)
        return statistic, float(stats.chi2.sf(statistic, df)), df

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Any = None,
        combine_terms: Any = None,
        scalar: bool = True,
    ) -> WaldTestResults:
        """Joint Wald tests of the terms of both equations.

        Terms of the selection equation have the prefix ``select_``.
        """
        identity = np.eye(len(self.params))
        constraints = [
            (name, identity[columns])
            for name, columns in self._terms().items()
            if not (skip_single and len(identity[columns]) == 1)
        ]
        for part in combine_terms or []:
            matching = [identity[cols] for name, cols in self._terms().items() if part in name]
            if not matching:
                raise ValueError(f"combine_terms: no term contains {part!r}")
            constraints.append((part, np.vstack(matching)))
        constraints += list(extra_constraints or [])
        tests = [self.wald_test(constraint, scalar=scalar) for _, constraint in constraints]
        table = pd.DataFrame(
            [[test.statistic, test.pvalue, int(test.df_denom)] for test in tests],
            index=[name for name, _ in constraints],  # a combination may have a term's name
            columns=["statistic", "pvalue", "df_constraint"],
        )
        return WaldTestResults(None, "chi2", None, table=table)

    def _terms(self) -> dict[str, slice]:
        design, p = self.model.design, self.model.k_outcome
        terms: dict[str, slice] = {}
        if design.outcome_spec is not None:
            terms |= design.outcome_spec.term_slices
        else:
            terms |= {name: slice(i, i + 1) for i, name in enumerate(design.outcome_names)}
        select = (
            design.select_spec.term_slices
            if design.select_spec is not None
            else {name: slice(i, i + 1) for i, name in enumerate(design.select_names)}
        )
        for name, cut in select.items():
            terms[f"select_{name}"] = slice(p + cut.start, p + cut.stop)
        return terms
