"""Leave-one-out refits, other draws, and the methods that start refits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import AbsentError
from ..post.covariance import group_codes
from ..tools import progress_bar
from ..types import Floats
from .bootstrap import BootstrapResults, Kind, Replicates, collect, refit_options, refits
from .bootstrap import bootstrap as _bootstrap

if TYPE_CHECKING:
    from .fitted import SelectionResults


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


def _jackknife(
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
        raise ValueError(
            "the jackknife leaves out clusters of one kind, and this fit has two; pass one of them "
            "as groups="
        )
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
        """The verdict in words, for the summary."""
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


def _simulation_error(results: SelectionResults, n_sets: int, *, progress: bool) -> SimulationError:
    """Refit with ``n_sets`` independent sets of draws."""
    if not (isinstance(n_sets, int | np.integer) and n_sets >= 2):
        raise ValueError(f"n_sets={n_sets!r} must be an integer of at least 2")
    if not results._fit_info.optimizer.at_maximum:
        raise ValueError("simulation_error needs a fit at its maximum; method='sgd' stops before")
    limits = {k: v for k, v in results._fit_info.options.items() if k in ("maxiter", "gtol")}
    solutions = results.model.refit_draws(
        n_sets, np.asarray(results.params), results._fit_info.penalty, **limits
    )
    bar = progress_bar(progress, "sets of draws", n_sets, solutions)
    found = collect(results, bar, n_sets)  # an error where there are no draws
    draws = results.model.parametrized.form.simulation
    assert draws is not None
    return SimulationError(
        **found,
        standard_error=pd.Series(np.asarray(results.bse), index=results.model.param_names),
        n_draws=draws.n_draws,
    )


# -- refits of a fitted selection model: bootstrap, jackknife, other draws -------------------------


def bootstrap(
    self: SelectionResults,
    n_rep: int = 999,
    kind: Kind | None = None,
    rng: int | np.random.Generator | None = None,
    *,
    groups: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
    penalties: str = "held",
    **fit_options: Any,
) -> BootstrapResults:
    """Bootstrap that repeats every step of the fit, first stages included.

    Parameters
    ----------
    n_rep : int
        Replicates.
    kind : {"pairs", "cluster", "weighted"}, optional
        Draw rows; draw clusters; or give rows (clusters, where there are any) exponential
        weights, the Bayesian bootstrap, in which no replicate loses a category or separates.
        By default "cluster" where the fit has clusters, else "pairs".
    rng : int or Generator, optional
    groups : optional
        Clusters as in ``cov_kwds``; by default those of the fit.
    progress : bool
        Show a bar.
    n_jobs : int, optional
        For fits that have no batch (a scikit-learn first stage, the paper's descent), which go
        through joblib.
    penalties : {"held", "estimated"}
        Whether the penalties of ``re()`` and ``smooth()`` terms are those of this fit or are
        estimated in every replicate, which takes as long as that many fits.
    **fit_options
        Of ``fit``; by default the method and penalty of this fit.

    Returns
    -------
    BootstrapResults
        With ``bse``, ``cov``, ``bias``, ``conf_int(kind=)``, ``summary()``, ``plot()`` and the
        replicates that ``failed``. Replicates are fitted under the normalization of this fit's
        face.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", simulate_greene(1_000).data)
    >>> draws = model.fit().bootstrap(n_rep=50, rng=0)
    >>> draws.failed.total(), draws.replicates.shape
    (0, (50, 8))
    """
    return _bootstrap(
        self, n_rep, kind, rng, groups, progress=progress, n_jobs=n_jobs, penalties=penalties,
        **fit_options,
    )  # fmt: skip


def jackknife(
    self: SelectionResults,
    *,
    groups: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
    **fit_options: Any,
) -> JackknifeResults:
    """Refit without each row, or without each cluster where there are clusters.

    Parameters
    ----------
    groups : optional
        Clusters as in ``cov_kwds``; by default those of the fit.
    progress : bool
        Show a bar.
    n_jobs, **fit_options
        As in :meth:`bootstrap`.
    """
    return _jackknife(self, groups, progress=progress, n_jobs=n_jobs, **fit_options)


def simulation_error(
    self: SelectionResults, n_sets: int = 20, *, progress: bool = False
) -> SimulationError:
    """Refit with independent sets of draws: how much the estimates depend on them.

    Afterwards ``summary()`` shows each parameter's simulation error too.

    Parameters
    ----------
    n_sets : int
        Sets of draws.
    progress : bool
        Show a bar.
    """
    self._simulation_error = _simulation_error(self, n_sets, progress=progress)
    return self._simulation_error


def multistart(self: SelectionResults) -> pd.DataFrame:
    """Where the search for the maximum climbed from, and where each climb led.

    One row for each, the best first, by the error correlation; ``fit(n_starts=50)`` tries that
    many values of the dependence. :attr:`maxima` shows the distinct ends.
    """
    rows = [
        {
            "start_error_corr": climb.start,
            "error_corr": climb.end,
            "llf": climb.value,
            "status": climb.status.name.lower(),
            "iterations": climb.n_iter,
        }
        for climb in self._fit_info.climbs
    ]
    if not rows:
        raise AbsentError("multistart needs method='newton' and no start_params")
    return pd.DataFrame(rows).sort_values("llf", ascending=False, ignore_index=True)


def _codes(self: SelectionResults, groups: Any) -> tuple[NDArray[np.int64], ...]:
    return group_codes(groups, self.model.design, self.model.frame)


def _refit_influence(self: SelectionResults) -> Floats | None:
    """Influence of every row on estimates whose every step is repeated, (n, P)."""
    return self._param_influence()
