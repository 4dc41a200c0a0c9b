"""The robust bias-aware classifier of Liu and Ziebart (2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ..design import Design, check_selection_varies
from ..types import Floats
from .base import Baseline, BaselineResults, Estimate, as_design, regress

TARGETS = ("all", "unlabelled")
_SCORE = 1e-10  # largest violation of a moment, relative to the columns
_POLISH = 20


def check_target(target: str) -> None:
    if target not in TARGETS:
        raise ValueError(
            f"target={target!r} is unknown; use 'all' (labelled and unlabelled rows together are a "
            "sample of the population) or 'unlabelled' (the unlabelled rows are)"
        )


class RobustBiasAwareResults(BaselineResults):
    """Estimates of the classifier.

    Attributes
    ----------
    discriminator : Series
        Coefficients of the logit of labelled against unlabelled rows, from which
        :meth:`density_ratio` comes.
    """

    def __init__(self, model: Any, estimate: Estimate, discriminator: Floats) -> None:
        super().__init__(model, estimate, "newton", None)
        self.discriminator = pd.Series(discriminator, index=model.exog_names, name="discriminator")

    def density_ratio(self, exog: Any = None) -> Floats:
        """P_source(x)/P_target(x) at a design, clipped as in the model."""
        return self.model.density_ratio(self.discriminator.to_numpy(), exog)

    def _index(self, X: Floats) -> Floats:
        return self.density_ratio(X) * super()._index(X)

    def _header(self) -> dict[str, Any]:
        ratio = self.density_ratio()
        return {
            "Target": self.model.target,
            "Smallest ratio": float(ratio.min()),
            "Largest ratio": float(ratio.max()),
        }

    def _notes(self) -> list[str]:
        return ["P(y = 1 | x) = L(r(x) x'beta); the method defines no standard errors."]


class RobustBiasAware(Baseline):
    """Robust classification under sample selection bias (Liu and Ziebart 2014).

    Among all conditional laws of y given x that agree with the labelled rows in E[y x], it takes
    the one with the smallest worst-case log loss on the target population. That is

        P(y = 1 | x) = L(r(x) x'beta),    r(x) = P_source(x) / P_target(x),

    a logit that returns to one half where the source has no rows to learn from. It assumes that
    selection depends on x alone.

    Parameters
    ----------
    endog : array_like
        (n,) outcome, NaN where unlabelled; not read where ``endog_select`` is 0.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select : array_like, optional
        (n,) 1 where labelled. By default the rows whose outcome is known.
    exog_select : array_like, optional
        Accepted for the common interface; the classifier conditions on ``exog`` alone.
    target : {"all", "unlabelled"}
        What is a sample of the target population: all rows, or the unlabelled ones (as the target
        sample of BiasCorr* is).
    clip : float
        The density ratio is kept within [1/clip, clip].
    missing : {"none", "raise", "drop"}

    Notes
    -----
    Choices made here, which the paper leaves open or may settle otherwise. The features are
    phi(x, y) = y x (with the constant of ``exog``), so that without selection bias the classifier
    is the ordinary logit; a formula can add squares and products. The density ratio comes from a
    logit of labelled against unlabelled rows: r = P(s = 1 | x)/P(s = 1), or for
    ``target="unlabelled"`` the odds of s = 1 given x over those without x. It is clipped at
    ``clip``. The slack of the paper's constraints is the ridge ``penalty``; zero asks for equality.
    The dual, a logit of the designs r x with weights 1/r, is concave and solved by Newton's method.

    References
    ----------
    Liu and Ziebart (2014), Robust classification under sample selection bias, Advances in Neural
    Information Processing Systems 27.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import RobustBiasAware
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=1).data
    >>> model = RobustBiasAware.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> results = model.fit()
    >>> far = results.predict({"x1": [-6.0], "x2": [0.0]})  # few such rows are labelled
    >>> bool(0.2 < far[0] < 0.5)
    True
    """

    _weighted = False

    def _set_up(self, design: Design, *, target: str = "all", clip: float = 1_000.0) -> None:
        check_target(target)
        if not clip > 1:
            raise ValueError(f"clip={clip!r} must exceed one; use np.inf for no clipping")
        super()._set_up(design)
        self.target, self.clip = target, clip

    def fit(self, penalty: float = 0.0) -> RobustBiasAwareResults:
        """Fit the discriminator, then the classifier.

        Parameters
        ----------
        penalty : float
            Ridge of both: ``n * alpha/2 * |coefficients|^2`` for n rows. Without it a discriminator
            that separates labelled from unlabelled rows perfectly raises.
        """
        design = self.design
        check_selection_varies(design)
        self._check_outcome(penalty)
        divided = regress(
            design.s, design.X, design.outcome_names, "selection", penalty=penalty,
            standardized=False,
        )  # fmt: skip
        discriminator = divided.params.numpy()
        y, X = self._labelled
        ratio = self.density_ratio(discriminator, X)
        params, converged = robust_logit(y, X, ratio, design.outcome_names, penalty)
        estimate = Estimate(params, None, converged and divided.converged)
        return RobustBiasAwareResults(self, estimate, discriminator)

    def density_ratio(self, discriminator: Floats, exog: Any = None) -> Floats:
        """P_source(x)/P_target(x) at ``exog`` by the ``discriminator`` with these coefficients."""
        index = as_design(exog, self.design) @ discriminator
        share = self.design.s.mean()
        if self.target == "all":
            log_ratio = -np.logaddexp(0.0, -index) - np.log(share)
        else:
            log_ratio = index - np.log(share / (1.0 - share))
        bound = np.log(self.clip)
        return np.exp(np.clip(log_ratio, -bound, bound))


def robust_logit(
    y: Floats, X: Floats, ratio: Floats, names: tuple[str, ...], penalty: float = 0.0
) -> tuple[Floats, bool]:
    """Maximise the mean of log L((2y - 1) r x'beta)/r over the source rows, less a ridge.

    Its score is the mean of (y - P(y = 1 | x)) x: the constraint that the classifier reproduces
    the source's E[y x].
    """
    m, p = X.shape
    weight = 1.0 / ratio
    scale = weight.mean()
    fit = regress(
        y, ratio[:, None] * X, names, "outcome", weight=weight / scale, penalty=penalty / scale,
        standardized=False,
    )  # fmt: skip
    params = fit.params.numpy()
    if fit.converged:
        return params, True
    # Large ratios let the index of a row with a negligible weight move on: judge by the score.
    tolerance = _SCORE * np.abs(X).mean(axis=0).max()
    for _ in range(_POLISH):
        prob = expit(ratio * (X @ params))
        score = (y - prob) @ X / m - penalty * params
        if np.abs(score).max() < tolerance:
            return params, True
        curve = (X * (ratio * prob * (1.0 - prob))[:, None]).T @ X / m + penalty * np.eye(p)
        params = params + np.linalg.solve(curve, score)
    return params, False
