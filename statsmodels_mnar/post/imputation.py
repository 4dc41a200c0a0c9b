"""Draws of the parameters for proper imputation, and Rubin's rules.

With estimates Q_1..Q_m of m completed data sets and their covariances U_1..U_m (Rubin 1987):

    within W = mean of U, between B = sample covariance of Q, total T = W + (1 + 1/m) B

Degrees of freedom are those of Barnard and Rubin (1999), which never exceed those of the complete
data; the fraction of missing information is that of Rubin (1987, equation 3.1.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..errors import check_alpha
from ..types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Estimates of several completed data sets, combined by Rubin's rules.

    Attributes
    ----------
    params, bse : Series
        Mean of the estimates, and its standard errors.
    within, between : ndarray
        (P, P) mean of the covariances, and covariance of the estimates.
    df, fmi : Series
        Degrees of freedom (Barnard and Rubin) and fractions of missing information.
    n_imputations : int
    """

    within: Floats  # (P, P) mean of the covariances
    between: Floats  # (P, P) covariance of the estimates
    estimate: Floats  # (P,) mean of the estimates
    names: pd.Index  # (P,)
    n_imputations: int
    df_complete: float  # degrees of freedom of the complete data

    @property
    def params(self) -> pd.Series:
        """Mean of the estimates."""
        return pd.Series(self.estimate, index=self.names)

    @property
    def _inflated(self) -> Floats:
        """(P,) variance due to the missing labels."""
        return (1.0 + 1.0 / self.n_imputations) * np.diag(self.between)

    @property
    def cov(self) -> pd.DataFrame:
        """Total covariance."""
        total = self.within + (1.0 + 1.0 / self.n_imputations) * self.between
        return pd.DataFrame(total, index=self.names, columns=self.names)

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the estimates, by the name that statsmodels has for it."""
        return self.cov

    @property
    def bse(self) -> pd.Series:
        """Standard errors, from the total covariance."""
        return pd.Series(np.sqrt(np.diag(self.cov)), index=self.names)

    @property
    def df(self) -> pd.Series:
        """Degrees of freedom of the t intervals (Barnard and Rubin)."""
        share = self._inflated / np.diag(self.cov)
        with np.errstate(divide="ignore"):
            imputed = (self.n_imputations - 1.0) / share**2
            # (c + 1)/(c + 3) * c, written so that an infinite c stays infinite
            complete = self.df_complete * (1.0 - 2.0 / (self.df_complete + 3.0)) * (1.0 - share)
            values = 1.0 / (1.0 / imputed + 1.0 / complete)
        return pd.Series(values, index=self.names)

    @property
    def fmi(self) -> pd.Series:
        """Fraction of missing information."""
        increase = self._inflated / np.diag(self.within)
        return (increase + 2.0 / (self.df + 3.0)) / (increase + 1.0)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """(P, 2) t intervals at level 1 - ``alpha``."""
        check_alpha(alpha)
        reach = stats.t.ppf(1.0 - alpha / 2.0, self.df) * self.bse
        return pd.DataFrame({0: self.params - reach, 1: self.params + reach})

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, tests, intervals at level 1 - ``alpha``, degrees of freedom, fmi."""
        t = self.params / self.bse
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "t": t,
                "P>|t|": 2.0 * stats.t.sf(np.abs(t), self.df),
                "ci_lower": interval[0],
                "ci_upper": interval[1],
                "df": self.df,
                "fmi": self.fmi,
            }
        )


def pool(
    estimates: Sequence[Any],
    variances: Sequence[Any] | None = None,
    *,
    df_complete: float | None = None,
    names: Sequence[str] | None = None,
) -> Pooled:
    """Combine the estimates of completed data sets by Rubin's rules.

    Parameters
    ----------
    estimates : sequence
        Of fitted results (anything with ``params`` and ``cov_params()``), of pairs (params, cov),
        or, with ``variances``, of params.
    variances : sequence, optional
        One for each estimate: a number, (P,) variances or a (P, P) covariance.
    df_complete : float, optional
        Degrees of freedom that the complete data would have; by default ``df_resid`` of fitted
        results, else infinite.
    names : sequence of str, optional
        Of the estimates; by default the index of ``params`` where it has one.

    Returns
    -------
    Pooled
        With params, cov, bse, df, fmi, conf_int() and summary_frame().

    Examples
    --------
    >>> pooled = pool([0.30, 0.34, 0.32], [0.0004, 0.0005, 0.0006], names=["prevalence"])
    >>> pooled.summary_frame()[["coef", "std err", "df"]].round(4)
                coef  std err      df
    prevalence  0.32   0.0321  7.5078
    """
    items = list(estimates)
    if len(items) < 2:
        raise ValueError(f"estimates has {len(items)} element(s); Rubin's rules need two or more")
    if variances is not None:
        pairs = list(zip(items, list(variances), strict=True))
    elif all(hasattr(item, "cov_params") for item in items):
        pairs = [(item.params, item.cov_params()) for item in items]
        if df_complete is None:
            df_complete = getattr(items[0], "df_resid", None)
    elif all(isinstance(item, tuple) and len(item) == 2 for item in items):
        pairs = items
    else:
        raise ValueError(
            "estimates must be fitted results or pairs (params, cov); give variances with plain "
            "estimates"
        )
    values = np.array([np.atleast_1d(np.asarray(params, dtype=float)) for params, _ in pairs])
    within = np.mean([_covariance(cov, values.shape[1]) for _, cov in pairs], axis=0)
    if names is None:
        names = getattr(pairs[0][0], "index", None)
    index = pd.RangeIndex(values.shape[1]) if names is None else pd.Index(names)
    between = np.atleast_2d(np.cov(values, rowvar=False, ddof=1))
    complete = np.inf if df_complete is None else float(df_complete)
    return Pooled(within, between, values.mean(0), index, len(pairs), complete)


def _covariance(given: Any, size: int) -> Floats:
    """(P, P) from a number, variances or a covariance."""
    values = np.asarray(given, dtype=float)
    if values.ndim < 2:
        values = np.diag(np.atleast_1d(values))
    if values.shape != (size, size):
        raise ValueError(
            f"a covariance has shape {np.shape(given)}, but there are {size} estimates"
        )
    return values


def draw_params(
    params: Floats, cov: Floats, low: Floats, high: Floats, rng: np.random.Generator
) -> Floats:
    """One draw from N(params, cov) within bounds, (P,).

    Draws outside are thrown away: the distribution is the truncated normal.
    """
    scale = np.sqrt(np.diag(cov))
    safe = np.where(scale > 0, scale, 1.0)  # held parameters have no variance
    values, vectors = np.linalg.eigh(cov / np.outer(safe, safe))
    root = safe[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    for _ in range(1000):
        drawn = params + root @ rng.standard_normal(len(params))
        if (drawn >= low).all() and (drawn <= high).all():
            return drawn
    raise ValueError(
        "no draw of the dependence parameters lies within their bounds: they are hardly "
        "identified; use a simpler normalization such as 'loading'"
    )


def held(cov: Floats, k: int) -> Floats:
    """Covariance of a normal vector given its k-th element, whose row becomes zero, (P, P)."""
    rest = cov - np.outer(cov[:, k], cov[k]) / cov[k, k]
    rest[k], rest[:, k] = 0.0, 0.0
    return rest
