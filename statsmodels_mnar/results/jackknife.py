"""Leave-one-out refits, of rows or of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..progress import progress_bar
from .bootstrap import refit_options, refits
from .replicates import Replicates, collect

if TYPE_CHECKING:
    from .selection import SelectionResults

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JackknifeResults(Replicates):
    """Estimates without each row, or without each cluster.

    Attributes
    ----------
    replicates : DataFrame
        One row for each refit, numbered by the row or cluster left out.
    count : Series
        Observations that each refit stands for: a row of count w is left out w times.
    """

    count: pd.Series
    of: str  # "rows" or "clusters"

    @property
    def cov(self) -> pd.DataFrame:
        """(n - 1)/n times the sum of squares around the mean of the refits."""
        spread = self.replicates - self._mean()
        squares = spread.mul(self.count, axis=0).T @ spread
        return squares * (self.count.sum() - 1) / self.count.sum()

    @property
    def bias(self) -> pd.Series:
        """n - 1 times the distance of the refits' mean from the estimate."""
        return (self.count.sum() - 1) * (self._mean() - self.estimate)

    def _mean(self) -> pd.Series:
        return self.replicates.mul(self.count, axis=0).sum() / self.count.sum()

    def _title(self) -> str:
        return f"Jackknife of {self.model} over {self.of}"


def jackknife(
    results: SelectionResults,
    groups: Any,
    *,
    progress: bool,
    n_jobs: int | None,
    **fit_options: Any,
) -> JackknifeResults:
    """Refit the model without each row, or without each cluster."""
    options = refit_options(results, fit_options)
    codes = results._groups if groups is None else results._codes(groups)
    if len(codes) > 1:
        raise ValueError("the jackknife leaves out one way of clustering; pass groups= with one")
    design = results.model.design
    own = design.row_weights
    counts = np.ones(design.nobs)
    if codes:
        counts = np.ones(int(codes[0].max()) + 1)
    elif design.weight_kind == "freq_weights":
        counts = own
    left_out = np.flatnonzero(counts > 0)
    solutions = refits(results, _without(own, codes, counts, left_out), n_jobs, options)
    bar = progress_bar(progress, "jackknife", len(left_out), solutions)
    found = collect(results, bar, len(left_out))
    numbers = left_out[found["replicates"].index]
    found["replicates"].index = numbers
    return JackknifeResults(
        **found,
        count=pd.Series(counts[numbers], index=numbers),
        of="clusters" if codes else "rows",
    )


def _without(
    own: Floats,
    codes: tuple[NDArray[np.int64], ...],
    counts: Floats,
    left_out: NDArray[np.int64],
) -> Iterator[Floats]:
    """Row weights with one observation, or one cluster, taken out."""
    for number in left_out:
        weights = own.copy()
        if codes:
            weights[codes[0] == number] = 0.0
        else:
            weights[number] -= own[number] / counts[number]
        yield weights
