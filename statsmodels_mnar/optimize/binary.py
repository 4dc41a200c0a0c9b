"""Weighted logit and probit by Newton: start values, the independent model, first stages.

Derivatives are those of the links the half-line kernel uses; designs have columns first, (p, n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernel.links import LOGIT, PROBIT, Link
from ..kernel.rows import Factors, Rows, block_rows, by_level, gram, times, wide
from ..kernel.threads import one_thread
from .levels import LevelSums, Memory, eliminate
from .objective import Evaluation
from .solution import Solution, Status

_GAIN = 1e-10  # log-likelihood still to be gained, by the quadratic model
_LAST_GAIN = 1e-6  # the same where the Hessian after the last step is not needed
_INDEX_STEP = 1e-3  # change of any row's index by the last step
_SAMPLE = 4096  # rows whose maximum is a good start for more
_SAMPLED = 8  # times as many rows as their sample
_MEMORY = 2**26  # bytes of the work arrays


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """A binary regression at its maximum, or where Newton gave up."""

    params: Tensor  # (p,)
    value: float  # log-likelihood, without the penalty
    hessian: Tensor  # (p, p) of the penalised log-likelihood
    converged: bool


@dataclass(frozen=True, slots=True)
class BinaryFits:
    """B binary regressions."""

    params: Tensor  # (B, p)
    value: Tensor  # (B,)
    hessian: Tensor  # (B, p, p)
    converged: Tensor  # (B,) bool


@one_thread()
def fit_binary(
    X: Tensor,
    y: Tensor,
    link: Link,
    *,
    weight: Tensor | None = None,
    offset: Tensor | None = None,
    penalty: float = 0.0,
    ridge: Tensor | None = None,
    maxiter: int = 50,
    factors: Factors = (),
    gain: float = _GAIN,
) -> BinaryFit:
    """Maximise sum of weight * log F((2y - 1)(x'beta + offset)) - n * penalty/2 * beta'R beta.

    R is the ``ridge``, (p, p), by default the identity. Many rows start from the maximum of a
    sample of them, which halves the work. ``gain`` is that of :func:`climb`.

    Examples
    --------
    >>> import torch
    >>> from statsmodels_mnar.kernel.links import LOGIT
    >>> y = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    >>> fit_binary(torch.ones(1, 4, dtype=torch.float64), y, LOGIT).params
    tensor([1.0986], dtype=torch.float64)
    """
    weight = torch.ones_like(y) if weight is None else weight
    offset = torch.zeros_like(y) if offset is None else offset
    start = None
    if X.shape[1] >= 4 * _SAMPLE:
        some = slice(None, None, min(_SAMPLED, X.shape[1] // _SAMPLE))
        sample = fit_binary(
            X[:, some].contiguous(), y[some], link,
            weight=weight[some], offset=offset[some], penalty=penalty, ridge=ridge, maxiter=maxiter,
            factors=factors, gain=_LAST_GAIN,
        )  # fmt: skip
        start = sample.params[None] if sample.converged else None
    fits = fit_binaries(
        X, y, link, weight[None], offset=offset, penalty=penalty, ridge=ridge, maxiter=maxiter,
        start=start, factors=factors, gain=gain,
    )  # fmt: skip
    return BinaryFit(fits.params[0], float(fits.value[0]), fits.hessian[0], bool(fits.converged[0]))


@one_thread()
def fit_binaries(
    X: Tensor,
    y: Tensor,
    link: Link,
    weight: Tensor,
    *,
    offset: Tensor | None = None,
    penalty: float = 0.0,
    ridge: Tensor | None = None,
    maxiter: int = 50,
    start: Tensor | None = None,
    factors: Factors = (),
    gain: float = _GAIN,
) -> BinaryFits:
    """Fit under B sets of row weights at once.

    The links' log-likelihoods are concave; a step that does not raise them is halved.

    Parameters
    ----------
    X : Tensor
        (p, n), or each member's own (B, p, n).
    y, offset : Tensor
        (n,) or (B, n).
    weight : Tensor
        (B, n).
    ridge : Tensor, optional
        (p, p) or (B, p, p), see :func:`fit_binary`.
    start : Tensor, optional
        (B, p), by default zero, or what leaves least of the offset in the index.
    factors : Factors
        Indicators among the columns of X.
    gain : float
        That of :func:`climb`.
    """
    offset = torch.zeros_like(y) if offset is None else offset
    if start is not None:
        beta = start
    elif offset.any():
        beta = _without(offset, X).expand(len(weight), -1)
    else:
        beta = X.new_zeros(len(weight), X.shape[-2])

    def evaluate(beta: Tensor, order: int) -> BinarySums:
        return binary_sums(X, y, weight, offset, link, beta, order, factors)

    def reach(step: Tensor) -> Tensor:
        return largest_index(X, weight, step)

    alpha = penalty * weight.sum(-1)
    return climb(evaluate, reach, beta, alpha, ridge, maxiter=maxiter, gain=gain)


def _without(offset: Tensor, X: Tensor) -> Tensor:
    """(p,) or (B, p) the coefficients that leave as little of the offset in the index as they can.

    From zero, an offset of 100 is an index at which both links' derivatives have vanished.
    """
    size = X.norm(dim=-1)
    size = torch.where(size > 0, size, 1.0)
    Z = X / size[..., None]
    ridge = 1e-12 * torch.eye(Z.shape[-2], dtype=Z.dtype, device=Z.device)
    found = torch.linalg.solve(Z @ Z.mT + ridge, Z @ offset[..., None])
    return -found[..., 0] / size


BinarySums = tuple[Tensor, ...]
"""Value (B,) and, where they were asked for, score (B, p) and Hessian (B, p, p)."""


def binary_sums(
    X: Tensor, y: Tensor, weight: Tensor, offset: Tensor, link: Link, beta: Tensor, order: int,
    factors: Factors = (),
) -> BinarySums:  # fmt: skip
    """Log-likelihood of a binary regression and its derivatives, without a penalty."""
    n_wide = len(weight) * (X.shape[-2] + 8)  # weighted columns, and a few numbers of each row
    size = block_rows(n_wide, X.device, _MEMORY, n_arrays=1)
    cuts = [slice(start, start + size) for start in range(0, X.shape[-1], size)] or [slice(0)]
    parts = [
        _block_sums(
            X[..., c], y[..., c], weight[..., c], offset[..., c], link, beta, order, factors
        )
        for c in cuts
    ]
    return tuple(sum(values[1:], values[0]) for values in zip(*parts, strict=True))


def _block_sums(
    X: Tensor, y: Tensor, weight: Tensor, offset: Tensor, link: Link, beta: Tensor, order: int,
    factors: Factors,
) -> BinarySums:  # fmt: skip
    sign = 2.0 * y - 1.0
    index = sign * (times(beta, X) + offset)
    if order == 0:
        return ((weight * link.log_cdf(index, sign)).sum(-1),)
    log_cdf, r1, r2 = link.terms(index, sign)
    value = (weight * log_cdf).sum(-1)
    score = times(weight * sign * r1, X.mT)
    columns = wide(X, factors, "X")
    return value, score, gram(columns, weight * (r2 - r1 * r1), columns)


def largest_index(X: Tensor, weight: Tensor, step: Tensor) -> Tensor:
    """Largest index |x'step| of the rows that count, (B,)."""
    return (times(step, X).abs() * (weight > 0)).amax(-1)


def constants(rows: Rows) -> Rows:
    """Return the rows with a constant alone in both equations."""
    one = torch.ones_like(rows.weight)[None]
    return replace(
        rows, X=one, W=one, scale=np.ones(2), ridge=np.eye(2), smoothing=None,
        adjustment=None, factors=(), apart=None,
    )  # fmt: skip


def climb(
    evaluate: Callable[[Tensor, int], BinarySums],
    reach: Callable[[Tensor], Tensor],
    beta: Tensor,
    alpha: Tensor,
    ridge: Tensor | None = None,
    *,
    maxiter: int = 50,
    gain: float = _GAIN,
) -> BinaryFits:
    """Newton on B concave log-likelihoods; a step that does not raise one is halved.

    Parameters
    ----------
    evaluate : callable
        (B, p) coefficients and an order -> :data:`BinarySums`.
    reach : callable
        A step -> the largest change of any row's index, (B,).
    alpha : Tensor
        (B,) penalty times the sum of the weights.
    ridge : Tensor, optional
        (p, p) or (B, p, p), see :func:`fit_binary`.
    gain : float
        Log-likelihood that a last step may gain, which is taken without another evaluation: the
        Hessian is that before it, and the value what the quadratic model makes of it.
    """
    if ridge is None:
        ridge = torch.eye(beta.shape[1], dtype=beta.dtype, device=beta.device)

    def shrunk(beta: Tensor) -> tuple[Tensor, Tensor]:
        """What the penalty subtracts, and its slope."""
        pull = (ridge @ beta[..., None])[..., 0]
        return 0.5 * alpha * (beta * pull).sum(-1), alpha[:, None] * pull

    def penalised(beta: Tensor) -> BinarySums:
        value, score, hessian = evaluate(beta, 2)
        less, slope = shrunk(beta)
        return value - less, score - slope, hessian - alpha[:, None, None] * ridge

    current, score, now = penalised(beta)
    hessian = torch.zeros_like(now)
    running = torch.ones_like(alpha, dtype=torch.bool)
    converged = torch.zeros_like(running)
    for _ in range(maxiter):
        hessian = torch.where(running[:, None, None], now, hessian)
        step, info = torch.linalg.solve_ex(-hessian, score)
        decrement = (score * step).sum(-1)
        running = running & (info == 0) & torch.isfinite(step).all(-1) & (decrement >= 0)
        step = torch.where(running[:, None], step, 0.0)
        exhausted = decrement < _GAIN * (1.0 + current.abs() * 1e-3)
        ended = running & (exhausted | (decrement < gain))
        if ended.any():
            # Under separation the gains vanish, but some rows' index keeps growing.
            near = ended & (reach(step) < _INDEX_STEP)
            converged = converged | near
            beta = beta + torch.where(near[:, None], step, 0.0)
            current = current + torch.where(near, 0.5 * decrement, 0.0)
            running = running & ~(near | exhausted)
        if not running.any():
            break
        step = torch.where(running[:, None], step, 0.0)
        trial = penalised(beta + step)
        for _ in range(30):
            worse = running & ~(trial[0] >= current)
            if not worse.any():
                break
            step = torch.where(worse[:, None], 0.5 * step, step)
            trial = penalised(beta + step)
        beta = beta + step
        current = torch.where(running, trial[0], current)
        score, now = trial[1:]
    return BinaryFits(beta, current + shrunk(beta)[0], hessian, converged)


# -- one equation of rows, in memory or in partitions ----------------------------------------------


def equation_of(rows: Rows, equation: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Columns, labels, weights and offset of one equation; unlabelled rows are closed ones."""
    if equation == "select":
        return rows.W, (rows.tilt > 0).to(rows.W.dtype), rows.weight, rows.offset_select
    X, sign, weight, offset = (
        v[..., _labelled(rows)] for v in (rows.X, rows.sign, rows.weight, rows.offset)
    )
    return X, 0.5 * (1.0 + sign), weight, offset


def _labelled(rows: Rows) -> slice:
    """The rows on which the outcome equation is fitted."""
    return slice(sum(high - low for kind, low, high in rows.segments if kind == "closed"), None)


def equation_sums(rows: Rows, equation: str, link: Link, beta: Tensor, order: int) -> BinarySums:
    """:func:`binary_sums` of one equation."""
    X, y, weight, offset = equation_of(rows, equation)
    weight = torch.atleast_2d(weight).expand(len(beta), -1)
    return binary_sums(X, y, weight, offset, link, beta, order, factors_of(rows, equation))


def equation_levels(
    rows: Rows, equation: str, link: Link, beta: Tensor, effects: Tensor
) -> tuple[Tensor, ...]:
    """The fields of `LevelSums` of the equation that has the factor that is apart."""
    X, y, weight, offset = equation_of(rows, equation)
    apart, level = rows.apart, rows.level
    assert apart is not None
    assert level is not None
    level = level[_labelled(rows)] if equation == "outcome" else level
    sign = 2.0 * y - 1.0
    index = sign * (beta @ X + offset + effects[:, level])
    r1, r2 = link.ratios(index, sign)
    first, second = weight * sign * r1, weight * (r2 - r1 * r1)
    return (
        (weight * link.log_cdf(index, sign)).sum(-1),
        first @ X.mT,
        ((X * second) @ X.mT)[None],
        by_level(first, level, apart.count),
        by_level(second, level, apart.count),
        by_level((X * second)[None], level, apart.count),
    )


def equation_reach(rows: Rows, equation: str, step: Tensor) -> Tensor:
    """Largest change of the index of a row that counts, (B,)."""
    X, _, weight, _ = equation_of(rows, equation)
    if not weight.shape[-1]:
        return step.new_zeros(len(step))
    return largest_index(X, torch.atleast_2d(weight), step)


def equation_weight(rows: Rows, equation: str) -> tuple[Tensor]:
    """Sum of the weights, (1,) or (B,)."""
    return (torch.atleast_2d(equation_of(rows, equation)[2]).sum(-1),)


def reach_of(rows: Any, equation: str) -> Callable[[Tensor], Tensor]:
    """A step -> the largest change of any row's index, (B,)."""
    return lambda step: torch.stack(list(rows.map(equation_reach, equation, step))).amax(0)


def factors_of(rows: Any, equation: str) -> Factors:
    """The factors of one equation, whose columns are X there."""
    own = "X" if equation == "outcome" else "W"
    return tuple(("X", first, last) for of, first, last in rows.factors if of == own)


def quadratic_of(rows: Any, equation: str, penalty: float) -> Tensor:
    """(p, p) R of what is subtracted, b'Rb/2: the ridge of this penalty, and penalised terms."""
    whole = np.zeros_like(rows.ridge) if rows.smoothing is None else rows.smoothing
    if penalty:
        weight = float(rows.sum(equation_weight, equation)[0])
        whole = whole + penalty * weight * rows.ridge
    cut = cut_of(rows, equation)
    return torch.as_tensor(whole[cut, cut], device=rows.device)


def cut_of(rows: Any, equation: str) -> slice:
    """The columns of one equation among those of both."""
    p = rows.shape[0]
    return slice(p) if equation == "outcome" else slice(p, None)


def fit_with_effects(rows: Any, equation: str, link: Link, penalty: float) -> BinaryFit:
    """Fit the equation that has the effects of a factor that is apart, less their prior.

    ``value`` is the log-likelihood without any penalty.
    """
    memory, apart = Memory(), rows.apart
    ridge = quadratic_of(rows, equation, penalty)

    def evaluate(beta: Tensor, order: int) -> BinarySums:
        def sums(effects: Tensor) -> LevelSums:
            return LevelSums(*rows.sum(equation_levels, equation, link, beta, effects))

        found = eliminate(sums, memory.start(beta, apart.count, 1), apart.precision)
        memory.keep(beta, found)
        return found.value, found.score, found.hessian

    start = ridge.new_zeros(1, len(ridge))
    fits = climb(evaluate, reach_of(rows, equation), start, ridge.new_ones(1), ridge)
    prior = 0.0
    if memory.ended is not None:
        prior = 0.5 * apart.precision * float(memory.ended.effects[0].square().sum())
    return BinaryFit(
        fits.params[0], float(fits.value[0]) + prior, fits.hessian[0], bool(fits.converged[0])
    )


@dataclass(frozen=True, slots=True, eq=False)
class BinaryObjective:
    """The penalised log-likelihood of one equation, for the penalties of its terms."""

    rows: Any  # Rows, or PartitionedRows in their place
    equation: str
    link: Link
    scale: np.ndarray  # (p,) of the columns
    quadratic: Tensor  # (p, p) R, of which b'Rb/2 is subtracted
    held: Tensor  # (p, p) the part of it that is no penalty of a term

    @classmethod
    def of(cls, rows: Any, link: Link, penalty: float) -> tuple[BinaryObjective, BinaryObjective]:
        """Return the outcome equation on the labelled rows, and the selection equation."""
        found = []
        for equation, own in (("outcome", link), ("select", PROBIT)):
            scale = rows.scale[cut_of(rows, equation)]
            quadratic = quadratic_of(rows, equation, penalty)
            held = quadratic_of(replace(rows, smoothing=None), equation, penalty)
            found.append(cls(rows, equation, own, scale, quadratic, held))
        return found[0], found[1]

    @property
    def n_coef(self) -> int:
        return len(self.quadratic)

    def smoothed(self, smoothing: np.ndarray) -> BinaryObjective:
        """Return the equation with other penalties of its terms."""
        own = torch.as_tensor(smoothing, device=self.quadratic.device)
        return replace(self, quadratic=self.held + own)

    def _sums(self, beta: Tensor, order: int) -> BinarySums:
        found: BinarySums = self.rows.sum(equation_sums, self.equation, self.link, beta, order)
        return found

    @one_thread()
    def evaluate(self, theta: np.ndarray, order: int = 2) -> Evaluation:
        """Value and derivatives at theta, (B, p)."""
        beta = torch.as_tensor(theta, device=self.quadratic.device)
        value, score, hessian = self._sums(beta, 2)
        pull = (self.quadratic @ beta[..., None])[..., 0]
        return Evaluation(
            value - 0.5 * (beta * pull).sum(-1), score - pull, hessian - self.quadratic
        )

    @one_thread()
    def maximum(self, start: np.ndarray) -> Solution:
        """Newton from start values."""
        beta = torch.as_tensor(start, device=self.quadratic.device)[None]
        reach = reach_of(self.rows, self.equation)
        fits = climb(self._sums, reach, beta, beta.new_ones(1), self.quadratic)
        params = fits.params[0].cpu().numpy()
        at = self.evaluate(params[None])
        assert at.hessian is not None
        status = Status.CONVERGED if bool(fits.converged[0]) else Status.MAXITER
        hessian = at.hessian[0].cpu().numpy()
        return Solution(params, float(at.value[0]), 0.0, hessian, 0, (), status)


@dataclass(frozen=True, slots=True)
class Independent:
    """The two equations fitted apart: start values and the null of the independence test."""

    params: np.ndarray  # (p + k,)
    value: float
    converged: bool


@one_thread()
def fit_independent(rows: Any, *, link: Link = LOGIT, penalty: float = 0.0) -> Independent:
    """Fit the outcome of the labelled rows and a probit of selection, each by Newton.

    The rows are in memory or in partitions.
    """
    fits = []
    for equation, own in (("outcome", link), ("select", PROBIT)):
        if rows.apart is not None and rows.apart.equation == equation:
            fits.append(fit_with_effects(rows, equation, own, penalty))
        elif isinstance(rows, Rows):
            fits.append(_fit_equation(rows, equation, own, penalty))
        else:  # rows in partitions know how
            fits.append(rows.fit_binary(equation, own, penalty))
    outcome, select = fits
    params = torch.cat([outcome.params, select.params]).cpu().numpy()
    return Independent(params, outcome.value + select.value, outcome.converged and select.converged)


def _fit_equation(rows: Rows, equation: str, link: Link, penalty: float) -> BinaryFit:
    """:func:`fit_binary` of one equation of rows in memory, with its penalties."""
    X, y, weight, offset = equation_of(rows, equation)
    total = float(weight.sum())
    if rows.smoothing is None:
        alpha, ridge = penalty, _ridges(rows)[equation == "select"]
    else:
        alpha, ridge = 1.0, quadratic_of(rows, equation, penalty) / total
    return fit_binary(
        X, y, link, weight=weight, offset=offset, penalty=alpha, ridge=ridge,
        factors=factors_of(rows, equation), gain=_LAST_GAIN,
    )  # fmt: skip


@one_thread()
def fit_independents(rows: Rows, *, link: Link = LOGIT, penalty: float = 0.0) -> list[Independent]:
    """:func:`fit_independent` for each member of a batch that has rows of its own."""
    labelled = (rows.tilt > 0).to(rows.weight.dtype)
    by_outcome, by_select = _ridges(rows)
    outcome = fit_binaries(
        rows.X, 0.5 * (1.0 + rows.sign), link, rows.weight * labelled,
        offset=rows.offset, penalty=penalty, ridge=by_outcome,
    )  # fmt: skip
    select = fit_binaries(
        rows.W, labelled, PROBIT, rows.weight, offset=rows.offset_select, penalty=penalty,
        ridge=by_select,
    )  # fmt: skip
    params = torch.cat([outcome.params, select.params], dim=1).cpu().numpy()
    values = (outcome.value + select.value).tolist()
    converged = (outcome.converged & select.converged).tolist()
    return [Independent(*member) for member in zip(params, values, converged, strict=True)]


def _ridges(rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the ridges of the outcome's and of selection's columns."""
    p, ridge = rows.X.shape[-2], torch.as_tensor(rows.ridge, device=rows.device)
    return ridge[..., :p, :p], ridge[..., p:, p:]


@one_thread()
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
        loss = -float((weight * link.log_cdf(index, sign)).sum() / total)
        if abs(previous - loss) < tol * abs(previous):
            stopped = True
            break
        previous = loss
        r1, _ = link.ratios(index, sign)
        beta = beta + lr * (X @ (weight * sign * r1)) / total
    index = sign * (beta @ X + offset)
    r1, r2 = link.ratios(index, sign)
    hessian = (X * (weight * (r2 - r1 * r1))) @ X.mT
    return BinaryFit(beta, float((weight * link.log_cdf(index, sign)).sum()), hessian, stopped)
