"""Logits of one equation: the naive one, the oracle's, and one weighted by inverse probability.

Every correction should lie between the first two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import expit

from ..design import Design, check_rank, check_selection_varies
from ..errors import DesignError
from ..kernel.links import Link
from ..kernel.threads import one_thread
from ..optimize.binary import descend_binary
from ..types import Floats
from .base import CDF, LINKS, Baseline, BaselineResults, Estimate, columns, regress

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
    link : {"logit", "probit"}
        Of the outcome.
    missing : {"none", "raise", "drop"}
    freq_weights, prob_weights : array_like, optional

    Examples
    --------
    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=1).data
    >>> results = NaiveLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> bool(results.params["Intercept"] > -0.5)  # the truth is -0.5: too many ones are seen
    True
    """

    def _set_up(self, design: Design, *, link: str = "logit") -> None:
        check_link(link, "link")
        super()._set_up(design)
        self._link = link

    def fit(
        self,
        method: str = "newton",
        cov_type: str | None = None,
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
        cov_type : {"nonrobust", "HC0"}, optional
            Of the maximum; early-stopped estimates have no standard errors. By default
            "nonrobust", with ``prob_weights`` "HC0".
        penalty : float
            alpha, of a ridge on the coefficients of standardized columns, as in
            :meth:`GreeneSelectionLogit.fit <statsmodels_mnar.GreeneSelectionLogit.fit>`, with the
            means and variances of the labelled rows.
        lr, tol, maxiter : optional
            Learning rate, relative change of the loss at which to stop, and limit on steps of
            "sgd". The paper's tol is 0.00025 on Adult and 0.0005 on German and Drug.
        """
        if method not in ("newton", "sgd"):
            raise ValueError(f"method={method!r} is unknown; use 'newton' or 'sgd'")
        kind = self.design.weight_kind
        if cov_type is None:
            cov_type = "HC0" if kind == "prob_weights" else "nonrobust"
        if cov_type not in _COVARIANCES:
            raise ValueError(f"cov_type={cov_type!r} is unknown; use one of {list(_COVARIANCES)}")
        y, X = self._labelled
        weights, link = self._labelled_weights, LINKS[self._link]
        if method == "sgd":
            if penalty:
                raise ValueError(f"penalty={penalty!r} is not used by method='sgd'; use 'newton'")
            self._check_outcome(penalty=1.0)  # early stopping bears collinear columns
            fit = descend_binary(
                columns(X), torch.as_tensor(y), link, lr=lr, tol=tol, maxiter=maxiter,
                weight=None if weights is None else torch.as_tensor(weights),
            )  # fmt: skip
            estimate = Estimate(fit.params.numpy(), None, fit.converged)
        else:
            self._check_outcome(penalty)
            fit = self._fit_labelled(penalty)
            cov = np.linalg.inv(-fit.hessian.numpy())
            estimate = Estimate(fit.params.numpy(), cov, fit.converged)
            if cov_type == "HC0":
                sign = 2.0 * y - 1.0
                scores = (sign * _ratio(link, sign * (X @ estimate.params)))[:, None] * X
                meat = scores.T @ (squared(weights, kind, len(y))[:, None] * scores)
                estimate = replace(estimate, cov=cov @ meat @ cov)
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
    link, missing, freq_weights, prob_weights : optional
        As in :class:`NaiveLogit`.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import OracleLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=1).data
    >>> results = OracleLogit.from_formula("y_full ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> results.nobs_selected == results.nobs
    True
    """

    _all_labelled = True

    def _set_up(self, design: Design, *, link: str = "logit") -> None:
        unknown = int((~design.labelled).sum())
        if unknown:
            raise DesignError(
                f"OracleLogit needs the outcome of every row, and {design.outcome_name} is missing "
                f"on {unknown} of {design.nobs}. Pass the complete outcome, or use NaiveLogit."
            )
        super()._set_up(design, link=link)


def check_link(link: str, argument: str) -> None:
    """Refuse a link that the baselines do not know."""
    if link not in LINKS:
        raise ValueError(f"{argument}={link!r} is unknown; use one of {sorted(LINKS)}")


def squared(weights: Floats | None, kind: str | None, n: int) -> Floats:
    """(n,) what the outer product of a row's score is multiplied by in a robust covariance.

    Frequency weights are numbers of rows; sampling weights multiply the score itself.
    """
    if weights is None:
        return np.ones(n)
    return weights if kind == "freq_weights" else weights**2


@dataclass(frozen=True, slots=True)
class Propensity:
    """A fitted binary regression of selection, and what its error does to a weight."""

    probability: Floats  # (n,) of being selected
    log_slope: Floats  # (n, k) derivative of log probability in the coefficients
    influence: Floats  # (n, k) of each row on the coefficients
    converged: bool


def propensity(
    design: Design, link: str, penalty: float = 0.0, *, by_outcome: bool = False
) -> Propensity:
    """Regress selection on the columns of the selection design, or of the outcome's."""
    s, weights = design.s, design.weights
    W = design.X if by_outcome else design.W
    names = design.outcome_names if by_outcome else design.select_names
    fit = regress(s, W, names, "selection", link=link, weight=weights, penalty=penalty)
    index = W @ fit.params.numpy()
    sign = 2.0 * s - 1.0
    scores = (sign * _ratio(LINKS[link], sign * index))[:, None] * W
    if weights is not None:
        scores = weights[:, None] * scores
    return Propensity(
        probability=CDF[link](index),
        log_slope=_ratio(LINKS[link], index)[:, None] * W,
        influence=-scores @ np.linalg.inv(fit.hessian.numpy()),
        converged=fit.converged,
    )


@one_thread()
def _ratio(link: Link, index: Floats) -> Floats:
    """Density over distribution function."""
    return link.ratios(torch.as_tensor(index))[0].numpy()


def stacked_covariance(
    scores: Floats,
    bread: Floats,
    stages: list[tuple[Floats, Floats]],
    counts: Floats | None = None,
) -> Floats:
    """Covariance of an estimate whose weights are estimated too.

    The estimating equations of all stages are stacked (M-estimation; Newey and McFadden 1994,
    section 6): a row moves the estimate by its own score and by what it does to the weights.

    Parameters
    ----------
    scores : ndarray
        (n, p) weighted scores of the last stage.
    bread : ndarray
        (p, p) minus their derivative, summed.
    stages : list of pairs
        Derivative of the summed score in a first stage's coefficients, (p, k), and the influence
        of the rows on these, (n, k).
    counts : ndarray, optional
        (n,) how many identical rows each row of the scores and influences stands for.
    """
    total = scores + sum(influence @ slope.T for slope, influence in stages)
    if counts is not None:
        total = total / np.sqrt(np.maximum(counts, 1e-300))[:, None]
    moved = np.linalg.solve(bread, total.T)
    return moved @ moved.T


class IPWResults(BaselineResults):
    """Estimates of the weighted logit.

    Attributes
    ----------
    weights : Series
        Of the labelled rows, scaled to a mean of one.
    prob_select : Series
        Estimated selection probability of every row, before trimming.
    """

    def __init__(
        self,
        model: Any,
        estimate: Estimate,
        cov_type: str,
        weights: pd.Series,
        prob_select: pd.Series,
    ) -> None:
        super().__init__(model, estimate, "newton", cov_type)
        self.weights, self.prob_select = weights, prob_select

    @property
    def effective_nobs(self) -> float:
        """Kish's effective number of labelled rows, (sum w)^2 / sum w^2."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def _header(self) -> dict[str, Any]:
        return {
            "Selection": self.model.selection_model,
            "Largest weight": self.weights.max(),
            "Effective rows": self.effective_nobs,
        }

    def _notes(self) -> list[str]:
        return ["Weights correct for selection on observed columns only (missing at random)."]


class IPWLogit(Baseline):
    """Logit of the labelled rows, each weighted by the inverse of its selection probability.

    Consistent if selection does not depend on the outcome given the columns of the selection
    equation (missing at random), its model is right and every row could have been selected. Where
    labels are missing not at random it is not; that is what the selection models are for.

    Parameters
    ----------
    endog : array_like
        (n,) outcome, NaN where unlabelled; not read where ``endog_select`` is 0.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select : array_like, optional
        (n,) 1 where labelled. By default the rows whose outcome is known.
    exog_select : array_like, optional
        (n, k) selection design; by default ``exog``.
    selection_model : {"probit", "logit"}
    stabilized : bool
        Weights P(s = 1 | x) / P(s = 1 | w) with the outcome's columns x and the selection's w:
        they vary less, and are valid where the logit is right given x. (A constant in the
        numerator would cancel.)
    trim : float
        Probabilities below it are raised to it: less variance, some bias.
    missing : {"none", "raise", "drop"}
    freq_weights, prob_weights : array_like, optional

    Notes
    -----
    The weights are estimated, and ``cov_type="stacked"`` says so: it stacks the estimating
    equations of selection and outcome. "HC0" takes the weights as known.

    References
    ----------
    Wooldridge (2007), Inverse probability weighted estimation for general missing data problems,
    Journal of Econometrics 141.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import IPWLogit
    >>> from statsmodels_mnar.datasets import simulate_mar
    >>> simulated = simulate_mar(5_000, rng=1)
    >>> model = IPWLogit.from_formula(simulated.formula, simulated.select_formula, simulated.data)
    >>> results = model.fit()
    >>> bool(abs(results.params["x1"] - simulated.truth["x1"]) < 2 * results.bse["x1"])
    True
    """

    def _set_up(
        self,
        design: Design,
        *,
        selection_model: str = "probit",
        stabilized: bool = False,
        trim: float = 0.0,
    ) -> None:
        check_link(selection_model, "selection_model")
        if not 0 <= trim < 1:
            raise ValueError(f"trim={trim!r} must be a probability, at least 0 and below 1")
        super()._set_up(design)
        self.selection_model, self.stabilized, self.trim = selection_model, stabilized, trim

    def fit(self, cov_type: str = "stacked", penalty: float = 0.0) -> IPWResults:
        """Fit selection, then the weighted logit.

        Parameters
        ----------
        cov_type : {"stacked", "HC0"}
        penalty : float
            Ridge of both regressions, on the coefficients of standardized columns; the weights of
            the outcome's have a mean of one. Without it a perfectly separated selection equation
            raises.
        """
        if cov_type not in ("stacked", "HC0"):
            raise ValueError(f"cov_type={cov_type!r} is unknown; use 'stacked' or 'HC0'")
        design, seen = self.design, self.design.labelled
        check_selection_varies(design.counted)
        self._check_outcome(penalty)
        if penalty == 0:
            check_rank(design.counted)
        own = self._labelled_weights
        below = propensity(design, self.selection_model, penalty)
        weight = 1.0 / np.maximum(below.probability[seen], self.trim)
        trimmed = below.probability[seen] < self.trim
        slopes = [np.where(trimmed[:, None], 0.0, -below.log_slope[seen])]
        stages = [below]
        if self.stabilized:
            above = propensity(design, self.selection_model, penalty, by_outcome=True)
            weight = weight * above.probability[seen]
            slopes.append(above.log_slope[seen])
            stages.append(above)
        weight = weight if own is None else own * weight
        weight = weight / weight.mean()  # the scale cancels
        y, X = self._labelled
        fit = self._fit_labelled(penalty, weight)
        params = fit.params.numpy()
        scores = np.zeros_like(design.X)
        scores[seen] = (weight * (y - expit(X @ params)))[:, None] * X
        carried = [
            (scores[seen].T @ slope, stage.influence)
            for slope, stage in zip(slopes, stages, strict=True)
        ]
        cov = stacked_covariance(
            scores,
            -fit.hessian.numpy(),
            carried if cov_type == "stacked" else [],
            design.weights if design.weight_kind == "freq_weights" else None,
        )
        converged = fit.converged and all(stage.converged for stage in stages)
        return IPWResults(
            self,
            Estimate(params, cov, converged),
            cov_type,
            pd.Series(weight, index=design.index[seen], name="weights"),
            pd.Series(below.probability, index=design.index, name="prob_select"),
        )
