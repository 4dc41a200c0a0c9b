"""Data whose truth is known.

Each simulator returns the data, with the outcome of every row beside what an analyst sees, and the
parameters that made them; each docstring says what a logit of the labelled rows gets wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from ..types import Floats


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated data set and the parameters that made it.

    Attributes
    ----------
    data : DataFrame
        The outcome is NaN where unlabelled; ``<outcome>_full`` has every label.
    truth : dict
        By the names of the fitted model's parameters, and sigma, rho.
    formula, select_formula : str
        Of the outcome and the selection equation.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> simulated = simulate_greene(1_000)
    >>> simulated.oracle_formula
    'y_full ~ x1 + x2'
    >>> simulated.truth["x1"]
    1.0
    """

    data: pd.DataFrame  # the outcome is NaN where unlabelled; <outcome>_full is nobody's to see
    truth: dict[str, float]  # by the names of the fitted model's parameters, and sigma, rho
    formula: str = "y ~ x1 + x2"
    select_formula: str = "s ~ x1 + x2 + z"

    @property
    def oracle_formula(self) -> str:
        """The outcome formula with the outcome of every row."""
        outcome, _, right = self.formula.partition("~")
        return f"{outcome.strip()}_full ~{right}"


def simulate_greene(
    n: int = 5_000,
    *,
    sigma: float = 1.5,
    rho: float = 1.0,
    loading: float | None = None,
    rng: int | np.random.Generator = 0,
) -> Simulated:
    """Greene's model: logit outcome, probit selection, correlated through a normal error.

    y = 1 with probability L(-0.5 + 1.0 x1 - 0.7 x2 + sigma e), and the label is seen when
    0.3 + 0.5 x1 + 0.3 x2 + 0.9 z + u > 0, with corr(e, u) = rho. x1 and z are standard normal, x2
    is a fair coin. Because x1 raises both indices and the errors agree in sign, a logit of the
    labelled rows sees too many ones (its intercept is too high) and too small an effect of x1.

    Parameters
    ----------
    n : int
        Rows.
    sigma, rho : float
        Size of the shared error and its correlation with the selection error. rho = 1 is the
        loading form with loading = sigma.
    loading : float, optional
        In their place: the selection error itself enters the outcome, with this coefficient.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> simulated = simulate_greene(1_000, rng=1)
    >>> simulated.data.shape
    (1000, 6)

    What the naive logit gets wrong; with a negative loading it sees too few ones instead:

    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> for loading in (1.5, -1.5):
    ...     simulated = simulate_greene(5_000, loading=loading, rng=1)
    ...     naive = NaiveLogit.from_formula(
    ...         simulated.formula, simulated.select_formula, simulated.data
    ...     ).fit()
    ...     print(f"{naive.predict().mean():.2f} instead of {simulated.data.y_full.mean():.2f}")
    0.47 instead of 0.37
    0.28 instead of 0.37
    """
    if loading is not None:
        sigma, rho = abs(loading), 1.0 if loading >= 0 else -1.0
    if not (sigma >= 0 and -1 <= rho <= 1):
        raise ValueError(f"sigma={sigma!r} must not be negative and rho={rho!r} be within [-1, 1]")
    rng = np.random.default_rng(rng)
    x1, z, u, v = rng.standard_normal((4, n))
    x2 = (rng.random(n) < 0.5).astype(float)
    e = rho * u + np.sqrt(1.0 - rho**2) * v
    index = -0.5 + 1.0 * x1 - 0.7 * x2
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(index + sigma * e)))).astype(float)
    s = (0.3 + 0.5 * x1 + 0.3 * x2 + 0.9 * z + u > 0).astype(int)
    truth = {
        "Intercept": -0.5, "x1": 1.0, "x2": -0.7,
        "select_Intercept": 0.3, "select_x1": 0.5, "select_x2": 0.3, "select_z": 0.9,
        "sigma": sigma, "rho": rho,
    }  # fmt: skip
    if abs(rho) == 1:
        truth["loading"] = rho * sigma
    return Simulated(_frame(x1, x2, z, s, y), truth)


def simulate_interviewers(
    n: int = 4_000,
    *,
    groups: int = 45,
    sd: float = 0.6,
    error_corr: float = -0.6,
    separated: float = 0.0,
    rng: int | np.random.Generator = 0,
) -> Simulated:
    """A survey with refusals: interviewers differ in whom they persuade, and effects are curved.

    The label is seen when 0.4 + 0.5 sin(1.5 x1) - 0.3 x2 + 0.25 z + a_g + u > 0, with a_g the
    normal effect of interviewer g, who moves consent only; y = 1 when
    -0.6 + 0.8 cos(1.5 x1) + 0.4 x2 + v > 0, with corr(u, v) = ``error_corr``. With a negative
    correlation the labelled rows have too few ones. Indicators of the interviewers make the
    selection equation separate where nobody refused one of them.

    Parameters
    ----------
    n : int
        Rows.
    groups : int
        Interviewers, each with about n / groups rows.
    sd : float
        Standard deviation of their effects.
    error_corr : float
    separated : float
        Share of the interviewers whose effect is 4 on top: nobody, or hardly anybody, refuses them.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> simulated = simulate_interviewers(2_000, groups=30, rng=1)
    >>> simulated.select_formula
    's ~ smooth(x1) + x2 + z + re(interviewer)'
    >>> data = simulated.data
    >>> bool(data.y.mean() < data.y_full.mean() - 0.05)
    True
    """
    if not (isinstance(groups, int | np.integer) and 2 <= groups <= n):
        raise ValueError(f"groups={groups!r} must be an integer between 2 and n")
    if not (sd >= 0 and -1 <= error_corr <= 1 and 0 <= separated <= 1):
        raise ValueError(
            f"sd={sd!r} must not be negative, error_corr={error_corr!r} be within [-1, 1] and "
            f"separated={separated!r} within [0, 1]"
        )
    rng = np.random.default_rng(rng)
    x1, z, u, v = rng.standard_normal((4, n))
    x2 = (rng.random(n) < 0.5).astype(float)
    group = rng.integers(groups, size=n)
    effect = sd * rng.standard_normal(groups)
    effect[: round(separated * groups)] += 4.0
    s = (0.4 + 0.5 * np.sin(1.5 * x1) - 0.3 * x2 + 0.25 * z + effect[group] + u > 0).astype(int)
    error = error_corr * u + np.sqrt(1.0 - error_corr**2) * v
    y = (-0.6 + 0.8 * np.cos(1.5 * x1) + 0.4 * x2 + error > 0).astype(float)
    data = _frame(x1, x2, z, s, y)
    data["interviewer"] = [f"i{g:03d}" for g in group]
    truth = {"x2": 0.4, "select_x2": -0.3, "select_z": 0.25, "rho": error_corr, "sd": sd}
    return Simulated(
        data, truth, "y ~ smooth(x1) + x2", "s ~ smooth(x1) + x2 + z + re(interviewer)"
    )


def simulate_mar(n: int = 5_000, *, rng: int | np.random.Generator = 0) -> Simulated:
    """Missing at random: an observed proxy z of the outcome decides who is labelled.

    y = 1 with probability L(-0.5 + 1.0 x1 - 0.7 x2); z = 1.2 y + a standard normal error, such as
    an early test result; the label is seen with probability PHI(0.3 x1 + 0.6 z). Given x and
    z the label's absence tells nothing about y, but given x alone it does: a logit of the labelled
    rows sees too many ones and too small an effect of x1. Weights by the inverse probability of
    selection mend it. Greene's model is wrong here (z moves with y, so it is no exclusion
    restriction).

    Parameters
    ----------
    n : int
        Rows.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> from statsmodels_mnar.baselines import IPWLogit, NaiveLogit
    >>> simulated = simulate_mar(5_000, rng=1)
    >>> for method in (NaiveLogit, IPWLogit):
    ...     results = method.from_formula(
    ...         simulated.formula, simulated.select_formula, simulated.data
    ...     ).fit()
    ...     print(f"intercept {results.params['Intercept']:.2f}, the truth is -0.5")
    intercept -0.10, the truth is -0.5
    intercept -0.48, the truth is -0.5
    """
    rng = np.random.default_rng(rng)
    x1, noise, u = rng.standard_normal((3, n))
    x2 = (rng.random(n) < 0.5).astype(float)
    y = (rng.random(n) < expit(-0.5 + 1.0 * x1 - 0.7 * x2)).astype(float)
    z = 1.2 * y + noise
    s = (0.3 * x1 + 0.6 * z + u > 0).astype(int)
    truth = {
        "Intercept": -0.5, "x1": 1.0, "x2": -0.7,
        "select_Intercept": 0.0, "select_x1": 0.3, "select_x2": 0.0, "select_z": 0.6,
    }  # fmt: skip
    return Simulated(_frame(x1, x2, z, s, y), truth)


def simulate_deterministic(
    n: int = 5_000, *, curvature: float = 0.5, rng: int | np.random.Generator = 0
) -> Simulated:
    """Deterministic selection: a label is seen where x1 + z > 0.5, and nowhere else.

    y = 1 with probability L(-0.5 + 1.0 x1 - 0.7 x2 + curvature x1^2). The paper's three experiments
    are of this kind (a threshold of a covariate decides), and it has no answer in the data: the
    selection equation is perfectly separated, so its likelihood has no finite maximum, and no
    weight can stand in for rows that are never seen. With ``curvature=0`` a logit of the labelled
    rows is right, since selection depends on covariates alone and the logit is the truth. With
    curvature a straight line fitted to the labelled rows, which have a high x1, is extrapolated to
    the others: the effect of x1 is too large, and low x1 are predicted too few ones.

    Parameters
    ----------
    n : int
        Rows.
    curvature : float
        Coefficient of x1^2, which ``formula`` leaves out.
    rng : int or numpy.random.Generator

    Examples
    --------
    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> simulated = simulate_deterministic(5_000, rng=1)
    >>> model = NaiveLogit.from_formula(
    ...     simulated.formula, simulated.select_formula, simulated.data
    ... )
    >>> unseen = simulated.data.s == 0
    >>> guess, fact = model.fit().predict()[unseen].mean(), simulated.data.y_full[unseen].mean()
    >>> print(f"{guess:.2f} instead of {fact:.2f}")
    0.26 instead of 0.32
    """
    rng = np.random.default_rng(rng)
    x1, z = rng.standard_normal((2, n))
    x2 = (rng.random(n) < 0.5).astype(float)
    index = -0.5 + 1.0 * x1 - 0.7 * x2 + curvature * x1**2
    y = (rng.random(n) < expit(index)).astype(float)
    s = (x1 + z > 0.5).astype(int)
    truth = {"Intercept": -0.5, "x1": 1.0, "x2": -0.7, "I(x1 ** 2)": curvature}
    return Simulated(_frame(x1, x2, z, s, y), truth)


def simulate_credit(
    n: int = 10_000,
    *,
    approval: float = 0.55,
    strictness: float = 2.5,
    loading: float = -1.2,
    rng: int | np.random.Generator = 0,
) -> Simulated:
    """Credit applications: default is known only for those who got the loan (reject inference).

    A score is computed from the application and a cut-off approves the share ``approval``. An
    officer, who has seen the applicant and is more or less lenient, may override it: the loan is
    granted when strictness * (score - cutoff) + 0.6 leniency + u > 0, with u the officer's
    impression. Default has probability L(index + loading u), index = -0.4 - 0.35 log_income
    + 2.0 debt_ratio + 0.45 late_payments - 0.03 age - 0.4 owner: what impresses the officer
    lowers the risk, and is not in the data. Officers are assigned at random, so leniency moves
    approval but not default.

    A logit of the accepted (the naive scorecard) predicts too few defaults among the rejected and
    hides the effects of debt and late payments, or even turns their signs: the accepted with bad
    records are those whom an officer had reason to trust.

    Parameters
    ----------
    n : int
        Applications.
    approval : float
        Share of applications above the cut-off.
    strictness : float
        How much the score weighs against the officer; overrides become rare as it grows.
    loading : float
        What the officer's impression does to the index of default; 0: missing at random.
    rng : int or numpy.random.Generator

    Notes
    -----
    Columns: age, income (thousands a year), log_income (log of income / 40), debt_ratio (debt
    service to income), late_payments (in two years), owner (of a home), score (centred at the
    cut-off, in standard deviations), leniency (of the officer), approved, override (the officer
    decided against the cut-off), default (NaN where rejected), default_full.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> simulated = simulate_credit(10_000, rng=1)
    >>> naive = NaiveLogit.from_formula(
    ...     simulated.formula, simulated.select_formula, simulated.data
    ... ).fit()
    >>> rejected = simulated.data.approved == 0
    >>> guess = naive.predict()[rejected].mean()
    >>> print(f"{guess:.2f} instead of {simulated.data.default_full[rejected].mean():.2f}")
    0.20 instead of 0.51
    """
    if not 0 < approval < 1:
        raise ValueError(f"approval={approval!r} must be a share between 0 and 1")
    if not strictness > 0:
        raise ValueError(f"strictness={strictness!r} must be positive")
    rng = np.random.default_rng(rng)
    age = np.clip(rng.normal(40.0, 12.0, n), 21.0, 75.0).round()
    log_income = 0.015 * (age - 40.0) - 0.0006 * (age - 40.0) ** 2 + rng.normal(0.0, 0.5, n)
    debt_ratio = rng.beta(2.0, 4.0, n)
    late_payments = rng.poisson(np.exp(-0.8 + 1.5 * (debt_ratio - 1.0 / 3.0))).astype(float)
    owner = (rng.random(n) < expit(-0.5 + 0.05 * (age - 40.0) + 0.8 * log_income)).astype(float)
    leniency, u = rng.standard_normal((2, n))
    risk = -0.5 * log_income + 2.5 * debt_ratio + 0.5 * late_payments - 0.02 * (age - 40.0)
    score = (risk.mean() - risk) / risk.std()
    score = score - np.quantile(score, 1.0 - approval)
    approved = (strictness * score + 0.6 * leniency + u > 0).astype(int)
    index = (
        -0.4 - 0.35 * log_income + 2.0 * debt_ratio + 0.45 * late_payments
        - 0.03 * age - 0.4 * owner
    )  # fmt: skip
    default = (rng.random(n) < expit(index + loading * u)).astype(float)
    data = pd.DataFrame(
        {
            "age": age,
            "income": 40.0 * np.exp(log_income),
            "log_income": log_income,
            "debt_ratio": debt_ratio,
            "late_payments": late_payments,
            "owner": owner,
            "score": score,
            "leniency": leniency,
            "approved": approved,
            "override": approved != (score > 0),
            "default": np.where(approved == 1, default, np.nan),
            "default_full": default,
        }
    )
    truth = {
        "Intercept": -0.4, "log_income": -0.35, "debt_ratio": 2.0, "late_payments": 0.45,
        "age": -0.03, "owner": -0.4,
        "select_Intercept": 0.0, "select_score": strictness, "select_leniency": 0.6,
        "loading": loading, "sigma": abs(loading), "rho": 1.0 if loading >= 0 else -1.0,
    }  # fmt: skip
    return Simulated(
        data,
        truth,
        "default ~ log_income + debt_ratio + late_payments + age + owner",
        "approved ~ score + leniency",
    )


def _frame(x1: Floats, x2: Floats, z: Floats, s: NDArray[np.int64], y: Floats) -> pd.DataFrame:
    return pd.DataFrame(
        {"x1": x1, "x2": x2, "z": z, "s": s, "y": np.where(s == 1, y, np.nan), "y_full": y}
    )
