"""Is selection ignorable? Tests that the outcome's error does not move with selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from ..kernel.forms import CorrelationForm
from ..kernel.rows import Rows
from ..optimize.binary import Independent
from ..optimize.maximize import maximize
from .branches import InnerCorrelation

Floats = NDArray[np.float64]
Method = Literal["lr", "wald", "score"]


def p_text(pvalue: float) -> str:
    """What follows the "p" of a test."""
    return "< 0.0001" if pvalue < 5e-5 else f"= {pvalue:.4f}"


@dataclass(frozen=True, slots=True)
class IndependenceTest:
    """Test of independent equations, where a plain logit of the labelled rows is consistent.

    Attributes
    ----------
    method : {"lr", "wald", "score"}
    statistic, pvalue : float
    df : int
        Degrees of freedom of the chi-squared distribution.
    """

    method: str
    statistic: float
    pvalue: float
    df: int = 1

    def __str__(self) -> str:
        name = {"lr": "LR", "wald": "Wald", "score": "Score"}[self.method]
        if self.method == "score" and np.isnan(self.statistic):
            return (
                "Score test of independent equations: there is none, the selection equation adds "
                "nothing to the columns of the outcome equation"
            )
        found = f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}"
        return f"{name} test of independent equations: {found}"


def _test(method: Method, statistic: float) -> IndependenceTest:
    return IndependenceTest(method, statistic, float(stats.chi2.sf(statistic, 1)))


def likelihood_ratio(llf: float, without: float) -> IndependenceTest:
    """Twice the gain over the same model without dependence.

    The reference distribution has one degree of freedom: that of rho, or of the loading.
    """
    return _test("lr", max(2.0 * (llf - without), 0.0))


def free_without_dependence(objective: Any, logit: Independent, probit: float) -> float:
    """Log-likelihood of the free model at rho = 0, where sigma still bends the outcome's link.

    That link runs from the logit at sigma = 0 to the probit at infinity. The coefficients are
    standardized, so that they hardly move with sigma, and the search takes a few steps.

    Parameters
    ----------
    objective : Objective
        Of the free form.
    logit : Independent
        The two equations fitted apart.
    probit : float
        Log-likelihood of the same with a probit outcome.
    """
    best = max(logit.value, probit)
    mask = np.ones(objective.n_coef + 2, dtype=bool)
    mask[-1] = False
    params = np.append(logit.params, [0.0, 0.0])  # mix and atcorr
    for form in (InnerCorrelation, CorrelationForm):
        found = maximize(objective.with_form(form(objective.form.integration)), params, free=mask)
        # Beyond the bounds lie the two limits: a better value there than both is not the maximum.
        inside = form.lower[0] < found.params[-2] < form.upper[0]
        if inside or not found.value > best:
            break
        params = found.params
    return max(best, found.value)


def wald(estimate: float, variance: float) -> IndependenceTest:
    """athrho or the loading over its standard error, squared."""
    return _test("wald", estimate**2 / variance)


def score(
    rows: Any,
    independent: Independent,
    *,
    probit: bool,
    meat: Callable[[Floats], Floats] | None = None,
) -> IndependenceTest:
    """From the two equations fitted apart alone.

    The score of the loading (probit outcome: athrho) at zero. The free form, a fixed sigma and the
    loading form have the same test.

    Parameters
    ----------
    rows : Rows or PartitionedRows
    meat : callable, optional
        The covariance of the scores of all parameters, from these parameters, for a robust test.

    Notes
    -----
    At zero the score of row i is the generalized residual of the outcome times the inverse Mills
    ratio m of selection: the test is that of m as one more column of the outcome equation. It
    is standardized by the expected information, v (m - its projection on the outcome columns)^2
    summed over the labelled rows, which is never negative; the observed information is in a
    large share of samples with a weak instrument.
    """
    params = tuple(independent.params.tolist())
    sums = rows.sum if hasattr(rows, "parts") else partial(_sum_of, rows)
    score, information = (t.cpu().numpy() for t in sums(mills_sums, params, probit))
    coef = -np.linalg.solve(information[:-1, :-1], information[:-1, -1])
    direction = np.append(coef, 1.0)
    move = float(direction @ score)
    left = float(direction @ information @ direction)
    if not left > 1e-12 * information[-1, -1]:
        return _test("score", float("nan"))
    if meat is not None:
        theta = np.append(independent.params, 0.0)
        filled = np.zeros(len(theta))
        filled[: len(coef)], filled[-1] = coef, 1.0
        left = float(filled @ meat(theta) @ filled)
    return _test("score", move**2 / left)


def _sum_of(rows: Rows, function: Callable[..., Any], *args: Any) -> Any:
    return function(rows, *args)


def mills_sums(rows: Rows, params: tuple[float, ...], probit: bool) -> tuple[Tensor, Tensor]:
    """Score (p + 1,) and expected information of the outcome columns and the Mills ratio."""
    p = rows.X.shape[0]
    theta = torch.tensor(params, dtype=rows.X.dtype, device=rows.device)
    seen = rows.tilt > 0.0
    X, sign, weight = rows.X[:, seen], rows.sign[seen], rows.weight[seen]
    a = theta[:p] @ X + rows.offset[seen]
    b = theta[p:] @ rows.W[:, seen] + rows.offset_select[seen]
    mills = _hazard(b)
    if probit:
        residual = sign * _hazard(sign * a)
        variance = _hazard(a) * _hazard(-a)
    else:
        residual = sign * torch.sigmoid(-sign * a)
        variance = torch.sigmoid(a) * torch.sigmoid(-a)
    columns = torch.cat([X, mills[None]])
    return columns @ (weight * residual), (columns * (weight * variance)) @ columns.mT


def _hazard(x: Tensor) -> Tensor:
    """phi(x)/PHI(x), also far in the tail."""
    return torch.exp(-0.5 * x * x - 0.5 * math.log(2.0 * math.pi) - torch.special.log_ndtr(x))
