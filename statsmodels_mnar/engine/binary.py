"""Weighted logit and probit by Newton: start values, the independent model, first stages.

Derivatives are those of the links the half-line kernel uses; designs have columns first, (p, n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .halfline import LOGIT, PROBIT, Link
from .rows import Rows

_GAIN = 1e-10  # log-likelihood still to be gained, by the quadratic model
_INDEX_STEP = 1e-3  # change of any row's index by the last step
_SAMPLE = 4096  # rows whose maximum is a good start for the others


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """A binary regression at its maximum, or where Newton gave up."""

    params: Tensor  # (p,)
    value: float  # log-likelihood, without the penalty
    hessian: Tensor  # (p, p) of the penalised log-likelihood
    converged: bool


def fit_binary(
    X: Tensor,
    y: Tensor,
    link: Link,
    *,
    weight: Tensor | None = None,
    offset: Tensor | None = None,
    penalty: float = 0.0,
    maxiter: int = 50,
) -> BinaryFit:
    """Maximise sum of weight * log F((2y - 1)(x'beta + offset)) - n * penalty/2 * |beta|^2.

    Both log-likelihoods are concave; a step that does not raise them is halved. Many rows start
    from the maximum of a sample of them, which halves the work.

    Examples
    --------
    >>> import torch
    >>> from statsmodels_mnar.engine.halfline import LOGIT
    >>> y = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    >>> fit_binary(torch.ones(1, 4, dtype=torch.float64), y, LOGIT).params
    tensor([1.0986], dtype=torch.float64)
    """
    sign = 2.0 * y - 1.0
    weight = torch.ones_like(y) if weight is None else weight
    offset = torch.zeros_like(y) if offset is None else offset
    total = weight.sum()
    ridge = penalty * total

    def value(beta: Tensor) -> Tensor:
        return (weight * link.log_cdf(sign * (beta @ X + offset))).sum()

    beta = X.new_zeros(X.shape[0])
    if X.shape[1] >= 4 * _SAMPLE:
        some = slice(None, None, X.shape[1] // _SAMPLE)
        sample = fit_binary(
            X[:, some].contiguous(), y[some], link,
            weight=weight[some], offset=offset[some], penalty=penalty, maxiter=maxiter,
        )  # fmt: skip
        beta = sample.params if sample.converged else beta
    current = value(beta)
    hessian = X.new_zeros(X.shape[0], X.shape[0])
    converged = False
    for _ in range(maxiter):
        r1, r2 = link.ratios(sign * (beta @ X + offset))
        score = X @ (weight * sign * r1) - ridge * beta
        hessian = (X * (weight * (r2 - r1 * r1))) @ X.mT - ridge * torch.eye(
            len(beta), dtype=X.dtype, device=X.device
        )
        step, info = torch.linalg.solve_ex(-hessian, score)
        gain = float(score @ step)
        if info or not torch.isfinite(step).all() or gain < 0:
            break
        if gain < _GAIN * (1.0 + abs(float(current)) * 1e-3):
            # Under separation the gains vanish, but some rows' index keeps growing.
            converged = float((step @ X).abs().max()) < _INDEX_STEP
            beta = beta + step if converged else beta
            break
        for _ in range(30):
            trial = value(beta + step)
            if trial - 0.5 * ridge * ((beta + step) ** 2).sum() >= current - 0.5 * ridge * (
                beta @ beta
            ):
                break
            step = 0.5 * step
        else:
            trial = value(beta + step)
        beta, current = beta + step, trial
    return BinaryFit(beta, float(value(beta)), hessian, converged)


@dataclass(frozen=True, slots=True)
class Independent:
    """The two equations fitted apart: start values and the null of the independence test."""

    params: np.ndarray  # (p + k,)
    value: float
    converged: bool


def fit_independent(rows: Rows, *, probit: bool = False, penalty: float = 0.0) -> Independent:
    """Logit (or probit) of the labelled rows and probit of selection, each by Newton."""
    labelled = rows.tilt > 0
    X, W = rows.X[:, labelled], rows.W
    outcome = fit_binary(
        X,
        0.5 * (1.0 + rows.sign[labelled]),
        PROBIT if probit else LOGIT,
        weight=rows.weight[labelled],
        offset=rows.offset[labelled],
        penalty=penalty,
    )
    select = fit_binary(
        W,
        labelled.to(torch.float64),
        PROBIT,
        weight=rows.weight,
        offset=rows.offset_select,
        penalty=penalty,
    )
    params = torch.cat([outcome.params, select.params]).cpu().numpy()
    value = outcome.value + select.value
    return Independent(params, value, outcome.converged and select.converged)


def descend_binary(
    X: Tensor,
    y: Tensor,
    link: Link,
    *,
    weight: Tensor | None = None,
    offset: Tensor | None = None,
    lr: float = 0.01,
    tol: float = 1e-4,
    maxiter: int = 100_000,
) -> BinaryFit:
    """The paper's first stages: full-batch gradient descent from zero on the mean loss.

    Stops when the loss changes by less than ``tol`` of its previous value, far from the maximum;
    the parameters are those of the last loss, and ``converged`` says whether it stopped by that
    rule.
    """
    sign = 2.0 * y - 1.0
    weight = torch.ones_like(y) if weight is None else weight
    offset = torch.zeros_like(y) if offset is None else offset
    total = weight.sum()
    beta = X.new_zeros(X.shape[0])
    previous, stopped = float("inf"), False
    for _ in range(maxiter):
        index = sign * (beta @ X + offset)
        loss = -float((weight * link.log_cdf(index)).sum() / total)
        if abs(previous - loss) < tol * abs(previous):
            stopped = True
            break
        previous = loss
        r1, _ = link.ratios(index)
        beta = beta + lr * (X @ (weight * sign * r1)) / total
    index = sign * (beta @ X + offset)
    r1, r2 = link.ratios(index)
    hessian = (X * (weight * (r2 - r1 * r1))) @ X.mT
    return BinaryFit(beta, float((weight * link.log_cdf(index)).sum()), hessian, stopped)
