"""Algorithm 1, lines 4 to 14: the two classifiers, soft selection and pseudolabels.

Each step is a function of the design: ``train`` learns g_s on all rows and g_y on the labelled
ones, ``soften`` returns the paper's training set D'_tr as a design, whose s is the soft selection
value and whose y is the label or the pseudolabel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..design import Design
from ..errors import NoVariationError
from ..kernel.links import LOGIT, PROBIT, Link
from ..kernel.rows import Moments, joint_ridge
from ..kernel.threads import one_thread, users_threads
from ..optimize.binary import BinaryFit, descend_binary, fit_binaries, fit_binary
from .mlp import MLP, fit_mlp

Floats = NDArray[np.float64]
Classifier = Any
"""A name, or an object with scikit-learn's ``fit(X, y)`` and ``predict_proba(X)``."""

LINKS: dict[str, Link] = {"probit": PROBIT, "logit": LOGIT}
CDF: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
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
        """A regression is at its maximum; other classifiers do not say."""
        return self.fit is None or self.fit.converged


@dataclass(frozen=True, slots=True)
class Descent:
    """The paper's way of training a first stage: stopped when the loss hardly changes."""

    tol: float
    lr: float = 0.01


@dataclass(frozen=True, slots=True)
class FirstStage:
    """Both classifiers."""

    select: Trained  # g_s
    outcome: Trained  # g_y
    penalty: float | None = None  # ridge they were trained with; None: stopped early, or not known

    @property
    def parametric(self) -> bool:
        """Both are regressions at their maximum, so the stacked covariance is defined."""
        return self.select.fit is not None and self.outcome.fit is not None


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
    """Lines 4 and 5: g_s on all rows, g_y on the labelled ones.

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
    if isinstance(model, str) and model in LINKS:
        link = LINKS[model]
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


@dataclass(frozen=True, slots=True)
class ManyStages:
    """Both classifiers trained for B sets of row weights."""

    select: torch.Tensor  # (B, n) probabilities of g_s
    outcome: torch.Tensor  # (B, n) of g_y
    converged: torch.Tensor  # (B,) both at a maximum


def can_train_many(selection_model: Classifier, pseudolabel_model: Classifier) -> bool:
    """Whether :func:`train_many` knows both classifiers."""
    network = isinstance(pseudolabel_model, MLP) or pseudolabel_model == "mlp"
    known = isinstance(pseudolabel_model, str) and pseudolabel_model in LINKS
    return isinstance(selection_model, str) and (known or network)


@one_thread()
def train_many(
    design: Design,
    selection_model: str,
    pseudolabel_model: Classifier,
    weights: torch.Tensor,
    penalty: float = 0.0,
) -> ManyStages:
    """:func:`train` for B sets of row weights at once, (B, n), on their device."""

    def tensor(values: Floats | None) -> torch.Tensor | None:
        return None if values is None else torch.as_tensor(values, device=weights.device)

    def regress(
        name: str, X: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, offset: Floats | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        columns, known = X.mT.contiguous(), tensor(offset)
        ridge = tensor(Moments.of(X.cpu().numpy(), design.weights).ridge)
        fits = fit_binaries(
            columns, y, LINKS[name], weight, offset=known, penalty=penalty, ridge=ridge
        )
        index = fits.params @ columns + (0.0 if known is None else known)
        return CDF[name](index), fits.converged

    seen = torch.as_tensor(design.labelled, device=weights.device)
    X, W, s = (torch.as_tensor(v, device=weights.device) for v in (design.X, design.W, design.s))
    y = torch.where(seen, torch.as_tensor(design.y, device=weights.device), 0.0)
    select, converged = regress(selection_model, W, s, weights, design.offset_select)
    if isinstance(pseudolabel_model, str) and pseudolabel_model in LINKS:
        outcome, good = regress(pseudolabel_model, X, y, weights * seen, design.offset)
        return ManyStages(select, outcome, converged & good)
    settings = pseudolabel_model if isinstance(pseudolabel_model, MLP) else MLP()
    outcome = fit_mlp(X[seen], y[seen], settings, weights[:, seen])(X)
    return ManyStages(select, outcome, converged)


@one_thread()
def soften_many(
    design: Design,
    stages: ManyStages,
    weights: torch.Tensor,
    soft_selection: float | str | None = None,
    *,
    soft_pseudolabels: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """s' and y' of :func:`soften` for each member, (B, n); only unlabelled rows mean anything."""
    guess = stages.outcome
    labels = guess if soft_pseudolabels else (guess > 0.5).to(guess.dtype)
    if soft_selection == "rowwise":
        return stages.select, labels
    if soft_selection is not None:
        return torch.full_like(labels, float(soft_selection)), labels
    share = weights * torch.as_tensor(~design.labelled, device=weights.device)
    mean = (share * stages.select).sum(1, keepdim=True) / share.sum(1, keepdim=True)
    return mean.expand_as(labels), labels


def mean_soft_selection(design: Design, stage: FirstStage) -> float:
    """Line 10: the mean predicted selection probability of the unlabelled rows."""
    missing = ~design.labelled
    weights = None if design.weights is None else design.weights[missing]
    return float(np.average(stage.select.probability[missing], weights=weights))


def soften(
    design: Design,
    stage: FirstStage,
    soft_selection: float | str | None = None,
    *,
    soft_pseudolabels: bool = False,
) -> Design:
    """Lines 6 to 14: the training set D'_tr.

    Parameters
    ----------
    soft_selection : float or "rowwise", optional
        In place of the mean: a value, or each row's own predicted probability.
    soft_pseudolabels : bool
        Keep g_y's probabilities instead of 1[g_y > 0.5].
    """
    missing = ~design.labelled
    if not missing.any():
        raise NoVariationError(
            "BiasCorr needs unlabelled rows, and every row has a label; use a plain Logit."
        )
    if soft_selection is None:
        soft: Any = mean_soft_selection(design, stage)
    elif soft_selection == "rowwise":
        soft = stage.select.probability[missing]
    else:
        soft = float(soft_selection)
    guess = stage.outcome.probability[missing]
    labels = guess if soft_pseudolabels else (guess > 0.5).astype(float)
    s, y = design.s.copy(), design.y.copy()
    s[missing], y[missing] = soft, labels
    return replace(design, s=s, y=y)
