"""The two logits between which every correction should lie: the naive and the oracle's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from ..design import Design
from ..errors import DesignError
from ..kernel.links import LOGIT
from ..optimize.binary import descend_binary
from .base import Baseline, BaselineResults, Estimate, columns, regress

_COVARIANCES = ("nonrobust", "HC0")


class LogitResults(BaselineResults):
    """Estimates of a plain logit; ``llf`` is the log-likelihood of the rows it was fitted to."""

    def __init__(
        self, model: Any, estimate: Estimate, method: str, cov_type: str | None, llf: float
    ) -> None:
        super().__init__(model, estimate, method, cov_type)
        self.llf = llf

    def _header(self) -> dict[str, Any]:
        return {"Log-Likelihood": self.llf}

    def _notes(self) -> list[str]:
        if self.method == "sgd":
            return ["Stopped early, not at the maximum: no standard errors."]
        return []


class NaiveLogit(Baseline):
    """Logit of the labelled rows, as if they were a random sample (the paper's SSBias).

    Parameters
    ----------
    endog : array_like
        (n,) outcome, NaN where unlabelled; not read where ``endog_select`` is 0.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select, exog_select : array_like, optional
        Who is labelled. The selection design is accepted for the common interface and not used,
        but rows on which it is missing are left out as the selection models do.
    missing : {"none", "raise", "drop"}

    Examples
    --------
    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=1).data
    >>> results = NaiveLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> bool(results.params["Intercept"] > -0.5)  # the truth is -0.5: too many ones are seen
    True
    """

    def fit(
        self,
        method: str = "newton",
        cov_type: str = "nonrobust",
        penalty: float = 0.0,
        *,
        lr: float = 0.01,
        tol: float = 5e-4,
        maxiter: int = 100_000,
    ) -> LogitResults:
        """Fit by Newton's method, or as the paper does.

        Parameters
        ----------
        method : {"newton", "sgd"}
            "sgd" is the paper's full-batch gradient descent from zero, which stops when the loss
            changes by less than ``tol`` of itself, far from the maximum.
        cov_type : {"nonrobust", "HC0"}
            Of the maximum; early-stopped estimates have no standard errors.
        penalty : float
            alpha: ``m * alpha/2 * |beta|^2`` is subtracted from the log-likelihood of m rows.
        lr, tol, maxiter : optional
            Learning rate, relative change of the loss at which to stop, and limit on steps of
            "sgd". The paper's tol is 0.00025 on Adult and 0.0005 on German and Drug.
        """
        if method not in ("newton", "sgd"):
            raise ValueError(f"method={method!r} is unknown; use 'newton' or 'sgd'")
        if cov_type not in _COVARIANCES:
            raise ValueError(f"cov_type={cov_type!r} is unknown; use one of {list(_COVARIANCES)}")
        y, X = self._labelled
        if method == "sgd":
            if penalty:
                raise ValueError(f"penalty={penalty!r}: method='sgd' has none, as in the paper")
            self._check_outcome(penalty=1.0)  # early stopping bears collinear columns
            fit = descend_binary(
                columns(X), torch.as_tensor(y), LOGIT, lr=lr, tol=tol, maxiter=maxiter
            )
            estimate = Estimate(fit.params.numpy(), None, fit.converged)
        else:
            self._check_outcome(penalty)
            fit = regress(y, X, self.design.outcome_names, "outcome", penalty=penalty)
            cov = np.linalg.inv(-fit.hessian.numpy())
            estimate = Estimate(fit.params.numpy(), cov, fit.converged)
            if cov_type == "HC0":
                scores = (y - expit(X @ estimate.params))[:, None] * X
                estimate = replace(estimate, cov=cov @ (scores.T @ scores) @ cov)
        return LogitResults(
            self, estimate, method, None if method == "sgd" else cov_type, fit.value
        )


class OracleLogit(NaiveLogit):
    """Logit of all rows with the labels nobody has (the paper's NoBias).

    The yardstick of simulations and of masked data: pass the complete outcome. Who is labelled is
    not read.

    Parameters
    ----------
    endog : array_like
        (n,) outcome of every row.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select, exog_select : array_like, optional
        Accepted for the common interface. Rows on which the selection design is missing are left
        out as the selection models do.
    missing : {"none", "raise", "drop"}

    Examples
    --------
    >>> from statsmodels_mnar.baselines import OracleLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=1).data
    >>> results = OracleLogit.from_formula("y_full ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> results.nobs_selected == results.nobs
    True
    """

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        missing: Any = "none",
    ) -> None:
        super().__init__(endog, exog, None, exog_select, missing=missing)

    @classmethod
    def _read_select(cls, select_formula: str) -> str:
        return "~" + select_formula.partition("~")[2]  # every row with an outcome is labelled

    def _set_up(self, design: Design) -> None:
        unknown = int((~design.labelled).sum())
        if unknown:
            raise DesignError(
                f"OracleLogit needs the outcome of every row, and {design.outcome_name} is missing "
                f"on {unknown} of {design.nobs}. Pass the complete outcome, or use NaiveLogit."
            )
        super()._set_up(design)
