"""Tests between fits: contrasts of estimates, non-nested likelihoods, and what is nested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy import stats

from ..design import Design
from ..design.checks import in_span
from ..types import Floats
from .dependence import p_text

Correction = Literal["none", "aic", "bic"]


@dataclass(frozen=True, slots=True, eq=False)
class HausmanTest:
    """H0: the estimate that ignores selection and the corrected one agree."""

    statistic: float
    pvalue: float
    df: int
    contrasts: pd.DataFrame  # naive, corrected, difference, std err, z, P>|z| of each effect

    def __str__(self) -> str:
        return (
            f"Hausman-type test of naive and corrected effects: chi2({self.df}) = "
            f"{self.statistic:.2f}, p {p_text(self.pvalue)}"
        )


def contrast(
    names: tuple[str, ...], naive: Floats, corrected: Floats, cov: Floats, direction: Floats
) -> HausmanTest:
    """Test that the contrasts are zero in the one direction in which they can differ.

    If one dependence parameter separates the two models, all contrasts are multiples of its
    estimate to first order under the null: their covariance tends to rank one, and to invert it
    would be to divide by noise.

    Parameters
    ----------
    naive, corrected : ndarray
        (V,) effects.
    cov : ndarray
        (V, V) of their difference.
    direction : ndarray
        (V,) weights of the contrasts in the sum that is tested.
    """
    difference = corrected - naive
    se = np.sqrt(np.diag(cov))
    moving = se > 1e-8 * np.abs(corrected).max()  # none does where the corrected fit is the naive
    z = np.zeros(len(se))
    z[moving] = difference[moving] / se[moving]
    statistic = 0.0
    if moving.any():
        statistic = float((direction @ difference) ** 2 / (direction @ cov @ direction))
    table = pd.DataFrame(
        {
            "naive": naive,
            "corrected": corrected,
            "difference": difference,
            "std err": se,
            "z": z,
            "P>|z|": 2.0 * stats.norm.sf(np.abs(z)),
        },
        index=list(names),
    )
    return HausmanTest(statistic, float(stats.chi2.sf(statistic, 1)), 1, table)


@dataclass(frozen=True, slots=True)
class VuongTest:
    """H0: two non-nested models are equally far from the truth."""

    statistic: float  # standard normal under H0; positive in favour of the first
    pvalue: float  # two-sided
    llr: float  # difference of the log-likelihoods, corrected
    omega: float  # standard deviation of the rows' differences
    correction: str
    names: tuple[str, str]

    @property
    def favoured(self) -> str | None:
        """The model nearer to the truth at the 5% level, None if neither is."""
        if not self.pvalue < 0.05:
            return None
        return self.names[0] if self.statistic > 0 else self.names[1]

    def __str__(self) -> str:
        verdict = f"in favour of {self.favoured}" if self.favoured else "neither is favoured"
        if self.omega == 0:
            verdict = "the two fits are the same"
        return (
            f"Vuong test of {self.names[0]} against {self.names[1]}: z = {self.statistic:.2f}, "
            f"p {p_text(self.pvalue)} ({verdict})"
        )


def vuong(
    first: Floats,
    second: Floats,
    n_params: tuple[int, int],
    *,
    counts: Floats | None = None,
    sampling: Floats | None = None,
    correction: Correction = "none",
    names: tuple[str, str] = ("first", "second"),
) -> VuongTest:
    """Vuong (1989), from the log-likelihoods of the rows.

    Parameters
    ----------
    first, second : ndarray
        (n,) log-likelihoods of the rows, without their weights.
    n_params : pair of int
    counts, sampling : ndarray, optional
        (n,) numbers of observations that the rows stand for, or sampling weights.
    correction : {"none", "aic", "bic"}
        Subtract the difference of the numbers of parameters, or log(n)/2 times that.

    Examples
    --------
    >>> import numpy as np
    >>> test = vuong(np.array([-0.1, -0.9, -0.3]), np.array([-0.2, -0.8, -0.7]), (2, 2))
    >>> round(test.statistic, 4)
    1.1239
    """
    if correction not in get_args(Correction):
        raise ValueError(
            f"correction={correction!r} is unknown; use one of {list(get_args(Correction))}"
        )
    difference = first - second
    weights = np.ones(len(first)) if counts is None else counts
    weights = weights if sampling is None else sampling
    n = float(len(first) if counts is None else counts.sum())
    mean = np.average(difference, weights=weights)
    square = weights if sampling is None else sampling**2
    spread = float(np.sqrt(square @ (difference - mean) ** 2))  # sqrt(n) omega
    fewer = n_params[0] - n_params[1]
    cost = {"none": 0.0, "aic": fewer, "bic": 0.5 * np.log(n) * fewer}[correction]
    llr = float(weights @ difference - cost)
    # Two fits of the same distribution differ by rounding and the optimisers' tolerance alone.
    same = spread <= 1e-6 * float(np.abs(weights @ first))
    statistic = 0.0 if same else llr / spread
    return VuongTest(
        statistic,
        float(2.0 * stats.norm.sf(abs(statistic))),
        llr,
        0.0 if same else spread / np.sqrt(n),
        correction,
        names,
    )


# -- what makes one selection model a special case of another --------------------------------------


def designs_nested(small: Design, large: Design) -> bool:
    """Whether both equations lie in the span of the larger design's, for the same rows.

    Offsets may differ by something in that span.
    """
    return _equation_nested(small.X, large.X, small.offset, large.offset) and _equation_nested(
        small.W, large.W, small.offset_select, large.offset_select
    )


def _equation_nested(small: Any, large: Any, offset: Any, other: Any) -> bool:
    columns = small
    if offset is not None or other is not None:
        nothing = np.zeros(len(small))
        moved = (nothing if offset is None else offset) - (nothing if other is None else other)
        if moved.any():
            columns = np.column_stack([small, moved])
    return in_span(columns, large)


def dependence_nested(small: tuple[Any, ...], large: tuple[Any, ...]) -> bool:
    """Whether one set of sigma and rho holds another.

    Each is (form, sigma, rho) as a model was asked for, None where estimated. |rho| = 1 is the
    loading form, an infinite sigma the probit outcome, sigma = 0 independence; the free model is
    closed, so that it holds them all.

    Examples
    --------
    >>> dependence_nested(("loading", None, None), ("free", None, None))
    True
    >>> dependence_nested(("probit", None, None), ("loading", None, None))
    False
    """
    form, sigma, rho = small
    other, other_sigma, other_rho = large
    if other == "loading":  # estimated, or fixed at one point
        return form == "loading" and (other_sigma is None or small[1:] == large[1:])
    if other == "probit":
        return form == "probit" and other_rho in (None, rho)
    sigma = np.inf if form == "probit" else sigma
    if sigma == 0.0 and other_sigma is None:
        return True  # whatever rho is
    return other_sigma in (None, sigma) and other_rho in (None, rho)
