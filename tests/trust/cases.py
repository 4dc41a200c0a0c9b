"""Data sets and models drawn by hypothesis, and fits of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import assume, reject
from hypothesis import strategies as st
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.errors import NoVariationError, PerfectSeparationError, SingularDesignError

GREENE: dict[str, tuple[type, dict[str, Any]]] = {
    "sigma=1": (GreeneSelectionLogit, {"normalization": {"sigma": 1.0}}),
    "loading": (GreeneSelectionLogit, {"normalization": "loading"}),
    "free": (GreeneSelectionLogit, {"normalization": "free"}),
    "fixed": (GreeneSelectionLogit, {"normalization": {"sigma": 1.5, "rho": 0.4}}),
    "probit": (ProbitSelection, {}),
}
BIASCORR: dict[str, tuple[type, dict[str, Any]]] = {
    "biascorr": (BiasCorrLogit, {"normalization": {"sigma": 1.0}}),
    "biascorr soft": (
        BiasCorrLogit,
        {"normalization": "loading", "soft_selection": 0.3, "soft_pseudolabels": True},
    ),
    "biascorr rowwise": (
        BiasCorrLogit,
        {"normalization": {"sigma": 1.0, "rho": 0.4}, "soft_selection": "rowwise",
         "selection_model": "logit"},
    ),
}  # fmt: skip
MODELS = GREENE | BIASCORR
WEIGHTS = (None, "freq_weights", "prob_weights")


@dataclass(frozen=True)
class Case:
    """A model of a data set."""

    model: str  # a key of MODELS
    frame: pd.DataFrame
    outcome: tuple[str, ...]  # terms
    select: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)  # offsets and weights, by column
    rng: np.random.Generator = field(default_factory=np.random.default_rng)  # for more draws

    @property
    def formulas(self) -> tuple[str, str]:
        return f"y ~ {' + '.join(self.outcome)}", f"s ~ {' + '.join(self.select)}"

    @property
    def is_likelihood(self) -> bool:
        return self.model in GREENE

    def on(self, frame: pd.DataFrame, **options: Any) -> Case:
        """The same model of other data, or with other columns as weights and offsets."""
        return replace(self, frame=frame, options=self.options | options)

    def build(self, **more: Any) -> Any:
        kind, own = MODELS[self.model]
        return kind.from_formula(*self.formulas, self.frame, **(own | self.options | more))

    def fit(self, build: dict[str, Any] | None = None, **options: Any) -> Any:
        return fit(self.build(**(build or {})), **options)

    def fitted(self, **options: Any) -> Any:
        """The fit, of data that have a maximum: others are no examples."""
        try:
            results = self.fit(**options)
        except (NoVariationError, PerfectSeparationError, SingularDesignError):
            reject()
        except ValueError as error:
            if not str(error).startswith("soft_selection is"):
                raise
            reject()
        assume(results.converged)
        return results

    def params(self, model: Any) -> np.ndarray:
        """Any point of the parameter space, of indices of a moderate size."""
        design = model.design
        sizes = [np.sqrt((matrix**2).mean(0)) for matrix in (design.X, design.W)]
        scale = np.concatenate([*sizes, np.ones(model.nparams - sum(map(len, sizes)))])
        return self.rng.normal(0.0, 0.6, model.nparams) / np.where(scale > 0, scale, 1.0)


@contextmanager
def said() -> Iterator[None]:
    """Findings of a fit (weak identification, no exclusion restriction, ...) are no failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        yield


def fit(model: Any, **options: Any) -> Any:
    with said():
        return model.fit(**options)


@st.composite
def cases(
    draw: st.DrawFn,
    models: tuple[str, ...] = tuple(MODELS),
    weights: tuple[str | None, ...] = WEIGHTS,
    missing: bool = True,
    factors: bool = True,
    offsets: bool = True,
    rows: tuple[int, int] = (160, 400),
) -> Case:
    """Data from a selection model: sizes, columns, scales, prevalences, holes, a factor."""
    model = draw(st.sampled_from(models))
    n = draw(st.integers(*rows))
    p, k = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rho = draw(st.floats(-0.8, 0.8))
    common, rare = draw(st.floats(-0.5, 0.8)), draw(st.floats(-0.8, 0.8))
    scale = draw(st.lists(st.floats(-3.0, 3.0), min_size=p + k, max_size=p + k))
    shifted = draw(st.booleans())
    n_levels = draw(st.sampled_from((0, 0, 2, 3))) if factors else 0
    weight = draw(st.sampled_from(weights))
    with_offsets = offsets and draw(st.booleans())
    with_holes = missing and draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    names = [f"x{j}" for j in range(1, p + 1)], [f"z{j}" for j in range(1, k + 1)]
    values = rng.normal(size=(n, p + k)) + (2.0 if shifted else 0.0) * rng.normal(size=p + k)
    a, b = np.full(n, rare), np.full(n, common)
    a += values[:, :p] @ rng.uniform(-0.8, 0.8, p)
    b += values @ np.concatenate([rng.uniform(-0.5, 0.5, p), rng.uniform(0.4, 0.9, k)])
    a, b = (index - index.mean() + level for index, level in ((a, rare), (b, common)))
    frame = pd.DataFrame(values * 10.0 ** np.array(scale), columns=[*names[0], *names[1]])
    outcome, select = names[0], [*names[0], *names[1]]
    if n_levels:
        codes = rng.integers(n_levels, size=n)
        frame["g"] = np.array(["c", "a", "b"])[codes]
        a, b = a + 0.4 * codes, b - 0.3 * codes
        outcome, select = [*outcome, "g"], [*select, "g"]
    options: dict[str, Any] = {}
    if with_offsets:
        for role, index in (("offset", a), ("offset_select", b)):
            frame[role] = rng.uniform(-0.5, 0.5, n)
            index += frame[role].to_numpy()
            options[role] = role
    if weight is not None:
        counts = rng.integers(1, 4, n).astype(float)
        frame["w"] = counts if weight == "freq_weights" else counts * rng.uniform(0.5, 1.5, n)
        options[weight] = "w"
    e = rng.normal(size=n)
    u = rho * e + np.sqrt(1.0 - rho**2) * rng.normal(size=n)
    frame["s"] = (b + u > 0).astype(float)
    frame["y"] = (a + e + rng.logistic(size=n) > 0).astype(float)
    frame.loc[frame["s"] == 0, "y"] = np.nan
    if with_holes:
        holes = rng.random((n, len(outcome))) < 0.03
        for name, hole in zip(outcome, holes.T, strict=True):
            frame.loc[hole, name] = None if name == "g" else np.nan
    return Case(model, frame, tuple(outcome), tuple(select), options, rng)
