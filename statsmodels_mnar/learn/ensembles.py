"""LightGBM and XGBoost behind one small interface: a tree at a time from derivatives of our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..types import Floats

Derivatives = Callable[[Floats], tuple[Floats, Floats]]
"""From the index of the training rows to the loss's first and second derivatives in it."""


class Ensemble(Protocol):
    """Trees whose sum, added to a constant that the caller keeps, is an index."""

    library: Any  # LightGBM's or XGBoost's own Booster

    def grow(self, derivatives: Derivatives) -> None:
        """Add a tree."""

    def held(self) -> Floats:
        """Return the sum of the trees on the held-out rows."""


class TreeData(Protocol):
    """Rows of one equation, binned once for every ensemble that is grown on them."""

    def ensemble(self, params: dict[str, Any]) -> Ensemble:
        """Return an ensemble without trees."""


def load_library(booster: str) -> Any:
    """Import the booster's package, or say how to install it."""
    try:
        return import_module(booster)
    except ImportError as error:
        raise ImportError(
            f"booster={booster!r} needs the package {booster}, which is not installed: "
            f"pip install {booster}",
            name=booster,
        ) from error


# -- LightGBM --------------------------------------------------------------------------------------


@dataclass
class LightData:
    """Rows of one equation as LightGBM's ``Dataset``, and held-out ones binned like them."""

    X: Floats
    weight: Floats  # of which XGBoost's bins take notice; derivatives have it already
    categorical: Sequence[int]
    params: dict[str, Any]  # those of the booster, of which some say how to bin
    held: Floats | None = None
    n_jobs_name: ClassVar[str] = "num_threads"

    def __post_init__(self) -> None:
        lightgbm = load_library("lightgbm")
        how = {"params": self.settings(self.params), "categorical_feature": list(self.categorical)}
        label = np.zeros(len(self.X))  # which a custom objective does not read
        self.train = lightgbm.Dataset(self.X, label, free_raw_data=False, **how)
        self.valid = None
        if self.held is not None:
            zero = np.zeros(len(self.held))
            self.valid = lightgbm.Dataset(self.held, zero, reference=self.train, **how)

    @staticmethod
    def settings(params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters, quiet and without an objective of LightGBM's.

        Features that cannot be split stay among them: LightGBM refuses data that have no others.
        """
        quiet = {"verbosity": -1, "feature_pre_filter": False}
        return {**quiet, **params, "objective": "none", "metric": "None"}

    def ensemble(self, params: dict[str, Any]) -> LightEnsemble:
        booster = load_library("lightgbm").Booster(self.settings(params), self.train)
        if self.valid is not None:
            booster.add_valid(self.valid, "held")
        return LightEnsemble(booster)


@dataclass
class LightEnsemble:
    """Trees of LightGBM."""

    library: Any

    def grow(self, derivatives: Derivatives) -> None:
        self.library.update(fobj=lambda index, _: derivatives(index))

    def held(self) -> Floats:
        found: list[Floats] = []

        def keep(index: Floats, _: Any) -> tuple[str, float, bool]:
            found.append(index.copy())
            return "", 0.0, False

        self.library.eval_valid(feval=keep)
        return found[0]


# -- XGBoost ---------------------------------------------------------------------------------------


@dataclass
class XData:
    """Rows of one equation, and held-out ones, as XGBoost's ``DMatrix``."""

    X: Floats
    weight: Floats  # of which XGBoost's bins take notice; derivatives have it already
    categorical: Sequence[int]
    params: dict[str, Any]
    held: Floats | None = None
    n_jobs_name: ClassVar[str] = "nthread"

    def __post_init__(self) -> None:
        self.train = x_matrix(self.X, self.categorical, self.params, self.weight)
        self.valid = None
        if self.held is not None:
            self.valid = x_matrix(self.held, self.categorical, self.params)

    @staticmethod
    def settings(params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters, quiet, and with sums of trees that start from zero."""
        return {"verbosity": 0, **params, "objective": "reg:squarederror", "base_score": 0.0}

    def ensemble(self, params: dict[str, Any]) -> XEnsemble:
        cached = [self.train] if self.valid is None else [self.train, self.valid]
        booster = load_library("xgboost").Booster(self.settings(params), cached)
        return XEnsemble(booster, self.train, self.valid)


@dataclass
class XEnsemble:
    """Trees of XGBoost."""

    library: Any
    train: Any
    valid: Any
    rounds: int = field(default=0)

    def grow(self, derivatives: Derivatives) -> None:
        index = self.library.predict(self.train, output_margin=True, training=True)
        gradient, curve = derivatives(index.astype(float))
        self.library.boost(self.train, self.rounds, grad=gradient, hess=curve)
        self.rounds += 1

    def held(self) -> Floats:
        return self.library.predict(self.valid, output_margin=True).astype(float)


def x_matrix(
    X: Floats,
    categorical: Sequence[int],
    params: dict[str, Any],
    weight: Floats | None = None,
) -> Any:
    """Return rows as a ``DMatrix``, in which NaN is missing."""
    types = ["c" if j in set(categorical) else "q" for j in range(X.shape[1])]
    return load_library("xgboost").DMatrix(
        X,
        weight=weight,
        feature_types=types,
        enable_categorical=True,
        nthread=params.get("nthread"),
    )


# -- both ------------------------------------------------------------------------------------------


DATA: dict[str, Any] = {"lightgbm": LightData, "xgboost": XData}


def predict_index(
    library: Any, booster: str, X: Floats, categorical: Sequence[int], params: dict[str, Any]
) -> Floats:
    """Return the sum of a grown ensemble's trees at new rows."""
    if booster == "lightgbm":
        return np.asarray(library.predict(X, raw_score=True, **_jobs(params)), dtype=float)
    matrix = x_matrix(X, categorical, params)
    return library.predict(matrix, output_margin=True).astype(float)


def predict_leaves(
    library: Any, booster: str, X: Floats, categorical: Sequence[int], params: dict[str, Any]
) -> NDArray[np.intp]:
    """Return the number of the leaf in which a row is, (n, trees)."""
    if booster == "lightgbm":
        found = library.predict(X, pred_leaf=True, **_jobs(params))
    else:
        found = library.predict(x_matrix(X, categorical, params), pred_leaf=True)
    return np.asarray(found).reshape(len(X), -1).astype(np.intp)


def _jobs(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k == "num_threads"}


def importance(library: Any, booster: str, kind: str, n_features: int) -> Floats:
    """Return each feature's total gain, or its number of splits."""
    if booster == "lightgbm":
        return np.asarray(library.feature_importance(importance_type=kind), dtype=float)
    scores = library.get_score(importance_type={"gain": "total_gain", "split": "weight"}[kind])
    return np.array([scores.get(f"f{j}", 0.0) for j in range(n_features)], dtype=float)
