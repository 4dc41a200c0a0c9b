"""Several fits in one picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import pandas as pd
from scipy.stats import norm

from ..inference.checks import check_alpha
from ..results.plotting import draw_intervals, legend_above
from .tables import Comparison, compare

Show = Literal["margeff", "coefficients"]

_CONSTANTS = ("Intercept", "const")
_LABELS = {"margeff": "average marginal effect on P(y = 1)", "coefficients": "coefficient"}


def plot_coefficients(
    models: Any,
    show: Show = "coefficients",
    *,
    variables: Iterable[str] | None = None,
    alpha: float = 0.05,
    ax: Any = None,
) -> Any:
    """Outcome coefficients, or average marginal effects, with intervals across models.

    Parameters
    ----------
    models : Comparison, dict or sequence
        What :func:`compare` returned, or fitted results of the same rows that it takes.
    show : {"coefficients", "margeff"}
        Coefficients of logit and probit are on different scales, and so are those of selection
        logits with different dependence; effects can be compared.
    variables : list of str, optional
        Rows to show, in this order; by default all but the constant.
    alpha : float
        Of the normal intervals.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from statsmodels_mnar import compare
    >>> from statsmodels_mnar.comparison import plot_coefficients
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> fits = compare("y ~ x1 + x2", "s ~ x1 + x2 + z", data, ["naive", "probit"])
    >>> ax = plot_coefficients(fits, "margeff")
    >>> ax.get_legend_handles_labels()[1]
    ['naive', 'probit']
    """
    if show not in get_args(Show):
        raise ValueError(f"show={show!r} is unknown; use one of {list(get_args(Show))}")
    check_alpha(alpha)
    found = models if isinstance(models, Comparison) else compare(models)
    table: pd.DataFrame = getattr(found, show)
    if variables is None:
        chosen = [name for name in table.index if name not in _CONSTANTS]
    else:
        chosen = [variables] if isinstance(variables, str) else list(variables)
    unknown = [name for name in chosen if name not in table.index]
    if unknown or not chosen:
        raise ValueError(f"variables={chosen!r} must be some of {list(table.index)}")
    z = norm.ppf(1.0 - alpha / 2.0)
    tables = {}
    for name in table.columns.unique(0):
        estimate, error = (table[name].loc[chosen].iloc[:, j] for j in (0, 1))
        tables[name] = pd.DataFrame(
            {
                "estimate": estimate,
                "ci_lower": estimate - z * error,
                "ci_upper": estimate + z * error,
            }
        )
    ax = draw_intervals(tables, ax)
    ax.set_xlabel(f"{_LABELS[show]}, {1 - alpha:.0%} intervals")
    legend_above(ax)
    return ax
