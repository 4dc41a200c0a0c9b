"""Is selection ignorable? Tests that the outcome's error does not move with selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..engine.binary import Independent
from ..engine.forms import LoadingForm, ProbitForm
from ..engine.objective import Objective
from .covariance import invert

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
        found = f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}"
        return f"{name} test of independent equations: {found}"


def _test(method: Method, statistic: float) -> IndependenceTest:
    return IndependenceTest(method, statistic, float(stats.chi2.sf(statistic, 1)))


def likelihood_ratio(llf: float, without: float) -> IndependenceTest:
    """Twice the gain over the same model without dependence.

    The reference distribution has one degree of freedom: that of rho, or of the loading.
    """
    return _test("lr", max(2.0 * (llf - without), 0.0))


def wald(estimate: float, variance: float) -> IndependenceTest:
    """athrho or the loading over its standard error, squared."""
    return _test("wald", estimate**2 / variance)


def score(
    objective: Objective,
    independent: Independent,
    *,
    probit: bool,
    meat: Callable[[Any, Floats], Floats] | None = None,
) -> IndependenceTest:
    """From the two equations fitted apart alone.

    The score of the loading (probit outcome: athrho) at zero. The free form, a fixed sigma and the
    loading form have the same test.

    Parameters
    ----------
    meat : callable, optional
        The covariance of the score of an objective at its parameters, for a robust test.
    """
    null = objective.with_form(ProbitForm() if probit else LoadingForm())
    theta = np.append(independent.params, 0.0)
    at = null.evaluate(theta, 2)
    assert at.score is not None and at.hessian is not None
    inverse = invert(-at.hessian[0].cpu().numpy())
    move = float(inverse[-1] @ at.score[0].cpu().numpy())
    if meat is not None:
        filling = meat(null, theta)
        return _test("score", move**2 / float(inverse[-1] @ filling @ inverse[-1]))
    return _test("score", move**2 / float(inverse[-1, -1]))
