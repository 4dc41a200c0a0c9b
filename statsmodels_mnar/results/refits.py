"""Refits of a model: their estimates and those that failed; the jackknife, and other draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from ..optimize.maximize import as_optimizer, stops_early
from ..optimize.solution import Solution, Status
from ..post.covariance import Codes, group_codes
from ..post.door import FittedModel
from ..tools import SectionedSummary, check_alpha, progress_bar
from ..types import Floats

if TYPE_CHECKING:
    from .fitted import SelectionResults


@dataclass(frozen=True, slots=True)
class Replicates:
    """Estimates of refits, with the ones that could not be had."""

    replicates: pd.DataFrame  # (R, P)
    estimate: pd.Series  # (P,)
    failed: Counter[str]
    boundary: Counter[str]
    model: str  # class name, for titles
    held: str | None = field(default=None, kw_only=True)  # boundary of the fit, kept by its refits

    @property
    def n_rep(self) -> int:
        """Refits asked for, failed ones included."""
        return len(self.replicates) + self.failed.total()

    @property
    def n_boundary(self) -> int:
        """Refits whose maximum lies on a boundary, or that stay on that of the fit."""
        return self.boundary.total()

    @property
    def cov(self) -> pd.DataFrame:
        """Covariance of the replicates."""
        return self.replicates.cov()

    @property
    def bias(self) -> pd.Series:
        """Mean of the replicates less the estimate."""
        return self.replicates.mean() - self.estimate

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return pd.Series(np.sqrt(np.diag(self.cov)), index=self.estimate.index)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Normal intervals of the estimate less the bias, at level 1 - ``alpha``."""
        return self._normal(alpha)

    def _normal(self, alpha: float) -> pd.DataFrame:
        check_alpha(alpha)
        center, z = self.estimate - self.bias, norm.ppf(1.0 - alpha / 2)
        return pd.DataFrame({0: center - z * self.bse, 1: center + z * self.bse})

    def _title(self) -> str:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return str(self.summary_frame()._repr_html_())

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, bias and intervals at level 1 - ``alpha``."""
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

    def summary(self, alpha: float = 0.05) -> Summary:
        """Table to print, with intervals at level 1 - ``alpha`` and the failures below it."""
        frame = self.summary_frame(alpha)
        cells = [[f"{v:.4f}" for v in row] for row in frame.to_numpy()]
        smry = SectionedSummary()
        smry.tables.append(
            SimpleTable(
                cells,
                headers=list(frame.columns),
                stubs=list(frame.index),
                title=self._title(),
                txt_fmt=fmt_params,
            )
        )
        smry.add_extra_txt(self._notes())
        return smry

    def _notes(self) -> list[str]:
        lines = [f"Refits: {self.n_rep}, failed: {self.failed.total()}."]
        lines += [f"  failed, {name}: {count}" for name, count in self.failed.items()]
        if self.boundary:
            lines.append(f"On a boundary, kept with the parameter at its bound: {self.n_boundary}")
            lines += [f"  {name}: {count}" for name, count in self.boundary.items()]
        if self.held is not None:
            lines += [
                "The fit itself lies on a boundary and its refits stay there: their spread leaves",
                "out what is not known about the dependence; see profile() and sensitivity().",
            ]
        return lines


def collect(
    results: SelectionResults, solutions: Iterable[Solution | str], n_rep: int
) -> dict[str, Any]:
    """Sort refits into estimates and failures: the first fields of :class:`Replicates`."""
    model = results.model
    keep = model.estimated
    estimates: dict[int, Any] = {}
    failed, boundary = Counter[str](), Counter[str]()
    for number, solution in enumerate(solutions):
        if isinstance(solution, str):
            failed[solution] += 1
            continue
        status = solution.status
        if not (status.converged or status.boundary or status is Status.STOPPED):
            failed[status.value] += 1
            continue
        where = status if status.boundary else results.status
        if where.boundary:
            boundary[where.value] += 1
        estimates[number] = solution.params[keep]
    if len(estimates) < 2:
        raise ValueError(f"{n_rep - len(estimates)} of {n_rep} refits failed: {dict(failed)}")
    names = model.param_names
    return {
        "replicates": pd.DataFrame.from_dict(estimates, orient="index", columns=names),
        "estimate": pd.Series(np.asarray(results.params), index=names),
        "failed": failed,
        "boundary": boundary,
        "model": type(model).__name__,
        "held": results.status.value if results.status.boundary else None,
    }


# -- from row weights to refits --------------------------------------------------------------------


def refit_options(results: SelectionResults, given: dict[str, Any]) -> dict[str, Any]:
    """Options of ``fit`` for the refits, checked before any of them runs."""
    results.model.check_rows_at_hand()
    refused = sorted(set(given) & {"cov_type", "cov_kwds", "disp", "callback", "n_starts"})
    if refused:
        raise TypeError(f"refits take no {refused}: they are fitted for their estimates alone")
    fit = results._fit_info
    options: dict[str, Any] = {"method": fit.method, "penalty": fit.penalty}
    options |= fit.options | given
    options.pop("n_starts", None)  # refits start from the estimates
    results.model.check_refit_options(**options)
    return options


def groups_of(results: SelectionResults, groups: Any) -> Codes:
    """Codes of the clusters that were asked for, or of those of the fit."""
    if groups is None:
        return results._groups
    return group_codes(groups, results.model.design, results.model.frame)


def refits(
    results: SelectionResults,
    draws: Iterator[Floats],
    n_jobs: int | None,
    options: dict[str, Any],
    *,
    n_rep: int | None = None,
    penalties_anew: bool = False,
) -> Iterator[Solution | str]:
    """Solutions of the refits under these row weights, or the reason why there is none.

    Parameters
    ----------
    n_rep : int, optional
        How many there are, if they are resamples, whose estimates are standard errors apart.
    """
    batch = as_optimizer(options["method"]).batched and results.model.batchable()
    batch = batch and not penalties_anew
    model = results.model.smoothed(None) if penalties_anew else results.model
    if batch:
        known = {name: options[name] for name in ("maxiter", "gtol") if name in options}
        start = np.asarray(options.get("start_params", results.params), dtype=float)
        yield from results.model.refit_weights(
            draws, start, options["penalty"], n_sets=n_rep, **known
        )
        return
    sampling = results.model.design.weight_kind == "prob_weights"
    options = options | {"cov_type": "HC0" if sampling else "nonrobust"}
    if not stops_early(options["method"]):
        options.setdefault("start_params", np.asarray(results.params))
    jobs = ((model, weights, options) for weights in draws)
    try:
        from joblib import Parallel, delayed
    except ImportError:
        yield from (_refit_alone(*job) for job in jobs)
    else:  # n_jobs=None: whatever backend the user's joblib.parallel_config names
        run = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from run(delayed(_refit_alone)(*job) for job in jobs)


def _refit_alone(model: FittedModel, weights: Floats, options: dict[str, Any]) -> Solution | str:
    """One refit by the model's own ``fit``, for estimators that have no batch."""
    kind = model.design.weight_kind or "freq_weights"
    part = replace(model.design, weights=weights, weight_kind=kind).counted
    try:
        fitted: SelectionResults = model.rebuilt_for_refit(part).fit(**options)
    except ValueError as error:  # separation, one class, a collinear resample
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if len(fitted.params) != model.nparams:  # it went on on a face, which has other parameters
        return f"on another face: {fitted.status.value}"
    return fitted.solution


# -- without each row ------------------------------------------------------------------------------


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
    options = refit_options(self, fit_options)
    codes = groups_of(self, groups)
    if len(codes) > 1:
        raise ValueError(
            "the jackknife leaves out clusters of one kind, and this fit has two; pass one of them "
            "as groups="
        )
    design = self.model.design
    own = design.row_weights
    counts = np.ones(design.nobs)
    if codes:
        counts = np.ones(int(codes[0].max()) + 1)
    elif design.weight_kind == "freq_weights":
        counts = own
    left_out = np.flatnonzero(counts > 0)
    solutions = refits(self, _without(own, codes, counts, left_out), n_jobs, options)
    bar = progress_bar(progress, "jackknife", len(left_out), solutions)
    found = collect(self, bar, len(left_out))
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
    if not (isinstance(n_sets, int | np.integer) and n_sets >= 2):
        raise ValueError(f"n_sets={n_sets!r} must be an integer of at least 2")
    if not self._fit_info.optimizer.at_maximum:
        raise ValueError("simulation_error needs a fit at its maximum; method='sgd' stops before")
    limits = {k: v for k, v in self._fit_info.options.items() if k in ("maxiter", "gtol")}
    solutions = self.model.refit_draws(
        n_sets, np.asarray(self.params), self._fit_info.penalty, **limits
    )
    bar = progress_bar(progress, "sets of draws", n_sets, solutions)
    found = collect(self, bar, n_sets)  # an error where there are no draws
    draws = self.model.parametrized.form.simulation
    assert draws is not None
    self._simulation_error = SimulationError(
        **found,
        standard_error=pd.Series(np.asarray(self.bse), index=self.model.param_names),
        n_draws=draws.n_draws,
    )
    return self._simulation_error
