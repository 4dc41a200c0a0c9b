"""RFLearn^1 of Du and Wu (2021), the robust version without fairness, and its minimax game.

min over beta, max over v:  (1/m) sum_t v_t sum_{i in t} loss_i(beta) + penalty/2 |beta|^2
    subject to  low_t <= v_t <= high_t  and  sum_t a_t v_t = m

with a_t of the m rows in group t. The game is convex in beta and linear in v, so it has a saddle
point, and any (beta, v) bounds its value from both sides: the adversary's best answer to beta from
above, the weighted logit of v from below. Their difference, the duality gap, certifies a solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ..design import Design, check_selection_varies, check_separation, over_rows
from ..kernel.links import LOGIT
from ..optimize.binary import fit_binary
from ..types import Floats
from .base import Baseline, BaselineResults, Estimate, columns
from .rba import check_target

_SMOOTHEST, _ROUGHEST = 1.0, 1e-12


@dataclass(frozen=True, slots=True)
class WeightBox:
    """The adversary's choices, each with a mean of one over the rows."""

    count: Floats  # (T,) rows of each group
    center: Floats  # (T,) estimated weights
    low: Floats  # (T,)
    high: Floats  # (T,)


@dataclass(frozen=True, slots=True)
class Saddle:
    """A solution of the game."""

    params: Floats  # (p,)
    weights: Floats  # (T,) the adversary's
    value: float  # the worst-case loss of params
    gap: float  # value less the smallest loss under weights
    converged: bool


def worst_weights(loss: Floats, box: WeightBox) -> Floats:
    """The adversary's best answer to the groups' mean losses, a fractional knapsack.

    Every group starts at its lower bound; what is left of the total goes to the groups with the
    largest losses.

    Examples
    --------
    >>> import numpy as np
    >>> box = WeightBox(np.ones(3), np.ones(3), np.full(3, 0.5), np.full(3, 2.0))
    >>> worst_weights(np.array([0.1, 0.9, 0.5]), box)
    array([0.5, 2. , 0.5])
    """
    order = np.argsort(-loss, kind="stable")
    room = (box.count * (box.high - box.low))[order]
    left = box.count.sum() - box.count @ box.low
    given = np.clip(left - (np.cumsum(room) - room), 0.0, room)
    weights = box.low.copy()
    weights[order] += given / box.count[order]
    return weights


def smoothed_weights(loss: Floats, box: WeightBox, smoothing: float) -> Floats:
    """The answer of an adversary who also pays smoothing/2 * sum a_t (v_t - center_t)^2.

    It is clip(center + (loss - price)/smoothing, low, high); the total is piecewise linear in
    price, whose value is found among its sorted kinks.
    """
    kinks = np.concatenate(
        [loss + smoothing * (box.center - box.high), loss + smoothing * (box.center - box.low)]
    )
    turn = np.concatenate([box.count, -box.count])
    order = np.argsort(kinks, kind="stable")
    kinks, slope = kinks[order], np.cumsum(turn[order])  # slope * -1/smoothing after each kink
    fall = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(kinks))]) / smoothing
    excess = box.count @ box.high - box.count.sum()
    price = np.interp(excess, fall, kinks)
    return np.clip(box.center + (loss - price) / smoothing, box.low, box.high)


def solve_game(
    y: Floats,
    X: Floats,
    codes: NDArray[np.int64],
    box: WeightBox,
    *,
    penalty: float = 0.0,
    tol: float = 1e-8,
    maxiter: int = 100,
) -> Saddle:
    """Solve the game by smoothing the adversary, less and less, until the duality gap is below tol.

    With the smoothed adversary the worst-case loss is convex with a Lipschitz gradient, and a
    semismooth Newton method minimises it from the solution for the previous smoothing.

    Parameters
    ----------
    y, X : ndarray
        (m,) 0/1 and (m, p).
    codes : ndarray
        (m,) group of each row, 0 to T - 1.
    box : WeightBox
    penalty : float
    tol : float
        Largest duality gap, relative to one plus the loss.
    maxiter : int
        Newton steps for each smoothing.
    """
    game = _Game(y, X, codes, box, penalty)
    params = game.respond(box.center)
    smoothing = _SMOOTHEST
    best = game.certify(params, box.center, tol)
    while not best.converged and smoothing >= _ROUGHEST:
        params = game.minimize(params, smoothing, maxiter)
        found = game.certify(params, game.smoothed(params, smoothing), tol)
        best = found if found.gap < best.gap else best
        smoothing *= 0.1
    return best


@dataclass(frozen=True, slots=True)
class _Game:
    y: Floats
    X: Floats
    codes: NDArray[np.int64]
    box: WeightBox
    penalty: float

    def losses(self, params: Floats) -> Floats:
        """(T,) mean loss of each group."""
        rows = np.logaddexp(0.0, -(2.0 * self.y - 1.0) * (self.X @ params))
        return np.bincount(self.codes, rows, len(self.box.count)) / self.box.count

    def value(self, loss: Floats, weights: Floats, params: Floats) -> float:
        ridge = 0.5 * self.penalty * (params @ params)
        return float((self.box.count * weights) @ loss / len(self.y) + ridge)

    def smoothed(self, params: Floats, smoothing: float) -> Floats:
        return smoothed_weights(self.losses(params), self.box, smoothing)

    def respond(self, weights: Floats) -> Floats:
        """The weighted logit."""
        fit = fit_binary(
            columns(self.X), torch.as_tensor(self.y), LOGIT,
            weight=torch.as_tensor(weights[self.codes]), penalty=self.penalty,
        )  # fmt: skip
        return fit.params.numpy()

    def certify(self, params: Floats, weights: Floats, tol: float) -> Saddle:
        loss = self.losses(params)
        above = self.value(loss, worst_weights(loss, self.box), params)
        reply = self.respond(weights)
        below = self.value(self.losses(reply), weights, reply)
        gap = above - below
        return Saddle(params, weights, above, gap, gap <= tol * (1.0 + abs(above)))

    def minimize(self, params: Floats, smoothing: float, maxiter: int) -> Floats:
        """Semismooth Newton with halved steps."""

        def objective(params: Floats) -> tuple[float, Floats]:
            loss = self.losses(params)
            weights = smoothed_weights(loss, self.box, smoothing)
            away = float(self.box.count @ (weights - self.box.center) ** 2 / len(self.y))
            return self.value(loss, weights, params) - 0.5 * smoothing * away, weights

        current, weights = objective(params)
        for _ in range(maxiter):
            score, hessian = self._derivatives(params, weights, smoothing)
            step = -np.linalg.solve(hessian, score)
            gain = -float(score @ step)
            if gain < 1e-15 * (1.0 + abs(current)):
                break
            size = 1.0
            for _ in range(40):
                trial, trial_weights = objective(params + size * step)
                if trial <= current - 1e-4 * size * gain:
                    break
                size *= 0.5
            else:
                break  # rounding hides what is left to gain
            params, current, weights = params + size * step, trial, trial_weights
        return params

    def _derivatives(
        self, params: Floats, weights: Floats, smoothing: float
    ) -> tuple[Floats, Floats]:
        m, p = self.X.shape
        prob = expit(self.X @ params)
        by_row = weights[self.codes]
        slopes = (prob - self.y)[:, None] * self.X
        score = by_row @ slopes / m + self.penalty * params
        curve = (self.X * (by_row * prob * (1.0 - prob))[:, None]).T @ self.X
        # Weights strictly inside their bounds answer to the losses; their price keeps the total.
        inside = (weights > self.box.low) & (weights < self.box.high)
        if inside.any():
            sums = np.zeros((len(inside), p))
            np.add.at(sums, self.codes, slopes)
            count, moved = self.box.count[inside], sums[inside]
            mean = moved.sum(axis=0) / count.sum()
            centred = moved / np.sqrt(count)[:, None] - np.sqrt(count)[:, None] * mean
            curve = curve + centred.T @ centred / smoothing
        return score, curve / m + self.penalty * np.eye(p)


# -- RFLearn^1 of Du and Wu (2021), the robust version without fairness ----------------------------


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
    `bias_theory.cortes_bound` computes, exceeds one on most data.

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

    _weighted = False

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
