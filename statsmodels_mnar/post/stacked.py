"""The covariance of BiasCorr's estimates that carries the error of its first stages.

The estimates solve stacked equations: the scores of g_s (zeta) and g_y (theta), the definition of
s-bar, and the score of the objective. The influence of row i on the estimates is therefore

    -H^(-1) [ g_i + (dg/ds) IF_i(s) + (dg/dtheta) IF_i(theta) ]

with H the Hessian and g the score of the objective, and IF(s) and IF(theta) the influence on the
soft selection and on g_y (Newey and McFadden 1994, section 6). Hard pseudolabels jump where
x'theta = 0; the derivative of their expectation is a density there, by a Gaussian kernel.

A ridge penalty alpha is alpha/2 b'Rb for every observation, in each of the three regressions: the
row scores that sum to zero at the estimates are g_i - alpha R b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm
from torch import Tensor

from ..kernel.forms import Form
from ..kernel.links import LOGIT, PROBIT
from ..kernel.rows import Kind, Rows
from ..kernel.threads import one_thread
from ..optimize.batches import relabelled
from ..optimize.objective import Objective
from ..types import Floats
from .covariance import invert

_STEP = 1e-5  # of a derivative in s' or y'


class Index(Protocol):
    """A first stage that is a regression."""

    def index(self, rows: Rows) -> Tensor:
        """Return x'coef plus the offset, (n,)."""


class Softening(Protocol):
    """Algorithm 1 for the rows of a partition; see `models.first_stage`."""

    @property
    def select(self) -> Index:
        """The classifier of selection, g_s."""

    @property
    def outcome(self) -> Index:
        """The classifier of the outcome, g_y."""

    def values(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return s' and y', (n,)."""

    def rows(self, rows: Rows) -> Rows:
        """Return the rows, their unlabelled ones with s' and y'."""


@dataclass(frozen=True, slots=True)
class StackedRows:
    """A block of rows, with what the stacked equations read of them."""

    X: Floats  # (n, p)
    W: Floats  # (n, k)
    y: Floats  # (n,) labels; not read where there are none
    labelled: NDArray[np.bool_]  # (n,)
    weights: Floats  # (n,)
    select_index: Floats  # (n,) of g_s
    outcome_index: Floats  # (n,) of g_y
    scores: Floats  # (n, P) of the objective, weighted as the two below
    by_soft: Floats  # (n, P) their derivative in s', zero on labelled rows
    by_label: Floats  # (n, P) in y' or, for hard pseudolabels, their jump; zero on labelled rows


@dataclass(frozen=True, slots=True)
class Stages:
    """How the first stages enter."""

    select: str  # "probit" or "logit"
    outcome: str
    rowwise: bool  # each row has its own soft selection
    mean: float | None  # s-bar, where it was estimated
    soft_pseudolabels: bool
    sampling: bool  # weights are inverse sampling probabilities
    penalty: float
    select_coef: Floats  # (k,) of g_s
    outcome_coef: Floats  # (p,) of g_y
    coef: Floats  # (p + k,) outcome and selection coefficients of the objective
    ridge: Floats  # (p + k, p + k) what the penalty multiplies


def stacked_covariance(
    rows: Rows,
    softening: Softening,
    form: Form,
    theta: Floats,
    estimated: NDArray[np.bool_],
    hessian: Floats,
    how: Stages,
) -> Floats:
    """Covariance of the estimates, (P, P): three sums over rows in memory or in partitions.

    Parameters
    ----------
    rows : Rows or PartitionedRows
        As they were observed, before Algorithm 1.
    theta, estimated : ndarray
        All parameters of the form, and which of them are estimated.
    hessian : ndarray
        (P, P) of the objective.
    """
    parts, found, slope = _first_stages(rows, softening, form, theta, estimated, how)
    return parts.sum(_outer, how, found, slope, hessian)[0].numpy()


def stacked_influence(
    rows: Rows,
    softening: Softening,
    form: Form,
    theta: Floats,
    estimated: NDArray[np.bool_],
    hessian: Floats,
    how: Stages,
) -> Floats:
    """Influence of every row on the estimates, through the first stages too, (n, P).

    The rows are in memory; the others are those of :func:`stacked_covariance`.
    """
    parts, found, slope = _first_stages(rows, softening, form, theta, estimated, how)
    by_row = influence(parts.item, how, found, slope, hessian)
    return rows.unsort(torch.as_tensor(by_row.T.copy(), device=rows.device)).mT.cpu().numpy()


def _first_stages(
    rows: Rows,
    softening: Softening,
    form: Form,
    theta: Floats,
    estimated: NDArray[np.bool_],
    how: Stages,
) -> tuple[Any, Derivatives, Floats]:
    """The partitions as :class:`StackedRows`, and the derivatives summed over them."""
    at = torch.as_tensor(theta)[None]
    parts = rows.through(
        stacked_rows, softening, form, at, torch.as_tensor(estimated), how.soft_pseudolabels
    )
    found = derivatives(tuple(v.numpy() for v in parts.sum(_first, how)), how)
    return parts, found, parts.sum(_by_outcome, how, found)[0].numpy()


def _first(part: StackedRows, how: Stages) -> tuple[Tensor, ...]:
    return tuple(torch.as_tensor(v) for v in first_sums(part, how))


def _by_outcome(part: StackedRows, how: Stages, found: Derivatives) -> tuple[Tensor]:
    return (torch.as_tensor(by_outcome(part, how, found)),)


def _outer(
    part: StackedRows, how: Stages, found: Derivatives, slope: Floats, hessian: Floats
) -> tuple[Tensor]:
    by_row = influence(part, how, found, slope, hessian)
    return (torch.as_tensor(outer_products(by_row, part.weights, sampling=how.sampling)),)


@one_thread()
def stacked_rows(
    rows: Rows,
    softening: Softening,
    form: Form,
    theta: Tensor,
    estimated: Tensor,
    soft_pseudolabels: bool,
) -> StackedRows:
    """What the stacked equations read of one partition's rows, in their sorted order."""
    rows = replace(rows, order=torch.arange(rows.n, device=rows.device))
    missing = rows.tilt < 0
    s, y = softening.values(rows)
    kinds: tuple[tuple[Kind, int, int], ...] = tuple(
        ("soft" if kind == "closed" else kind, low, high) for kind, low, high in rows.segments
    )
    open_rows = replace(rows, segments=kinds)

    def scores(of: Rows) -> Tensor:
        by_row = Objective(of, form).row_scores(theta.to(rows.device))
        return of.weight[:, None] * by_row[:, estimated.to(rows.device)]

    def slope(ends: list[Rows], width: float) -> Floats:
        moved = (scores(ends[0]) - scores(ends[1])) / width
        return torch.where(missing[:, None], moved, 0.0).cpu().numpy()

    soft = [relabelled(open_rows, missing, (s + e).clamp(0, 1), y) for e in (_STEP, -_STEP)]
    if soft_pseudolabels:
        labels = [relabelled(open_rows, missing, s, (y + e).clamp(0, 1)) for e in (_STEP, -_STEP)]
        width = 2.0 * _STEP
    else:
        labels = [relabelled(open_rows, missing, s, torch.full_like(y, v)) for v in (1.0, 0.0)]
        width = 1.0
    return StackedRows(
        X=rows.X.mT.cpu().numpy(),
        W=rows.W.mT.cpu().numpy(),
        y=(0.5 * (1.0 + rows.sign)).cpu().numpy(),
        labelled=~missing.cpu().numpy(),
        weights=rows.weight.cpu().numpy(),
        select_index=softening.select.index(rows).cpu().numpy(),
        outcome_index=softening.outcome.index(rows).cpu().numpy(),
        scores=scores(softening.rows(rows)).cpu().numpy(),
        by_soft=slope(soft, 2.0 * _STEP),
        by_label=slope(labels, width),
    )


def first_sums(rows: StackedRows, how: Stages) -> tuple[Floats, ...]:
    """Sums over rows that :func:`derivatives` needs first; those of parts of the rows add up."""
    missing = ~rows.labelled
    everyone = np.ones(len(rows.y))
    _, by_select = _regression(rows.W, rows.labelled, rows.weights, rows.select_index, how.select)
    seen = rows.weights * rows.labelled
    _, by_outcome = _regression(rows.X, rows.y == 1, seen, rows.outcome_index, how.outcome)
    slopes = _density(how.select, rows.select_index)[:, None] * rows.W  # dp/dzeta
    share = rows.weights * missing
    index = rows.outcome_index
    return (
        by_select,
        by_outcome,
        rows.by_soft.sum(0),
        rows.by_soft.T @ slopes,
        share @ slopes,
        np.array([share.sum(), share @ index, share @ index**2, missing @ everyone, seen.sum()]),
    )


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Derivatives of the total score, and the inverse Hessians of the first stages."""

    select: Floats  # (k, k)
    outcome: Floats  # (p, p)
    by_select: Floats  # (P, k) of the total score in zeta
    by_mean: Floats  # (P,) in s-bar
    weight: float  # of unlabelled rows
    bandwidth: float  # of the kernel at x'theta = 0


def derivatives(sums: tuple[Floats, ...], how: Stages) -> Derivatives:
    """Return the derivatives from the :func:`first_sums` of all rows."""
    select, outcome, by_soft, rowwise, slopes, moments = sums
    weight, first, second, n_missing, seen = moments
    total = weight + seen
    p = len(outcome)
    select = select - how.penalty * total * how.ridge[p:, p:]
    outcome = outcome - how.penalty * seen * how.ridge[:p, :p]
    by_select = np.zeros_like(rowwise)
    by_mean = np.zeros_like(by_soft)
    if how.rowwise:
        by_select = rowwise
    elif how.mean is not None:
        by_select, by_mean = np.outer(by_soft, slopes / weight), by_soft
    center = first / weight
    spread = np.sqrt(max(second / weight - center**2, 0.0))
    count = n_missing if how.sampling else weight
    return Derivatives(
        invert(select), invert(outcome), by_select, by_mean, weight,
        1.06 * max(spread, 1e-12) * count ** (-0.2),
    )  # fmt: skip


def by_outcome(rows: StackedRows, how: Stages, found: Derivatives) -> Floats:
    """Derivative of the total score in g_y's coefficients, through the pseudolabels, (P, p).

    Hard labels jump: the derivative is their jump times the density of the index at zero.
    """
    index = rows.outcome_index
    if how.soft_pseudolabels:
        density = _density(how.outcome, index)
    else:
        density = np.exp(-0.5 * (index / found.bandwidth) ** 2)
        density /= np.sqrt(2.0 * np.pi) * found.bandwidth
    return rows.by_label.T @ (density[:, None] * rows.X)


def influence(
    rows: StackedRows, how: Stages, found: Derivatives, by_outcome: Floats, hessian: Floats
) -> Floats:
    """Influence of each row on the estimates, (n, P); its outer products sum to their covariance.

    Parameters
    ----------
    by_outcome : ndarray
        (P, p), summed over all rows.
    hessian : ndarray
        (P, P) of the objective.
    """
    seen = rows.weights * rows.labelled
    select, _ = _regression(rows.W, rows.labelled, rows.weights, rows.select_index, how.select)
    outcome, _ = _regression(rows.X, rows.y == 1, seen, rows.outcome_index, how.outcome)
    p, n_coef = len(how.outcome_coef), len(how.coef)
    pull = how.penalty * how.ridge
    select = select - np.outer(rows.weights, pull[p:, p:] @ how.select_coef)
    outcome = outcome - np.outer(seen, pull[:p, :p] @ how.outcome_coef)
    total = rows.scores.copy()
    total[:, :n_coef] -= np.outer(rows.weights, pull @ how.coef)
    total = total - select @ found.select @ found.by_select.T
    total = total - outcome @ found.outcome @ by_outcome.T
    if how.mean is not None and not how.rowwise:
        share = np.where(rows.labelled, 0.0, rows.weights) / found.weight
        deviation = share * (_cdf(how.select, rows.select_index) - how.mean)
        total = total + np.outer(deviation, found.by_mean)
    return -total @ invert(hessian)


def outer_products(influence: Floats, weights: Floats, *, sampling: bool) -> Floats:
    """The covariance that the rows' influence adds up to, (P, P)."""
    if not sampling:
        # A row of count w is w observations, each of 1/w of its influence: w (1/w)^2 = 1/w.
        influence = influence / np.sqrt(np.where(weights > 0, weights, 1.0))[:, None]
    return influence.T @ influence


@one_thread()
def _regression(
    X: Floats, y: NDArray[np.bool_], weights: Floats, index: Floats, name: str
) -> tuple[Floats, Floats]:
    """Weighted scores (n, q) and Hessian (q, q) of a first stage; its own rows have weights."""
    sign = np.where(y, 1.0, -1.0)
    link = PROBIT if name == "probit" else LOGIT
    r1, r2 = (v.numpy() for v in link.ratios(torch.as_tensor(sign * index)))
    return (weights * sign * r1)[:, None] * X, X.T @ ((weights * (r2 - r1 * r1))[:, None] * X)


def _cdf(name: str, index: Floats) -> Floats:
    return norm.cdf(index) if name == "probit" else expit(index)


def _density(name: str, index: Floats) -> Floats:
    """Derivative of the predicted probability in its index, (n,)."""
    return norm.pdf(index) if name == "probit" else expit(index) * expit(-index)
