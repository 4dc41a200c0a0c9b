"""Leave-one-out refits, and how much estimates by simulation depend on the draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..progress import progress_bar
from .bootstrap import Replicates, collect, refit_options, refits

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


# -- how much estimates by simulation depend on the draws ------------------------------------------


_TOLERATED = 0.1  # simulation error over standard error


@dataclass(frozen=True, slots=True)
class SimulationError(Replicates):
    """Estimates with independent sets of draws.

    Attributes
    ----------
    replicates : DataFrame
        One row for each set of draws.
    bse : Series
        Standard deviation over the sets: the simulation error of one fit.
    standard_error : Series
        Sampling error of the fit, for comparison.
    """

    standard_error: pd.Series
    n_draws: int

    @property
    def cov(self) -> pd.DataFrame:
        """Covariance over the sets of draws."""
        return self.replicates.cov()

    @property
    def bias(self) -> pd.Series:
        """Mean over the sets less the estimate of this fit."""
        return self.replicates.mean() - self.estimate

    @property
    def ratio(self) -> pd.Series:
        """Simulation error over standard error."""
        return self.bse / self.standard_error

    @property
    def draws_needed(self) -> int:
        """Draws with which every ratio would be below a tenth, were errors like 1/sqrt(R).

        Low-discrepancy draws need fewer.
        """
        worst = float(self.ratio.max())
        if not np.isfinite(worst) or worst <= _TOLERATED:
            return self.n_draws
        return int(np.ceil(self.n_draws * (worst / _TOLERATED) ** 2))

    @property
    def verdict(self) -> str:
        """In words, for the summary."""
        worst = self.ratio.idxmax()
        size = f"{self.ratio[worst]:.2f} of its standard error ({worst})"
        if self.ratio[worst] <= _TOLERATED:
            return f"{self.n_draws} draws are enough: the simulation error is at most {size}."
        return (
            f"{self.n_draws} draws are too few: the simulation error is up to {size}. Use about "
            f"{self.draws_needed:,} draws, or integration='quadrature'."
        )

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, simulation errors and their ratio; ``alpha`` is not used."""
        return pd.DataFrame(
            {
                "estimate": self.estimate,
                "std err": self.standard_error,
                "sim. error": self.bse,
                "ratio": self.ratio,
            }
        )

    def _title(self) -> str:
        return f"Simulation error of {self.model}, {self.n_draws} draws"

    def _notes(self) -> list[str]:
        return [*Replicates._notes(self), self.verdict]


def simulation_error(results: SelectionResults, n_sets: int, *, progress: bool) -> SimulationError:
    """Refit with ``n_sets`` independent sets of draws."""
    if not (isinstance(n_sets, int | np.integer) and n_sets >= 2):
        raise ValueError(f"n_sets={n_sets!r} must be an integer of at least 2")
    if results.fit_info.method == "sgd":
        raise ValueError("simulation_error needs a fit at its maximum; method='sgd' stops before")
    limits = {k: v for k, v in results.fit_info.options.items() if k in ("maxiter", "gtol")}
    solutions = results.model.refit_draws(
        n_sets, np.asarray(results.params), results.fit_info.penalty, **limits
    )
    bar = progress_bar(progress, "sets of draws", n_sets, solutions)
    names, draws = results.model.param_names, results.model.parametrized.form.simulation
    assert draws is not None
    return SimulationError(
        **collect(results, bar, n_sets),
        standard_error=pd.Series(np.asarray(results.bse), index=names),
        n_draws=draws.n_draws,
    )
