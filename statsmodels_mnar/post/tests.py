"""Tests: is selection ignorable, how strong is the instrument, which of two fits holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from ..design.checks import in_span
from ..kernel.forms import CorrelationForm
from ..kernel.links import Link, mills
from ..kernel.rows import Rows
from ..optimize.binary import Independent
from ..optimize.maximize import maximize
from ..types import Floats
from .covariance import invert
from .paths import InnerCorrelation

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

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


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
    """Return the square of athrho or the loading over its standard error."""
    return _test("wald", estimate**2 / variance)


def score(
    rows: Any,
    independent: Independent,
    *,
    link: Link,
    meat: Callable[[Floats], Floats] | None = None,
) -> IndependenceTest:
    """Return the score test, which needs only the two equations fitted apart.

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
    score, information = (t.cpu().numpy() for t in sums(mills_sums, params, link))
    smoothing = getattr(rows, "smoothing", None)
    if smoothing is not None:  # effects are random, and their prior adds to the information
        p = len(score) - 1
        penalty = smoothing[:p, :p]
        score[:p] -= penalty @ independent.params[:p]
        information[:p, :p] += penalty
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


def mills_sums(rows: Rows, params: tuple[float, ...], link: Link) -> tuple[Tensor, Tensor]:
    """Score (p + 1,) and expected information of the outcome columns and the Mills ratio."""
    p = rows.X.shape[0]
    theta = torch.tensor(params, dtype=rows.X.dtype, device=rows.device)
    seen = rows.tilt > 0.0
    X, sign, weight = rows.X[:, seen], rows.sign[seen], rows.weight[seen]
    a = theta[:p] @ X + rows.offset[seen]
    b = theta[p:] @ rows.W[:, seen] + rows.offset_select[seen]
    residual = sign * link.ratios(sign * a, sign)[0]
    variance = link.ratios(a, 1.0)[0] * link.ratios(-a, -1.0)[0]  # f^2/(F (1 - F))
    columns = torch.cat([X, mills(b)[None]])
    return columns @ (weight * residual), (columns * (weight * variance)) @ columns.mT


# -- tests between fits: strength of exclusions, contrasts of estimates, non-nested likelihoods ----


Correction = Literal["none", "aic", "bic"]

WEAK = 10.0  # the rule of thumb of Staiger and Stock (1997) for the first stage's F


Verdict = Literal["strong", "weak", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class ExclusionTest:
    """H0: none of the variables that only the selection equation has moves selection.

    Attributes
    ----------
    columns : tuple of str
        Columns of the selection equation outside the span of those of the outcome equation.
    statistic, pvalue : float
        Of the Wald test; NaN where there are no such columns, or no standard errors.
    df : int
        How many restrictions are tested; fewer than columns where a combination of them lies in
        the span of the outcome equation.
    offset : bool
        The selection offset is such a variable too. Its coefficient is one, not estimated, so
        that there is nothing to test.
    known : bool
        False where the data are gone, and with them the designs that tell which columns these are.
    why : str
        Why the strength cannot be tested, where that is not plain from the rest.
    """

    columns: tuple[str, ...]
    statistic: float  # chi2
    df: int
    pvalue: float
    offset: bool = False
    known: bool = True
    why: str = ""

    @property
    def fvalue(self) -> float:
        """The statistic per degree of freedom."""
        return self.statistic / self.df if self.df else float("nan")

    @property
    def weak(self) -> bool:
        """Whether it is below 10, the rule of thumb for instruments in linear regressions."""
        return self.fvalue < WEAK

    @property
    def verdict(self) -> Verdict:
        """How strong the instruments are.

        "strong" or "weak" as the statistic per degree of freedom is at least 10 or below; "none"
        where the selection equation has no variable of its own; "unknown" where it has one that
        cannot be tested (no standard errors, or an offset alone).
        """
        if not np.isnan(self.fvalue):
            return "weak" if self.weak else "strong"
        return "unknown" if self.columns or self.offset or not self.known else "none"

    @property
    def line(self) -> str:
        """The strength and what to do about it, for the foot of a summary."""
        if not self.known:
            return "Instrument: not known without the data."
        if self.verdict == "none":
            return (
                "Instrument: none. Selection has no variable of its own, so the answer rests on "
                "the functional form; add a variable that moves selection but not the outcome, "
                "and see sensitivity()."
            )
        names = ", ".join([*self.columns, *["the selection offset"] * self.offset])
        if self.verdict == "unknown":
            why = "no standard errors" if self.columns else "an offset has no coefficient to test"
            return f"Instrument: {names}; strength unknown ({self.why or why})."
        numbers = f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}"
        if self.verdict == "strong":
            return f"Instrument: {names}, strong ({numbers})."
        return (
            f"Instrument: {names}, weak ({numbers}; {self.fvalue:.1f} per df, below {WEAK:g}). The "
            "answer rests mostly on the functional form; look for a stronger one, and see "
            "profile() and sensitivity()."
        )

    def __str__(self) -> str:
        if self.verdict not in ("strong", "weak"):
            return self.line
        hint = (
            f"weak: below the rule of thumb of {WEAK:g}; the dependence rests on functional form"
            if self.weak
            else f"above the rule of thumb of {WEAK:g}"
        )
        return (
            f"Wald test of {', '.join(self.columns)} in the selection equation: "
            f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}; "
            f"{self.fvalue:.2f} per column ({hint})"
        )


def exclusion(
    columns: tuple[str, ...],
    directions: Floats,
    gamma: Floats,
    cov: Floats,
    *,
    offset: bool,
    sampling: Floats | None = None,
) -> ExclusionTest:
    """Wald test that the directions of the selection coefficients are zero.

    Parameters
    ----------
    directions : ndarray
        (r, k), see `find_excluded`.
    gamma, cov : ndarray
        (k,) selection coefficients and (k, k) their covariance.
    sampling : ndarray, optional
        (k, k) covariance around their means where a penalty shrinks them: the statistic has the
        expectation tr(C^(-1) D) under the null, C and D the covariances of the directions, and
        that, rounded, is its degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> test = exclusion(("z",), np.array([[0.0, 1.0]]), np.array([0.3, 0.8]), 0.04 * np.eye(2),
    ...                  offset=False)
    >>> round(test.statistic, 6), test.df, test.verdict
    (16.0, 1, 'strong')
    """
    df, value = len(directions), directions @ gamma
    inverse = invert(directions @ cov @ directions.T) if df else np.empty((0, 0))
    statistic = float(value @ inverse @ value) if df else float("nan")
    if df and sampling is not None:
        used = float(np.sum(inverse * (directions @ sampling @ directions.T)))
        df = max(1, round(used)) if np.isfinite(used) else df
    pvalue = float(stats.chi2.sf(statistic, df)) if df else float("nan")
    return ExclusionTest(columns, statistic, df, pvalue, offset)


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


# -- whether one selection model is a special case of another --------------------------------------


def is_nested(small: Any, large: Any) -> bool:
    """Whether the model of ``small`` is that of ``large`` with restrictions, or the same.

    Both equations must lie in the span of the larger model's, with offsets that differ by
    something in that span, and so must the dependence.

    Parameters
    ----------
    small, large : SelectionResults
        Fits of the same rows in the same order, in memory.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500, rng=0).data
    >>> fits = [
    ...     GreeneSelectionLogit.from_formula(
    ...         formula, "s ~ x1 + x2 + z", data, normalization="loading").fit()
    ...     for formula in ("y ~ x1", "y ~ x1 + x2")]
    >>> is_nested(*fits), is_nested(*fits[::-1])
    (True, False)
    """
    if not dependence_nested(small._asked(), large._asked()):
        return False
    one, two = small.model.design, large.model.design
    return _equation_nested(one.X, two.X, one.offset, two.offset) and _equation_nested(
        one.W, two.W, one.offset_select, two.offset_select
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
