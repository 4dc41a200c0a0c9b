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

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from ..kernel.links import LOGIT, PROBIT
from ..kernel.threads import one_thread
from ..types import Floats
from .covariance import invert


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
    """From the :func:`first_sums` of all rows."""
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
