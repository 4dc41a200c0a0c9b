"""Networks for both equations, and the loading by its profile.

The selection network is trained on the likelihood of being labelled, once; given its index, outcome
networks are trained on the joint likelihood at a loading that is held. Trained with them, the
loading would stop too low: the networks learn part of the error of the rows that they see, and
training stops before it has risen. It is chosen by the cross-fitted likelihood, as with trees.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from ..kernel.links import as_link
from ..kernel.rows import resolve_device
from ..types import Floats
from .estimator import Labels, Training
from .loading import (
    LoadingClassifier,
    among_labelled,
    best_loading,
    check_loading,
    error_corr,
    folds,
    kinds,
    loading_path,
    unit,
    warn_without_instrument,
)
from .loss import LINKS, SelectionLoss
from .table import Problem, Target

Network = nn.Module | Callable[[int], nn.Module] | None

_ROWS = 65_536  # rows that go through a network at once when it predicts
_PASSES = 2  # networks are trained at the loading that was found, and it is found again
_STEPS = 50  # of Newton's method for a last layer, at most
_RIDGE = 1e-6  # of its curvature, which bears collinear features


class NeuralSelectionClassifier(LoadingClassifier):
    """Two networks corrected for labels that are missing not at random.

    One network gives the outcome index and one the selection index. They are trained one after the
    other by Adam on mini-batches of the likelihood (see
    :class:`~statsmodels_mnar.learn.SelectionLoss`), until that of held-out rows falls. The loading
    of the selection error in the outcome is chosen by the likelihood of held-out rows, cross-fitted
    over folds.

    Parameters
    ----------
    outcome, selection : torch.nn.Module or callable, optional
        A network from (n, p) standardized features to (n,) or (n, 1) indices, or a function that
        makes one for p features. It is copied, not changed. By default two hidden layers of 32,
        in double precision.
    link : {"logit", "probit"}
        Of the outcome given the selection error.
    loading : float, optional
        Holds the loading at this value; by default it is estimated.
    max_epochs : int
    batch_size : int
    learning_rate, weight_decay : float
        Of Adam.
    patience : int
        Epochs without a better held-out likelihood after which training stops.
    validation_fraction : float
        Share of the rows that are held out.
    cv : int
        Folds over which the likelihood that chooses the loading is cross-fitted.
    outcome_features, selection_features : optional
        Columns of each equation by name, position, mask or callable; by default all.
    missing_label : scalar, optional
        What marks unlabelled rows, beside NaN and None.
    random_state : int
        Of the initial weights, the held-out rows, the batches and dropout. Training twice gives
        the same networks.
    device : str or torch.device
        Where to train; "auto" takes a GPU if there is one that holds float64.

    Attributes
    ----------
    classes_ : ndarray
        The two classes; probabilities are of the second.
    outcome_module_, selection_module_ : torch.nn.Module
        The trained networks; the second is None where every row is labelled.
    loading_, error_corr_ : float
        Estimated or held.
    loading_path_ : DataFrame
        The loadings that were tried, with their cross-fitted log-likelihood.
    history_ : DataFrame
        Mean loss of the outcome network on training and held-out rows, after each epoch.
    n_epochs_ : int
        The epoch whose outcome network was kept.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import NeuralSelectionClassifier
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = NeuralSelectionClassifier(outcome_features=["x1", "x2"], max_epochs=5)
    >>> model = model.fit(data[["x1", "x2", "z"]], data["y"])
    >>> model.predict_proba(data[["x1", "x2", "z"]], which="unlabelled").shape
    (2000, 2)
    """

    def __init__(
        self,
        outcome: Network = None,
        selection: Network = None,
        *,
        link: str = "logit",
        loading: float | None = None,
        max_epochs: int = 200,
        batch_size: int = 512,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        patience: int = 15,
        validation_fraction: float = 0.2,
        cv: int = 3,
        outcome_features: Any = None,
        selection_features: Any = None,
        missing_label: Any = -1,
        random_state: int = 0,
        device: str | torch.device = "auto",
    ) -> None:
        self.outcome = outcome
        self.selection = selection
        self.link = link
        self.loading = loading
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.missing_label = missing_label
        self.random_state = random_state
        self.device = device

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> Training:
        self._check_options()
        return super()._read(X, y, sample_weight)

    def _fit(self, data: Training) -> Self:
        """Train both networks."""
        device = resolve_device(self.device)
        problem = Problem(data.labels, data.row_weights, as_link(self.link, LINKS, "SelectionLoss"))
        seen = data.labels.seen
        corrects = self._corrects(data, "an ordinary network is trained")
        if corrects and self.loading is None:
            warn_without_instrument(data)
        self._center, self._scale = _moments(data.X)
        Z = self._standardized(data.X)
        X, W = Z[seen][:, data.outcome], Z[:, data.select]
        split = self._split(data.labels)
        with _seeded(self.random_state, device):
            outcome = _network(self.outcome, X, device)
            select = _network(self.selection, W, device) if corrects else None
            index = np.full(len(Z), np.inf)  # where every row is labelled
            if select is not None:
                self._train(select, W, problem.marginal, split)
                index = _indices(select, W)
            values: dict[float, float] = {}
            loading = self.loading if corrects else 0.0
            if loading is None:
                loading, values = self._choose(problem, index, X, device)
            target, rows = problem.joint(index, loading), among_labelled(data.labels, split)
            self.history_ = self._train(outcome, X, target, rows)
        self.outcome_module_, self.selection_module_ = outcome, select
        self.n_epochs_ = int(self.history_["held_out"].idxmin())
        self.loading_ = float(loading)
        self.error_corr_ = float(error_corr(self.loading_, problem.link))
        self.loading_path_ = loading_path(values, problem.link)
        return self

    def _check_options(self) -> None:
        SelectionLoss(self.link)
        for name, least in (("max_epochs", 1), ("batch_size", 1), ("patience", 1), ("cv", 2)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}={value!r} must be an integer of at least {least}")
        for name, low, high in (
            ("learning_rate", 0.0, 1.0),
            ("validation_fraction", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if not (isinstance(value, float) and low < value < high):
                raise ValueError(f"{name}={value!r} must lie between {low:g} and {high:g}")
        if not self.weight_decay >= 0.0:
            raise ValueError(f"weight_decay={self.weight_decay!r} must not be negative")
        check_loading(self.loading)

    def _split(self, labels: Labels) -> list[NDArray[np.intp]]:
        """Rows to train with, and those that are held out to say when to stop."""
        kind = kinds(labels)
        counts = np.bincount(kind)
        return train_test_split(
            np.arange(len(kind)),
            stratify=kind if counts[counts > 0].min() >= 2 else None,
            test_size=self.validation_fraction,
            random_state=self.random_state,
        )

    def _train(
        self, module: nn.Module, X: Floats, target: Target, split: Sequence[NDArray[np.intp]]
    ) -> pd.DataFrame:
        """Train a network in place until the held-out loss falls; its losses after each epoch."""
        train, held = split
        parameter = next(module.parameters())
        Z = torch.as_tensor(X, dtype=parameter.dtype, device=parameter.device)
        own, others = target.at(train), target.at(held)
        mass, other_mass = float(own.weight.sum()), float(others.weight.sum())
        optimizer = torch.optim.Adam(
            module.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        best, kept, at, losses = math.inf, copy.deepcopy(module.state_dict()), 0, []
        for epoch in range(1, self.max_epochs + 1):
            module.train()
            order = torch.randperm(len(train)).numpy()
            total = 0.0
            for rows in np.split(order, range(self.batch_size, len(order), self.batch_size)):
                batch = own.at(rows)
                weight = float(batch.weight.sum())
                if not weight:
                    continue
                optimizer.zero_grad()
                index = _flat(module(Z[train[rows]]), len(rows))
                loss, slope = batch.slope(_numbers(index))
                index.backward(torch.as_tensor(slope / weight).to(index))
                optimizer.step()
                total += loss
            loss = total / mass
            if other_mass:
                loss = others.loss(_indices(module, X[held])) / other_mass
            losses.append((total / mass, loss))
            if loss < best:
                best, kept, at = loss, copy.deepcopy(module.state_dict()), epoch
            elif epoch - at >= self.patience:
                break
        module.load_state_dict(kept)
        module.eval()
        return pd.DataFrame(
            losses,
            columns=["training", "held_out"],
            index=pd.RangeIndex(1, len(losses) + 1, name="epoch"),
        )

    def _choose(
        self, problem: Problem, select_index: Floats, X: Floats, device: torch.device
    ) -> tuple[float, dict[float, float]]:
        """The loading with the largest cross-fitted likelihood, and the likelihoods on the way.

        As with trees: networks are trained at one loading in each fold, keep all but their last
        layer, and have that fitted at the others; then they are trained further at the best of
        them, and it is chosen once more.
        """
        held_out = among_labelled(
            problem.labels, folds(problem.labels, self.cv, self.random_state, "set loading=")
        )
        kept = [np.setdiff1d(np.arange(len(X)), held) for held in held_out]
        unlabelled = problem.unlabelled(select_index)
        modules = [_network(self.outcome, X, device) for _ in kept]
        at = 0.0
        values: dict[float, float] = {}
        for _ in range(_PASSES):
            target = problem.joint(select_index, at)
            for module, train, held in zip(modules, kept, held_out, strict=True):
                self._train(module, X, target, (train, held))
            features = [last_features(module, X) for module in modules]

            def likelihood(loading: float, features: Any = features) -> float:
                target = problem.joint(select_index, loading)
                loss = 0.0
                for train, held, each in zip(kept, held_out, features, strict=True):
                    best = fit_linear(target.at(train), each[train])
                    loss += target.at(held).loss(each[held] @ best)
                return -loss - unlabelled

            at, values = best_loading(likelihood, unit(problem.link), near=at)
        return at, values

    # -- after the fit -----------------------------------------------------------------------------

    def _standardized(self, X: Floats) -> Floats:
        return (X - self._center) / self._scale

    def _index(self, X: Floats, equation: str) -> Floats:
        outcome = equation == "outcome"
        module = self.outcome_module_ if outcome else self.selection_module_
        if module is None:
            return np.full(len(X), np.inf)
        columns = self.outcome_features_ if outcome else self.selection_features_
        return _indices(module, self._standardized(X)[:, columns])


def _network(given: Network, X: Floats, device: torch.device) -> nn.Module:
    """A copy of the user's network, or the default one, that has been seen to read these rows."""
    n_features = X.shape[1]
    if isinstance(given, nn.Module):
        made: Any = copy.deepcopy(given)
    elif given is not None:
        made = given(n_features)
        if not isinstance(made, nn.Module):
            raise TypeError(f"a network must be a torch.nn.Module, got {type(made).__name__}")
    else:
        made = nn.Sequential(
            nn.Linear(n_features, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1)
        ).double()
    made = made.to(device)
    _indices(made, X[:2])
    return made


def _indices(module: nn.Module, X: Floats) -> Floats:
    """(n,) the index that a network gives; it is left in the mode of evaluation."""
    like = next(module.parameters())
    module.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, max(len(X), 1), _ROWS):
            some = torch.as_tensor(X[start : start + _ROWS], dtype=like.dtype, device=like.device)
            parts.append(_numbers(_flat(module(some), len(some))))
    return np.concatenate(parts)


def last_features(module: nn.Module, X: Floats) -> Floats:
    """(n, h + 1) a constant, and what the last layer of a network reads where that is linear.

    Otherwise the index itself.
    """
    layers = [each for each in module.modules() if isinstance(each, nn.Linear)]
    read: list[Tensor] = []
    made: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        read.append(given[0].flatten(1))
        made.append(out.flatten())

    hook = layers[-1].register_forward_hook(keep) if layers else None
    index = _indices(module, X)
    if hook is not None:
        hook.remove()
    features = index[:, None]
    if made and np.array_equal(_numbers(torch.cat(made)), index):
        features = _numbers(torch.cat(read))
    return np.column_stack([np.ones(len(X)), features])


def _numbers(values: Tensor) -> Floats:
    return values.detach().cpu().double().numpy()


def fit_linear(target: Target, features: Floats) -> Floats:
    """(h + 1,) coefficients of the linear index with the smallest loss, by Newton's method."""
    at = np.zeros(features.shape[1])
    loss = target.loss(features @ at)
    for _ in range(_STEPS):
        first, second = target.derivatives(features @ at)
        curve = (features.T * second) @ features
        curve += _RIDGE * np.diag(np.diag(curve) + np.finfo(float).tiny)
        step = np.linalg.solve(curve, features.T @ first)
        while (new := target.loss(features @ (at - step))) > loss and np.abs(step).max() > 1e-8:
            step = step / 2.0
        if new > loss:
            break
        done, at, loss = loss - new < 1e-4, at - step, new
        if done:
            break
    return at


def _flat(index: Tensor, n: int) -> Tensor:
    if index.numel() != n or index.ndim > 2:
        raise ValueError(
            f"a network returned shape {tuple(index.shape)} for {n} rows; it must return one index "
            "for each, (n,) or (n, 1)"
        )
    return index.reshape(n)


def _moments(X: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the columns; 1 for constant ones."""
    sd = X.std(axis=0)
    return X.mean(axis=0), np.where(sd > 0.0, sd, 1.0)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw torch's random numbers from this seed, and leave the user's where they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
