"""Predicted probabilities along a covariate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.base.model import GenericLikelihoodModelResults

from ..design.frames import as_frame
from ..errors import DesignError
from ..inference.checks import check_alpha
from ..inference.margins import columns, held, typical_row
from ..inference.prediction import predict_with_errors
from ..inference.probabilities import INDICES, check_which
from .plotting import LINES, MARKERS, SHADES, axes_of, legend_above

Floats = NDArray[np.float64]

STATUSES = ("mean", "mean-selected", "mean-unselected")
_FEW = 8  # values of a variable that are shown one by one
_POINTS = 40


class Curves(GenericLikelihoodModelResults):
    """Predicted probabilities along a covariate."""

    cov_params_default: Floats  # of SelectionResults

    def probabilities_along(
        self,
        variable: str,
        values: Any = None,
        *,
        which: str | Iterable[str] = STATUSES,
        data: Any = None,
        alpha: float = 0.05,
    ) -> pd.DataFrame:
        """Predicted probabilities at values of a covariate, with delta-method intervals.

        Parameters
        ----------
        variable : str
            A column of the data; of the designs for a model built from arrays.
        values : array_like, optional
            By default 40 between the first and the last percentile of the variable, or all of its
            values where they are few, no numbers, or the levels of a factor.
        which : str or list of str
            Probabilities of :meth:`predict`.
        data : DataFrame, optional
            Rows whose predictions are averaged, with the variable moved in all of them: one row is
            one case, the data that the model was built from are its sample. All rows count alike,
            whatever the model's weights, and of its offsets those that are columns are read, others
            are zero. By default one row, with the other variables at their weighted means (factors
            and what is no number: at the most frequent value).
        alpha : float
            Of the intervals, each of which is for one value.

        Returns
        -------
        DataFrame
            One row for each value; columns (which, predicted | se | ci_lower | ci_upper).

        Examples
        --------
        >>> from statsmodels_mnar import GreeneSelectionLogit
        >>> from statsmodels_mnar.datasets import simulate_greene
        >>> sim = simulate_greene(2_000, rng=1)
        >>> results = GreeneSelectionLogit.from_formula(
        ...     sim.formula, sim.select_formula, sim.data).fit()
        >>> table = results.probabilities_along("x1", [-1.0, 1.0], which="mean")
        >>> bool(table["mean"].predicted.is_monotonic_increasing)
        True
        """
        check_alpha(alpha)
        chosen = [which] if isinstance(which, str) else list(which)
        for each in chosen:
            check_which(each)
            if each in INDICES:
                raise ValueError(f"which={each!r} is an index; use a probability")
        formulas = self.model.design.outcome_spec is not None
        along = self._along_data if formulas else self._along_column
        return along(variable, values, chosen, data, alpha)

    def plot_probabilities(
        self,
        variable: str,
        values: Any = None,
        *,
        which: str | Iterable[str] = STATUSES,
        data: Any = None,
        alpha: float = 0.05,
        ax: Any = None,
    ) -> Any:
        """Predicted probabilities by selection status along a covariate, with intervals.

        Parameters
        ----------
        variable, values, which, data, alpha
            As in :meth:`probabilities_along`.
        ax : matplotlib axes, optional

        Examples
        --------
        >>> from statsmodels_mnar import GreeneSelectionLogit
        >>> from statsmodels_mnar.datasets import simulate_greene
        >>> sim = simulate_greene(2_000, rng=1)
        >>> results = GreeneSelectionLogit.from_formula(
        ...     sim.formula, sim.select_formula, sim.data).fit()
        >>> ax = results.plot_probabilities("x1")
        >>> ax.get_legend_handles_labels()[1]
        ['P(y = 1)', 'P(y = 1 | s = 1)', 'P(y = 1 | s = 0)']
        """
        ax = axes_of(ax)
        table = self.probabilities_along(variable, values, which=which, data=data, alpha=alpha)
        chosen = list(table.columns.unique(0))
        numeric = pd.api.types.is_numeric_dtype(table.index) and not self._is_factor(variable)
        points = not numeric or len(table) <= _FEW
        draw = _draw_points if points else _draw_line
        labels = self._in_words()
        for i, each in enumerate(chosen):
            draw(table[each], i, len(chosen), labels[each], ax)
        if points:
            ticks = [f"{v:g}" if isinstance(v, float) else str(v) for v in table.index]
            ax.set_xticks(np.arange(len(table)), ticks)
            ax.set_xlim(-0.5, len(table) - 0.5)
        ax.set(xlabel=variable, ylabel="probability")
        legend_above(ax)
        return ax

    def _is_factor(self, variable: str) -> bool:
        return self.model.design.outcome_spec is not None and variable in self._factors("p11")

    def _in_words(self) -> dict[str, str]:
        """The probabilities as one writes them."""
        y, s = self.model.design.outcome_name, self.model.design.select_name
        joint = {f"p{i}{j}": f"P({y} = {i}, {s} = {j})" for i in (0, 1) for j in (0, 1)}
        return joint | {
            "mean": f"P({y} = 1)",
            "mean-selected": f"P({y} = 1 | {s} = 1)",
            "mean-unselected": f"P({y} = 1 | {s} = 0)",
            "prob-select": f"P({s} = 1)",
        }

    def _along_data(
        self, variable: str, values: Any, chosen: list[str], data: Any, alpha: float
    ) -> pd.DataFrame:
        """Through the formulas."""
        model = self.model
        for spec in self._specs("p11"):
            spec.check_new_data()
        own = None
        if model._frame is not None and model.design.nobs:
            own = self._typed(model._frame.iloc[model.design.kept])
        rows = own if data is None else self._typed(as_frame(data))
        if rows is None:
            raise ValueError("data is needed: this model no longer has its own")
        self._check_read(variable, rows, "p11")
        source = (rows if own is None else own)[variable]
        at = _values(source, values, factor=self._is_factor(variable))
        offsets: dict[str, Any] = {}
        if data is None:
            read = {*model.design.outcome_spec.columns, *model.design.select_spec.columns}
            weights = self.model.design.row_weights
            rows = _typical(rows[sorted(read)], weights, self._factors("p11"))
            for name in ("offset", "offset_select"):
                own_offset = getattr(model, name)
                if own_offset is not None:
                    offsets[name] = np.average(own_offset, weights=weights)
        try:
            return self._moved(rows, variable, at, chosen, offsets, alpha)
        except DesignError as error:
            if data is not None:
                raise
            raise ValueError(
                f"data: the mean of each column is no row that the formulas can read ({error}); "
                "pass rows to predict at"
            ) from error

    def _moved(
        self,
        rows: pd.DataFrame,
        variable: str,
        at: pd.Series,
        chosen: list[str],
        offsets: dict[str, Any],
        alpha: float,
    ) -> pd.DataFrame:
        found = {}
        for which in chosen:
            if len(rows) == 1:
                moved = rows.iloc[np.zeros(len(at), dtype=int)].assign(**{variable: at.array})
                table = self.get_prediction(moved, which=which, **offsets).summary_frame(alpha)
            else:
                averages = (
                    self.get_prediction(rows.assign(**{variable: value}), which=which, average=True)
                    for value in at
                )
                table = pd.concat([average.summary_frame(alpha) for average in averages])
            found[which] = table.set_axis(pd.Index(at, name=variable))
        return pd.concat(found, axis=1)

    def _along_column(
        self, variable: str, values: Any, chosen: list[str], data: Any, alpha: float
    ) -> pd.DataFrame:
        """Along a column of the designs, for models built from arrays."""
        if data is not None:
            raise ValueError("data needs a model built from formulas; leave it out")
        self.model._check_data_at_hand()
        design, rows = self.model.design, self.model._designs("p11")
        known = {c.name: c for c in columns(rows, design.outcome_names, design.select_names)}
        if variable not in known:
            raise ValueError(f"variable={variable!r} must be one of {list(known)}")
        at = _values(pd.Series(known[variable].values(rows)), values)
        typical = typical_row(rows, "mean", self.model.design.row_weights)
        repeated = typical[np.zeros(len(at), dtype=int)]
        moved = held(repeated, list(known.values()), {variable: at.to_numpy(dtype=float)})
        cov = np.asarray(self.cov_params_default)
        index = pd.Index(at, name=variable)
        quantities = {which: self.model._quantity(self.params, which) for which in chosen}
        found = {
            which: predict_with_errors(quantity, moved, cov, index).summary_frame(alpha)
            for which, quantity in quantities.items()
        }
        return pd.concat(found, axis=1)


def _values(source: pd.Series, given: Any, *, factor: bool = False) -> pd.Series:
    """Values to predict at: those given, all of a few, or a grid between the percentiles."""
    if given is not None:
        values = pd.Series(np.atleast_1d(np.asarray(given)))
        numeric = pd.api.types.is_numeric_dtype(source)
        unlike = numeric and not pd.api.types.is_numeric_dtype(values)
        if values.empty or values.isna().any() or unlike:
            raise ValueError(f"values must be values of {source.name}, none missing, got {given!r}")
        return values
    distinct = source.dropna().drop_duplicates().sort_values()
    if factor or not pd.api.types.is_numeric_dtype(source) or len(distinct) <= _FEW:
        return distinct.reset_index(drop=True)
    low, high = np.nanpercentile(source.to_numpy(dtype=float), [1.0, 99.0])
    return pd.Series(np.linspace(low, high, _POINTS))


def _typical(rows: pd.DataFrame, weights: Floats, factors: set[str]) -> pd.DataFrame:
    """One row: means of numbers, the most frequent of other values and of factors' levels."""

    def centre(x: pd.Series) -> Any:
        number = pd.api.types.is_numeric_dtype(x) and not pd.api.types.is_bool_dtype(x)
        if number and x.name not in factors:
            return np.average(x.to_numpy(dtype=float), weights=weights)
        return pd.Series(weights, index=x.index).groupby(x, observed=True).sum().idxmax()

    return pd.DataFrame({name: [centre(rows[name])] for name in rows})


def _draw_line(table: pd.DataFrame, i: int, n: int, label: str, ax: Any) -> None:
    shade, style = SHADES[i % len(SHADES)], LINES[i % len(LINES)]
    at = table.index.to_numpy(dtype=float)
    ax.plot(at, table["predicted"], color=shade, linestyle=style, label=label)
    ax.fill_between(at, table["ci_lower"], table["ci_upper"], color=shade, alpha=0.12, linewidth=0)
    for end in ("ci_lower", "ci_upper"):
        ax.plot(at, table[end], color=shade, linestyle=style, linewidth=0.5)


def _draw_points(table: pd.DataFrame, i: int, n: int, label: str, ax: Any) -> None:
    gap = 0.15 * (i - (n - 1) / 2)
    mean = table["predicted"]
    reach = [mean - table["ci_lower"], table["ci_upper"] - mean]
    ax.errorbar(
        np.arange(len(table)) + gap, mean, yerr=reach,
        fmt=MARKERS[i % len(MARKERS)], color=SHADES[i % len(SHADES)], markersize=5, linewidth=1.0,
        markerfacecolor="white" if i % 2 else None, label=label,
    )  # fmt: skip
