"""Residuals and influence of a fitted selection model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from ..post.covariance import invert, param_influence
from ..types import Floats

if TYPE_CHECKING:
    from .fitted import SelectionResults


def _mean_selected(self: SelectionResults) -> Floats:
    return self.model.predict(self.params, which="mean-selected")


def resid_response(self: SelectionResults) -> Floats:
    """Outcome less P(y = 1 | x, w, s = 1); NaN where unlabelled."""
    return self.model.endog - self._mean_selected


def resid_pearson(self: SelectionResults) -> Floats:
    """Response residual over its standard deviation; NaN where unlabelled."""
    return pearson(self.model.endog, self._mean_selected)


def resid_quantile(self: SelectionResults, rng: int | np.random.Generator | None = None) -> Floats:
    """Randomized quantile residuals: standard normal under the model; NaN where unlabelled.

    Parameters
    ----------
    rng : int or Generator, optional
        Of the uniform draws that fill the steps of the binary distribution.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> model.fit().resid_quantile(rng=0).shape
    (1000,)
    """
    return randomized_quantile(self.model.endog, self._mean_selected, np.random.default_rng(rng))


def resid_generalized(self: SelectionResults) -> pd.DataFrame:
    """Derivatives of each row's log-likelihood in the indices of both equations.

    Columns ``outcome`` and ``select``: the expectation of the latent error, up to scale, given
    what is observed of the row. They are orthogonal to the columns of their designs.
    """
    model = self.model
    a, b = (model.predict(self.params, which=w) for w in ("linear", "linear-select"))
    one = np.ones((len(a), 1))
    rows = model.rows_of(replace(model.training_design, X=one, W=one, offset=a, offset_select=b))
    theta = np.concatenate([[0.0, 0.0], self._dependence_values()])
    scores = model.objective().with_rows(rows).row_scores(theta).cpu().numpy()
    return pd.DataFrame(scores[:, :2], index=model.design.index, columns=["outcome", "select"])


def _param_influence(self: SelectionResults) -> Floats:
    """(n, P) what each row adds to the estimates."""
    return param_influence(self._hessian(), self.model.score_obs(self.params))


def _check_at_maximum(self: SelectionResults, name: str) -> None:
    """Raise an error where the fit is not at a maximum, which the rows' influence needs."""
    if not self.converged or not np.isfinite(self.cov_params_default).all():
        raise ValueError(
            f"{name} needs estimates at a maximum and their covariance (status: "
            f"{self.status.value}); fit with method='newton' and enough iterations (maxiter)"
        )


def _clusters(self: SelectionResults, name: str) -> NDArray[np.int64] | None:
    """Codes of the one way of clustering that sums of influences can follow."""
    if len(self._groups) > 1:
        raise ValueError(f"{name} takes one way of clustering, this fit has two")
    return self._groups[0] if self._groups else None


def get_influence(self: SelectionResults) -> Influence:
    """What each row does to the estimates, by one Newton step from them.

    Returns
    -------
    Influence
        With ``d_params``, ``params_one``, ``dfbetas``, ``cooks_distance`` and
        ``summary_frame()``, named as in statsmodels' MLEInfluence.

    Notes
    -----
    A row of ``freq_weights`` w leaves with all its w observations. BiasCorr's first stages
    are trained anew without the row as far as ``cov_type="stacked"`` can tell, else held.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> table = model.fit().get_influence().summary_frame()
    >>> table.shape
    (1000, 9)
    """
    self.model.check_rows_at_hand()
    self._check_at_maximum("get_influence")
    return Influence(
        d_params=self._param_influence(),
        params=np.asarray(self.params, dtype=float),
        cov=np.asarray(self.cov_params_default),
        df_resid=self.df_resid,
        index=self.model.design.index,
        names=tuple(self.model.param_names),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """One-step changes of the estimates when a row is left out.

    Names are those of statsmodels' ``MLEInfluence``. There is no hat matrix: leverage is not
    defined where the outcome of a row is not observed.

    Attributes
    ----------
    d_params : ndarray
        (n, P) estimates less those without the row, by one Newton step.
    params, cov : ndarray
        (P,) and (P, P) of the fit.
    df_resid : float
    index, names
        Of the rows and of the parameters.
    """

    d_params: Floats  # (n, P) estimates less those without the row, by one Newton step
    params: Floats  # (P,)
    cov: Floats  # (P, P)
    df_resid: float
    index: pd.Index  # (n,)
    names: tuple[str, ...]  # P

    @property
    def params_one(self) -> Floats:
        """(n, P) one-step estimates without the row."""
        return self.params - self.d_params

    @property
    def dfbetas(self) -> Floats:
        """(n, P) changes in standard errors."""
        return self.d_params / np.sqrt(np.diag(self.cov))

    @property
    def cooks_distance(self) -> tuple[Floats, Floats]:
        """(n,) distances d' cov^(-1) d / P, and statsmodels' p-values from the F distribution."""
        distance = np.einsum("ni,ij,nj->n", self.d_params, invert(self.cov), self.d_params)
        distance /= len(self.params)
        return distance, stats.f.sf(distance, len(self.params), self.df_resid)

    def summary_frame(self) -> pd.DataFrame:
        """DFBETAs (``dfb_`` and the parameter's name) and Cook's distance of every row."""
        table = pd.DataFrame(
            self.dfbetas, index=self.index, columns=[f"dfb_{name}" for name in self.names]
        )
        table["cooks_d"] = self.cooks_distance[0]
        return table


def pearson(y: Floats, p: Floats) -> Floats:
    """(y - p) over its standard deviation; NaN where y is."""
    return (y - p) / np.sqrt(p * (1.0 - p))


def randomized_quantile(y: Floats, p: Floats, rng: np.random.Generator) -> Floats:
    """Residuals of Dunn and Smyth (1996): standard normal if y is Bernoulli(p); NaN where y is."""
    u = rng.random(len(y))
    return ndtri(np.where(y == 1, 1.0 - p + u * p, u * (1.0 - p)) + 0.0 * y)
