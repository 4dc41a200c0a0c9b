"""The bootstrap, which repeats every step of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from ..errors import NotInMemoryError
from ..large.partitions import cluster_weights, row_weights
from ..optimize.maximize import as_optimizer
from ..optimize.solution import Solution, Status
from ..post.covariance import column_names
from ..tools import check_alpha, progress_bar
from ..types import Floats
from .refits import Replicates, collect, groups_of, refit_options, refits

if TYPE_CHECKING:
    from .fitted import SelectionResults

Kind = Literal["pairs", "cluster", "weighted"]


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
        from .drawing import SHADES, axes_of

        ax = axes_of(ax)
        name = param or self.replicates.columns[min(1, self.replicates.shape[1] - 1)]
        if name not in self.replicates:
            raise ValueError(f"param={name!r} is not one of {list(self.replicates.columns)}")
        ax.hist(self.replicates[name], bins=30, color="0.8", edgecolor="0.5", linewidth=0.5)
        ax.axvline(self.estimate[name], color=SHADES[0], label="estimate")
        for i, end in enumerate(self.conf_int(alpha).loc[name]):
            label = f"{100 * (1 - alpha):g}% percentile interval" if i == 0 else None
            ax.axvline(end, color=SHADES[1], linestyle="--", label=label)
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
    if penalties not in ("held", "estimated"):
        raise ValueError(f"penalties={penalties!r} is unknown; use 'held' or 'estimated'")
    if penalties == "estimated" and not self._has_terms:
        raise ValueError("penalties='estimated' is for models with re() or smooth() terms")
    in_partitions = self.model.in_partitions
    if in_partitions and penalties == "estimated":
        raise NotInMemoryError(
            "penalties='estimated' fits every replicate anew, with weights that rows in partitions "
            "draw for one batch only; use penalties='held', or a sample of the rows in a DataFrame"
        )
    options = refit_options(self, fit_options)
    ways: tuple[Any, ...]
    if in_partitions:
        ways = self._group_columns if groups is None else column_names(groups)
    else:
        ways = groups_of(self, groups)
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
        solutions = _partitioned_refits(self, n_rep, generator, clusters, weighted, options)
    else:
        own, of = self.model.design.row_weights, self.model.design.weight_kind
        draws = (resampled(own, of, clusters, generator, weighted=weighted) for _ in range(n_rep))
        anew = penalties == "estimated"
        solutions = refits(self, draws, n_jobs, options, n_rep=n_rep, penalties_anew=anew)
    bar = progress_bar(progress, "bootstrap", n_rep, solutions)
    return BootstrapResults(
        **collect(self, bar, n_rep),
        kind=kind,
        acceleration=None if in_partitions else _acceleration(self, clusters),
        source=self,
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
