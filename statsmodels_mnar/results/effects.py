"""Marginal effects of a fitted selection model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from pandas.api import types as pdt
from scipy.stats import norm
from statsmodels.iolib.summary import Summary, summary_params

from ..design.chunks import PartitionedDesign, refuse_partitioned
from ..design.specs import FormulaSpec
from ..design.values import as_frame, typed
from ..post.intervals import Targets
from ..post.margins import (
    At,
    Column,
    average_difference,
    average_effects,
    columns,
    held,
    kind_of,
    matched,
    moves,
    row_difference,
    row_effects,
    typical_row,
)
from ..post.prediction import (
    INDICES,
    NEEDS_OUTCOME,
    NEEDS_SELECT,
    Designs,
    Quantity,
    as_covariance,
    average_weights,
    check_known,
    check_which,
)
from ..tools import SectionedSummary, check_alpha
from ..types import Floats
from .predicting import mean_row, partition_effects, zero_row

if TYPE_CHECKING:
    from .fitted import SelectionResults


# Names, and for every quantity asked for its effects with their Jacobian in the parameters.
Effects = tuple[list[str], list[tuple[Floats, Floats | None]]]
_HEADINGS = {"dydx": "dy/dx", "eyex": "d(lny)/d(lnx)", "dyex": "dy/d(lnx)", "eydx": "d(lny)/dx"}


@dataclass(frozen=True, slots=True, eq=False)
class MarginalEffects:
    """Marginal effects with delta-method errors, laid out as statsmodels does.

    With ``at="all"`` there are only ``margeff``, of shape (n, V), and ``names``.

    Attributes
    ----------
    margeff : ndarray
        (V,) effects, or (n, V) of every row.
    margeff_cov : ndarray or None
        (V, V) by the delta method.
    names : tuple of str
        The V variables.
    which, at, method : str
        What was asked for.
    """

    margeff: Floats  # (V,) or (n, V)
    margeff_cov: Floats | None  # (V, V)
    names: tuple[str, ...]  # V variables
    which: str
    at: str
    method: str
    title: str
    endog_name: str
    across: Targets | None = None  # where intervals are not Wald's

    @property
    def interval(self) -> str:
        """How intervals are made: "wald" or "profile"."""
        return "wald" if self.across is None else "profile"

    @property
    def _cov(self) -> Floats:
        if self.margeff_cov is None:
            raise ValueError("only margeff is available with at='all'; use at='overall' for errors")
        return self.margeff_cov

    @property
    def margeff_se(self) -> Floats:
        """(V,) standard errors."""
        return np.sqrt(np.diag(self._cov))

    @property
    def tvalues(self) -> Floats:
        """(V,) effects over their standard errors."""
        return self.margeff / self.margeff_se

    @property
    def pvalues(self) -> Floats:
        """(V,) two-sided, of no effect."""
        if self.across is not None:
            return self.across.pvalues()
        found: Floats = 2.0 * norm.sf(np.abs(self.tvalues))
        return found

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(V, 2) intervals at level 1 - ``alpha``; see :attr:`interval`."""
        check_alpha(alpha)
        if self.across is not None:
            return self.across.interval(alpha)
        reach: Floats = norm.ppf([alpha / 2, 1 - alpha / 2]) * self.margeff_se[:, None]
        return self.margeff[:, None] + reach

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row for each variable, named as in statsmodels; intervals at level 1 - ``alpha``."""
        low, high = self.conf_int(alpha).T
        return pd.DataFrame(
            {
                _HEADINGS[self.method]: self.margeff,
                "Std. Err.": self.margeff_se,
                "z": self.tvalues,
                "Pr(>|z|)": self.pvalues,
                "Conf. Int. Low": low,
                "Cont. Int. Hi.": high,  # sic
            },
            index=list(self.names),
        )

    def summary(self, alpha: float = 0.05) -> Summary:
        """Text, HTML and LaTeX table with intervals at level 1 - ``alpha``."""
        numbers = (self.margeff, self.margeff_se, self.tvalues, self.pvalues, self.conf_int(alpha))
        table = summary_params(
            (self, *numbers), yname=self.endog_name, xname=list(self.names), alpha=alpha,
            use_t=False, skip_header=True,
        )  # fmt: skip
        if self.across is not None:  # a ratio to Wald's error, which says nothing there
            for row in table:
                row[3].data = ""
        ends = f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"
        table.insert_header_row(0, ["", _HEADINGS[self.method], "std err", "z", "P>|z|", *ends])
        found = SectionedSummary()
        left = [("Dep. Variable:", [self.endog_name]), ("Which:", [self.which])]
        right = [("Method:", [self.method]), ("At:", [self.at])]
        if self.across is not None:
            left.append(("Intervals:", ["profile"]))
            right.append(("", [""]))
        found.add_table_2cols(
            self, gleft=left, gright=right, title=self.title,
            yname=self.endog_name, xname=list(self.names),
        )  # fmt: skip
        found.tables.append(table)
        return found

    def __str__(self) -> str:
        if self.margeff_cov is None:
            return f"{self.title} of {len(self.margeff)} rows: {', '.join(self.names)}"
        return str(self.summary())

    def _repr_html_(self) -> str:
        if self.margeff_cov is None:
            return str(pd.DataFrame(self.margeff, columns=list(self.names))._repr_html_())
        return str(self.summary().as_html())


def get_margeff(
    self: SelectionResults,
    at: At = "overall",
    method: str = "dydx",
    atexog: Mapping[str | int, Any] | None = None,
    dummy: bool = True,
    count: bool = False,
    *,
    which: str = "mean",
    weights: Any = None,
    cov: Any = None,
    variables: Iterable[str] | None = None,
    data: Any = None,
    interval: str | None = None,
) -> MarginalEffects:
    """Marginal effects on a predicted probability.

    A variable that enters both equations has its total effect, P_a beta + P_b gamma; that of
    an instrument of the selection equation runs through the selection index alone.

    Parameters
    ----------
    at : {"overall", "mean", "median", "zero", "all"}
        Averaged over the rows; at the means, medians or zeros of the columns; or of every row,
        without errors.
    method : {"dydx", "eyex", "dyex", "eydx"}
        Effects on P or, with "ey", on log P; of x or, with "ex", of log x.
    atexog : dict, optional
        Values at which columns are held, by the variable's name or its position in ``exog``:
        one number, or one for each row.
    dummy : bool
        The effect of a 0/1 column is the difference between 1 and 0.
    count : bool
        The effect of a column of counts is half the difference between x + 1 and x - 1.
    which : str
        Any probability of :meth:`predict`: "mean", "mean-selected", "mean-unselected",
        "prob-select", "p11", ...
    weights : array_like, optional
        Of the rows in averages, means and medians; by default the model's own weights.
    cov : array_like, DataFrame or BootstrapResults, optional
        Covariance of the parameters in place of the fit's.
    variables : list of str, optional
        Columns of the data instead of the designs, moved through the formulas: the total
        effect of a variable with interactions, powers or splines, or of a factor's levels
        (numbers inside ``C()`` too) against its first. For ``at="overall"`` or "all".
    data : DataFrame, optional
        With ``variables``: other rows than the model's own.
    interval : {"wald", "profile"}, optional
        As in :meth:`get_prediction`. P-values agree with the intervals; standard errors are
        Wald's.

    Returns
    -------
    MarginalEffects
        With ``margeff``, ``margeff_se``, ``margeff_cov``, ``tvalues``, ``pvalues``,
        ``conf_int()``, ``summary_frame()`` and ``summary()``.

    Notes
    -----
    Errors are by the delta method with analytic derivatives and, as in statsmodels, take the
    covariates as fixed: they are those of the effect in the sample at hand.

    Without ``variables`` an effect belongs to a column of the designs, as in statsmodels: x and
    x:z move apart, and so do the dummies of a factor. A column is one variable with one of the
    other design if both hold the same values; different columns of the same name are distinguished
    by the prefix ``select_``. The columns of ``re()`` and ``smooth()`` terms are none: name their
    variables in ``variables``.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> effects = model.fit().get_margeff(which="mean-unselected")
    >>> effects.names
    ('x1', 'x2', 'z')
    """
    _check_choices(at, method, which)
    covariance = as_covariance(cov, self.model.param_names, self.cov_params_default)
    options: dict[str, Any] = {
        "weights": weights, "at": at, "method": method, "dummy": dummy, "count": count,
    }  # fmt: skip
    moved: Callable[[list[Quantity]], Effects]
    if variables is not None:
        if at not in ("overall", "all") or atexog is not None:
            raise ValueError(
                f"variables are moved in the data: at={at!r} must be 'overall' or 'all' and "
                "atexog None. Put other rows into data= instead."
            )
        moved = partial(self._by_data, variables=variables, data=data, **options)
    elif data is not None:
        raise ValueError("data is read with variables= only; name the columns to be moved")
    else:
        moved = partial(self._by_column, atexog=atexog, **options)
    names, [(effects, jacobian)] = moved([self.model.quantity(self.params, which)])
    across = None
    if jacobian is not None and self._by_profile(interval, automatic=cov is None):
        few, members = self._across_members()
        _, found = moved([fit.model.quantity(fit.params, which) for fit in members])
        slopes = np.stack([slope for _, slope in found if slope is not None])
        spread = np.stack([np.asarray(fit.cov_params_default) for fit in members])
        errors = np.sqrt(np.einsum("gvp,gpq,gvq->gv", slopes, spread, slopes))
        across = Targets(few, np.stack([values for values, _ in found]), errors)
    return MarginalEffects(
        effects,
        None if jacobian is None else jacobian @ covariance @ jacobian.T,
        tuple(names),
        which,
        at,
        method,
        f"{type(self.model).__name__} Marginal Effects",
        self.model.design.outcome_name,
        across,
    )


def _by_column(
    self: SelectionResults,
    quantities: Sequence[Quantity],
    *,
    weights: Any = None,
    at: At = "overall",
    method: str = "dydx",
    atexog: Mapping[str | int, Any] | None = None,
    dummy: bool = True,
    count: bool = False,
) -> Effects:
    """Move the columns of the designs."""
    self.model.check_rows_at_hand()
    if self.model.in_partitions:
        return _by_partition(self, quantities, weights, at, method, atexog or {}, dummy, count)
    design = self.model.design
    rows = self.model.designs(quantities[0].which)
    found = columns(rows, design.outcome_names, design.select_names, dummy=dummy, count=count)
    found = [column for column in found if not _penalised(self, column)]
    names = [column.name for column in found]
    if method.endswith("ex"):
        _check_continuous([column.name for column in found if column.kind != "slope"], method)
    share = average_weights(weights, design.weights, design.nobs, "weights")
    rows = held(rows, found, atexog or {})
    if at in ("mean", "median", "zero"):
        rows, share = typical_row(rows, at, share), np.ones(1)
    options = {"log": method.startswith("ey"), "elastic": method.endswith("ex")}
    if at == "all":
        return names, [(row_effects(one, rows, found, **options), None) for one in quantities]
    share = share / share.sum()
    return names, [average_effects(one, rows, found, share, **options) for one in quantities]


def _penalised(self: SelectionResults, column: Column) -> bool:
    """Whether it is a column of a penalised term, which is no variable by itself."""
    places = {"outcome": column.outcome, "select": column.select}
    terms = self.model.design.penalised
    return any(
        place is not None and term.columns.start <= place < term.columns.stop
        for term in terms
        for place in [places[term.equation]]
    )


def effect_columns(self: SelectionResults, which: str) -> list[Column]:
    """The variables of the designs that have an effect on this probability."""
    design = self.model.design
    found = columns(self.model.designs(which), design.outcome_names, design.select_names)
    return [column for column in found if not _penalised(self, column)]


def average_effect(self: SelectionResults, which: str, column: Column) -> tuple[float, float]:
    """The average marginal effect of one column, and its standard error.

    The fit's refits ask for it many times, and all other columns take most of the work.
    """
    quantity, design = self.model.quantity(self.params, which), self.model.design
    share = average_weights(None, design.weights, design.nobs, "weights")
    value, jacobian = average_effects(
        quantity, self.model.designs(which), [column], share / share.sum()
    )
    variance = jacobian[0] @ np.asarray(self.cov_params_default) @ jacobian[0]
    return float(value[0]), float(np.sqrt(variance))


def _by_partition(
    self: SelectionResults,
    quantities: Sequence[Quantity],
    weights: Any,
    at: At,
    method: str,
    atexog: Mapping[str | int, Any],
    dummy: bool,
    count: bool,
) -> Effects:
    """Move the columns of rows in partitions."""
    design, rows = self.model.design, self.model.plain_rows()
    if weights is not None or at in ("median", "all"):
        refuse_partitioned(design, "weights" if weights is not None else f"what at={at!r} reads")
    assert isinstance(design, PartitionedDesign)
    which = quantities[0].which
    facts, p = design.columns, len(design.outcome_names)
    kinds = [
        None if facts.low[j] == facts.high[j] else
        kind_of(facts.whole[j], facts.low[j], facts.high[j], dummy=dummy, count=count)
        for j in range(len(facts.low))
    ]  # fmt: skip
    outcome = kinds[:p] if which in NEEDS_OUTCOME else []
    select = kinds[p:] if which in NEEDS_SELECT else []
    names = design.outcome_names, design.select_names
    found = matched(outcome, select, lambda j, k: facts.same[j, k], *names)
    found = [column for column in found if not _penalised(self, column)]
    if method.endswith("ex"):
        _check_continuous([column.name for column in found if column.kind != "slope"], method)
    options = {"log": method.startswith("ey"), "elastic": method.endswith("ex")}
    labels = [column.name for column in found]
    if at == "overall":
        return labels, [
            partition_effects(rows, one, found, atexog, **options) for one in quantities
        ]
    row = mean_row(rows, which, facts.low, facts.high)
    if at == "zero":
        row = zero_row(row, facts.low == facts.high)
    row = held(row, found, atexog)
    return labels, [average_effects(one, row, found, np.ones(1), **options) for one in quantities]


def _by_data(
    self: SelectionResults,
    quantities: Sequence[Quantity],
    variables: Iterable[str],
    *,
    data: Any = None,
    weights: Any = None,
    at: At = "overall",
    method: str = "dydx",
    dummy: bool = True,
    count: bool = False,
) -> Effects:
    """Move variables of the data, by differences between two designs."""
    frame, own = _data_rows(self, data)
    which = quantities[0].which
    share = average_weights(weights, own, len(frame), "weights")
    found = []
    factors = self._factors(which)
    for name in [variables] if isinstance(variables, str) else variables:
        self._check_read(name, frame, which)
        found += moves(frame[name], dummy=dummy, count=count, factor=name in factors)
    if not found:
        raise ValueError("variables names no column that varies; leave it out for all columns")
    if method.endswith("ex"):
        _check_continuous([move.label for move in found if not move.continuous], method)
    if at == "overall":
        at_rows = _designs_of(self, frame, data is None, which)
        check_known(quantities[0].value(at_rows)[share > 0], frame.index[share > 0])
    log = method.startswith("ey")
    # Of each quantity: effects, each a number or (n,), and their slopes.
    effects: list[list[Any]] = [[] for _ in quantities]
    jacobian: list[list[Floats]] = [[] for _ in quantities]
    for move in found:
        low, high = (
            _designs_of(self, frame.assign(**{move.name: end}), data is None, which)
            for end in (move.low, move.high)
        )
        by_row = np.broadcast_to(1.0 / move.width, len(frame))
        if method.endswith("ex"):
            by_row = by_row * frame[move.name].to_numpy(dtype=float, na_value=np.nan)
        read = share > 0
        part = by_row[read] * share[read] / share.sum()
        for one, values, slopes in zip(quantities, effects, jacobian, strict=True):
            if at == "all":
                values.append(by_row * row_difference(one, low, high, log=log))
                continue
            effect, slope = average_difference(one, low[read], high[read], part, log=log)
            values.append(effect)
            slopes.append(slope)
    return [move.label for move in found], [
        (np.stack(values, axis=-1), np.stack(slopes) if slopes else None)
        for values, slopes in zip(effects, jacobian, strict=True)
    ]


def _data_rows(self: SelectionResults, data: Any) -> tuple[pd.DataFrame, Floats | None]:
    """The data whose variables are moved, and their weights."""
    model = self.model
    if model.design.outcome_spec is None:
        raise ValueError("variables= needs a model built from formulas; leave it out")
    if data is not None:
        frame = as_frame(data)
        if frame.empty:
            raise ValueError("data has no rows")
        return self._typed(frame), None
    if model.frame is None:
        raise ValueError(
            "variables= needs the data, which this model no longer has (it was unpickled, or "
            "its data were removed); pass data="
        )
    return self._typed(model.frame.iloc[model.design.kept]), model.design.weights


def _typed(self: SelectionResults, frame: pd.DataFrame) -> pd.DataFrame:
    """The data with the columns that the formulas read in the types that these see."""
    return typed(frame, {c for spec in self._specs("p11") for c in spec.columns})


def _specs(self: SelectionResults, which: str) -> list[FormulaSpec]:
    """The formulas that a prediction reads."""
    design = self.model.design
    specs = ((design.outcome_spec, NEEDS_OUTCOME), (design.select_spec, NEEDS_SELECT))
    return [spec for spec, need in specs if which in need and spec is not None]


def _factors(self: SelectionResults, which: str) -> set[str]:
    """Columns of the data that enter these formulas by their levels."""
    return {name for spec in self._specs(which) for name in spec.factors}


def _check_read(self: SelectionResults, name: str, frame: pd.DataFrame, which: str) -> None:
    read = sorted({c for spec in self._specs(which) for c in spec.columns})
    if name not in read or name not in frame.columns:
        raise ValueError(
            f"variables has {name!r}, which is not a column of the data that which={which!r} "
            f"reads; those are {read}"
        )
    column = frame[name]
    if pdt.is_numeric_dtype(column.dtype) and np.isinf(column.to_numpy(dtype=float)).any():
        raise ValueError(f"variables: {name} is infinite on some rows of the data; drop them")


def _designs_of(self: SelectionResults, frame: pd.DataFrame, own: bool, which: str) -> Designs:
    """Designs of these data through the formulas; ``own`` rows keep offsets without a name."""
    model = self.model
    known = (model.offset, model.offset_select) if own else (None, None)
    named = model.offset_columns  # these move with their column
    given = (v if name is None else None for v, name in zip(known, named, strict=True))
    offsets = model.offsets_for(frame, which, *given)
    level = model.levels_for(frame)
    return model.designs(which, *model.design_for(frame, which), *offsets, level)


def check_probability(which: str) -> None:
    """Refuse what has no effects but its coefficients."""
    check_which(which)
    if which in INDICES:
        raise ValueError(
            f"which={which!r} is linear: its effects are the coefficients; use a probability"
        )


def _check_choices(at: str, method: str, which: str) -> None:
    check_probability(which)
    if at not in get_args(At):
        raise ValueError(f"at={at!r} is unknown; use one of {list(get_args(At))}")
    if method not in _HEADINGS:
        raise ValueError(f"method={method!r} is unknown; use one of {list(_HEADINGS)}")


def _check_continuous(discrete: list[str], method: str) -> None:
    if discrete:
        raise ValueError(
            f"method={method!r} has no meaning for the discrete variable(s) {discrete}; use 'dydx' "
            "or 'eydx', or dummy=False and count=False to take slopes in them"
        )
