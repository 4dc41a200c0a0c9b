"""Imputed labels and population figures from a fitted selection model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from scipy import stats

from ..design import over_rows
from ..post import metrics
from ..post.covariance import influence_covariance
from ..post.metrics import PopulationMetrics, Target
from ..post.prediction import Designs, blocks
from ..tools import check_alpha, progress_bar
from ..types import Floats

if TYPE_CHECKING:
    from .fitted import SelectionResults


class Imputations(Sequence[Any]):
    """Completed data, made when asked for; element i is the same each time.

    Elements are data frames for a model built from formulas (the rows that the model kept, with
    the outcome's column filled), else arrays of completed outcomes. A row of ``freq_weights`` w
    appears w times, each with a label of its own; ``rows`` tells which row of the model it is.

    Attributes
    ----------
    rows : ndarray
        (n,) position among the model's rows of each completed row.
    """

    def __init__(
        self, results: SelectionResults, seeds: list[np.random.SeedSequence], column: str
    ) -> None:
        self._results, self._seeds, self._column = results, seeds, column
        design = results.model.design
        counts = (
            design.row_weights if design.weight_kind == "freq_weights" else np.ones(design.nobs)
        )
        self.rows = np.repeat(np.arange(design.nobs), counts.astype(int))  # (n,)
        missing = ~design.labelled
        self._missing = missing[self.rows]  # (n,) of the completed rows
        position = np.cumsum(missing) - 1
        self._positions = position[self.rows][self._missing]  # of each among the unlabelled

    def __len__(self) -> int:
        return len(self._seeds)

    def params(self, i: int) -> Floats:
        """(P,) the draw of the parameters behind imputation ``i``."""
        return _draw_params(self._results, np.random.default_rng(self._seeds[i]))

    def labels(self, i: int) -> Floats:
        """(n,) completed outcome of imputation ``i``."""
        rng = np.random.default_rng(self._seeds[i])
        p = _unlabelled_mean(self._results, _draw_params(self._results, rng))[self._positions]
        completed = self._results.model.design.y[self.rows]
        completed[self._missing] = rng.random(len(p)) < p
        return completed

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> list[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        labels = self.labels(i)
        model = self._results.model
        if model.design.outcome_spec is None:
            return labels
        assert model.frame is not None
        frame = model.frame.iloc[model.design.kept[self.rows]].copy()
        frame[self._column] = labels
        return frame

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def pool(
        self, function: Callable[[Any], Any], *, progress: bool = False, **options: Any
    ) -> Pooled:
        """Analyse each completed data set and combine by Rubin's rules.

        Parameters
        ----------
        function : callable
            From an element to fitted results or a pair (params, cov).
        progress : bool
            Show a bar.
        **options
            Of :func:`statsmodels_mnar.pool`.

        Examples
        --------
        >>> import statsmodels.formula.api as smf
        >>> from statsmodels_mnar import GreeneSelectionLogit
        >>> from statsmodels_mnar.datasets import simulate_greene
        >>> data = simulate_greene(1_000).data
        >>> model = GreeneSelectionLogit.from_formula(
        ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
        >>> imputations = model.fit().impute(5, rng=0)
        >>> pooled = imputations.pool(lambda d: smf.logit("y ~ x1 + x2", d).fit(disp=0))
        >>> list(pooled.params.index)
        ['Intercept', 'x1', 'x2']
        """
        completed = progress_bar(progress, "imputations", len(self), self)
        return pool([function(data) for data in completed], **options)

    def prevalence(self) -> Pooled:
        """Share of ones in the population, pooled; ``prob_weights`` are used."""
        design = self._results.model.design
        sampling = design.weight_kind == "prob_weights"
        weights = design.row_weights if sampling else np.ones(len(self.rows))
        groups = self._results._clusters("prevalence")
        groups = None if groups is None else groups[self.rows]
        units = len(self.rows) if groups is None else len(np.unique(groups))
        means, variances = [], []
        for i in range(len(self)):
            share = metrics.rate(self.labels(i), weights)
            means.append(share.value)
            variances.append(influence_covariance(share.by_row[:, None], groups=groups))
        return pool(means, variances, names=["prevalence"], df_complete=units - 1.0)


def impute(
    self: SelectionResults,
    n_imputations: int = 20,
    rng: int | np.random.Generator | None = None,
    *,
    column: str | None = None,
) -> Imputations:
    """Proper multiple imputations of the missing labels.

    Each draws parameters from the normal distribution of the estimates, and then the label of
    each unlabelled row from P(y = 1 | x, w, s = 0).

    Parameters
    ----------
    n_imputations : int
    rng : int or Generator, optional
        Each imputation has a child seed of its own: element i does not depend on the others.
    column : str, optional
        Name of the completed column; by default the outcome's.

    Returns
    -------
    Imputations
        A sequence of completed data with ``pool(function)`` and ``prevalence()``.

    Notes
    -----
    Where sigma and rho are both estimated, sigma is held at its estimate and the others are
    drawn given that: along the ridge of sigma and rho the probabilities hardly change, and the
    likelihood is not normal there. Draws keep within the optimiser's bounds.

    Not available for BiasCorr: its objective is not the likelihood of the observed data, so
    that its parameters do not give the distribution of the missing labels.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> imputations = model.fit().impute(20, rng=0)
    >>> bool(imputations[3].y.isna().any())
    False
    >>> imputations.prevalence().n_imputations
    20
    """
    if not (isinstance(n_imputations, int | np.integer) and n_imputations > 0):
        raise ValueError(f"n_imputations={n_imputations!r} must be a positive integer")
    _check_can_draw(self, "impute")
    design = self.model.design
    if design.outcome_spec is not None and self.model.frame is None:
        raise ValueError(
            "impute: the model no longer has its data frame (it was loaded from a file); build "
            "and fit it again"
        )
    seeds = np.random.default_rng(rng).bit_generator.seed_seq.spawn(int(n_imputations))  # type: ignore[attr-defined]
    return Imputations(self, seeds, column or design.outcome_name)


def population_metrics(
    self: SelectionResults, score: Any = None, *, target: Target = "superpopulation"
) -> PopulationMetrics:
    """Discrimination and calibration of a score over labelled and unlabelled rows together.

    Labelled rows enter with their labels, unlabelled ones as a one with probability
    p = P(y = 1 | x, w, s = 0) and a zero with 1 - p.

    Parameters
    ----------
    score : str, Series or array_like, optional
        Any score, higher for likelier ones: a column of the data, a Series aligned on the
        index, or values for the model's rows; by default the model's own P(y = 1). Brier score
        and calibration need a score within [0, 1].
    target : {"superpopulation", "rows"}
        What the intervals are for: the population that the rows were drawn from, or the figure
        that these very rows would show were all labels known.

    Returns
    -------
    PopulationMetrics
        With ``summary_frame()``, where the column ``labelled`` has the figures of the labelled
        rows alone, and ``calibration_table()``.

    Notes
    -----
    Standard errors are of the delta method, with the rows' influence on the figure and on the
    estimates taken together (see docs/imputation.md). The score is taken as given: if it was
    fitted to the same rows, its own error is not in the intervals. Not available for BiasCorr,
    for the reason given at :meth:`impute`.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> table = model.fit().population_metrics("x1").summary_frame()
    >>> list(table.index)
    ['prevalence', 'auc', 'gini', 'ks']
    """
    metrics.check_target(target)
    _check_can_draw(self, "population_metrics")
    design = self.model.design
    if score is None:
        values = np.asarray(self.model.predict(self.params))
    else:
        found = over_rows(score, design, self.model.frame, "score")
        values = np.asarray(found, dtype=float)
        if not np.isfinite(values).all():
            holes = (~np.isfinite(values)).sum()
            raise ValueError(f"score is missing or infinite for {holes} of the model's rows")
    missing = ~design.labelled
    labels = design.y.copy()
    labels[missing] = _unlabelled_mean(self, self.params)
    return PopulationMetrics(
        score=values,
        labels=labels,
        labelled=design.labelled,
        weights=design.row_weights,
        counts=design.weight_kind == "freq_weights",
        groups=self._clusters("population_metrics"),
        param_influence=self._param_influence(),
        cov=np.asarray(self.cov_params_default),
        label_gradient=self._unlabelled_gradient(),
        target=target,
    )


def _check_can_draw(self: SelectionResults, name: str) -> None:
    if not self._is_likelihood:
        raise ValueError(
            f"{name} needs the distribution of the missing labels, which BiasCorr's "
            "pseudolabels do not give; fit GreeneSelectionLogit (whose population_metrics "
            "takes this fit's predictions as a score)"
        )
    self.model.check_rows_at_hand()
    self._check_at_maximum(name)


def _draw_params(self: SelectionResults, rng: np.random.Generator) -> Floats:
    """One draw of the estimated parameters."""
    params = np.asarray(self.params, dtype=float)
    cov = np.asarray(self.cov_params_default)
    names = self.model.param_names
    if names[-2:] == ["lnsigma", "athrho"]:
        cov = held(cov, len(params) - 2)
    free, form = self._form.free, self._form.form
    open_end = np.full(len(params) - free.sum(), np.inf)
    low = np.concatenate([-open_end, np.asarray(form.lower)[free]])
    high = np.concatenate([open_end, np.asarray(form.upper)[free]])
    return draw_params(params, cov, low, high, rng)


def _unlabelled(self: SelectionResults) -> Designs:
    d = self.model.design
    return Designs(d.X, d.W, d.offset, d.offset_select)[~d.labelled]


def _unlabelled_mean(self: SelectionResults, params: Any) -> Floats:
    """(m,) P(y = 1 | x, w, s = 0) of the unlabelled rows."""
    return self.model.quantity(params, "mean-unselected").value(_unlabelled(self))


def _unlabelled_gradient(self: SelectionResults, which: str = "mean-unselected") -> Floats:
    """(m, P) derivatives of a prediction for the unlabelled rows in the estimates."""
    quantity, at = self.model.quantity(self.params, which), _unlabelled(self)
    parts = [at[rows] for rows in blocks(len(at))]
    return np.vstack([quantity.gradient(v, quantity.jet(v, 1).first) for v in parts])


# -- pooling by Rubin's rules, and draws of the parameters -----------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Estimates of several completed data sets, combined by Rubin's rules.

    Attributes
    ----------
    params, bse : Series
        Mean of the estimates, and its standard errors.
    within, between : ndarray
        (P, P) mean of the covariances, and covariance of the estimates.
    df, fmi : Series
        Degrees of freedom (Barnard and Rubin) and fractions of missing information.
    n_imputations : int
    """

    within: Floats  # (P, P) mean of the covariances
    between: Floats  # (P, P) covariance of the estimates
    estimate: Floats  # (P,) mean of the estimates
    names: pd.Index  # (P,)
    n_imputations: int
    df_complete: float  # degrees of freedom of the complete data

    @property
    def params(self) -> pd.Series:
        """Mean of the estimates."""
        return pd.Series(self.estimate, index=self.names)

    @property
    def _inflated(self) -> Floats:
        """(P,) variance due to the missing labels."""
        return (1.0 + 1.0 / self.n_imputations) * np.diag(self.between)

    @property
    def cov(self) -> pd.DataFrame:
        """Total covariance."""
        total = self.within + (1.0 + 1.0 / self.n_imputations) * self.between
        return pd.DataFrame(total, index=self.names, columns=self.names)

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the estimates, by the name that statsmodels has for it."""
        return self.cov

    @property
    def bse(self) -> pd.Series:
        """Standard errors, from the total covariance."""
        return pd.Series(np.sqrt(np.diag(self.cov)), index=self.names)

    @property
    def df(self) -> pd.Series:
        """Degrees of freedom of the t intervals (Barnard and Rubin)."""
        share = self._inflated / np.diag(self.cov)
        with np.errstate(divide="ignore"):
            imputed = (self.n_imputations - 1.0) / share**2
            # (c + 1)/(c + 3) * c, written so that an infinite c stays infinite
            complete = self.df_complete * (1.0 - 2.0 / (self.df_complete + 3.0)) * (1.0 - share)
            values = 1.0 / (1.0 / imputed + 1.0 / complete)
        return pd.Series(values, index=self.names)

    @property
    def fmi(self) -> pd.Series:
        """Fraction of missing information."""
        increase = self._inflated / np.diag(self.within)
        return (increase + 2.0 / (self.df + 3.0)) / (increase + 1.0)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """(P, 2) t intervals at level 1 - ``alpha``."""
        check_alpha(alpha)
        reach = stats.t.ppf(1.0 - alpha / 2.0, self.df) * self.bse
        return pd.DataFrame({0: self.params - reach, 1: self.params + reach})

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, tests, intervals at level 1 - ``alpha``, degrees of freedom, fmi."""
        t = self.params / self.bse
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "t": t,
                "P>|t|": 2.0 * stats.t.sf(np.abs(t), self.df),
                "ci_lower": interval[0],
                "ci_upper": interval[1],
                "df": self.df,
                "fmi": self.fmi,
            }
        )

    def _repr_html_(self) -> str:
        return str(self.summary_frame()._repr_html_())


def pool(
    estimates: Sequence[Any],
    variances: Sequence[Any] | None = None,
    *,
    df_complete: float | None = None,
    names: Sequence[str] | None = None,
) -> Pooled:
    """Combine the estimates of completed data sets by Rubin's rules.

    Parameters
    ----------
    estimates : sequence
        Of fitted results (anything with ``params`` and ``cov_params()``), of pairs (params, cov),
        or, with ``variances``, of params.
    variances : sequence, optional
        One for each estimate: a number, (P,) variances or a (P, P) covariance.
    df_complete : float, optional
        Degrees of freedom that the complete data would have; by default ``df_resid`` of fitted
        results, else infinite.
    names : sequence of str, optional
        Of the estimates; by default the index of ``params`` where it has one.

    Returns
    -------
    Pooled
        With params, cov, bse, df, fmi, conf_int() and summary_frame().

    Examples
    --------
    >>> pooled = pool([0.30, 0.34, 0.32], [0.0004, 0.0005, 0.0006], names=["prevalence"])
    >>> pooled.summary_frame()[["coef", "std err", "df"]].round(4)
                coef  std err      df
    prevalence  0.32   0.0321  7.5078
    """
    items = list(estimates)
    if len(items) < 2:
        raise ValueError(f"estimates has {len(items)} element(s); Rubin's rules need two or more")
    if variances is not None:
        pairs = list(zip(items, list(variances), strict=True))
    elif all(hasattr(item, "cov_params") for item in items):
        pairs = [(item.params, item.cov_params()) for item in items]
        if df_complete is None:
            df_complete = getattr(items[0], "df_resid", None)
    elif all(isinstance(item, tuple) and len(item) == 2 for item in items):
        pairs = items
    else:
        raise ValueError(
            "estimates must be fitted results or pairs (params, cov); give variances with plain "
            "estimates"
        )
    values = np.array([np.atleast_1d(np.asarray(params, dtype=float)) for params, _ in pairs])
    within = np.mean([_covariance(cov, values.shape[1]) for _, cov in pairs], axis=0)
    if names is None:
        names = getattr(pairs[0][0], "index", None)
    index = pd.RangeIndex(values.shape[1]) if names is None else pd.Index(names)
    between = np.atleast_2d(np.cov(values, rowvar=False, ddof=1))
    complete = np.inf if df_complete is None else float(df_complete)
    return Pooled(within, between, values.mean(0), index, len(pairs), complete)


def _covariance(given: Any, size: int) -> Floats:
    """(P, P) from a number, variances or a covariance."""
    values = np.asarray(given, dtype=float)
    if values.ndim < 2:
        values = np.diag(np.atleast_1d(values))
    if values.shape != (size, size):
        raise ValueError(
            f"a covariance has shape {np.shape(given)}, but there are {size} estimates"
        )
    return values


def draw_params(
    params: Floats, cov: Floats, low: Floats, high: Floats, rng: np.random.Generator
) -> Floats:
    """One draw from N(params, cov) within bounds, (P,).

    Draws outside are thrown away: the distribution is the truncated normal.
    """
    scale = np.sqrt(np.diag(cov))
    safe = np.where(scale > 0, scale, 1.0)  # held parameters have no variance
    values, vectors = np.linalg.eigh(cov / np.outer(safe, safe))
    root = safe[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    for _ in range(1000):
        drawn: Floats = params + root @ rng.standard_normal(len(params))
        if (drawn >= low).all() and (drawn <= high).all():
            return drawn
    raise ValueError(
        "no draw of the dependence parameters lies within their bounds: they are hardly "
        "identified; use a simpler normalization such as 'loading'"
    )


def held(cov: Floats, k: int) -> Floats:
    """Covariance of a normal vector given its k-th element, whose row becomes zero, (P, P)."""
    rest: Floats = cov - np.outer(cov[:, k], cov[k]) / cov[k, k]
    rest[k], rest[:, k] = 0.0, 0.0
    return rest
