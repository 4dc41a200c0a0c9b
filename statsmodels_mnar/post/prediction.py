"""Predicted quantities with their derivatives, and intervals that stay in range.

P(y, s) is the likelihood of a labelled row: with selection reversed (b, rho -> -b, -rho) the same
kernel gives P(y, s = 0), without a difference of nearly equal numbers. A row enters through its two
indices a and b and the dependence parameters only, so derivatives are taken in these few numbers;
:class:`Quantity` carries them on to the coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, logit
from scipy.stats import norm

from ..kernel.forms import Form
from ..kernel.integration import Quadrature
from ..kernel.rows import Block, block_rows, pairs
from ..kernel.threads import one_thread
from ..tools import check_alpha
from ..types import Floats
from .intervals import Across, Targets

Which = Literal[
    "mean", "mean-selected", "mean-unselected", "prob-select", "p11", "p10", "p01", "p00",
    "linear", "linear-select",
]  # fmt: skip
WHICH: tuple[str, ...] = get_args(Which)
INDICES = frozenset({"linear", "linear-select"})  # the others are probabilities
NEEDS_OUTCOME = frozenset(WHICH) - {"prob-select", "linear-select"}
NEEDS_SELECT = frozenset(WHICH) - {"mean", "linear"}

BLOCK = 16_384  # rows whose gradients are held at once
_RARE = 1e-8  # below it an integrand has its mass beyond the shared nodes
_SURE = 1e4  # an index at which selection is certain
_CPU = torch.device("cpu")  # where numpy's arrays are


def check_which(which: str) -> None:
    if which not in WHICH:
        raise ValueError(f"which={which!r} is unknown; use one of {list(WHICH)}")


@dataclass(frozen=True, slots=True)
class Jet:
    """A quantity of n rows with its derivatives in (a, b, dependence parameters).

    Derivatives above the order asked for have d = 0.
    """

    value: Floats  # (n,)
    first: Floats  # (d, n)
    second: Floats  # (d, d, n), symmetric

    @classmethod
    def constant(cls, value: Floats, d: int, order: int) -> Jet:
        d1, d2 = (d if order >= k else 0 for k in (1, 2))
        return cls(value, np.zeros((d1, len(value))), np.zeros((d2, d2, len(value))))

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        return self.value, self.first, self.second

    def __sub__(self, other: Jet) -> Jet:
        return Jet(*(x - y for x, y in zip(self.arrays, other.arrays, strict=True)))

    def _squares(self, slopes: Floats) -> Floats:
        """Products of the slopes, where second derivatives are wanted."""
        slopes = slopes[: len(self.second)]
        return slopes[:, None] * slopes

    def exp(self) -> Jet:
        """Return the derivatives of P from those of log P."""
        p = np.exp(self.value)
        return Jet(p, p * self.first, p * (self.second + self._squares(self.first)))

    def log(self) -> Jet:
        """Return the derivatives of log P from those of P."""
        p = self.value
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = self.first / p
            return Jet(np.log(p), slopes, self.second / p - self._squares(slopes))


@one_thread()
def jet(
    form: Form,
    which: str,
    a: Floats | None,
    b: Floats | None,
    dependence: Floats,
    order: int = 0,
    *,
    log: bool = False,
) -> Jet:
    """The quantity ``which``, or its log, at the indices it needs; the other may be None.

    Parameters
    ----------
    a, b : ndarray
        (n,) outcome and selection indices. Where one is not finite, the result is NaN.
    dependence : ndarray
        All dependence parameters of the form.
    order : int
        Of the highest derivative wanted: 0, 1 or 2.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.kernel.forms import LoadingForm
    >>> at = np.array([0.0])
    >>> jet(LoadingForm(), "p11", at, at, np.array([0.0]), order=1).first.round(4).tolist()
    [[0.125], [0.1995], [0.0997]]
    """
    check_which(which)
    d = 2 + len(dependence)
    inputs = ((a, NEEDS_OUTCOME), (b, NEEDS_SELECT))
    needed = [v for v, readers in inputs if which in readers and v is not None]
    known = np.asarray(np.isfinite(needed).all(axis=0))
    if not known.all():
        whole = Jet.constant(np.empty(len(known)), d, order)
        a, b = (None if v is None else v[known] for v in (a, b))
        inner = jet(form, which, a, b, dependence, order, log=log)
        for to, given in zip(whole.arrays, inner.arrays, strict=True):
            to[..., ~known] = np.nan
            to[..., known] = given
        return whole
    a, b = needed[0], needed[-1]  # of a quantity of one index both are that one
    if which in INDICES:
        return _index(which, a, d, order)
    found = _probability(form, which, a, b, dependence, order, log=log)
    np.minimum(found.value, 0.0 if log else 1.0, out=found.value)  # rounding may carry it beyond
    return found


def _probability(
    form: Form, which: str, a: Floats, b: Floats, dependence: Floats, order: int, *, log: bool
) -> Jet:
    if which == "mean":
        return _population_mean(form, a, dependence, order, log=log)
    if which == "prob-select":
        found = _log_select(b, 1, 2 + len(dependence), order)
    elif which.startswith("mean"):
        s = int(which == "mean-selected")
        select = _log_select(b, s, 2 + len(dependence), order)
        found = _log_joint(form, a, b, dependence, 1, s, order) - select
    else:
        found = _log_joint(form, a, b, dependence, int(which[1]), int(which[2]), order)
    return found if log else found.exp()


def probability(
    form: Form, which: str, a: Floats | None, b: Floats | None, dependence: Floats
) -> Floats:
    """The quantity ``which`` at the indices it needs; the other index may be None."""
    return jet(form, which, a, b, dependence).value


def _index(which: str, value: Floats, d: int, order: int) -> Jet:
    found = Jet.constant(value, d, order)
    if order >= 1:
        found.first[0 if which == "linear" else 1] = 1.0
    return found


def _log_select(b: Floats, s: int, d: int, order: int) -> Jet:
    """log P(s)."""
    side = 1.0 if s else -1.0
    z = side * b
    found = Jet.constant(log_ndtr(z), d, order)
    mills = np.exp(-0.5 * z * z - found.value) / np.sqrt(2.0 * np.pi)
    if order >= 1:
        found.first[1] = side * mills
    if order >= 2:
        found.second[1, 1] = -mills * (z + mills)
    return found


def _log_joint(
    form: Form, a: Floats, b: Floats, dependence: Floats, y: int, s: int, order: int
) -> Jet:
    """log P(y, s)."""
    flip = np.ones(2 + len(dependence))
    if not s:
        flip[[1, -1]] = -1.0  # b, and athrho or the loading, change sign with the selection error
    form = form.controlled()
    values = (flip[2:] * dependence)[None]
    nodes = form.nodes(values, _CPU)
    found = Jet.constant(np.empty(len(a)), len(flip), order)
    for rows in blocks(len(a), _rows_at_once(nodes.count)):
        terms = form.terms(
            torch.as_tensor(a[rows])[None],
            torch.as_tensor(flip[1] * b[rows])[None],
            torch.as_tensor(values),
            _labelled(len(a[rows]), y),
            nodes,
            order,
        )
        found.value[rows] = terms.value[0].numpy()
        if terms.first is not None:
            found.first[:, rows] = flip[:, None] * terms.first[:, 0].numpy()
        if terms.second is not None:
            for (i, j), second in zip(pairs(len(flip)), terms.second[:, 0].numpy(), strict=True):
                found.second[i, j, rows] = found.second[j, i, rows] = flip[i] * flip[j] * second
    return found


def _labelled(n: int, y: int) -> Block:
    """n rows with this label; their indices are given to the kernel directly."""
    one = torch.ones(n, dtype=torch.float64)
    return Block(
        "hard", one[None], one[None], 0 * one, 0 * one, one if y else -one, 0 * one, one, one,
        torch.arange(n), 0,
    )  # fmt: skip


def _population_mean(form: Form, a: Floats, dependence: Floats, order: int, *, log: bool) -> Jet:
    """P(y = 1), whatever the selection, or its log."""
    mean = _mean_over_errors(form, a, dependence, order)
    found = mean.log() if log else mean
    rare = mean.value < _RARE
    if rare.any():
        sure = np.full(rare.sum(), _SURE)
        exact = _log_joint(form, a[rare], sure, form.marginal(dependence), 1, 1, order)
        for to, given in zip(found.arrays, (exact if log else exact.exp()).arrays, strict=True):
            to[..., rare] = given
    return found


def _mean_over_errors(form: Form, a: Floats, dependence: Floats, order: int) -> Jet:
    """The mean of F(a + scale * e), with nodes that ordinary rows share."""
    found = Jet.constant(np.empty(len(a)), 2 + len(dependence), order)
    scale, slope, bend = form.error_scale(dependence)  # whose sign does not matter
    e, weight = np.zeros(1), np.ones(1)
    if scale:
        nodes = Quadrature(tol=1e-13).nodes([abs(scale)], [0.0], _CPU)
        e, weight = nodes.e[0, :, 0].numpy(), nodes.weight[0, :, 0].numpy()
    by_scale = slope * e  # of a + scale * e, in the dependence parameter
    for rows in blocks(len(a), _rows_at_once(len(e))):
        index = torch.as_tensor(a[rows, None] + scale * e)  # (n, K)
        parts = [torch.empty_like(index) for _ in range(order + 1)]
        form.link.derivatives(index, index.new_ones(1), index.new_ones(1), parts)
        L, *more = (part.numpy() for part in parts)
        found.value[rows] = L @ weight
        if order >= 1:
            D = more[0]
            found.first[0, rows] = D @ weight
            found.first[2, rows] = D @ (weight * by_scale)
        if order >= 2:
            C = more[1]
            found.second[0, 0, rows] = C @ weight
            found.second[0, 2, rows] = found.second[2, 0, rows] = C @ (weight * by_scale)
            found.second[2, 2, rows] = C @ (weight * by_scale**2) + D @ (weight * bend * e)
    return found


# -- quantities of designs and parameters ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Designs:
    """Rows at which a quantity is predicted; a design it does not read is None."""

    X: Floats | None  # (n, p) outcome design
    W: Floats | None  # (n, k) selection design
    offset: Floats | None = None  # (n,)
    offset_select: Floats | None = None  # (n,)
    level: NDArray[np.int64] | None = None  # (n,) of the factor that is apart, -1 where not known

    def __len__(self) -> int:
        return len(self.X if self.X is not None else self.W)  # type: ignore[arg-type]

    def __getitem__(self, rows: slice | NDArray[np.bool_]) -> Designs:
        parts = (self.X, self.W, self.offset, self.offset_select)
        X, W, a, b = (None if part is None else part[rows] for part in parts)
        return Designs(X, W, a, b, None if self.level is None else self.level[rows])


@dataclass(frozen=True, slots=True, eq=False)
class LevelEffects:
    """Effects of a factor that are no columns of the designs, at given parameters."""

    index: int  # 0 where they are in the outcome's index, 1 in that of selection
    values: Floats  # (q,)
    tangent: Floats  # (P, q) how they move with the model's parameters
    variance: Floats  # (q,) given the parameters

    def of(self, at: Designs) -> Floats:
        """(n,) effects of the rows; zero where the level is not known."""
        if at.level is None:
            return np.zeros(len(at))
        return np.where(at.level >= 0, self.values[at.level], 0.0)

    def gradient(self, at: Designs, slope: Floats) -> Floats:
        """(n, P) derivatives by way of the effects; ``slope``, (n,), is that in the index."""
        if at.level is None:
            return np.zeros((len(at), len(self.tangent)))
        return np.where(at.level >= 0, slope, 0.0)[:, None] * self.tangent[:, at.level].T

    def sums(self, at: Designs, slope: Floats) -> Floats:
        """(q,) slopes summed over the rows of each level."""
        known = np.zeros(len(at), dtype=bool) if at.level is None else at.level >= 0
        level = np.zeros(0, dtype=np.int64) if at.level is None else at.level[known]
        found: Floats = np.bincount(level, slope[known], len(self.values)).astype(float)
        return found


@dataclass(frozen=True, slots=True)
class Quantity:
    """A predicted quantity at given parameters, as a function of the designs."""

    form: Form
    which: str
    beta: Floats  # (p,)
    gamma: Floats  # (k,)
    dependence: Floats  # (d,) all of the form's
    free: NDArray[np.bool_]  # (d,) those that are parameters of the model
    levels: LevelEffects | None = field(default=None, kw_only=True)

    @property
    def n_params(self) -> int:
        return len(self.beta) + len(self.gamma) + int(self.free.sum())

    def coefficients(self, outcome: int | None, select: int | None) -> tuple[float, float]:
        """Return the coefficients of a variable in these columns of the designs; 0 if absent."""
        return (
            0.0 if outcome is None else self.beta[outcome],
            0.0 if select is None else self.gamma[select],
        )

    def jet(self, at: Designs, order: int = 0, *, log: bool = False) -> Jet:
        """In (a, b, dependence parameters)."""
        a, b = _linear(at.X, self.beta, at.offset), _linear(at.W, self.gamma, at.offset_select)
        if self.levels is not None:
            own = self.levels.of(at)
            a = a + own if a is not None and self.levels.index == 0 else a
            b = b + own if b is not None and self.levels.index == 1 else b
        return jet(self.form, self.which, a, b, self.dependence, order, log=log)

    def value(self, at: Designs) -> Floats:
        """(n,)."""
        return np.concatenate([self.jet(at[rows]).value for rows in blocks(len(at))])

    def gradient(self, at: Designs, slopes: Floats) -> Floats:
        """(n, P) derivatives in the model's parameters, from (d, n) ones in the indices."""
        a, b = slopes[0, :, None], slopes[1, :, None]
        by_beta = a * (np.zeros((1, len(self.beta))) if at.X is None else at.X)
        by_gamma = b * (np.zeros((1, len(self.gamma))) if at.W is None else at.W)
        found = np.hstack([by_beta, by_gamma, slopes[2:][self.free].T])
        if self.levels is not None:
            found += self.levels.gradient(at, slopes[self.levels.index])
        return found

    def summed_gradient(self, at: Designs, slopes: Floats) -> Floats:
        """(P,) the gradient's sum over the rows."""
        by_beta = np.zeros(len(self.beta)) if at.X is None else slopes[0] @ at.X
        by_gamma = np.zeros(len(self.gamma)) if at.W is None else slopes[1] @ at.W
        found = np.concatenate([by_beta, by_gamma, slopes[2:][self.free].sum(1)])
        if self.levels is not None:
            found += self.levels.tangent @ self.levels.sums(at, slopes[self.levels.index])
        return found


# -- group effects: levels that were not seen, and the average over levels -------------------------


_HERMITE = 15  # nodes of the normal distribution of an equation's group effects


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The effects of a factor's levels, which are normal with mean zero."""

    equation: str  # "outcome" or "select"
    columns: slice  # of the design of its equation
    sd: float
    apart: bool = False

    def unseen(self, at: Designs) -> Floats:
        """(n,) the standard deviation of the index where a row's level is not known, else 0."""
        design = at.X if self.equation == "outcome" else at.W
        if design is None:
            return np.zeros(len(at))
        if self.apart:
            return (
                np.where(at.level >= 0, 0.0, self.sd)
                if at.level is not None
                else (np.full(len(at), self.sd))
            )
        return np.where(design[:, self.columns].any(axis=1), 0.0, self.sd)

    @property
    def index(self) -> int:
        """Position of its index among those of a :class:`Jet`."""
        return 0 if self.equation == "outcome" else 1


@dataclass(frozen=True, slots=True)
class AveragedQuantity(Quantity):
    """A quantity averaged over group effects, whose columns are zero in the designs."""

    shifts: Floats  # (K, 2) of the two indices
    shares: Floats  # (K,)

    def jet(self, at: Designs, order: int = 0, *, log: bool = False) -> Jet:
        """In (a, b, dependence parameters)."""
        if log:
            raise ValueError("an average over levels has no logarithm of its own")
        a, b = _linear(at.X, self.beta, at.offset), _linear(at.W, self.gamma, at.offset_select)
        total: Jet | None = None
        for (shift, shift_select), share in zip(self.shifts, self.shares, strict=True):
            one = jet(
                self.form,
                self.which,
                None if a is None else a + shift,
                None if b is None else b + shift_select,
                self.dependence,
                order,
            )
            parts = [share * part for part in one.arrays]
            if total is None:
                total = Jet(*parts)
            else:
                for whole, part in zip(total.arrays, parts, strict=True):
                    whole += part
        assert total is not None
        return total


def averaged(quantity: Quantity, terms: tuple[Shrunk, ...]) -> AveragedQuantity:
    """Return the mean of a quantity over the effects of these terms."""
    points, shares = np.polynomial.hermite_e.hermegauss(_HERMITE)
    shares = shares / shares.sum()
    axes = []
    for equation in ("outcome", "select"):
        variance = sum(term.sd**2 for term in terms if term.equation == equation)
        sd = float(np.sqrt(variance))
        axes.append((sd * points, shares) if sd > 0.0 else (np.zeros(1), np.ones(1)))
    (a, by_a), (b, by_b) = axes
    shifts = np.column_stack([np.repeat(a, len(b)), np.tile(b, len(a))])
    return AveragedQuantity(
        quantity.form, quantity.which, quantity.beta, quantity.gamma, quantity.dependence,
        quantity.free, shifts, np.outer(by_a, by_b).ravel(),
    )  # fmt: skip


def blocks(n: int, size: int = BLOCK) -> Iterator[slice]:
    """Consecutive rows, a block at a time; an empty one where there are none."""
    return (slice(start, min(start + size, n)) for start in range(0, max(n, 1), size))


def _rows_at_once(n_nodes: int) -> int:
    return block_rows(n_nodes, _CPU, memory_budget=2**28)


def _linear(design: Floats | None, coef: Floats, offset: Floats | None) -> Floats | None:
    if design is None:
        return None
    return design @ coef if offset is None else design @ coef + offset


# -- predictions with delta-method intervals that stay in range ------------------------------------


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted values and their standard errors.

    Attributes
    ----------
    predicted, se : ndarray
        (m,)
    index : Index
        (m,) of the rows.
    probability : bool
        Whether intervals are made on the log-odds.
    across : Targets or None
        The same at every error correlation that the likelihood supports, where the intervals are
        the union over those ("profile"); None where they are Wald's.
    """

    predicted: Floats  # (m,)
    se: Floats  # (m,)
    index: pd.Index  # (m,)
    probability: bool  # intervals are made on the log-odds
    across: Targets | None = None

    @property
    def interval(self) -> str:
        """How intervals are made: "wald" or "profile"."""
        return "wald" if self.across is None else "profile"

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(m, 2) intervals at level 1 - ``alpha``, inside (0, 1) for probabilities."""
        check_alpha(alpha)
        if self.across is not None:
            ends = self.across.interval(alpha)
            return expit(ends) if self.probability else ends
        z = norm.ppf([alpha / 2, 1 - alpha / 2])
        if not self.probability:
            return self.predicted[:, None] + z * self.se[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self.se / (self.predicted * (1.0 - self.predicted))
            ends = expit(logit(self.predicted)[:, None] + z * spread[:, None])
        certain = np.isin(self.predicted, (0.0, 1.0))
        ends[certain] = self.predicted[certain, None]
        # The way to the log-odds and back may miss a tiny probability by its last bit.
        low, high = np.fmin(ends[:, 0], self.predicted), np.fmax(ends[:, 1], self.predicted)
        return np.column_stack([low, high])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns predicted, se, ci_lower and ci_upper, the last two at level 1 - ``alpha``."""
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {"predicted": self.predicted, "se": self.se, "ci_lower": low, "ci_upper": high},
            index=self.index,
        )

    def _repr_html_(self) -> str:
        return str(self.summary_frame()._repr_html_())


def across_predictions(across: Across, found: list[Prediction]) -> Targets:
    """Predictions at each error correlation, on the log-odds where they are probabilities."""
    estimate = np.stack([one.predicted for one in found])
    se = np.stack([one.se for one in found])
    if found[0].probability:
        inside = np.clip(estimate, 1e-12, 1.0 - 1e-12)
        estimate, se = logit(inside), se / (inside * (1.0 - inside))
    return Targets(across, estimate, se)


def predict_with_errors(
    quantity: Quantity,
    at: Designs,
    cov: Floats,
    index: pd.Index | None = None,
    terms: tuple[Shrunk, ...] = (),
) -> Prediction:
    """Each row's prediction, by the delta method.

    Parameters
    ----------
    cov : ndarray
        (P, P) of the model's parameters.
    index : Index, optional
        (n,) labels of the rows.
    terms : tuple of Shrunk
        Group effects; where a row's level is not known, their variance is in its error.
    """
    predicted, se = np.empty(len(at)), np.empty(len(at))
    for rows in blocks(len(at)):
        jet = quantity.jet(at[rows], 1)
        slope = quantity.gradient(at[rows], jet.first)
        predicted[rows] = jet.value
        variance = np.einsum("mi,mi->m", slope @ cov, slope)
        for term in terms:
            variance += (jet.first[term.index] * term.unseen(at[rows])) ** 2
        if quantity.levels is not None and at.level is not None:
            level = at.level[rows]
            own = np.where(level >= 0, quantity.levels.variance[level], 0.0)
            variance += jet.first[quantity.levels.index] ** 2 * own
        se[rows] = np.sqrt(variance)
    index = pd.RangeIndex(len(at)) if index is None else index
    return Prediction(predicted, se, index, quantity.which not in INDICES)


def predict_average(
    quantity: Quantity,
    at: Designs,
    cov: Floats,
    weights: Floats,
    index: pd.Index | None = None,
    terms: tuple[Shrunk, ...] = (),
) -> Prediction:
    """The weighted mean of the rows' predictions; rows of weight zero are not read.

    Group effects of levels that are not known are taken for those of one level: which rows share
    one, the designs do not tell, and the error is not understated.

    Raises
    ------
    ValueError
        A row with a weight has no prediction, because a covariate is missing.
    """
    share = weights / weights.sum()
    index = pd.RangeIndex(len(at)) if index is None else index
    if not share.all():
        at, share, index = at[share > 0], share[share > 0], index[share > 0]
    mean, slope = summed_prediction(quantity, at, share, index)
    variance = slope @ cov @ slope
    for term in terms:
        unseen = term.unseen(at)
        if unseen.any():
            first = np.concatenate(
                [quantity.jet(at[rows], 1).first[term.index] for rows in blocks(len(at))]
            )
            variance += (share @ (first * unseen)) ** 2
    if quantity.levels is not None:
        variance += slopes_by_level(quantity, at, share) ** 2 @ quantity.levels.variance
    se = np.sqrt(variance)
    return Prediction(
        np.array([mean]), np.array([se]), pd.Index(["average"]), quantity.which not in INDICES
    )


def summed_prediction(
    quantity: Quantity, at: Designs, weights: Floats, index: pd.Index | None = None
) -> tuple[float, Floats]:
    """Weighted sum of the rows' predictions, and its (P,) derivatives in the parameters."""
    total, slope = 0.0, np.zeros(quantity.n_params)
    for rows in blocks(len(at)):
        jet = quantity.jet(at[rows], 1)
        if index is not None:
            check_known(jet.value, index[rows])
        total += float(weights[rows] @ jet.value)
        slope += quantity.summed_gradient(at[rows], weights[rows] * jet.first)
    return total, slope


def slopes_by_level(quantity: Quantity, at: Designs, weights: Floats) -> Floats:
    """(q,) derivatives of the weighted sum in the effects that are no columns; none without."""
    if quantity.levels is None:
        return np.zeros(0)
    found = np.zeros(len(quantity.levels.values))
    for rows in blocks(len(at)):
        first = quantity.jet(at[rows], 1).first[quantity.levels.index]
        found += quantity.levels.sums(at[rows], weights[rows] * first)
    return found


def check_known(values: Floats, index: pd.Index) -> None:
    """Refuse to average over rows that have no value."""
    if np.isnan(values).any():
        missing = index[np.isnan(values)]
        shown = ", ".join(repr(row) for row in missing[:5].tolist())
        raise ValueError(
            f"{len(missing)} row(s) cannot be averaged over because a covariate is missing or "
            f"infinite: {shown}"
            f"{', ...' if len(missing) > 5 else ''}. Drop them, or give them the weight 0."
        )


def average_weights(given: Any, own: Floats | None, n: int, name: str) -> Floats:
    """(n,) weights of a mean over rows: those given, the rows' own, or equal ones."""
    if n == 0:
        raise ValueError("there are no rows to average over")
    if given is None:
        return np.ones(n) if own is None else own
    weights = _numbers(given, name)
    if weights.shape != (n,):
        raise ValueError(f"{name} must be {n} numbers, got shape {weights.shape}")
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(f"{name} must be finite, not negative and not all zero")
    return weights


def _numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error


def as_covariance(cov: Any, names: list[str], own: Floats) -> Floats:
    """(P, P) covariance of the parameters: the fit's own, or what the user gives in its place.

    Parameters
    ----------
    cov : array_like, DataFrame or object with ``cov``, optional
        Such an object is a bootstrap. A DataFrame is aligned by its labels.
    """
    if cov is None:
        return np.asarray(own)
    boundary = getattr(cov, "boundary", None)
    if boundary:
        raise ValueError(
            f"cov: {sum(boundary.values())} of the replicates lie on a boundary, where "
            "coefficients have another scale, so their covariance says nothing about effects; "
            "take those of the replicates themselves: "
            "draws.apply(lambda results: results.get_margeff().margeff)"
        )
    if not isinstance(cov, pd.DataFrame):  # which has a method of that name
        cov = getattr(cov, "cov", cov)
    if isinstance(cov, pd.DataFrame):
        if set(cov.index) != set(names) or set(cov.columns) != set(names):
            raise ValueError(f"cov must have the labels {names}, got {list(cov.columns)}")
        cov = cov.loc[names, names]
    matrix = _numbers(cov, "cov")
    if matrix.shape != (len(names), len(names)):
        raise ValueError(
            f"cov must be a {len(names)} x {len(names)} covariance of {', '.join(names)}, got "
            f"shape {matrix.shape}"
        )
    return matrix
