"""The dependence of the outcome on selection: its parameters, its tests, and what identifies it.

The error of the outcome is sigma e plus its own, that of selection has correlation rho with e, so

    error_corr = rho sigma / sqrt(sigma^2 + V)   (probit outcome: rho itself)

V is the variance of the outcome's own error, pi^2/3 for the logit link.

With a binary outcome this, not sigma and rho apart, is what the data speak about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from ..errors import DesignError
from ..kernel.forms import CorrelationForm, Form, FreeForm, LoadingForm, Parametrization, ProbitForm
from ..kernel.integration import Integration, Quadrature
from ..kernel.links import LOGIT, Link, mills
from ..kernel.rows import Rows
from ..optimize.binary import Independent
from ..optimize.maximize import maximize
from ..optimize.objective import Objective
from ..types import Floats
from .covariance import invert
from .paths import InnerCorrelation

Normalization = str | Mapping[str, float]

_NAMES = ("lnsigma", "athrho", "loading")  # of one normalization or another


@dataclass(frozen=True, slots=True)
class Parametrized:
    """A form with some of its dependence parameters fixed."""

    form: Form
    fixed: tuple[float | None, ...]  # value of each dependence parameter, None where estimated

    @property
    def kind(self) -> Parametrization:
        return self.form.kind

    @property
    def free(self) -> NDArray[np.bool_]:
        return np.array([value is None for value in self.fixed], dtype=bool)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dependence parameters that are estimated."""
        return tuple(n for n, v in zip(self.form.names, self.fixed, strict=True) if v is None)

    def values(self, estimated: NDArray[np.float64]) -> NDArray[np.float64]:
        """All dependence parameters, from the estimated ones."""
        filled = np.array([0.0 if v is None else v for v in self.fixed])
        filled[self.free] = estimated
        return filled


def dependence_table(
    form: Form,
    values: NDArray[np.float64],
    cov: NDArray[np.float64],
    free: NDArray[np.bool_],
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Estimates with delta-method errors and intervals that respect the range.

    Parameters
    ----------
    values : ndarray
        (d,) dependence parameters, fixed ones included.
    cov : ndarray
        (d, d) their covariance; zero rows for fixed ones.
    free : ndarray of bool
        (d,) which were estimated.

    Returns
    -------
    DataFrame
        Rows sigma, rho and error_corr (probit outcome: rho only); NaN errors where fixed.

    Notes
    -----
    Intervals are Wald intervals of lnsigma, athrho and the loading, transformed, and of
    atanh(error_corr) where both sigma and rho are estimated. The loading form has rho = +-1 by
    construction and sigma = |loading|.
    """
    z = stats.norm.ppf(1.0 - alpha / 2.0)
    at = form.dependence(values)
    se = np.sqrt(np.diag(cov))
    nothing = (np.nan, np.nan, np.nan)
    rows: dict[str, tuple[float, float, float, float]] = {}

    def within(center: float, error: float, transform, slope: float):  # type: ignore[no-untyped-def]
        if not np.isfinite(error):
            return nothing
        low, high = sorted((transform(center - z * error), transform(center + z * error)))
        return (slope * error, low, high)

    if form.kind == "free":
        sigma = within(values[0], se[0], np.exp, at.sigma) if free[0] else nothing
        rho = within(values[1], se[1], np.tanh, 1.0 - at.rho**2) if free[1] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *rho)}
    elif form.kind == "loading":
        low, high = values[0] - z * se[0], values[0] + z * se[0]
        ends = sorted((abs(low), abs(high)))
        sigma = (se[0], 0.0 if low < 0.0 < high else ends[0], ends[1]) if free[0] else nothing
        rows = {"sigma": (at.sigma, *sigma), "rho": (at.rho, *nothing)}
    slope = form.corr_slope(values)
    error = float(np.sqrt(slope @ cov @ slope))
    corr = nothing
    if free.any():
        corr = within(form.atcorr(values), error, np.tanh, 1.0 - at.error_corr**2)
    if free.sum() == 1:  # the error correlation is monotone in the one parameter there is
        low, high = sorted(
            form.dependence(values + move * free * se).error_corr for move in (-z, z)
        )
        corr = (corr[0], low, high)
    rows[form.corr_name] = (at.error_corr, *corr)
    columns = ["estimate", "std err", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# -- which form a normalization names, and which dependence parameters it fixes --------------------


NAMES = ("free", "loading", "probit", "independent")


def parametrize(
    normalization: Normalization, integration: Integration, link: Link = LOGIT
) -> Parametrized:
    """Return the form that a normalization of the model names.

    Parameters
    ----------
    normalization : str or mapping
        "free", "loading" (|rho| = 1), "probit" (sigma = infinity), "independent" (sigma = 0), or
        fixed values such as {"sigma": 1.0} or {"rho": 0.5}.
    link : Link
        Of the outcome given its errors.
    """
    found = _of_logit(normalization, integration)
    if link == LOGIT:
        return found
    if not isinstance(found.form, LoadingForm):
        raise ValueError(
            f"normalization={normalization!r}: with link={link.name!r} the selection error itself "
            "enters the outcome, integrated by quadrature; use normalization='loading', "
            "'independent' or {'sigma': value, 'rho': 1} (or -1), and leave out integration and "
            "method='sgd', which have sigma and rho apart"
        )
    return replace(found, form=replace(found.form, link=link))


def _of_logit(normalization: Normalization, integration: Integration) -> Parametrized:
    tol = integration.tol if isinstance(integration, Quadrature) else Quadrature().tol
    if isinstance(normalization, Mapping):
        return _fixed(normalization, integration, tol)
    if normalization == "free":
        return Parametrized(FreeForm(integration), (None, None))
    if normalization == "loading":
        return Parametrized(LoadingForm(tol), (None,))
    if normalization == "probit":
        return Parametrized(ProbitForm(tol), (None,))
    if normalization == "independent":
        return Parametrized(LoadingForm(tol), (0.0,))
    raise ValueError(
        f"normalization={normalization!r} is unknown; use one of {list(NAMES)} or fixed values "
        "such as {'sigma': 1.0} or {'rho': 0.5}"
    )


def _fixed(values: Mapping[str, Any], integration: Integration, tol: float) -> Parametrized:
    unknown = set(values) - {"sigma", "rho"}
    if unknown or not values:
        raise ValueError(
            f"normalization={dict(values)!r} fixes {sorted(unknown) or 'nothing'}; it may fix "
            "'sigma', 'rho' or both"
        )
    for name, value in values.items():
        if value is not None and not isinstance(value, int | float | np.integer | np.floating):
            raise ValueError(f"normalization[{name!r}]={value!r} must be a number")
    sigma, rho = values.get("sigma"), values.get("rho")
    if sigma == math.inf and rho is not None and -1 < rho < 1:
        return Parametrized(ProbitForm(tol), (math.atanh(rho),))
    if sigma is not None and not (np.isfinite(sigma) and sigma > 0):
        raise ValueError(
            f"normalization['sigma']={sigma!r} must be positive; for sigma = 0 use 'independent', "
            "for an infinite sigma 'probit'"
        )
    if rho is not None and not (np.isfinite(rho) and -1 <= rho <= 1):
        raise ValueError(f"normalization['rho']={rho!r} must lie between -1 and 1")
    if rho is not None and abs(rho) == 1:
        if sigma is None:
            raise ValueError(
                f"normalization['rho']={rho!r} is the boundary; use normalization='loading', which "
                "estimates the signed loading rho * sigma there"
            )
        return Parametrized(LoadingForm(tol), (float(rho * sigma),))
    lnsigma = None if sigma is None else math.log(sigma)
    athrho = None if rho is None else math.atanh(rho)
    return Parametrized(FreeForm(integration), (lnsigma, athrho))


def check_names(outcome: Sequence[str], select: Sequence[str]) -> None:
    """Refuse names that two parameters would have: nobody could tell which one is meant."""
    for name, count in Counter([*outcome, *select, *_NAMES]).items():
        if count > 1:
            other = "a parameter of the model" if name in _NAMES else "another column"
            raise DesignError(
                f"the column {name!r} has the name of {other}. Rename it, or write I({name}) in "
                "the formula."
            )


# -- whether selection is ignorable ----------------------------------------------------------------


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


def free_without_dependence(
    objective: Objective, integration: Integration, logit: Independent, probit: float
) -> float:
    """Log-likelihood of the free model at rho = 0, where sigma still bends the outcome's link.

    That link runs from the logit at sigma = 0 to the probit at infinity. The coefficients are
    standardized, so that they hardly move with sigma, and the search takes a few steps.

    Parameters
    ----------
    objective : Objective
        Of the model's rows, under any form.
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
        found = maximize(objective.with_form(form(integration)), params, free=mask)
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
    rows: Rows,
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
    score, information = (t.cpu().numpy() for t in rows.sum(mills_sums, params, link))
    smoothing = rows.smoothing
    if smoothing is not None:  # effects are random, and their prior adds to the information
        p = len(score) - 1
        penalty = smoothing[:p, :p]
        score[:p] -= penalty @ independent.params[:p]
        information[:p, :p] += penalty
    adjustment = rows.adjustment
    if adjustment is not None:
        score[-1] += adjustment.at(np.zeros(1))[1, 0]
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


# -- how strong the variables are that only the selection equation has -----------------------------


WEAK = 10.0  # the rule of thumb of Staiger and Stock (1997) for the first stage's F

Verdict = Literal["strong", "weak", "none", "unknown"]


def by_factor(columns: Iterable[str]) -> list[str]:
    """The columns of a design, with the levels of one factor under its name.

    Examples
    --------
    >>> by_factor(["z", "C(officer)[T.2]", "C(officer)[T.3]"])
    ['z', 'C(officer) (2 levels)']
    """
    factors: dict[str, list[str]] = {}
    for column in columns:
        factor = column.partition("[")[0] if column.endswith("]") and ":" not in column else column
        factors.setdefault(factor, []).append(column)
    return [
        f"{factor} ({len(names)} levels)" if len(names) > 1 else names[0]
        for factor, names in factors.items()
    ]


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
    def strength(self) -> float:
        """What :attr:`weak` judges: the statistic per degree of freedom, 1 for pure noise.

        The effects of a penalised term come from one distribution, whose variance is all that is
        estimated of them. So the term counts as one variable, as the leave-one-out rate of a
        decision-maker would: what its statistic exceeds the degrees of freedom by is not divided
        among its levels.
        """
        count = min(len(self.columns), self.df)
        return 1.0 + (self.statistic - self.df) / count if count else float("nan")

    @property
    def weak(self) -> bool:
        """Whether it is below 10, the rule of thumb for instruments in linear regressions."""
        return self.strength < WEAK

    @property
    def verdict(self) -> Verdict:
        """How strong the instruments are.

        "strong" or "weak" as :attr:`strength` is at least 10 or below; "none" where the selection
        equation has no variable of its own; "unknown" where it has one that cannot be tested (no
        standard errors, or an offset alone).
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
        names = ", ".join([*by_factor(self.columns), *["the selection offset"] * self.offset])
        if self.verdict == "unknown":
            why = "no standard errors" if self.columns else "an offset has no coefficient to test"
            return f"Instrument: {names}; strength unknown ({self.why or why})."
        numbers = f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}"
        if self.verdict == "strong":
            return f"Instrument: {names}, strong ({numbers})."
        return (
            f"Instrument: {names}, weak ({numbers}; {self.strength:.1f} per "
            f"{'variable' if self._pooled else 'df'}, below {WEAK:g}). The "
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
            f"Wald test of {', '.join(by_factor(self.columns))} in the selection equation: "
            f"chi2({self.df}) = {self.statistic:.2f}, p {p_text(self.pvalue)}; "
            f"{self.strength:.2f} per {'variable' if self._pooled else 'column'} ({hint})"
        )

    @property
    def _pooled(self) -> bool:
        """Whether a penalised term, with several degrees of freedom, counts as one variable."""
        return len(self.columns) < self.df


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
