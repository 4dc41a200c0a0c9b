"""RFLearn^1 of Du and Wu (2021), the robust version without fairness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import Design, check_selection_varies, check_separation, design_from_arrays, over_rows
from .base import Baseline, BaselineResults, Estimate
from .minimax import Saddle, WeightBox, solve_game
from .rba import check_target

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_LEVELS = 10  # a column with more values is cut


class RFLearnResults(BaselineResults):
    """Estimates of the robust classifier.

    Attributes
    ----------
    groups : DataFrame
        One row for each group of the labelled rows: ``a`` and ``b``, its rows among the labelled
        and in the target sample; ``prob_select`` = a/b; ``weight``, the estimated weight, and
        ``worst_weight``, the adversary's; all weights have a mean of one over the labelled rows.
    worst_case_loss : float
        Mean log loss under the adversary's weights.
    duality_gap : float
        An upper bound on what ``worst_case_loss`` is above its smallest value.
    """

    def __init__(
        self, model: Any, estimate: Estimate, saddle: Saddle, groups: pd.DataFrame
    ) -> None:
        super().__init__(model, estimate, "minimax", None)
        self.groups = groups
        self.worst_case_loss, self.duality_gap = saddle.value, saddle.gap

    def _header(self) -> dict[str, Any]:
        return {
            "Groups": str(len(self.groups)),
            "Target covered": self.model.coverage,
            "Worst-case loss": self.worst_case_loss,
            "Duality gap": f"{self.duality_gap:.1e}",
        }

    def _notes(self) -> list[str]:
        return ["The method defines no standard errors."]


class RFLearn(Baseline):
    """Robust logit reweighted by empirical frequencies (RFLearn^1 without fairness).

    Rows fall into groups t. The selection probability of a group is estimated by a_t/b_t, its
    numbers of rows among the labelled and in an unbiased sample, and the labelled rows are weighted
    by its inverse. Because a_t/b_t is an estimate, the classifier minimises the largest loss over
    all probabilities within ``radius`` of it::

        min over beta, max over p:  sum_i loss_i(beta) / p_t(i),  |p_t - a_t/b_t| <= radius

    It assumes that selection depends on the group alone.

    Parameters
    ----------
    endog : array_like
        (n,) outcome, NaN where unlabelled; not read where ``endog_select`` is 0.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select : array_like, optional
        (n,) 1 where labelled. By default the rows whose outcome is known.
    exog_select : array_like, optional
        (n, k) selection design, whose distinct rows are the groups; by default ``exog``.
    groups : array_like, optional
        (n,) labels, or (n, j) columns whose distinct rows are the groups, in place of the selection
        design's.
    bins : int or None
        Selection columns with more than ten values are cut at their quantiles into this many bins;
        None: taken as they are.
    target : {"all", "unlabelled"}
        What is the unbiased sample: all rows, or the unlabelled ones (as the target sample of
        BiasCorr* is).
    missing : {"none", "raise", "drop"}

    Notes
    -----
    Choices made here, which the paper leaves open or may settle otherwise. Groups: with continuous
    columns every row is a group of its own and a_t/b_t tells nothing, hence ``bins``. The weights
    keep the total that the estimates have, sum_i 1/p_t(i) = sum_i b_t/a_t: without that the
    adversary would take the largest weight everywhere and there would be no game. The probabilities
    stay below one (or the estimate, where that is larger, which is possible with
    ``target="unlabelled"``) and above ``floor`` or the estimate, whichever is smaller. A group that
    the target sample lacks counts as seen there once; target rows whose group no labelled row has
    are represented by nobody (``coverage`` is the share of the others). The game is solved until
    its duality gap is negligible. ``radius`` is the user's: the bound of Cortes et al., which
    `inference.bias_theory.cortes_bound` computes, exceeds one on most data.

    References
    ----------
    Du and Wu (2021), Robust fairness-aware learning under sample selection bias, arXiv:2105.11570;
    Fair and robust classification under sample selection bias, CIKM 2021.
    Cortes, Mohri, Riley and Rostamizadeh (2008), Sample selection bias correction theory.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import RFLearn
    >>> from statsmodels_mnar.datasets import simulate_mar
    >>> simulated = simulate_mar(2_000, rng=1)
    >>> model = RFLearn.from_formula(simulated.formula, simulated.select_formula, simulated.data)
    >>> results = model.fit(radius=0.05)
    >>> results.converged, bool(results.duality_gap < 1e-7)
    (True, True)
    """

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        groups: Any = None,
        bins: int | None = 4,
        target: str = "all",
        missing: Any = "none",
    ) -> None:
        design = design_from_arrays(endog, exog, endog_select, exog_select, missing=missing)
        self._set_up(design, groups=groups, bins=bins, target=target)

    def _set_up(
        self, design: Design, *, groups: Any = None, bins: int | None = 4, target: str = "all"
    ) -> None:
        check_target(target)
        if bins is not None and not (isinstance(bins, int | np.integer) and bins > 1):
            raise ValueError(f"bins={bins!r} must be an integer above one, or None")
        super()._set_up(design)
        self.target = target
        check_selection_varies(design)
        self._count(_codes(design, groups, bins))

    def _count(self, codes: Codes) -> None:
        """The groups that have labelled rows, their codes, and the share of the target in them."""
        seen = self.design.labelled
        n_groups = int(codes.max()) + 1
        a = np.bincount(codes[seen], minlength=n_groups)
        b = np.bincount(codes if self.target == "all" else codes[~seen], minlength=n_groups)
        known = a > 0
        self.groups = pd.DataFrame({"a": a[known], "b": b[known]})
        self.groups["prob_select"] = self.groups.a / self.groups.b.clip(lower=1)
        self.coverage = float(b[known].sum() / b.sum())
        self._codes = (np.cumsum(known) - 1)[codes[seen]]

    def fit(
        self,
        radius: float = 0.05,
        penalty: float = 0.0,
        *,
        floor: float = 0.01,
        tol: float = 1e-8,
        maxiter: int = 100,
    ) -> RFLearnResults:
        """Solve the game.

        Parameters
        ----------
        radius : float
            How far each group's selection probability may be from a_t/b_t; zero leaves the
            weighted logit.
        penalty : float
            alpha: ``alpha/2 * |beta|^2`` is added to the mean loss.
        floor : float
            Smallest selection probability the adversary may choose.
        tol : float
            Duality gap at which to stop, relative to one plus the loss.
        maxiter : int
            Newton steps for each smoothing of the game.
        """
        if not (np.isfinite(radius) and radius >= 0):
            raise ValueError(f"radius={radius!r} must be a finite number of at least zero")
        if not 0 < floor < 1:
            raise ValueError(f"floor={floor!r} must be a probability between 0 and 1")
        self._check_outcome(penalty)
        y, X = self._labelled
        if penalty == 0:  # the adversary only reweights rows, so all depends on the plain logit
            check_separation(y, X, self.design.outcome_names, "outcome")
        box = weight_box(self.groups, radius, floor)
        saddle = solve_game(y, X, self._codes, box, penalty=penalty, tol=tol, maxiter=maxiter)
        groups = self.groups.assign(weight=box.center, worst_weight=saddle.weights)
        estimate = Estimate(saddle.params, None, saddle.converged)
        return RFLearnResults(self, estimate, saddle, groups)


def weight_box(groups: pd.DataFrame, radius: float, floor: float) -> WeightBox:
    """Bounds on the groups' weights, scaled so that the estimates have a mean of one."""
    count = groups["a"].to_numpy(dtype=float)
    prob = groups["prob_select"].to_numpy()
    highest = np.maximum(np.minimum(prob + radius, 1.0), prob)
    lowest = np.minimum(np.maximum(prob - radius, floor), prob)
    scale = count.sum() / (count / prob).sum()
    return WeightBox(count, scale / prob, scale / highest, scale / lowest)


def _codes(design: Design, groups: Any, bins: int | None) -> Codes:
    """(n,) an integer for each distinct record."""
    if groups is not None:
        if isinstance(groups, pd.Series | pd.DataFrame):
            ways = [way for _, way in pd.DataFrame(groups).items()]
        else:
            ways = list(np.atleast_2d(np.ma.asanyarray(groups).T))
        frame = pd.DataFrame({j: over_rows(w, design, None, "groups") for j, w in enumerate(ways)})
        if frame.isna().any(axis=None):
            raise ValueError("groups has missing values; give such rows a group of their own")
    else:
        frame = pd.DataFrame({j: _cut(column, bins) for j, column in enumerate(design.W.T)})
    codes = np.zeros(len(frame), dtype=np.int64)
    for _, column in frame.items():
        part, values = pd.factorize(column, use_na_sentinel=False)
        # Renumbered after every column, so that the product never overflows.
        codes = pd.factorize(codes * len(values) + part)[0]
    return codes


def _cut(column: Floats, bins: int | None) -> Floats:
    if bins is None or len(np.unique(column)) <= _LEVELS:
        return column
    points = np.quantile(column, np.arange(1, bins) / bins)
    return np.searchsorted(points, column, side="right").astype(float)
