"""Predictions of a fitted selection model, also of rows in partitions; residuals and influence."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from ..design import FormulaSpec, rebuild
from ..design.chunks import SavedDesign, refuse_partitioned
from ..design.sources import find_source
from ..design.terms import PenalisedTerm, level_codes
from ..design.values import as_floats, as_frame, is_dask
from ..kernel.rows import Rows
from ..large.execution import DaskPartitions, LocalPartitions, Store
from ..large.partitions import PartitionedRows, in_parts
from ..post.covariance import invert, param_influence
from ..post.margins import Column, average_effects, held
from ..post.prediction import (
    INDICES,
    NEEDS_OUTCOME,
    NEEDS_SELECT,
    Designs,
    Prediction,
    Quantity,
    Shrunk,
    across_predictions,
    as_covariance,
    average_weights,
    averaged,
    predict_average,
    predict_with_errors,
    slopes_by_level,
    summed_prediction,
)
from ..tools import progress_bar, written_whole
from ..types import Floats
from .shrinkage import check_level, shrunk, without_levels

if TYPE_CHECKING:
    from .fitted import SelectionResults


@dataclass(frozen=True, slots=True)
class FramePredictor:
    """Predicts for frames of new data; small, and a worker can unpickle it."""

    quantities: tuple[Quantity, ...]
    specs: tuple[FormulaSpec, FormulaSpec]
    offsets: tuple[str | None, str | None]  # columns

    def __dask_tokenize__(self) -> str:
        return hashlib.sha256(pickle.dumps(self)).hexdigest()

    @property
    def columns(self) -> list[str]:
        """Columns of the data that it reads."""
        names: list[str] = []
        for spec, offset, need in self._equations():
            if any(q.which in need for q in self.quantities):
                names += [*spec.columns, *([] if offset is None else [offset])]
        return list(dict.fromkeys(names))

    def check(self) -> None:
        """Refuse what no partition could evaluate, before any is read."""
        for spec, _, need in self._equations():
            if any(q.which in need for q in self.quantities):
                spec.check_new_data()

    def _equations(self) -> list[tuple[FormulaSpec, str | None, Any]]:
        needs = (NEEDS_OUTCOME, NEEDS_SELECT)
        return list(zip(self.specs, self.offsets, needs, strict=True))

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One column for each quantity; NaN where a covariate is missing."""
        parts: list[Any] = []
        offsets: list[Any] = []
        terms: list[PenalisedTerm] = []
        for spec, offset, need in self._equations():
            read = any(q.which in need for q in self.quantities)
            parts.append(rebuild(spec, frame).to_numpy() if read else None)
            terms += spec.penalised if read else ()
            known = read and offset is not None
            offsets.append(as_floats(frame[offset], str(offset)) if known else None)
        values = {}
        level = level_codes(terms, frame)
        for q in self.quantities:
            used = [q.which in need for _, _, need in self._equations()]
            X, W = (v if u else None for v, u in zip(parts, used, strict=True))
            a, b = (v if u else None for v, u in zip(offsets, used, strict=True))
            values[q.which] = q.value(Designs(X, W, a, b, level)) if len(frame) else np.empty(0)
        return pd.DataFrame(values, index=frame.index)


def predict_dask(frame: Any, predictor: FramePredictor) -> Any:
    """A dask Series of one predicted quantity, computed when it is asked for."""
    which = predictor.quantities[0].which
    meta = pd.Series(np.empty(0), name=which, index=frame._meta.index[:0])
    return frame[predictor.columns].map_partitions(_series, predictor, meta=meta)


def _series(frame: pd.DataFrame, predictor: FramePredictor) -> pd.Series:
    return predictor(frame).iloc[:, 0]


def write_predictions(
    frame: pd.DataFrame, number: int, predictor: FramePredictor, folder: str, keep: Sequence[str]
) -> str:
    """Predict for a partition and write one file, whole or not at all."""
    path = Path(folder, f"part-{number:05d}.parquet")
    table = pd.concat([frame[list(keep)], predictor(frame)], axis=1)
    with written_whole(path) as beside:
        table.to_parquet(beside, index=False)
    return str(path)


# -- the model's own rows --------------------------------------------------------------------------


def _designs(rows: Rows, which: str) -> Designs:
    """The rows of a partition, in their sorted order."""
    outcome, select = which in NEEDS_OUTCOME, which in NEEDS_SELECT
    return Designs(
        rows.X.mT.cpu().numpy() if outcome else None,
        rows.W.mT.cpu().numpy() if select else None,
        rows.offset.cpu().numpy() if outcome else None,
        rows.offset_select.cpu().numpy() if select else None,
        None if rows.level is None else rows.level.cpu().numpy(),
    )


def predict_partitions(
    rows: PartitionedRows, quantity: Quantity, cov: Floats, averaged_over: tuple[Shrunk, ...] = ()
) -> Prediction:
    """The weighted mean of all rows' predictions, whose levels of these terms are unknown."""
    parts = rows.parts.map(_average, quantity, averaged_over)
    total, *slopes = (sum(values) for values in zip(*parts, strict=True))
    slope, by_level = (values / rows.total_weight for values in slopes)
    variance = slope @ cov @ slope
    if quantity.levels is not None:
        variance += by_level**2 @ quantity.levels.variance
    return Prediction(
        np.array([total / rows.total_weight]),
        np.array([np.sqrt(variance)]),
        pd.Index(["average"]),
        quantity.which not in INDICES,
    )


def _average(
    rows: Rows, quantity: Quantity, averaged_over: tuple[Shrunk, ...]
) -> tuple[float, Floats, Floats]:
    at, weight = _designs(rows, quantity.which), rows.weight.cpu().numpy()
    if averaged_over:
        at = without_levels(at, averaged_over)
    return *summed_prediction(quantity, at, weight), slopes_by_level(quantity, at, weight)


def partition_effects(
    rows: PartitionedRows,
    quantity: Quantity,
    variables: list[Column],
    atexog: Mapping[str | int, Any],
    *,
    log: bool,
    elastic: bool,
) -> tuple[Floats, Floats]:
    """Weighted means of the rows' effects, (V,), and their Jacobian, (V, P)."""
    parts = list(rows.parts.map(_effects, quantity, variables, dict(atexog), log, elastic))
    value = sum(part[0] for part in parts) / rows.total_weight
    return value, sum(part[1] for part in parts) / rows.total_weight


def _effects(
    rows: Rows,
    quantity: Quantity,
    variables: list[Column],
    atexog: dict[str | int, Any],
    log: bool,
    elastic: bool,
) -> tuple[Floats, Floats]:
    at = held(_designs(rows, quantity.which), variables, atexog)
    return average_effects(
        quantity, at, variables, rows.weight.cpu().numpy(), log=log, elastic=elastic
    )


def mean_row(rows: PartitionedRows, which: str, low: Floats, high: Floats) -> Designs:
    """One row: every column at its weighted mean, a constant one at its value exactly."""
    parts = list(rows.parts.map(_sums, which))
    sums = [None if v[0] is None else sum(v) for v in zip(*parts, strict=True)]
    means = [None if v is None else v / rows.total_weight for v in sums]
    p, ends = rows.shape[0], np.where(low == high, low, np.nan)
    X, W = (
        None if mean is None else np.where(np.isnan(own), mean, own)[None]
        for mean, own in zip(means[:2], (ends[:p], ends[p:]), strict=True)
    )
    return Designs(X, W, means[2], means[3])


def _sums(rows: Rows, which: str) -> tuple[Any, ...]:
    at, weight = _designs(rows, which), rows.weight.cpu().numpy()
    parts = (at.X, at.W, at.offset, at.offset_select)
    return tuple(None if v is None else np.atleast_1d(weight @ v) for v in parts)


def zero_row(at: Designs, constant: Floats) -> Designs:
    """The row with all columns but the constants at zero."""
    p = 0 if at.X is None else at.X.shape[1]
    X = None if at.X is None else np.where(constant[:p], at.X, 0.0)
    W = None if at.W is None else np.where(constant[-at.W.shape[1] :], at.W, 0.0)
    a, b = (None if v is None else np.zeros(1) for v in (at.offset, at.offset_select))
    return replace(at, X=X, W=W, offset=a, offset_select=b)


# -- predictions of a fitted selection model -------------------------------------------------------


def predict(
    self: SelectionResults,
    exog: Any = None,
    exog_select: Any = None,
    transform: bool = True,
    *,
    which: str = "mean",
    offset: Any = None,
    offset_select: Any = None,
    level: str | None = None,
) -> Any:
    """Probabilities and indices, for the model's rows or new ones.

    Parameters
    ----------
    exog : DataFrame or array_like, optional
        For a model built from formulas: new data, which need only the columns that ``which``
        reads; for a dask DataFrame the result is a dask Series. Otherwise the outcome design.
    exog_select : array_like, optional
        Selection design, for models built from arrays (or with ``transform=False``).
    transform : bool
        Pass ``exog`` through the formulas.
    which : str
        See the model's ``predict``.
    offset, offset_select : array_like, optional
        For new data zero by default, or their own column where the model's offset was given by
        column name.
    level : {"average"}, optional
        Average over the levels of ``re()`` terms, whatever the rows' own are. By default a row has
        the effect of its level, and that of one not seen in the fit is zero.
    """
    average_levels = check_level(self, level)
    if is_dask(exog):
        if average_levels:
            raise ValueError("level='average' is for data in memory; compute the data frame first")
        _check_new(self, offset, offset_select)
        return predict_dask(exog, _predictor(self, (which,)))
    keywords, index = _inputs(self, exog, exog_select, transform, which, offset, offset_select)
    if average_levels:
        terms = shrunk(self)
        at = without_levels(self.model.designs(**keywords), terms)
        values = averaged(self.model.quantity(self.params, which), terms).value(at)
    else:
        values = self.model.quantity(self.params, which).value(self.model.designs(**keywords))
    if index is not None and len(index) == len(values):
        return pd.Series(values, index=index)
    return values


def predict_parquet(
    self: SelectionResults,
    data: Any,
    folder: Any,
    *,
    which: str | Sequence[str] = "mean",
    keep: Sequence[str] = (),
    partition_rows: int = 2**18,
    client: Any = None,
    progress: bool = False,
) -> list[str]:
    """Predict for data that need not fit into memory, and write the predictions to parquet.

    Parameters
    ----------
    data : path, pyarrow Dataset, DataFrame or dask DataFrame
    folder : str or Path
        An empty or new folder; it gets one file for each partition, in their order.
    which : str or list of str
        See the model's ``predict``; each is a column of the files.
    keep : list of str
        Columns of the data that are written beside the predictions.
    partition_rows : int
        Rows of a partition, about; not for dask DataFrames.
    client : distributed.Client, optional
        Workers that read and write.
    progress : bool
        Show a progress bar.

    Returns
    -------
    list of str
        The files.
    """
    predictor = _predictor(self, (which,) if isinstance(which, str) else tuple(which))
    source = find_source(data, partition_rows)
    columns = list(dict.fromkeys([*predictor.columns, *keep]))
    unknown = [name for name in columns if name not in source.columns]
    if unknown:
        raise ValueError(f"data lacks the column(s) {', '.join(unknown)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"folder={str(folder)!r} is not empty; its files would be mixed up")
    parts: Any
    if client is None:
        parts = LocalPartitions(source.readers(columns), source.names, Store(0))
    else:
        parts = DaskPartitions(client, source.delayed(columns), source.names)
    written = parts.map(
        write_predictions, predictor, str(folder.resolve()), tuple(keep),
        each=range(len(parts)),
    )  # fmt: skip
    return list(progress_bar(progress, "predict", len(parts), written, unit="partition"))


def _predictor(self: SelectionResults, which: tuple[str, ...]) -> FramePredictor:
    design = self.model.design
    if design.outcome_spec is None or design.select_spec is None:
        raise ValueError(
            "predictions from files and dask need a model built from formulas, which name columns"
        )
    predictor = FramePredictor(
        tuple(self.model.quantity(self.params, name) for name in which),
        (design.outcome_spec, design.select_spec),
        self.model.offset_columns,
    )
    predictor.check()
    return predictor


def _check_new(self: SelectionResults, *offsets: Any) -> None:
    if any(offset is not None for offset in offsets):
        raise ValueError(
            "offsets of a dask DataFrame are read from its columns where the model's were "
            "given by column name; other offsets are not supported there"
        )


def _inputs(
    self: SelectionResults,
    exog: Any,
    exog_select: Any,
    transform: bool,
    which: str,
    offset: Any,
    offset_select: Any,
) -> tuple[dict[str, Any], pd.Index | None]:
    """Keywords for the model's ``predict``, and the index of the rows."""
    design = self.model.design
    formulas = design.outcome_spec is not None
    if isinstance(design, SavedDesign):
        transform = transform and not design.takes_designs(exog, exog_select)
        if not (formulas and transform and exog_select is None):
            design.check_columns(exog, exog_select)
    level = None
    if exog is not None and transform and formulas and exog_select is None:
        exog = as_frame(exog)
        offset, offset_select = self.model.offsets_for(exog, which, offset, offset_select)
        level = self.model.levels_for(exog)
        exog, exog_select = self.model.design_for(exog, which)
    index = None
    for frame in (exog, exog_select):
        if index is None and isinstance(frame, pd.DataFrame | pd.Series):
            index = frame.index
    keywords = {
        "exog": exog,
        "exog_select": exog_select,
        "which": which,
        "offset": offset,
        "offset_select": offset_select,
        "level": level,
    }
    return keywords, index


def get_prediction(
    self: SelectionResults,
    exog: Any = None,
    exog_select: Any = None,
    transform: bool = True,
    *,
    which: str = "mean",
    average: bool = False,
    agg_weights: Any = None,
    offset: Any = None,
    offset_select: Any = None,
    cov: Any = None,
    interval: str | None = None,
    level: str | None = None,
) -> Prediction:
    """Predictions with delta-method standard errors and intervals.

    Parameters
    ----------
    exog, exog_select, transform, which, offset, offset_select
        As in :meth:`predict`.
    average : bool
        Predict the mean over the rows, such as the prevalence in the population. A row whose
        covariates are missing is an error there, unless its weight is zero.
    agg_weights : array_like, optional
        Weights of that mean. By default the model's weights for its own rows, equal ones for
        new rows.
    cov : array_like, DataFrame or BootstrapResults, optional
        Covariance of the parameters in place of the fit's.
    interval : {"wald", "profile"}, optional
        "wald" takes the likelihood for a parabola. "profile" refits the model over the error
        correlations: the interval is that of the profile likelihood or, where the fit is weak
        (see :attr:`weak`), the union of the intervals at every error correlation that the
        likelihood supports. By default "profile" for averages where the fit is weak or the
        likelihood far from a parabola, else "wald".
    level : {"average"}, optional
        As in :meth:`predict`. Without it a level of an ``re()`` term that was not seen in the fit
        has the effect zero, and the variance of the effects is in the interval; in an average all
        such rows count as one level. The standard deviation of the effects is taken as known.

    Returns
    -------
    Prediction
        With ``predicted``, ``se``, ``conf_int()`` and ``summary_frame()``; intervals of
        probabilities are made on the log-odds and stay inside (0, 1).

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> prevalence = model.fit().get_prediction(average=True)
    >>> prevalence.summary_frame().round(3)
             predicted     se  ci_lower  ci_upper
    average      0.389  0.017     0.357     0.424
    """
    covariance = as_covariance(cov, self.model.param_names, self.cov_params_default)
    over_rows = average or agg_weights is not None
    average_levels = check_level(self, level)
    predicted: Callable[[Any, Any], Prediction]
    if self.model.in_partitions and exog is None:
        if not average or agg_weights is not None:
            refuse_partitioned(self.model.design, "a prediction")
        self.model.check_rows_at_hand()
        rows = in_parts(self.model.plain_rows())
        predicted = partial(_of_partitions, rows, which, average_levels)
    else:
        predicted = _of_rows(
            self, exog, exog_select, transform, which, over_rows, agg_weights, offset,
            offset_select, average_levels,
        )  # fmt: skip
    found = predicted(self, covariance)
    if not self._by_profile(interval, automatic=over_rows and cov is None):
        return found
    across, members = self._across_members()
    there = [predicted(member, member.cov_params_default) for member in members]
    return replace(found, across=across_predictions(across, there))


def _of_partitions(
    rows: PartitionedRows,
    which: str,
    average_levels: bool,
    results: SelectionResults,
    covariance: Any,
) -> Prediction:
    """Predict the average over rows in partitions, with one of several fits of them."""
    quantity = results.model.quantity(results.params, which)
    if not average_levels:
        return predict_partitions(rows, quantity, covariance)
    terms = shrunk(results)
    return predict_partitions(rows, averaged(quantity, terms), covariance, terms)


def _of_rows(
    self: SelectionResults,
    exog: Any,
    exog_select: Any,
    transform: bool,
    which: str,
    over_rows: bool,
    agg_weights: Any,
    offset: Any,
    offset_select: Any,
    average_levels: bool,
) -> Callable[[Any, Any], Prediction]:
    """Read rows once, for predictions with this fit and its refits at other dependences."""
    keywords, index = _inputs(self, exog, exog_select, transform, which, offset, offset_select)
    design = self.model.design
    own = exog is None and exog_select is None
    at = self.model.designs(**keywords)
    if own:
        index = design.index
    elif index is not None and len(index) != len(at):  # one row given as a Series
        index = None
    weights = None
    if over_rows:
        default = design.weights if own else None
        weights = average_weights(agg_weights, default, len(at), "agg_weights")

    def predicted(results: Any, covariance: Any) -> Prediction:
        rows, quantity = at, results.model.quantity(results.params, which)
        terms = shrunk(results)
        if average_levels:
            rows, quantity = without_levels(rows, terms), averaged(quantity, terms)
            terms = ()
        if weights is None:
            return predict_with_errors(quantity, rows, covariance, index, terms)
        return predict_average(quantity, rows, covariance, weights, index, terms)

    return predicted


def fittedvalues(self: SelectionResults) -> Floats:
    """P(y = 1) in the population, for every row."""
    return self.model.predict(self.params)


def resid(self: SelectionResults) -> Floats:
    """Outcome less :attr:`fittedvalues`; NaN where unlabelled."""
    missed: Floats = self.model.endog - self.fittedvalues
    return missed


# -- residuals and influence -----------------------------------------------------------------------


def _mean_selected(self: SelectionResults) -> Floats:
    return self.model.predict(self.params, which="mean-selected")


def resid_response(self: SelectionResults) -> Floats:
    """Outcome less P(y = 1 | x, w, s = 1); NaN where unlabelled."""
    missed: Floats = self.model.endog - _mean_selected(self)
    return missed


def resid_pearson(self: SelectionResults) -> Floats:
    """Response residual over its standard deviation; NaN where unlabelled."""
    return pearson(self.model.endog, _mean_selected(self))


def resid_quantile(self: SelectionResults, rng: int | np.random.Generator | None = None) -> Floats:
    """Randomized quantile residuals: standard normal under the model; NaN where unlabelled.

    Parameters
    ----------
    rng : int or Generator, optional
        Of the uniform draws that fill the steps of the binary distribution.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> model.fit().resid_quantile(rng=0).shape
    (1000,)
    """
    return randomized_quantile(self.model.endog, _mean_selected(self), np.random.default_rng(rng))


def resid_generalized(self: SelectionResults) -> pd.DataFrame:
    """Derivatives of each row's log-likelihood in the indices of both equations.

    Columns ``outcome`` and ``select``: the expectation of the latent error, up to scale, given
    what is observed of the row. They are orthogonal to the columns of their designs.
    """
    model = self.model
    a, b = (model.predict(self.params, which=w) for w in ("linear", "linear-select"))
    one = np.ones((len(a), 1))
    rows = model.rows_of(replace(model.training_design, X=one, W=one, offset=a, offset_select=b))
    theta = np.concatenate([[0.0, 0.0], self._dependence_values()])
    scores = model.objective().with_rows(rows).row_scores(theta).cpu().numpy()
    return pd.DataFrame(scores[:, :2], index=model.design.index, columns=["outcome", "select"])


def _param_influence(self: SelectionResults) -> Floats:
    """(n, P) what each row adds to the estimates."""
    return param_influence(self._hessian(), self.model.score_obs(self.params))


def _refit_influence(self: SelectionResults) -> Floats | None:
    """Influence of every row on estimates whose every step is repeated, (n, P)."""
    return self._param_influence()


def _check_at_maximum(self: SelectionResults, name: str) -> None:
    """Raise an error where the fit is not at a maximum, which the rows' influence needs."""
    if not self.converged or not np.isfinite(self.cov_params_default).all():
        raise ValueError(
            f"{name} needs estimates at a maximum and their covariance (status: "
            f"{self.status.value}); fit with method='newton' and enough iterations (maxiter)"
        )


def _clusters(self: SelectionResults, name: str) -> NDArray[np.int64] | None:
    """Codes of the one way of clustering that sums of influences can follow."""
    if len(self._groups) > 1:
        raise ValueError(f"{name} takes one way of clustering, this fit has two")
    return self._groups[0] if self._groups else None


def get_influence(self: SelectionResults) -> Influence:
    """What each row does to the estimates, by one Newton step from them.

    Returns
    -------
    Influence
        With ``d_params``, ``params_one``, ``dfbetas``, ``cooks_distance`` and
        ``summary_frame()``, named as in statsmodels' MLEInfluence.

    Notes
    -----
    A row of ``freq_weights`` w leaves with all its w observations. BiasCorr's first stages
    are trained anew without the row as far as ``cov_type="stacked"`` can tell, else held.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(1_000).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> table = model.fit().get_influence().summary_frame()
    >>> table.shape
    (1000, 9)
    """
    self.model.check_rows_at_hand()
    self._check_at_maximum("get_influence")
    return Influence(
        d_params=self._param_influence(),
        params=np.asarray(self.params, dtype=float),
        cov=np.asarray(self.cov_params_default),
        df_resid=self.df_resid,
        index=self.model.design.index,
        names=tuple(self.model.param_names),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """One-step changes of the estimates when a row is left out.

    Names are those of statsmodels' ``MLEInfluence``. There is no hat matrix: leverage is not
    defined where the outcome of a row is not observed.

    Attributes
    ----------
    d_params : ndarray
        (n, P) estimates less those without the row, by one Newton step.
    params, cov : ndarray
        (P,) and (P, P) of the fit.
    df_resid : float
    index, names
        Of the rows and of the parameters.
    """

    d_params: Floats  # (n, P) estimates less those without the row, by one Newton step
    params: Floats  # (P,)
    cov: Floats  # (P, P)
    df_resid: float
    index: pd.Index  # (n,)
    names: tuple[str, ...]  # P

    @property
    def params_one(self) -> Floats:
        """(n, P) one-step estimates without the row."""
        return self.params - self.d_params

    @property
    def dfbetas(self) -> Floats:
        """(n, P) changes in standard errors."""
        return self.d_params / np.sqrt(np.diag(self.cov))

    @property
    def cooks_distance(self) -> tuple[Floats, Floats]:
        """(n,) distances d' cov^(-1) d / P, and statsmodels' p-values from the F distribution."""
        distance = np.einsum("ni,ij,nj->n", self.d_params, invert(self.cov), self.d_params)
        distance /= len(self.params)
        return distance, stats.f.sf(distance, len(self.params), self.df_resid)

    def summary_frame(self) -> pd.DataFrame:
        """DFBETAs (``dfb_`` and the parameter's name) and Cook's distance of every row."""
        table = pd.DataFrame(
            self.dfbetas, index=self.index, columns=[f"dfb_{name}" for name in self.names]
        )
        table["cooks_d"] = self.cooks_distance[0]
        return table


def pearson(y: Floats, p: Floats) -> Floats:
    """(y - p) over its standard deviation; NaN where y is."""
    return (y - p) / np.sqrt(p * (1.0 - p))


def randomized_quantile(y: Floats, p: Floats, rng: np.random.Generator) -> Floats:
    """Residuals of Dunn and Smyth (1996): standard normal if y is Bernoulli(p); NaN where y is."""
    u = rng.random(len(y))
    found: Floats = ndtri(np.where(y == 1, 1.0 - p + u * p, u * (1.0 - p)) + 0.0 * y)
    return found
