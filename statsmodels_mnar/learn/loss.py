"""The likelihood of a selection model as a loss for boosted trees and networks.

A row enters through its outcome index a, its selection index b and the loading of the selection
error u ~ N(0, 1), which the outcome shares:

    s = 1 if b + u > 0,    P(y = 1 | u) = F(a + loading u),    y is seen where s = 1

The loss of a row is its negative log-likelihood: that of P(y, s = 1) where the label is known and
of P(s = 0) = PHI(-b) where it is not. For a given loading it is convex in the two indices together,
so second derivatives never have the wrong sign for a booster (the integrand is log-concave in
indices and error, and by Prékopa's theorem so is its integral over the error).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from ..kernel.forms import LoadingForm, single_form, unselected
from ..kernel.half_line import HalfNodes, half_line
from ..kernel.integration import Workspace
from ..kernel.links import Link, as_link, log_ndtr, mills
from ..kernel.rows import Block, RowTerms, block_rows, pairs
from ..kernel.threads import available, in_threads, one_thread
from ..post.prediction import probability
from ..types import Floats

Booster = Literal["lightgbm", "xgboost"]
Equation = Literal["outcome", "select", "both"]
Reduction = Literal["mean", "sum", "none"]
MAX_LOADING = 50.0  # as of the fitted models; an error correlation of 0.9993

LINKS = ("logit", "probit")
_PAIRS = pairs(3)
_MEMORY = 2**28  # bytes of the work arrays


class RowLoss(NamedTuple):
    """The loss of rows and its derivatives in (outcome index, selection index, loading)."""

    value: Any  # (n,)
    gradient: Any  # (n, 3)
    hessian: Any  # (n, 3, 3)


@dataclass(frozen=True)
class SelectionLoss:
    """Negative log-likelihood of rows whose labels are missing not at random.

    Called on tensors it is a differentiable loss for any ``torch.nn.Module``, twice differentiable
    in both indices and the loading; :meth:`rows` returns values and exact derivatives;
    :meth:`objective` and :meth:`metric` have the form that LightGBM and XGBoost ask for.

    Labels are 0 or 1, and NaN or -1 where they are missing.

    Parameters
    ----------
    link : {"logit", "probit"}
        Of the outcome given the selection error. Selection is always a probit.
    tol : float
        Relative error of the integral over the selection error.

    Notes
    -----
    The loading is in units of the link: with a logit outcome the error correlation is
    loading/sqrt(loading^2 + pi^2/3), with a probit one loading/sqrt(loading^2 + 1). P(y = 1) is not
    F(a), but its mean over the selection error; :meth:`probability` computes it.

    Examples
    --------
    >>> import torch
    >>> from statsmodels_mnar.learn import SelectionLoss
    >>> outcome, select = torch.zeros(3, requires_grad=True), torch.zeros(3)
    >>> y = torch.tensor([1.0, 0.0, torch.nan])
    >>> loss = SelectionLoss()(outcome, select, y, loading=1.0)
    >>> loss.backward()
    >>> round(loss.item(), 4), [round(slope, 3) for slope in outcome.grad.tolist()]
    (1.1987, [-0.102, 0.212, -0.0])
    """

    link: str = "logit"
    tol: float = 1e-10

    def __post_init__(self) -> None:
        link = as_link(self.link, LINKS, "SelectionLoss")
        object.__setattr__(self, "link", link.name)
        if not (isinstance(self.tol, float) and 1e-14 <= self.tol <= 1e-2):
            raise ValueError(f"tol={self.tol!r} must be a number between 1e-14 and 1e-2")

    @property
    def _link(self) -> Link:
        return as_link(self.link, LINKS, "SelectionLoss")

    def __call__(
        self,
        outcome: Tensor,
        select: Tensor,
        y: Tensor,
        loading: Tensor | float,
        weight: Tensor | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Return the loss of the rows, differentiable in both indices and the loading.

        Parameters
        ----------
        outcome, select : Tensor
            (n,) indices, in any floating type and on any device that holds float64.
        y : Tensor
            (n,) labels: 0, 1, or NaN or -1 where missing.
        loading : Tensor or float
            One number.
        weight : Tensor, optional
            (n,) weights of the rows.
        reduction : {"mean", "sum", "none"}
            The mean divides by the sum of the weights.
        """
        if reduction not in get_args(Reduction):
            raise ValueError(
                f"reduction={reduction!r} is unknown; use one of {get_args(Reduction)}"
            )
        outcome, select = torch.as_tensor(outcome), torch.as_tensor(select)
        loading = torch.as_tensor(loading, dtype=torch.float64, device=outcome.device)
        rows = LossRows.read(outcome.detach(), select.detach(), y)
        value: Tensor = _Value.apply(outcome, select, loading, rows, self)
        value = value.to(outcome.dtype)
        if weight is not None:
            weight = _same_length("weight", weight, outcome)
            value = value * weight
        if reduction == "none":
            return value
        if reduction == "sum":
            return value.sum()
        return value.mean() if weight is None else value.sum() / weight.sum()

    def rows(self, outcome: Any, select: Any, y: Any, loading: float) -> RowLoss:
        """Return value, gradient and Hessian of each row, exact, not by automatic differentiation.

        Parameters
        ----------
        outcome, select, y : array_like or Tensor
            (n,) indices and labels; see the class.
        loading : float

        Returns
        -------
        RowLoss
            ``value`` (n,), ``gradient`` (n, 3) and ``hessian`` (n, 3, 3) in outcome index,
            selection index and loading: tensors if ``outcome`` is one, else arrays.

        Examples
        --------
        >>> from statsmodels_mnar.learn import SelectionLoss
        >>> found = SelectionLoss().rows([0.0, 0.0], [0.0, 0.0], [1, -1], loading=0.0)
        >>> found.value.round(4).tolist(), found.gradient.round(4).tolist()
        ([1.3863, 0.6931], [[-0.5, -0.7979, -0.3989], [-0.0, 0.7979, -0.0]])
        """
        rows = LossRows.read(torch.as_tensor(outcome), torch.as_tensor(select), y)
        terms = self._terms(rows, float(loading), 2)
        assert terms.first is not None and terms.second is not None
        hessian = terms.second.new_empty(len(terms.value[0]), 3, 3)
        for (i, j), second in zip(_PAIRS, terms.second[:, 0], strict=True):
            hessian[:, i, j] = hessian[:, j, i] = -second
        found = RowLoss(-terms.value[0], -terms.first[:, 0].mT, hessian)
        if isinstance(outcome, Tensor):
            return found
        return RowLoss(*(part.numpy() for part in found))

    def probability(
        self, outcome: Any, select: Any, loading: float, which: str = "population"
    ) -> Floats:
        """Return P(y = 1) of each row, with the selection error averaged out.

        Parameters
        ----------
        outcome, select : array_like
            (n,) indices; ``select`` is not read, and may be None, for ``which="population"``.
        loading : float
        which : {"population", "labelled", "unlabelled"}
            Whatever s is, given s = 1, or given s = 0.

        Examples
        --------
        >>> from statsmodels_mnar.learn import SelectionLoss
        >>> loss, at = SelectionLoss(), [0.0]
        >>> for which in ("population", "labelled", "unlabelled"):
        ...     print(which, loss.probability(at, at, loading=1.5, which=which).round(3))
        population [0.5]
        labelled [0.734]
        unlabelled [0.266]
        """
        names = {
            "population": "mean",
            "labelled": "mean-selected",
            "unlabelled": "mean-unselected",
        }
        if which not in names:
            raise ValueError(f"which={which!r} is unknown; use one of {list(names)}")
        loading = _checked_loading(float(loading))
        a = np.asarray(outcome, dtype=float)
        b = None if select is None else np.asarray(select, dtype=float)
        form, dependence = single_form(self._link), loading
        if not isinstance(form, LoadingForm):  # the probit form has unit error variance
            a, dependence = a / math.hypot(1.0, loading), math.asinh(loading)
        return probability(form, names[which], a, b, np.array([dependence]))

    def objective(
        self,
        booster: Booster,
        *,
        loading: float,
        equation: Equation = "both",
        other: Any = None,
    ) -> Callable[[Floats, Any], tuple[Floats, Floats]]:
        """Return a custom objective for ``lightgbm.train`` or ``xgboost.train``.

        Parameters
        ----------
        booster : {"lightgbm", "xgboost"}
        loading : float
            Held fixed while trees grow.
        equation : {"outcome", "select", "both"}
            Which index the booster predicts. "both" is one booster of two outputs (LightGBM's
            ``num_class=2``, XGBoost's ``num_target=2``): outcome index, then selection index.
        other : array_like, optional
            (n,) the other equation's index, for a booster of one.

        Returns
        -------
        callable
            ``(predictions, data) -> (gradient, second derivative)``, times the weights of the
            ``Dataset`` or ``DMatrix``, whose label is 0, 1, or -1 where it is missing.

        Examples
        --------
        >>> import numpy as np
        >>> from statsmodels_mnar.learn import SelectionLoss
        >>> class Data:
        ...     get_label, get_weight = (lambda self: np.array([1.0, -1.0])), (lambda self: None)
        >>> fobj = SelectionLoss().objective(
        ...     "lightgbm", loading=0.0, equation="outcome", other=np.zeros(2)
        ... )
        >>> fobj(np.zeros(2), Data())[0].tolist()
        [-0.5, -0.0]
        """
        check_booster(booster)
        columns = _columns(equation, other)

        def objective(predictions: Floats, data: Any) -> tuple[Floats, Floats]:
            rows, weight, shape = _read_data(predictions, data, columns, other)
            terms = self._terms(rows, loading, 2)
            assert terms.first is not None and terms.second is not None
            curve = terms.second[[0, 3], 0]  # in aa and bb
            gradient, hessian = (
                (-v[columns] * weight).mT.reshape(shape).numpy()
                for v in (terms.first[:2, 0], curve)
            )
            return gradient, hessian

        return objective

    def metric(
        self,
        booster: Booster,
        *,
        loading: float,
        equation: Equation = "both",
        other: Any = None,
    ) -> Callable[[Floats, Any], tuple[Any, ...]]:
        """Return the mean loss as a custom evaluation metric for LightGBM or XGBoost.

        Parameters are those of :meth:`objective`; ``other`` belongs to the rows that are evaluated.

        Parameters
        ----------
        booster : {"lightgbm", "xgboost"}
        loading : float
        equation : {"outcome", "select", "both"}
        other : array_like, optional

        Returns
        -------
        callable
            ``(predictions, data) -> ("selection_loss", value)``, and for LightGBM a third entry:
            False, a higher value is not better.
        """
        check_booster(booster)
        columns = _columns(equation, other)
        ending = (False,) if booster == "lightgbm" else ()

        def metric(predictions: Floats, data: Any) -> tuple[Any, ...]:
            rows, weight, _ = _read_data(predictions, data, columns, other)
            loss = -self._terms(rows, loading, 0).value[0]
            mean = loss.mean() if weight.ndim == 0 else (loss * weight).sum() / weight.sum()
            return ("selection_loss", float(mean), *ending)

        return metric

    def _terms(self, rows: LossRows, loading: float, order: int) -> RowTerms:
        return row_terms(rows, loading, self._link, order, self.tol)


def check_booster(booster: str) -> None:
    """Refuse a booster that is not one of those whose forms are known."""
    if booster not in get_args(Booster):
        raise ValueError(f"booster={booster!r} is unknown; use one of {list(get_args(Booster))}")


# -- rows -> terms ---------------------------------------------------------------------------------


@one_thread()
def row_terms(
    rows: LossRows, loading: float, link: Link, order: int, tol: float = 1e-10
) -> RowTerms:
    """Log-likelihood of rows and its derivatives, (1, n), (3, 1, n) and (6, 1, n).

    Derivatives are in the order of :class:`RowLoss` and of the kernels' ``RowTerms``.
    """
    loading = _checked_loading(loading)
    n, like = len(rows.a), rows.a
    value = like.new_empty(1, n)
    first = like.new_zeros(3 if order >= 1 else 0, 1, n)
    second = like.new_zeros(6 if order >= 2 else 0, 1, n)

    hidden, seen = ~rows.seen, rows.seen
    closed = unselected(rows.b[hidden][None], order)
    known = _labelled(rows.a[seen], rows.b[seen], rows.sign[seen], loading, link, order, tol)
    value[:, hidden], value[:, seen] = closed.value, known.value
    if closed.first is not None and known.first is not None:
        first[1:2, :, hidden], first[:, :, seen] = closed.first, known.first
    if closed.second is not None and known.second is not None:
        second[3:4, :, hidden], second[:, :, seen] = closed.second, known.second
    return RowTerms(value, first if order >= 1 else None, second if order >= 2 else None)


def _labelled(
    a: Tensor, b: Tensor, sign: Tensor, loading: float, link: Link, order: int, tol: float
) -> RowTerms:
    """log P(y, s = 1), in blocks of rows that are divided among threads."""
    if loading == 0.0:
        return _independent(a[None], b[None], sign, link, order)
    nodes = _nodes(loading, link, tol, a.device)
    size = block_rows(nodes.count, a.device, _MEMORY)
    blocks = [slice(start, start + size) for start in range(0, max(len(a), 1), size)]
    at = a.new_tensor([loading])

    def worker() -> Callable[[slice], RowTerms]:
        own = replace(nodes, work=Workspace())
        return lambda rows: half_line(
            a[rows][None], b[rows][None], at, _block(sign[rows]), own, link, order
        )

    parts = list(in_threads(worker, blocks, threads=available() if a.device.type == "cpu" else 1))
    if len(parts) == 1:
        return parts[0]

    def joined(pieces: list[Tensor | None]) -> Any:
        known = [piece for piece in pieces if piece is not None]
        return torch.cat(known, dim=-1) if known else None

    return RowTerms(
        joined([part.value for part in parts]),
        joined([part.first for part in parts]),
        joined([part.second for part in parts]),
    )


def _nodes(loading: float, link: Link, tol: float, device: torch.device) -> HalfNodes:
    if link.panels:
        ((_, nodes),) = LoadingForm(tol, link).nodes(np.array([[loading]]), device).parts
        return nodes
    return HalfNodes.build(abs(loading), tol, link, device)


def _independent(a: Tensor, b: Tensor, sign: Tensor, link: Link, order: int) -> RowTerms:
    """Labelled rows without dependence: log F + log PHI, to rounding, without an integral."""
    z = sign * a
    value = link.log_cdf(z, sign) + log_ndtr(b)
    if order == 0:
        return RowTerms(value)
    r1, r2 = link.ratios(z, sign)
    r1, curve = sign * r1, r2 - r1 * r1
    m = mills(b)  # the mean of the selection error given s = 1
    fall = -m * (b + m)
    first = torch.stack([r1, m, r1 * m])
    if order == 1:
        return RowTerms(value, first)
    loading = r2 * (1.0 - b * m) - (r1 * m) ** 2
    second = [curve, torch.zeros_like(a), curve * m, fall, r1 * fall, loading]
    return RowTerms(value, first, torch.stack(second))


def _block(sign: Tensor) -> Block:
    """Labelled rows for a kernel that is given their indices."""
    one = torch.ones_like(sign)
    zero, key = torch.zeros_like(sign), torch.arange(len(sign), device=sign.device)
    return Block("hard", one[None], one[None], zero, zero, sign, zero, one, one, key, 0)


# -- what is given -> rows -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LossRows:
    """Indices and labels in float64."""

    a: Tensor  # (n,)
    b: Tensor  # (n,)
    sign: Tensor  # (n,) +1 for y = 1, else -1
    seen: Tensor  # (n,) bool

    @classmethod
    def read(cls, outcome: Tensor, select: Tensor, y: Any) -> LossRows:
        if outcome.ndim != 1:
            raise ValueError(
                f"outcome must be a vector with one index for each row, got shape "
                f"{tuple(outcome.shape)}; squeeze the module's output"
            )
        select = _same_length("select", select, outcome)
        label = _same_length("y", y, outcome).to(torch.float64)
        seen = ~(torch.isnan(label) | (label == -1.0))
        strange = seen & (label != 0.0) & (label != 1.0)
        if strange.any():
            raise ValueError(
                f"y has the label {label[strange][0].item():g}; labels are 0 and 1, and NaN or -1 "
                "where they are missing"
            )
        a, b = outcome.to(torch.float64), select.to(torch.float64)
        for name, index in (("outcome", a), ("select", b)):
            if not torch.isfinite(index).all():
                raise ValueError(
                    f"{name} has an index that is not finite; lower the learning rate, or scale "
                    "the features"
                )
        return cls(a, b, torch.where(label == 1.0, 1.0, -1.0).to(torch.float64), seen)


def _same_length(name: str, value: Any, like: Tensor) -> Tensor:
    value = torch.as_tensor(value, device=like.device)
    if value.shape != like.shape:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, but there are {len(like)} rows; give a vector "
            "of that length"
        )
    return value


def _checked_loading(loading: float) -> float:
    if not abs(loading) <= MAX_LOADING:
        raise ValueError(
            f"loading={loading!r} must lie between -{MAX_LOADING:g} and {MAX_LOADING:g}"
        )
    return loading


def _columns(equation: str, other: Any) -> slice:
    """Which of the two indices a booster predicts."""
    columns = {"outcome": slice(0, 1), "select": slice(1, 2), "both": slice(0, 2)}
    if equation not in columns:
        raise ValueError(f"equation={equation!r} is unknown; use one of {list(columns)}")
    if (equation == "both") is not (other is None):
        raise ValueError(
            f"equation={equation!r}: give other=, the index of the other equation, for 'outcome' "
            "and 'select', and leave it out for 'both'"
        )
    return columns[equation]


def _read_data(
    predictions: Floats, data: Any, columns: slice, other: Any
) -> tuple[LossRows, Tensor, tuple[int, ...]]:
    """Return the rows, their weights (one number where there are none) and the shape to return."""
    predictions = np.asarray(predictions, dtype=float)
    if other is None:
        if predictions.ndim != 2 or predictions.shape[1] != 2:
            raise ValueError(
                f"predictions of shape {predictions.shape} are not two indices of each row; train "
                "with num_class=2 (LightGBM) or num_target=2 (XGBoost), or name the equation"
            )
        indices = list(predictions.T)
    else:
        own, others = predictions.reshape(-1), np.asarray(other, dtype=float)
        indices = [own, others] if columns.start == 0 else [others, own]
    a, b = (torch.as_tensor(np.ascontiguousarray(index)) for index in indices)
    weight = data.get_weight()
    none = weight is None or len(weight) == 0  # XGBoost returns an empty array
    weights = torch.ones(()) if none else torch.as_tensor(weight)
    return LossRows.read(a, b, data.get_label()), weights.to(torch.float64), predictions.shape


# -- automatic differentiation ---------------------------------------------------------------------


class _Value(torch.autograd.Function):
    """The loss of rows; its gradient is :class:`_Slope`, which can be differentiated again."""

    @staticmethod
    def forward(
        ctx: Any,
        outcome: Tensor,
        select: Tensor,
        loading: Tensor,
        rows: LossRows,
        loss: SelectionLoss,
    ) -> Tensor:
        ctx.save_for_backward(outcome, select, loading)
        ctx.rows, ctx.loss = rows, loss
        return -loss._terms(rows, float(loading), 0).value[0]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        outcome, select, loading = ctx.saved_tensors
        by_a, by_b, by_loading = _Slope.apply(outcome, select, loading, ctx.rows, ctx.loss)
        total = grad[0].to(torch.float64)
        return (
            (total * by_a).to(outcome.dtype),
            (total * by_b).to(select.dtype),
            (total * by_loading).sum().reshape(loading.shape),
            None,
            None,
        )


class _Slope(torch.autograd.Function):
    """First derivatives of the loss of rows, (n,) each."""

    @staticmethod
    def forward(
        ctx: Any,
        outcome: Tensor,
        select: Tensor,
        loading: Tensor,
        rows: LossRows,
        loss: SelectionLoss,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(outcome, select, loading)
        ctx.rows, ctx.loss = rows, loss
        first = loss._terms(rows, float(loading), 1).first
        assert first is not None
        return tuple(-first[:, 0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        outcome, select, loading = ctx.saved_tensors
        terms = ctx.loss._terms(ctx.rows, float(loading), 2)
        aa, ab, al, bb, bl, ll = -terms.second[:, 0]
        g_a, g_b, g_l = grad
        return (
            (g_a * aa + g_b * ab + g_l * al).to(outcome.dtype),
            (g_a * ab + g_b * bb + g_l * bl).to(select.dtype),
            (g_a * al + g_b * bl + g_l * ll).sum().reshape(loading.shape),
            None,
            None,
        )
