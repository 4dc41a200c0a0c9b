"""Refits of a model: their estimates, those that failed, and the bootstrap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from ..design.data import BY_ROW
from ..large.partitions import cluster_weights, row_weights
from ..optimize.maximize import as_optimizer, stops_early
from ..optimize.solution import Solution, Status
from ..post.covariance import column_names
from ..post.door import FittedModel
from ..post.intervals import check_alpha
from ..tools import SectionedSummary, progress_bar
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
        raise NotImplementedError

    @property
    def bias(self) -> pd.Series:
        raise NotImplementedError

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


# -- bootstrap that repeats every step of a fit ----------------------------------------------------


Kind = Literal["pairs", "cluster", "weighted"]

_DRAWN_AT_ONCE = 64  # at most so many sets of row weights are held in memory


@dataclass(frozen=True, slots=True)
class BootstrapResults(Replicates):
    """Estimates of the bootstrap replicates.

    Attributes
    ----------
    replicates : DataFrame
        One row for each replicate that could be fitted.
    estimate : Series
        The estimates they scatter around.
    failed : Counter
        Replicates that could not be fitted, by reason; they are not among ``replicates``.
    boundary : Counter
        Replicates whose maximum lies on a boundary or a flat top; they are, with the parameter at
        its bound. Where the fit itself lies on one, its replicates stay there and all count.
    held : str or None
        The boundary of the fit, if it lies on one.
    """

    kind: str
    acceleration: pd.Series | None  # of the BCa intervals
    source: Any = field(repr=False)  # the results that were resampled; None for derived quantities

    @property
    def cov(self) -> pd.DataFrame:
        """Covariance of the replicates."""
        return self.replicates.cov()

    @property
    def bias(self) -> pd.Series:
        """Mean of the replicates less the estimate."""
        return self.replicates.mean() - self.estimate

    def conf_int(
        self,
        alpha: float = 0.05,
        kind: Literal["percentile", "basic", "bca", "normal"] = "percentile",
    ) -> pd.DataFrame:
        """Intervals from the replicates.

        Parameters
        ----------
        alpha : float
            One less the level.
        kind : {"percentile", "basic", "bca", "normal"}
            Quantiles of the replicates; the same reflected at the estimate; corrected for median
            bias and for the influence of single rows on the variance (Efron 1987); or the estimate
            less the bias, plus and minus the standard error.
        """
        check_alpha(alpha)
        if kind == "normal":
            return self._normal(alpha)
        if kind == "bca":
            return self._bca(alpha)
        if kind not in ("percentile", "basic"):
            raise ValueError(
                f"kind={kind!r} is unknown; use 'percentile', 'basic', 'bca' or 'normal'"
            )
        low, high = (self.replicates.quantile(q) for q in (alpha / 2, 1 - alpha / 2))
        if kind == "basic":
            low, high = 2.0 * self.estimate - high, 2.0 * self.estimate - low
        return pd.DataFrame({0: low, 1: high})

    def _bca(self, alpha: float) -> pd.DataFrame:
        if self.acceleration is None:
            raise ValueError(
                "kind='bca' needs the influence of each row on the estimates, which this fit does "
                "not have (a first stage is not a regression, or the fit stopped early); use "
                "'percentile'"
            )
        rows = {}
        for name, draws in self.replicates.items():
            levels = bca_levels(
                draws.to_numpy(), self.estimate[name], self.acceleration[name], alpha
            )
            rows[name] = np.quantile(draws, levels)
        return pd.DataFrame.from_dict(rows, orient="index", columns=[0, 1])

    def apply(self, function: Callable[[Any], Any]) -> BootstrapResults:
        """Compute another quantity, such as an effect or a prevalence, for every replicate.

        Its standard error and intervals need no delta method, and hold where replicates lie on a
        boundary, at which coefficients have other scales but effects do not.

        Parameters
        ----------
        function : callable
            Results -> number, array or Series; called with the results at each replicate's
            parameters.

        Examples
        --------
        >>> from statsmodels_mnar import GreeneSelectionLogit
        >>> from statsmodels_mnar.datasets import simulate_greene
        >>> model = GreeneSelectionLogit.from_formula(
        ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", simulate_greene(1_000).data)
        >>> draws = model.fit().bootstrap(n_rep=50, rng=0)
        >>> prevalence = draws.apply(lambda results: results.predict().mean())
        >>> bool(0.01 < prevalence.bse.iloc[0] < 0.05)
        True
        """
        if self.source is None:
            raise ValueError("apply needs the replicates of a fit, not those of a quantity")

        def value(params: Floats) -> pd.Series:
            found = function(self.source._at_params(params))
            return found if isinstance(found, pd.Series) else pd.Series(np.atleast_1d(found))

        frame = pd.DataFrame([value(params) for params in self.replicates.to_numpy()])
        return replace(
            self,
            replicates=frame.set_axis(self.replicates.index),
            estimate=value(self.estimate.to_numpy()),
            acceleration=None,
            source=None,
        )

    def _title(self) -> str:
        return f"Bootstrap of {self.model}, {self.kind}"

    def plot(self, param: str | None = None, ax: Any = None, alpha: float = 0.05) -> Any:
        """Histogram of a parameter's replicates with the estimate and the percentile interval.

        Parameters
        ----------
        param : str, optional
            By default the second parameter (the first slope).
        ax : matplotlib axes, optional
        alpha : float
            Of the interval.
        """
        from .drawing import axes_of

        ax = axes_of(ax)
        name = param or self.replicates.columns[min(1, self.replicates.shape[1] - 1)]
        if name not in self.replicates:
            raise ValueError(f"param={name!r} is not one of {list(self.replicates.columns)}")
        ax.hist(self.replicates[name], bins=30, color="0.8", edgecolor="0.5", linewidth=0.5)
        ax.axvline(self.estimate[name], color="black", label="estimate")
        for i, end in enumerate(self.conf_int(alpha).loc[name]):
            label = f"{100 * (1 - alpha):g}% percentile interval" if i == 0 else None
            ax.axvline(end, color="black", linestyle="--", label=label)
        ax.set(xlabel=name, ylabel="replicates")
        ax.legend(frameon=False)
        return ax


def bca_levels(draws: Floats, estimate: float, acceleration: float, alpha: float) -> Floats:
    """The quantiles of the replicates that BCa takes in place of alpha/2 and 1 - alpha/2."""
    below = np.mean(draws < estimate) + 0.5 * np.mean(draws == estimate)
    below = np.clip(below, 0.5 / len(draws), 1.0 - 0.5 / len(draws))
    z0 = norm.ppf(below)
    z = z0 + norm.ppf([alpha / 2, 1.0 - alpha / 2])
    levels: Floats = norm.cdf(z0 + z / (1.0 - acceleration * z))
    return levels


def bootstrap(
    results: SelectionResults,
    n_rep: int,
    kind: Kind | None,
    rng: int | np.random.Generator | None,
    groups: Any,
    *,
    progress: bool,
    n_jobs: int | None,
    penalties: str = "held",
    **fit_options: Any,
) -> BootstrapResults:
    """Refit the model to ``n_rep`` resamples of its rows, first stages included.

    A resample is a set of row weights, so designs are built once.
    """
    if penalties not in ("held", "estimated"):
        raise ValueError(f"penalties={penalties!r} is unknown; use 'held' or 'estimated'")
    if penalties == "estimated" and not results._has_terms:
        raise ValueError("penalties='estimated' is for models with re() or smooth() terms")
    options = refit_options(results, fit_options)
    in_partitions = results.model.in_partitions
    ways: tuple[Any, ...]
    if in_partitions:
        ways = results._group_columns if groups is None else column_names(groups)
    else:
        ways = results._groups if groups is None else results._codes(groups)
    kind = kind or ("cluster" if ways else "pairs")
    if kind not in get_args(Kind):
        raise ValueError(f"kind={kind!r} is unknown; use one of {get_args(Kind)}")
    if not (isinstance(n_rep, int | np.integer) and n_rep >= 2):
        raise ValueError(f"n_rep={n_rep!r} must be an integer of at least 2")
    if (kind == "cluster" and not ways) or (kind != "pairs" and len(ways) > 1):
        raise ValueError(
            f"kind={kind!r} resamples one way of clustering: pass groups=, or fit with "
            f"cov_type='cluster' and one way (here {len(ways)})"
        )
    clusters: Any = ways[0] if ways and kind != "pairs" else None  # codes, or a column's name
    weighted, generator = kind == "weighted", np.random.default_rng(rng)
    if in_partitions:
        solutions = _partitioned_refits(results, n_rep, generator, clusters, weighted, options)
    else:
        own, of = results.model.design.row_weights, results.model.design.weight_kind
        draws = (resampled(own, of, clusters, generator, weighted=weighted) for _ in range(n_rep))
        anew = penalties == "estimated"
        solutions = refits(results, draws, n_jobs, options, penalties_anew=anew)
    bar = progress_bar(progress, "bootstrap", n_rep, solutions)
    return BootstrapResults(
        **collect(results, bar, n_rep),
        kind=kind,
        acceleration=None if in_partitions else _acceleration(results, clusters),
        source=results,
    )


def _partitioned_refits(
    results: SelectionResults,
    n_rep: int,
    rng: np.random.Generator,
    groups: str | None,
    weighted: bool,
    options: dict[str, Any],
) -> Iterator[Solution | str]:
    """Refit rows in partitions, which draw their own weights."""
    options = dict(options)
    if not as_optimizer(options.pop("method")).batched:
        raise ValueError("a bootstrap of rows in partitions needs method='newton'")
    start = np.asarray(options.pop("start_params", results.params), dtype=float)
    return results.model.refit_resampled(
        n_rep, rng, start, weighted=weighted, groups=groups, **options
    )


def resampled(
    own: Floats,
    weight_kind: str | None,
    clusters: NDArray[np.int64] | None,
    rng: np.random.Generator,
    *,
    weighted: bool,
) -> Floats:
    """Row weights of one resample of the rows, or of clusters of them, (n,)."""
    if clusters is not None:
        drawn: Floats = cluster_weights(int(clusters.max()) + 1, rng, weighted=weighted)
        return own * drawn[clusters]
    counts = weight_kind == "freq_weights"
    size = int(own.sum()) if counts else len(own)
    return row_weights(own, size, rng, weighted=weighted, counts=counts)


def refits(
    results: SelectionResults,
    draws: Iterator[Floats],
    n_jobs: int | None,
    options: dict[str, Any],
    *,
    penalties_anew: bool = False,
) -> Iterator[Solution | str]:
    """Solutions of the refits under these row weights, or the reason why there is none."""
    batch = as_optimizer(options["method"]).batched and results.model.batchable()
    batch = batch and not penalties_anew
    model = results.model.smoothed(None) if penalties_anew else results.model
    if batch:
        known = {name: options[name] for name in ("maxiter", "gtol") if name in options}
        start = np.asarray(options.get("start_params", results.params), dtype=float)
        at_once = min(_DRAWN_AT_ONCE, results.model.refits_at_once(start))
        while drawn := list(islice(draws, at_once)):
            yield from results.model.refit_weights(
                np.stack(drawn), start, options["penalty"], **known
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


def _refit_alone(model: FittedModel, weights: Floats, options: dict[str, Any]) -> Solution | str:
    """One refit by the model's own ``fit``, for estimators that have no batch."""
    kind = model.design.weight_kind or "freq_weights"
    part = design_rows(replace(model.design, weights=weights, weight_kind=kind), weights > 0)
    try:
        fitted: SelectionResults = model.rebuilt_for_refit(part).fit(**options)
    except ValueError as error:  # separation, one class, a collinear resample
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if len(fitted.params) != model.nparams:  # it went on on a face, which has other parameters
        return f"on another face: {fitted.status.value}"
    return fitted.solution


def design_rows(design: Any, keep: NDArray[np.bool_]) -> Any:
    """The design's rows where ``keep`` is true."""
    arrays = {
        name: None if getattr(design, name) is None else getattr(design, name)[keep]
        for name in BY_ROW
    }
    return replace(design, **arrays)


def _acceleration(
    results: SelectionResults, clusters: NDArray[np.int64] | None
) -> pd.Series | None:
    """Skewness of the rows' (or clusters') influence over six; None where there is no influence."""
    if results.status is Status.STOPPED:
        return None
    influence = results._refit_influence()
    if influence is None:
        return None
    weights = results.model.design.weights
    if clusters is not None:
        influence = pd.DataFrame(influence).groupby(clusters).sum().to_numpy()
        count = np.ones(len(influence))
    elif weights is None or results._sampling:
        count = np.ones(len(influence))
    else:  # a row of count w is w observations
        used = weights > 0
        count, influence = weights[used], influence[used] / weights[used, None]
    spread = count @ influence**2
    return pd.Series(count @ influence**3 / (6.0 * spread**1.5), index=results.model.param_names)
