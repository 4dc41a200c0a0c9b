"""Algorithm 1, lines 4 to 14: the two classifiers, soft selection and pseudolabels.

Each step is a function of the design: ``train`` learns g_s on all rows and g_y on the labelled
ones. ``Softening`` then gives the unlabelled rows their soft selection values and pseudolabels, and
so makes the paper's training set D'_tr. It works on one partition's rows at a time: rows in memory
are one partition, and the members of a batch a leading axis.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..design import Design
from ..errors import NotInMemoryError, NoVariationError
from ..kernel.links import LOGIT, PROBIT, Link
from ..kernel.rows import Kind, Moments, Rows, joint_ridge
from ..kernel.threads import one_thread, users_threads
from ..large.partitions import PartitionedRows
from ..optimize.batches import relabelled
from ..optimize.binary import BinaryFit, descend_binary, fit_binaries, fit_binary
from ..types import Floats


@dataclass(frozen=True, slots=True)
class MLP:
    """Architecture and training of the perceptron that "mlp" stands for.

    Parameters
    ----------
    hidden : tuple of int
        Units of the hidden layers, each followed by a ReLU. The paper states no architecture; its
        first author's later code has layers of 5 and 2 units.
    epochs : int
        Full-batch steps of Adam.
    lr, weight_decay : float
    rng : int
        Seed of the start values; the same seed gives the same network.

    Examples
    --------
    >>> MLP().hidden
    (5, 2)
    """

    hidden: tuple[int, ...] = (5, 2)
    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 1e-4
    rng: int = 0


@dataclass(frozen=True, slots=True)
class FittedMLP:
    """B trained networks of one architecture; calls give probabilities."""

    weights: tuple[Tensor, ...]  # (B, out, in) of each layer
    biases: tuple[Tensor, ...]  # (B, 1, out)
    center: Tensor  # (B, 1, p) the columns are standardized first
    spread: Tensor  # (B, 1, p)
    loss: Tensor  # (B,)

    @one_thread()
    def __call__(self, X: Tensor) -> Tensor:
        """Probabilities at the rows of X, (n, p), by each network, (B, n)."""
        return torch.sigmoid(_forward((X - self.center) / self.spread, self.weights, self.biases))


def _forward(h: Tensor, weights: tuple[Tensor, ...], biases: tuple[Tensor, ...]) -> Tensor:
    *hidden, (last, bias) = zip(weights, biases, strict=True)
    for w, b in hidden:
        h = torch.relu(h @ w.mT + b)
    return (h @ last.mT + bias)[..., 0]


@one_thread()
def fit_mlp(X: Tensor, y: Tensor, settings: MLP, weight: Tensor | None = None) -> FittedMLP:
    """Train on the rows of X, (n, p), by Adam on the mean cross-entropy.

    No global state is touched: the start values come from a generator of their own, and all members
    have the same.

    Parameters
    ----------
    weight : Tensor, optional
        (B, n) row weights of each member; one member of equal weights by default.

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    >>> network = fit_mlp(X, (X[:, 0] > 1.5).double(), MLP(hidden=(8,)))
    >>> (network(X) > 0.5).tolist()
    [[False, False, True, True]]
    """
    weight = torch.ones_like(y)[None] if weight is None else weight
    weight = weight / weight.mean(1, keepdim=True)
    by_row = weight[..., None]
    center = (by_row * X).mean(1, keepdim=True)
    spread = (by_row * (X - center) ** 2).mean(1, keepdim=True).sqrt()
    spread = torch.where(spread > 1e-10 * X.abs().amax(0), spread, 1.0)  # of a constant: zero
    Z = (X - center) / spread
    generator = torch.Generator().manual_seed(settings.rng)
    sizes = (X.shape[1], *settings.hidden, 1)
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        bound = fan_in**-0.5
        start = torch.rand((fan_out, fan_in + 1), generator=generator, dtype=torch.float64)
        start = (bound * (2.0 * start - 1.0)).to(X.device).repeat(len(weight), 1, 1)
        weights.append(start[..., :-1].clone().requires_grad_())
        biases.append(start[..., -1].clone()[:, None].requires_grad_())
    # Adam works entry by entry, so the sum over members trains each of them as if alone.
    optimizer = torch.optim.Adam(
        [*weights, *biases], lr=settings.lr, weight_decay=settings.weight_decay
    )
    labels = y.expand_as(weight)
    loss = Z.new_zeros(len(weight))
    for _ in range(settings.epochs):
        optimizer.zero_grad()
        logits = _forward(Z, tuple(weights), tuple(biases))
        loss = (
            weight
            * nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        ).mean(1)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return FittedMLP(
        tuple(w.detach() for w in weights),
        tuple(b.detach() for b in biases),
        center,
        spread,
        loss.detach(),
    )


# -- algorithm 1, lines 4 to 14: the two classifiers, soft selection and pseudolabels --------------


Classifier = Any
"""A name, or an object with scikit-learn's ``fit(X, y)`` and ``predict_proba(X)``."""

REGRESSIONS: dict[str, Link] = {"probit": PROBIT, "logit": LOGIT}
CDF: dict[str, Callable[[Tensor], Tensor]] = {
    "probit": torch.special.ndtr,
    "logit": torch.sigmoid,
}


@dataclass(frozen=True, slots=True)
class Trained:
    """One fitted classifier."""

    name: str  # for the summary
    probability: Any  # (n,) at every row of the design; None for rows in partitions
    fit: BinaryFit | None = None  # of "probit" and "logit"
    index: Floats | None = None  # (n,) their linear index, offset included
    estimator: Any = None  # of everything else

    @property
    def converged(self) -> bool:
        """Whether a regression is at its maximum; other classifiers count as converged."""
        return self.fit is None or self.fit.converged


@dataclass(frozen=True, slots=True)
class Descent:
    """The paper's way of training a first stage: stopped when the loss hardly changes."""

    tol: float
    lr: float = 0.01


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The trained classifiers of selection and of the outcome."""

    select: Trained  # g_s
    outcome: Trained  # g_y
    penalty: float | None = None  # ridge they were trained with; None: stopped early, or not known

    @property
    def parametric(self) -> bool:
        """Whether both are regressions at their maximum, as the stacked covariance needs."""
        return self.select.fit is not None and self.outcome.fit is not None


def is_regression(model: Classifier) -> bool:
    """Whether the classifier is a "probit" or a "logit" of ours."""
    return isinstance(model, str) and model in REGRESSIONS


def check_classifier(model: Classifier, names: tuple[str, ...], argument: str) -> None:
    """Refuse what is neither a known name nor a classifier."""
    if isinstance(model, str):
        if model not in names:
            raise ValueError(
                f"{argument}={model!r} is unknown; use one of {list(names)} or a classifier with "
                "fit and predict_proba"
            )
    elif not isinstance(model, MLP) and not (
        hasattr(model, "fit") and hasattr(model, "predict_proba")
    ):
        raise ValueError(f"{argument}={model!r} must have the methods fit and predict_proba")


@one_thread()
def train(
    design: Design,
    selection_model: Classifier,
    pseudolabel_model: Classifier,
    descent: tuple[Descent, Descent] | None = None,
    penalty: float = 0.0,
    ridge: Floats | None = None,
) -> FirstStage:
    """Train g_s on all rows and g_y on the labelled ones (lines 4 and 5).

    Parameters
    ----------
    descent : pair, optional
        Train g_s and g_y by early-stopped gradient descent instead of to the maximum; only for
        "probit" and "logit".
    penalty : float
        Ridge of "probit" and "logit", as in ``fit``; without it a separated regression has no
        maximum, and s-bar would depend on where Newton gave up.
    ridge : ndarray, optional
        (p + k, p + k) what the penalty multiplies; by default that of the design's columns.
    """
    p = design.X.shape[1]
    if ridge is None:
        ridge = joint_ridge(
            Moments.of(design.X, design.weights), Moments.of(design.W, design.weights)
        )
    by = descent or (None, None)
    seen = design.labelled
    everyone = np.ones(design.nobs, dtype=bool)
    weights = design.weights
    select = _train_one(
        selection_model, design.W, design.s, everyone, weights, design.offset_select, by[0],
        penalty, ridge[p:, p:],
    )  # fmt: skip
    outcome = _train_one(
        pseudolabel_model, design.X, design.y, seen, weights, design.offset, by[1], penalty,
        ridge[:p, :p],
    )  # fmt: skip
    return FirstStage(select, outcome, None if descent else penalty)


def _train_one(
    model: Classifier,
    X: Floats,
    y: Floats,
    used: NDArray[np.bool_],
    weights: Floats | None,
    offset: Floats | None,
    descent: Descent | None,
    penalty: float,
    ridge: Floats,
) -> Trained:
    """Train on the rows used; predict for all. Only "probit" and "logit" know offsets."""
    all_t = torch.as_tensor(X, dtype=torch.float64)
    X_t, y_t = all_t[used], torch.as_tensor(y[used], dtype=torch.float64)
    weights = None if weights is None else weights[used]
    weight = None if weights is None else torch.as_tensor(weights)
    if is_regression(model):
        link = REGRESSIONS[model]
        columns = X_t.mT.contiguous()
        known = torch.zeros(len(X), dtype=torch.float64) if offset is None else torch.tensor(offset)
        if descent is None:
            fit = fit_binary(
                columns,
                y_t,
                link,
                weight=weight,
                offset=known[used],
                penalty=penalty,
                ridge=torch.as_tensor(ridge),
            )
        else:
            fit = descend_binary(
                columns, y_t, link, weight=weight, offset=known[used], lr=descent.lr,
                tol=descent.tol,
            )  # fmt: skip
        index = all_t @ fit.params + known
        return Trained(model, CDF[model](index).numpy(), fit, index.numpy())
    if isinstance(model, MLP) or model == "mlp":
        settings = model if isinstance(model, MLP) else MLP()
        network = fit_mlp(X_t, y_t, settings, None if weight is None else weight[None])
        return Trained(f"mlp{settings.hidden}", network(all_t)[0].numpy(), estimator=network)
    estimator = copy.deepcopy(model)
    extra = {} if weights is None else {"sample_weight": weights}
    with users_threads():
        estimator.fit(X[used], y[used].astype(int), **extra)
        probability = np.asarray(estimator.predict_proba(X), dtype=float)
    name = type(estimator).__name__
    if probability.shape != (len(X), 2) or not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError(
            f"predict_proba of {name} must give {len(X)} rows of two probabilities, of 0 and of 1; "
            f"got shape {probability.shape} with values from {probability.min():g} to "
            f"{probability.max():g}"
        )
    return Trained(name, probability[:, 1], estimator=estimator)


def can_train_many(selection_model: Classifier, pseudolabel_model: Classifier) -> bool:
    """Whether :func:`train_many` knows both classifiers."""
    network = isinstance(pseudolabel_model, MLP) or pseudolabel_model == "mlp"
    return isinstance(selection_model, str) and (is_regression(pseudolabel_model) or network)


@one_thread()
def train_many(
    design: Design,
    selection_model: str,
    pseudolabel_model: Classifier,
    weights: Tensor,
    penalty: float = 0.0,
) -> tuple[Softening, Tensor]:
    """:func:`train` for B sets of row weights at once, (B, n), on their device.

    Returns
    -------
    Softening
        Row by row, with each member's predictions.
    Tensor
        (B,) whether both are at a maximum.
    """

    def tensor(values: Floats | None) -> Tensor | None:
        return None if values is None else torch.as_tensor(values, device=weights.device)

    def regress(
        name: str, X: Tensor, y: Tensor, weight: Tensor, offset: Floats | None
    ) -> tuple[Tensor, Tensor]:
        columns, known = X.mT.contiguous(), tensor(offset)
        ridge = tensor(Moments.of(X.cpu().numpy(), design.weights).ridge)
        fits = fit_binaries(
            columns, y, REGRESSIONS[name], weight, offset=known, penalty=penalty, ridge=ridge
        )
        index = fits.params @ columns + (0.0 if known is None else known)
        return CDF[name](index), fits.converged

    seen = torch.as_tensor(design.labelled, device=weights.device)
    X, W, s = (torch.as_tensor(v, device=weights.device) for v in (design.X, design.W, design.s))
    y = torch.where(seen, torch.as_tensor(design.y, device=weights.device), 0.0)
    select, converged = regress(selection_model, W, s, weights, design.offset_select)
    if is_regression(pseudolabel_model):
        outcome, good = regress(pseudolabel_model, X, y, weights * seen, design.offset)
        converged = converged & good
    else:
        settings = pseudolabel_model if isinstance(pseudolabel_model, MLP) else MLP()
        outcome = fit_mlp(X[seen], y[seen], settings, weights[:, seen])(X)
    how = Softening(Predicted(select), Predicted(outcome), "rowwise", soft_pseudolabels=False)
    return how, converged


# -- lines 4 and 5 for rows in partitions: regressions by sums over them ---------------------------


Coefs = tuple[float | tuple[float, ...], ...]
"""Coefficients of one classifier, or a tuple of them for each member of a batch."""


def train_partitioned(
    rows: PartitionedRows,
    selection_model: Classifier,
    pseudolabel_model: Classifier,
    penalty: float = 0.0,
) -> FirstStage:
    """``train`` by sums over partitions, for "probit" and "logit"."""
    models = {"selection_model": selection_model, "pseudolabel_model": pseudolabel_model}
    for argument, model in models.items():
        if not is_regression(model):
            raise NotInMemoryError(
                f"{argument}={model!r} would need all rows at once, which are in partitions; use "
                f"one of {list(REGRESSIONS)}"
            )
    select, outcome = (
        Trained(model, None, rows.fit_binary(equation, REGRESSIONS[model], penalty))
        for equation, model in (("select", selection_model), ("outcome", pseudolabel_model))
    )
    return FirstStage(select, outcome, penalty)


def train_resampled(
    rows: PartitionedRows, whole: FirstStage, count: int, penalty: float = 0.0
) -> tuple[Softening, Tensor]:
    """Both classifiers for each of ``count`` members of a batch, from the estimates of all rows.

    Returns
    -------
    Softening
        Row by row, with each member's coefficients.
    Tensor
        (count,) whether both are at a maximum.
    """
    found, equations = [], (("select", whole.select), ("outcome", whole.outcome))
    for equation, trained in equations:
        assert trained.fit is not None
        start = trained.fit.params.expand(count, -1)
        found.append(rows.fit_binaries(equation, REGRESSIONS[trained.name], start, penalty))
    select, outcome = (
        Regression(trained.name, equation, tuple(map(tuple, fits.params.tolist())))
        for (equation, trained), fits in zip(equations, found, strict=True)
    )
    how = Softening(select, outcome, "rowwise", soft_pseudolabels=False)
    return how, found[0].converged & found[1].converged


# -- lines 6 to 14: s' and y' of the unlabelled rows, where the rows are ---------------------------


@dataclass(frozen=True, slots=True)
class Regression:
    """A classifier that any rows can be given to: an index of their columns, and its link."""

    name: str  # "probit" or "logit"
    equation: str  # "select" or "outcome"
    coef: Coefs

    def index(self, rows: Rows) -> Tensor:
        """Return x'coef plus the offset, (n,) or (B, n)."""
        coef = rows.X.new_tensor(self.coef)
        if self.equation == "select":
            return coef @ rows.W + rows.offset_select
        return coef @ rows.X + rows.offset

    def probability(self, rows: Rows) -> Tensor:
        return CDF[self.name](self.index(rows))

    def members(self, which: Sequence[int]) -> Regression:
        """Return the members of a batch at these positions."""
        return replace(self, coef=tuple(self.coef[i] for i in which))


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predictions of any other classifier, which knows only the rows it was given."""

    values: Tensor  # (n,) or (B, n) in the order of the data

    def index(self, rows: Rows) -> NoReturn:
        raise ValueError("only a 'probit' or a 'logit' has an index")

    def probability(self, rows: Rows) -> Tensor:
        return self.values.to(rows.device)[..., rows.order]

    def members(self, which: Sequence[int]) -> Predicted:
        """Return the members of a batch at these positions."""
        return Predicted(self.values[list(which)])


@dataclass(frozen=True, slots=True)
class Softening:
    """What turns a partition's rows into the training set D'_tr, where they are.

    Rows in memory are one partition, and the members of a batch differ in what they predict.
    """

    select: Regression | Predicted  # g_s
    outcome: Regression | Predicted  # g_y
    # In place of each row's own prediction ("rowwise"): s-bar or the value given, or each member's.
    soft_selection: float | str | tuple[float, ...]
    soft_pseudolabels: bool  # g_y's probabilities instead of 1[g_y > 0.5]

    @classmethod
    def of(
        cls,
        stage: FirstStage,
        soft_selection: float | str = "rowwise",
        soft_pseudolabels: bool = False,
    ) -> Softening:
        select, outcome = (
            Predicted(torch.as_tensor(trained.probability))
            if trained.fit is None
            else Regression(trained.name, equation, tuple(trained.fit.params.tolist()))
            for equation, trained in (("select", stage.select), ("outcome", stage.outcome))
        )
        return cls(select, outcome, soft_selection, soft_pseudolabels)

    @property
    def kind(self) -> Kind:
        """Kind of the unlabelled rows after softening."""
        return "closed" if self.soft_selection == 0.0 else "soft"

    def members(self, which: Sequence[int]) -> Softening:
        """Return the members of a batch at these positions."""
        soft = self.soft_selection
        return replace(
            self,
            select=self.select.members(which),
            outcome=self.outcome.members(which),
            soft_selection=tuple(soft[i] for i in which) if isinstance(soft, tuple) else soft,
        )

    def values(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return s' and y' (lines 10 to 14), (n,) or (B, n), of which unlabelled rows' are read."""
        guess = self.outcome.probability(rows)
        labels = guess if self.soft_pseudolabels else (guess > 0.5).to(guess.dtype)
        if self.soft_selection == "rowwise":
            return self.select.probability(rows), labels
        return labels.new_tensor(self.soft_selection)[..., None].expand_as(labels), labels

    @one_thread()
    def rows(self, rows: Rows) -> Rows:
        """Return D'_tr: the rows, their unlabelled ones with s' and y'."""
        segments = tuple(
            (self.kind if kind == "closed" else kind, low, high)
            for kind, low, high in rows.segments
        )
        return replace(relabelled(rows, rows.tilt < 0, *self.values(rows)), segments=segments)


def soften_rows(rows: Rows, how: Softening) -> Rows:
    """Return D'_tr of the rows of a partition."""
    return how.rows(rows)


def mean_soft_selection(rows: Rows | PartitionedRows, how: Softening) -> Tensor:
    """Return the mean of g_s over the unlabelled rows, a number or (B,) (line 10)."""
    total, weight = rows.sum(_soft_sums, how)
    return total / weight


@one_thread()
def _soft_sums(rows: Rows, how: Softening) -> tuple[Tensor, Tensor]:
    """Weighted sum of g_s over the unlabelled rows, and their weight."""
    missing = rows.tilt < 0
    weight = rows.weight[..., missing]
    return (weight * how.select.probability(rows)[..., missing]).sum(-1), weight.sum(-1)


def soft_range(rows: Rows | PartitionedRows, how: Softening) -> tuple[Tensor, Tensor, Tensor]:
    """Smallest s', smallest and largest y' of the unlabelled rows, of each member's."""
    found = zip(*rows.map(_soft_range, how), strict=True)
    s, low, high = (torch.stack(values) for values in found)
    return s.amin(0), low.amin(0), high.amax(0)


@one_thread()
def _soft_range(rows: Rows, how: Softening) -> tuple[Tensor, Tensor, Tensor]:
    s, y = (v[..., rows.tilt < 0] for v in how.values(rows))
    if not s.shape[-1]:
        nothing = s.new_full(s.shape[:-1], np.inf)
        return nothing, nothing, -nothing
    return s.amin(-1), y.amin(-1), y.amax(-1)


def soften(design: Design, rows: Rows, how: Softening) -> Design:
    """Return D'_tr as a design, whose rows these are: soft selection in s, pseudolabels in y."""
    missing = ~design.labelled
    if not missing.any():
        raise NoVariationError(
            "BiasCorr needs unlabelled rows, and every row has a label; use a plain Logit."
        )
    s, y = (rows.unsort(values).cpu().numpy() for values in how.values(rows))
    return replace(design, s=np.where(missing, s, design.s), y=np.where(missing, y, design.y))
