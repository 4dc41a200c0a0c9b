"""Networks for both equations, trained on the joint likelihood."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from scipy.special import ndtr
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from ..kernel.links import as_link
from ..kernel.rows import resolve_device
from ..types import Floats
from .base import MissingLabelClassifier, Training, Which
from .checks import check_loading, corrects
from .loss import LINKS, MAX_LOADING, SelectionLoss

Network = nn.Module | Callable[[int], nn.Module] | None

_TOL = 1e-6  # of the integrals: far below the noise of mini-batches
_ROWS = 65_536  # rows that go through a network at once when it predicts


class NeuralSelectionClassifier(MissingLabelClassifier):
    """Two networks corrected for labels that are missing not at random.

    One network gives the outcome index and one the selection index; they and the loading of the
    selection error in the outcome are trained together by Adam on mini-batches of the joint
    likelihood (see :class:`~statsmodels_mnar.learn.SelectionLoss`), until the likelihood of
    held-out rows falls.

    Parameters
    ----------
    outcome, selection : torch.nn.Module or callable, optional
        A network from (n, p) standardized features to (n,) or (n, 1) indices, or a function that
        makes one for p features. It is copied, not changed. By default two hidden layers of 32.
    link : {"logit", "probit"}
        Of the outcome given the selection error.
    loading : float, optional
        Holds the loading at this value; by default it is trained.
    max_epochs : int
    batch_size : int
    learning_rate, weight_decay : float
        Of Adam; the decay is not applied to the loading.
    patience : int
        Epochs without a better held-out likelihood after which training stops.
    validation_fraction : float
        Share of the rows that are held out.
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
    history_ : DataFrame
        Mean loss of training and held-out rows and the loading, after each epoch.
    n_epochs_ : int
        The epoch whose networks were kept.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import NeuralSelectionClassifier
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = NeuralSelectionClassifier(outcome_features=["x"], max_epochs=5)
    >>> model = model.fit(data[["x", "z"]], data["y"])
    >>> model.predict_proba(data[["x", "z"]], which="unlabelled").shape
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
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.missing_label = missing_label
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train both networks.

        Parameters
        ----------
        X : array_like
            (n, p) features.
        y : array_like
            (n,) two classes, and ``missing_label``, NaN or None where unlabelled.
        sample_weight : array_like, optional
            (n,) weights of the rows.
        """
        self._check_options()
        device = resolve_device(self.device)
        data = self._read(X, y, sample_weight)
        n = len(data.labels.y)
        weight = np.ones(n) if data.weights is None else data.weights
        selects = corrects(self, data, "an ordinary network is trained")
        self._center, self._scale = _moments(data.X)
        unit = math.sqrt(as_link(self.link, LINKS, "SelectionLoss").variance)
        held = 0.0 if not selects else self.loading
        with _seeded(self.random_state, device):
            a = _network(self.outcome, len(data.outcome)).to(device)
            b = _network(self.selection, len(data.select)).to(device) if selects else None
            # The error correlation's hyperbolic arctangent, in which steps are alike everywhere.
            start = math.asinh((held or 0.0) / unit)
            corr = torch.tensor(start, dtype=torch.float64, device=device)
            corr.requires_grad_(held is None)
            pair = _Pair(a, b, corr, unit, SelectionLoss(self.link, _TOL))
            self._train(pair, data, weight, device)
        self.outcome_module_ = pair.outcome.eval()
        self.selection_module_ = None if pair.select is None else pair.select.eval()
        self.loading_ = float(held) if held is not None else float(pair.loading.detach())
        self.error_corr_ = math.tanh(math.asinh(self.loading_ / unit))
        return self

    def _check_options(self) -> None:
        SelectionLoss(self.link)
        for name in ("max_epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} must be a positive integer")
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

    def _train(self, pair: _Pair, data: Training, weight: Floats, device: torch.device) -> None:
        """Train the pair in place; sets ``history_`` and ``n_epochs_``."""
        label = data.labels.y
        kind = np.where(np.isnan(label), 2.0, label)
        rows = np.arange(len(label))
        split = {"test_size": self.validation_fraction, "random_state": self.random_state}
        counts = np.unique(kind, return_counts=True)[1]
        stratify = kind if counts.min() >= 2 else None
        train, test = train_test_split(rows, stratify=stratify, **split)
        Z = self._standardized(data.X)

        def batch(at: Any) -> _Batch:
            def tensor(columns: Any, module: nn.Module) -> Tensor:
                return torch.as_tensor(Z[np.ix_(at, columns)], dtype=_dtype(module), device=device)

            return _Batch(
                tensor(data.outcome, pair.outcome),
                tensor(data.select, pair.select or pair.outcome),
                torch.as_tensor(label[at], device=device),
                torch.as_tensor(weight[at], device=device),
            )

        training, testing = batch(train), batch(test)
        networks = [*pair.outcome.parameters()]
        networks += [] if pair.select is None else [*pair.select.parameters()]
        groups: list[dict[str, Any]] = [{"params": networks, "weight_decay": self.weight_decay}]
        if pair.corr.requires_grad:
            groups.append({"params": [pair.corr], "weight_decay": 0.0})
        optimizer = torch.optim.Adam(groups, lr=self.learning_rate)
        best, kept, self.n_epochs_ = math.inf, pair.state(), 0
        history = []
        for epoch in range(1, self.max_epochs + 1):
            pair.train(True)
            order = torch.randperm(len(train)).to(device)
            total = 0.0
            for start in range(0, len(train), self.batch_size):
                some = training[order[start : start + self.batch_size]]
                if not bool(some.weight.any()):
                    continue
                optimizer.zero_grad()
                loss = pair.loss(some)
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * float(some.weight.sum())
            pair.train(False)
            with torch.no_grad():
                held = float(pair.loss(testing)) if bool(testing.weight.any()) else total
            history.append(
                (total / float(training.weight.sum()), held, float(pair.loading.detach()))
            )
            if held < best:
                best, kept, self.n_epochs_ = held, pair.state(), epoch
            elif epoch - self.n_epochs_ >= self.patience:
                break
        pair.restore(kept)
        self.history_ = pd.DataFrame(
            history,
            columns=["training", "held_out", "loading"],
            index=pd.RangeIndex(1, len(history) + 1, name="epoch"),
        )

    # -- after the fit -----------------------------------------------------------------------------

    def _standardized(self, X: Floats) -> Floats:
        return (X - self._center) / self._scale

    def _index(self, X: Floats, module: nn.Module, columns: Any) -> Floats:
        """(n,) the index that a network gives."""
        like = next(module.parameters(), torch.zeros(1))
        Z = self._standardized(X)[:, columns]
        parts = []
        with torch.no_grad():
            for start in range(0, max(len(Z), 1), _ROWS):
                some = torch.as_tensor(Z[start : start + _ROWS], dtype=like.dtype)
                parts.append(_flat(module(some.to(like.device)), len(some)).cpu().double().numpy())
        return np.concatenate(parts)

    def _positive(self, X: Any, which: Which) -> Floats:
        a = self._index(X, self.outcome_module_, self.outcome_features_)
        loss = SelectionLoss(self.link)
        if self.selection_module_ is None or which == "population":
            return loss.probability(a, None, self.loading_)
        b = self._index(X, self.selection_module_, self.selection_features_)
        return loss.probability(a, b, self.loading_, which)

    def selection_proba(self, X: Any) -> Floats:
        """P(a row is labelled), (n,).

        Parameters
        ----------
        X : array_like
            (n, p) features.
        """
        X = self._read_new(X)
        if self.selection_module_ is None:
            return np.ones(len(X))
        return ndtr(self._index(X, self.selection_module_, self.selection_features_))


class _Batch:
    """Features of both equations, labels and weights of some rows."""

    def __init__(self, X: Tensor, W: Tensor, y: Tensor, weight: Tensor) -> None:
        self.X, self.W, self.y, self.weight = X, W, y, weight

    def __getitem__(self, rows: Tensor) -> _Batch:
        return _Batch(self.X[rows], self.W[rows], self.y[rows], self.weight[rows])


class _Pair:
    """The networks of both equations, and the loading."""

    def __init__(
        self,
        outcome: nn.Module,
        select: nn.Module | None,
        corr: Tensor,
        unit: float,
        loss: SelectionLoss,
    ) -> None:
        self.outcome, self.select, self.corr, self.unit = outcome, select, corr, unit
        self._loss = loss

    @property
    def loading(self) -> Tensor:
        return (self.unit * torch.sinh(self.corr)).clamp(-MAX_LOADING, MAX_LOADING)

    def loss(self, rows: _Batch) -> Tensor:
        """Mean loss of the rows; in float64, which small differences of held-out rows need."""
        n = len(rows.y)
        a = _flat(self.outcome(rows.X), n).double()
        # Where every row is labelled, an index at which that is certain.
        b = torch.full_like(a, _CERTAIN) if self.select is None else _flat(self.select(rows.W), n)
        return self._loss(a, b.double(), rows.y, self.loading, rows.weight)

    def modules(self) -> list[nn.Module]:
        return [self.outcome] if self.select is None else [self.outcome, self.select]

    def train(self, on: bool) -> None:
        for module in self.modules():
            module.train(on)

    def state(self) -> tuple[list[Any], Tensor]:
        states = [copy.deepcopy(module.state_dict()) for module in self.modules()]
        return states, self.corr.detach().clone()

    def restore(self, state: tuple[list[Any], Tensor]) -> None:
        for module, own in zip(self.modules(), state[0], strict=True):
            module.load_state_dict(own)
        with torch.no_grad():
            self.corr.copy_(state[1])


_CERTAIN = 1e4


def _network(given: Network, n_features: int) -> nn.Module:
    """A copy of the user's network, or the default one."""
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    if given is not None:
        made = given(n_features)
        if not isinstance(made, nn.Module):
            raise TypeError(f"a network must be a torch.nn.Module, got {type(made).__name__}")
        return made
    return nn.Sequential(
        nn.Linear(n_features, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1)
    )


def _dtype(module: nn.Module) -> torch.dtype:
    return next((p.dtype for p in module.parameters()), torch.float32)


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
