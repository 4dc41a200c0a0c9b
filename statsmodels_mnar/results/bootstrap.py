"""Pairs bootstrap that repeats every step of a fit."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.tools.sm_exceptions import ModelWarning

if TYPE_CHECKING:
    from .selection import SelectionResults

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BootstrapResults:
    """Estimates of the replicates.

    Attributes
    ----------
    replicates : DataFrame
        One row for each replicate that could be fitted.
    estimate : Series
        The estimates they scatter around.
    failed : Counter
        Replicates that could not be fitted, by reason.
    """

    replicates: pd.DataFrame
    estimate: pd.Series
    failed: Counter[str]

    @property
    def cov(self) -> pd.DataFrame:
        return self.replicates.cov()

    @property
    def bse(self) -> pd.Series:
        return self.replicates.std()

    @property
    def bias(self) -> pd.Series:
        return self.replicates.mean() - self.estimate

    def conf_int(
        self, alpha: float = 0.05, kind: Literal["percentile", "basic"] = "percentile"
    ) -> pd.DataFrame:
        """Intervals from the replicates' quantiles."""
        if kind not in ("percentile", "basic"):
            raise ValueError(f"kind={kind!r} is unknown; use 'percentile' or 'basic'")
        low, high = (self.replicates.quantile(q) for q in (alpha / 2, 1 - alpha / 2))
        if kind == "basic":
            low, high = 2 * self.estimate - high, 2 * self.estimate - low
        return pd.DataFrame({0: low, 1: high})

    def summary(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, bootstrap errors, bias and percentile intervals."""
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "estimate": self.estimate,
                "std err": self.bse,
                "bias": self.bias,
                f"[{alpha / 2:.3g}": interval[0],
                f"{1 - alpha / 2:.4g}]": interval[1],
            }
        )


def bootstrap(
    results: SelectionResults,
    n_rep: int,
    rng: int | np.random.Generator | None,
    *,
    progress: bool = False,
    **fit_options: Any,
) -> BootstrapResults:
    """Refit the model to ``n_rep`` resamples of its rows, first stages included.

    A resample is a set of row weights, so designs are built once. Rows are drawn with replacement;
    a row of count w is w observations; after ``cov_type="cluster"`` whole clusters are drawn.
    """
    if len(results._groups) > 1:
        raise ValueError("the bootstrap resamples one way of clustering, this fit has two")
    if n_rep < 2:
        raise ValueError(f"n_rep={n_rep!r} must be at least 2")
    model, generator = results.model, np.random.default_rng(rng)
    design = model.design
    n = design.nobs
    own = np.ones(n) if design.weights is None else design.weights
    options = {"method": results.fit_info.method, "penalty": results.fit_info.penalty}
    options |= results.fit_info.options
    options |= {"cov_type": "HC0" if design.weight_kind == "prob_weights" else "nonrobust"}
    if results.fit_info.method != "sgd":
        options["start_params"] = np.asarray(results.params)
    options |= fit_options
    estimates, failed = [], Counter[str]()
    for _ in _bar(n_rep, progress):
        weights = _resampled(own, design.weight_kind, results._groups, generator)
        kind = design.weight_kind or "freq_weights"
        part = design_rows(replace(design, weights=weights, weight_kind=kind), weights > 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            try:
                fitted = model._rebuilt(part).fit(**options)
            except ValueError as error:  # separation, one class, a collinear resample
                failed[type(error).__name__] += 1
                continue
        if len(fitted.params) != len(results.params):
            failed[f"boundary: {fitted.status.name}"] += 1
        elif not fitted.converged and fitted.status.name != "STOPPED":
            failed[fitted.status.name] += 1
        else:
            estimates.append(np.asarray(fitted.params))
    names = model.param_names
    if len(estimates) < 2:
        raise ValueError(f"{n_rep - len(estimates)} of {n_rep} replicates failed: {dict(failed)}")
    return BootstrapResults(
        pd.DataFrame(estimates, columns=names),
        pd.Series(np.asarray(results.params), index=names),
        failed,
    )


def _resampled(
    own: Floats,
    kind: str | None,
    groups: tuple[NDArray[np.int64], ...],
    rng: np.random.Generator,
) -> Floats:
    """Row weights of one resample."""
    n = len(own)
    if groups:
        codes = groups[0]
        n_groups = int(codes.max()) + 1
        drawn = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
        return own * drawn[codes]
    if kind == "freq_weights":
        return rng.multinomial(int(own.sum()), own / own.sum()).astype(float)
    return own * np.bincount(rng.integers(n, size=n), minlength=n)


def design_rows(design: Any, keep: NDArray[np.bool_]) -> Any:
    """The design's rows where ``keep`` is true."""
    arrays = {
        name: None if getattr(design, name) is None else getattr(design, name)[keep]
        for name in ("y", "s", "X", "W", "kept", "index", "offset", "offset_select", "weights")
    }
    return replace(design, **arrays)


def _bar(n_rep: int, progress: bool) -> Any:
    if not progress:
        return range(n_rep)
    from tqdm.auto import trange

    return trange(n_rep, desc="bootstrap")
