"""Penalised terms of a fit: their table and tests, curves and effects of levels, and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from ..design.terms import PenalisedTerm, Spline
from ..kernel.rows import Rows
from ..optimize.levels import Effects
from ..optimize.maximize import maximize
from ..optimize.penalties import choose, curvature, marginal, smoothed, without
from ..post.covariance import invert
from ..post.prediction import Designs, Shrunk
from ..tools import check_alpha
from ..types import Floats
from .drawing import FAINT, SHADES, axes_of, draw_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..optimize.objective import Objective
    from ..optimize.solution import Solution
    from .fitted import SelectionResults

_POINTS = 100  # of a curve
_SMALL = 50  # rows of a level, below which a joint mode is biased (docs/howto/decision-makers)
_MOST_NAMED = 60  # levels of which a picture shows the names


@dataclass(frozen=True, slots=True, eq=False)
class TermFacts:
    """What is said of the m penalised terms, apart from the level of intervals."""

    names: tuple[str, ...]
    equations: tuple[str, ...]
    kinds: tuple[str, ...]
    ranks: tuple[int, ...]
    penalty: Floats  # (m,)
    estimated: tuple[bool, ...]
    vanished: tuple[bool, ...]
    edf: Floats  # (m,)
    log_sd_error: Floats  # (m,) standard error of log(sd), NaN where it is not estimated
    lr: Floats  # (m,) twice the marginal likelihood gained over a variance of zero
    flat: Floats  # (m,) Wald statistic that a smooth is flat; NaN for levels
    flat_df: Floats  # (m,)


def facts(self: SelectionResults) -> TermFacts:
    """The facts about the terms, which outlive the data."""
    return self._once("terms", lambda: _facts(self))


def _facts(self: SelectionResults) -> TermFacts:
    model, terms, found = self.model, self.model.design.penalised, self._fit_info.penalties
    assert found is not None
    blocks, values = model.blocks_of(), found.values
    free = self._leverage()
    edf = np.array([apart_edf(self) if block.apart else float(free[block.cut].sum())
                    for block in blocks])  # fmt: skip
    cov = curvature(_without_adjustment(self), self.solution, _integrated(self), blocks, found,
                    _climber(self), model.outer())  # fmt: skip
    flat = [_flat(self, term, block.cut, own) for term, block, own in
            zip(terms, blocks, edf, strict=True)]  # fmt: skip
    return TermFacts(
        names=labels(terms),
        equations=tuple(term.equation for term in terms),
        kinds=tuple(term.kind for term in terms),
        ranks=tuple(term.rank for term in terms),
        penalty=values,
        estimated=tuple(map(bool, found.estimated)),
        vanished=tuple(map(bool, found.vanished)),
        edf=edf,
        log_sd_error=0.5 * np.sqrt(np.diag(cov)),
        lr=np.array([_ratio(self, j) for j in range(len(terms))]),
        flat=np.array([each[0] for each in flat]),
        flat_df=np.array([each[1] for each in flat]),
    )


def labels(terms: tuple[PenalisedTerm, ...]) -> tuple[str, ...]:
    """Names as those of parameters: terms of the selection equation have a prefix."""
    return tuple(
        f"select_{term.name}" if term.equation == "select" else term.name for term in terms
    )


def leverage(self: SelectionResults) -> Floats:
    """Effective degrees of freedom of each parameter, (P,): the diagonal of (E + S)^(-1) E.

    E is the expected information at the estimates, as in mgcv; the observed one where that is not
    positive definite.
    """
    return self._once("leverage", lambda: _free_shares(self)[0])  # outlives the data


def apart_edf(self: SelectionResults) -> float:
    """Effective degrees of freedom of the effects that are apart; zero without any."""
    if self.model.effects is None:
        return 0.0
    return self._once("apart_edf", lambda: _free_shares(self)[1])


def _free_shares(self: SelectionResults) -> tuple[Floats, float]:
    """Effective degrees of freedom of the parameters, and of effects that are apart."""
    model, keep = self.model, self.model.estimated
    whole = np.zeros((len(keep), len(keep)))
    objective = model.objective()
    if objective.smoothing is not None:
        whole = objective.smoothing
    penalty = whole[np.ix_(keep, keep)]
    found, beside = np.zeros(len(keep)), 0.0
    observed = -self._hessian() - penalty
    for information, effects in (_expected(self), (observed, model.effects)):
        inverse = invert(information + penalty)
        if np.isfinite(inverse).all():
            found[keep] = 1.0 - np.einsum("ij,ji->i", inverse, penalty)
            if effects is not None and objective.rows.apart is not None:
                cov = np.zeros((len(keep), len(keep)))
                cov[np.ix_(keep, keep)] = inverse
                prior = objective.rows.apart.precision
                beside = len(effects.values) - prior * effects.covariance_trace(cov)
            return found, beside
    found[keep] = np.nan
    return found, np.nan if model.effects is not None else 0.0


def _expected(self: SelectionResults) -> tuple[Floats, Effects | None]:
    """Expected information of the estimated parameters, and of effects that are apart."""
    model, keep = self.model, np.ix_(self.model.estimated, self.model.estimated)
    information, effects = model.objective().expected_information(
        model.expand(self.params), model.effects
    )
    return information[keep], effects


def _without_adjustment(self: SelectionResults) -> Objective:
    """The penalised log-likelihood alone."""
    objective = self.model.objective(self._fit_info.penalty)
    plain: Objective = objective.smoothed(objective.rows.smoothing)
    return plain


def _integrated(self: SelectionResults) -> NDArray[np.bool_]:
    """(P,) the parameters that the marginal likelihood integrates out."""
    free, outer = self.model.estimated, self.model.outer()
    if outer is not None:
        free[outer.position] = False
    return free


def _climber(self: SelectionResults) -> Callable[[Objective, Floats], Solution]:
    free = _integrated(self)
    return lambda own, start: maximize(own, start, free=free)


def _ratio(self: SelectionResults, term: int) -> float:
    """Twice the log marginal likelihood gained over a variance of zero, other penalties held."""
    found, model, blocks = self._fit_info.penalties, self.model, self.model.blocks_of()
    assert found is not None
    if not found.estimated[term]:
        return math.nan
    if found.vanished[term]:
        return 0.0
    objective, climb, outer = _without_adjustment(self), _climber(self), model.outer()
    values = without(found, term, blocks, objective, self.solution)
    own = smoothed(objective, blocks, values)
    there, free = climb(own, self.solution.params), _integrated(self)
    if outer is not None:  # the dependence goes where it is without the term
        held = [replace(block, fixed=value) for block, value in zip(blocks, values, strict=True)]
        there, _ = choose(own, there, free, held, values, climb, outer)
    less = marginal(own, there, free, blocks, values, outer, exact=False)
    at = marginal(
        objective, climb(objective, self.solution.params), free, blocks, found.values, outer,
        exact=False,
    )  # fmt: skip
    if at is None or less is None:
        return math.nan
    return max(2.0 * (at.value - less.value), 0.0)


def _flat(
    self: SelectionResults, term: PenalisedTerm, cut: slice, edf: float
) -> tuple[float, float]:
    """Wald statistic that a smooth is zero over the rows, and its degrees of freedom.

    Of the curve's values, with the inverse of their covariance cut at the effective degrees of
    freedom: directions that the penalty has all but removed would add noise (Wood 2006, 4.8.5).
    """
    if term.kind != "smooth":
        return math.nan, math.nan
    place = term.columns.start, term.columns.stop
    inner = self.model.rows.sum(_inner_products, term.equation, *place)[0].cpu().numpy()
    upper = np.linalg.cholesky(inner + 1e-12 * np.eye(len(inner))).T
    position = np.flatnonzero(self.model.estimated).searchsorted(np.arange(cut.start, cut.stop))
    b = np.asarray(self.params)[position]
    cov = np.asarray(self.cov_params_default)[np.ix_(position, position)]
    size, directions = np.linalg.eigh(upper @ cov @ upper.T)
    rank = min(max(1, math.ceil(edf - 0.05)), len(b))
    along = directions[:, ::-1][:, :rank].T @ (upper @ b)
    return float(np.sum(along**2 / size[::-1][:rank])), float(rank)


def _inner_products(rows: Rows, equation: str, start: int, stop: int) -> tuple[Tensor]:
    """Of columns of the design of an equation, over all rows."""
    columns = (rows.X if equation == "outcome" else rows.W)[start:stop]
    return (columns @ columns.mT,)


def penalised_terms(self: SelectionResults, alpha: float = 0.05) -> pd.DataFrame:
    """Effective degrees of freedom, standard deviations and tests of ``re()`` and ``smooth()``.

    Parameters
    ----------
    alpha : float
        Of the intervals of the standard deviations.

    Returns
    -------
    DataFrame
        One row for each term, those of the selection equation with the prefix ``select_``:

        - ``edf``: effective degrees of freedom, at most ``columns``
        - ``penalty``: lambda; ``estimated`` tells whether it was
        - ``sd``, ``sd_lower``, ``sd_upper``: of the effects of levels, with a Wald interval of its
          logarithm; NaN for smooths
        - ``lr_zero``, ``p_zero``: twice the gain in the marginal likelihood over a variance of
          zero, for a smooth over a straight line. The null is on the boundary: half the mass of the
          reference distribution is at zero and half is chi-squared with one degree of freedom. With
          few levels, and for smooths, more than half is at zero and the p-value is too large
        - ``chi2_flat``, ``df_flat``, ``p_flat``: Wald test that a smooth is zero everywhere

    Notes
    -----
    Tests and intervals take the other penalties as known. Degrees of freedom use the expected
    information, as in mgcv.

    Examples
    --------
    >>> from statsmodels_mnar import ProbitSelection
    >>> from statsmodels_mnar.datasets import simulate_interviewers
    >>> data = simulate_interviewers(1_500, rng=0).data
    >>> results = ProbitSelection.from_formula(
    ...     "y ~ smooth(x1) + x2", "s ~ smooth(x1) + x2 + re(interviewer)", data).fit()
    >>> list(results.penalised_terms().index)
    ['smooth(x1)', 'select_smooth(x1)', 'select_re(interviewer)']
    """
    check_alpha(alpha)
    found = _known(self)
    kinds = np.array(found.kinds)
    with np.errstate(divide="ignore"):
        sd = np.where(kinds == "re", 1.0 / np.sqrt(found.penalty), np.nan)
    sd = np.where((kinds == "re") & np.array(found.vanished), 0.0, sd)
    reach = np.exp(stats.norm.ppf(1.0 - alpha / 2.0) * found.log_sd_error)
    return pd.DataFrame(
        {
            "equation": found.equations,
            "edf": found.edf,
            "rank": found.ranks,
            "penalty": found.penalty,
            "estimated": found.estimated,
            "sd": sd,
            "sd_lower": sd / reach,
            "sd_upper": sd * reach,
            "lr_zero": found.lr,
            "p_zero": boundary_pvalues(found.lr),
            "chi2_flat": found.flat,
            "df_flat": found.flat_df,
            "p_flat": stats.chi2.sf(found.flat, found.flat_df),
        },
        index=pd.Index(found.names, name="term"),
    )


def boundary_pvalues(lr: Floats) -> Floats:
    """P-values of likelihood ratios of one variance: half a point mass at zero, half chi2(1)."""
    return np.where(np.isnan(lr), np.nan, np.where(lr > 0.0, 0.5 * stats.chi2.sf(lr, 1), 1.0))


def _known(self: SelectionResults) -> TermFacts:
    if not self.model.design.penalised:
        raise ValueError("the formulas have no penalised terms; add re(g) or smooth(x)")
    return facts(self)


def term_named(self: SelectionResults, term: str, kind: str | None = None) -> PenalisedTerm:
    """The penalised term of this name; the prefix ``select_`` tells equations apart."""
    terms = self.model.design.penalised
    known = dict(zip(labels(terms), terms, strict=True))
    short = [each for each in terms if each.name == term]
    chosen = known.get(term) or (short[0] if len(short) == 1 else None)
    if chosen is None or (kind is not None and chosen.kind != kind):
        fit = [name for name, each in known.items() if kind in (None, each.kind)]
        others = f"those are {', '.join(fit)}" if fit else "the model has none"
        raise ValueError(f"term={term!r} is not a term that this method takes; {others}")
    return chosen


def _position(self: SelectionResults, term: PenalisedTerm) -> slice:
    first = self.model.k_outcome if term.equation == "select" else 0
    return slice(first + term.columns.start, first + term.columns.stop)


def group_effects(self: SelectionResults, term: str, alpha: float = 0.05) -> pd.DataFrame:
    """Effects of the levels of an ``re()`` term on the index, with intervals.

    Parameters
    ----------
    term : str
        As in the formula, ``"re(g)"``; ``"select_re(g)"`` where both equations have it.
    alpha : float
        Of the intervals, of each level by itself.

    Returns
    -------
    DataFrame
        One row for each level, the smallest effect first; columns effect, se, ci_lower, ci_upper.
    """
    check_alpha(alpha)
    found = term_named(self, term, "re")
    assert not isinstance(found.basis, Spline)
    effect, se = _effects_of(self, found)
    reach = stats.norm.ppf(1.0 - alpha / 2.0) * se
    table = pd.DataFrame(
        {"effect": effect, "se": se, "ci_lower": effect - reach, "ci_upper": effect + reach},
        index=pd.Index(found.basis.levels, name=found.column),
    )
    return table.sort_values("effect", kind="stable")


def _effects_of(self: SelectionResults, term: PenalisedTerm) -> tuple[Floats, Floats]:
    """Effects of the levels of a term, and their standard errors."""
    cov = np.asarray(self.cov_params_default)
    if term.apart:
        apart, keep = self.model.effects, self.model.estimated
        assert apart is not None
        moves = apart.tangent[keep]
        variance = 1.0 / apart.information + np.einsum("pq,pq->q", moves, cov @ moves)
        return apart.values, np.sqrt(variance)
    cut = _position(self, term)
    return np.asarray(self.params)[cut], np.sqrt(np.diag(cov[cut, cut]))


def smooth_curve(
    self: SelectionResults, term: str, at: Any = None, alpha: float = 0.05
) -> pd.DataFrame:
    """The curve of a ``smooth()`` term, centred to mean zero over the rows, with a band.

    Parameters
    ----------
    term : str
        As in the formula, ``"smooth(x)"``; ``"select_smooth(x)"`` where both equations have it.
    at : array_like, optional
        Values of the covariate; by default 100 over its range. Beyond it the curve is a straight
        line.
    alpha : float
        Of the band, which is for each point by itself.

    Returns
    -------
    DataFrame
        Columns curve, se, ci_lower, ci_upper, by the covariate.
    """
    check_alpha(alpha)
    found = term_named(self, term, "smooth")
    assert isinstance(found.basis, Spline)
    low, high = found.basis.limits
    x = np.linspace(low, high, _POINTS) if at is None else np.atleast_1d(np.asarray(at, float))
    columns, cut = found.basis.columns(x), _position(self, found)
    curve = columns @ np.asarray(self.params)[cut]
    cov = np.asarray(self.cov_params_default)[cut, cut]
    se = np.sqrt(np.einsum("ij,jk,ik->i", columns, cov, columns))
    reach = stats.norm.ppf(1.0 - alpha / 2.0) * se
    return pd.DataFrame(
        {"curve": curve, "se": se, "ci_lower": curve - reach, "ci_upper": curve + reach},
        index=pd.Index(x, name=found.column),
    )


def plot_smooth(
    self: SelectionResults, term: str, ax: Axes | None = None, alpha: float = 0.05
) -> Axes:
    """The curve of a ``smooth()`` term with its band, see :meth:`smooth_curve`.

    Parameters
    ----------
    term : str
    ax : matplotlib axes, optional
    alpha : float
        Of the band.

    Examples
    --------
    >>> from statsmodels_mnar import ProbitSelection
    >>> from statsmodels_mnar.datasets import simulate_interviewers
    >>> data = simulate_interviewers(1_500, rng=0).data
    >>> results = ProbitSelection.from_formula(
    ...     "y ~ smooth(x1) + x2", "s ~ x1 + x2 + re(interviewer)", data).fit()
    >>> results.plot_smooth("smooth(x1)").get_xlabel()
    'x1'
    """
    table = smooth_curve(self, term, alpha=alpha)
    found, ax = term_named(self, term, "smooth"), axes_of(ax)
    x = table.index.to_numpy()
    ax.fill_between(x, table["ci_lower"], table["ci_upper"], color="0.85", linewidth=0.0,
                    label=f"{1 - alpha:.0%} band")  # fmt: skip
    ax.axhline(0.0, color=FAINT, linewidth=0.8)
    ax.plot(x, table["curve"], color=SHADES[0], label=found.name)
    design = self.model.design
    name = design.outcome_name if found.equation == "outcome" else design.select_name
    ax.set(xlabel=found.column, ylabel=f"{found.name}, index of {name}")
    return ax


def plot_levels(
    self: SelectionResults, term: str, ax: Axes | None = None, alpha: float = 0.05
) -> Axes:
    """The effects of the levels of an ``re()`` term in their order, with intervals.

    Parameters
    ----------
    term : str
    ax : matplotlib axes, optional
    alpha : float
        Of the intervals.

    Examples
    --------
    >>> from statsmodels_mnar import ProbitSelection
    >>> from statsmodels_mnar.datasets import simulate_interviewers
    >>> data = simulate_interviewers(1_500, rng=0).data
    >>> results = ProbitSelection.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + re(interviewer)", data).fit()
    >>> results.plot_levels("re(interviewer)").get_xlabel()
    're(interviewer), index of s'
    """
    table = group_effects(self, term, alpha)
    found, design = term_named(self, term, "re"), self.model.design
    name = design.outcome_name if found.equation == "outcome" else design.select_name
    shown = table.rename(columns={"effect": "estimate"})
    if len(table) <= _MOST_NAMED:
        ax = draw_intervals({found.name: shown.set_axis(shown.index.map(str), axis=0)}, ax)
    else:
        ax = axes_of(ax)
        place = np.arange(len(shown))
        ax.axvline(0.0, color=FAINT, linewidth=0.8)
        ax.hlines(place, shown["ci_lower"], shown["ci_upper"], color="0.6", linewidth=0.6)
        ax.plot(shown["estimate"], place, linestyle="", marker=".", color=SHADES[0])
        ax.set_yticks([])
        ax.set_ylabel(f"{len(shown)} levels of {found.column}")
    ax.set_xlabel(f"{found.name}, index of {name}")
    return ax


# -- levels that were not seen, and the average over levels ----------------------------------------


def shrunk(self: SelectionResults) -> tuple[Shrunk, ...]:
    """The ``re()`` terms, as predictions need them: their columns and standard deviations."""
    found = self._fit_info.penalties
    if found is None:
        return ()
    return tuple(
        Shrunk(term.equation, term.columns, 0.0 if gone else float(value) ** -0.5, term.apart)
        for term, value, gone in zip(
            self.model.design.penalised, found.values, found.vanished, strict=True
        )
        if term.kind == "re"
    )


def check_level(self: SelectionResults, level: str | None) -> bool:
    """Whether predictions are averaged over the levels of ``re()`` terms."""
    if level is None:
        return False
    if level != "average":
        raise ValueError(f"level={level!r} is unknown; use 'average', or None for the rows' own")
    if not any(term.kind == "re" for term in self.model.design.penalised):
        raise ValueError("level='average' is for models with an re() term, which this one lacks")
    return True


def without_levels(at: Designs, terms: tuple[Shrunk, ...]) -> Designs:
    """The rows with all levels unknown."""
    X, W = (None if m is None else m.copy() for m in (at.X, at.W))
    for term in terms:
        matrix = X if term.equation == "outcome" else W
        if matrix is not None:
            block = matrix[:, term.columns]
            block[~np.isnan(block)] = 0.0
    return replace(at, X=X, W=W, level=None)


def kinds(self: SelectionResults) -> dict[str, str]:
    """The terms by the names of the table, and what each is."""
    terms = self.model.design.penalised
    return dict(zip(labels(terms), (term.kind for term in terms), strict=True))


def record(self: SelectionResults) -> list[dict[str, Any]]:
    """The terms as plain data, for files."""
    found = _known(self)
    rows = []
    for j, term in enumerate(self.model.design.penalised):
        basis: dict[str, Any]
        if isinstance(term.basis, Spline):
            basis = {"knots": term.basis.knots, "constraint": term.basis.constraint, "levels": None}
        else:
            levels = [_plain_level(level) for level in term.basis.levels]
            basis = {"knots": None, "constraint": None, "levels": levels}
        rows.append(
            {"kind": term.kind, "column": term.column, "equation": term.equation,
             "start": term.start, "fixed": term.fixed, "apart": term.apart}
            | basis
            | {name: getattr(found, name)[j] for name in PER_TERM}
        )  # fmt: skip
    return rows


def _plain_level(level: Any) -> Any:
    """A level as JSON has it: a number, a truth value, or text."""
    return level if isinstance(level, bool | int | float | np.number) else str(level)


def effects_record(self: SelectionResults) -> dict[str, Any] | None:
    """The effects of the factor that is apart as plain data, for files."""
    found = self.model.effects
    if found is None:
        return None
    names = ("values", "information", "tangent")
    return {name: getattr(found, name) for name in names}


def adjustment_record(self: SelectionResults) -> dict[str, Any] | None:
    """What the dependence was adjusted by as plain data, for files."""
    found = self._fit_info.penalties
    if found is None or found.adjustment is None:
        return None
    at = found.adjustment
    return {"kind": at.kind, "knots": at.knots, "values": at.values, "unit": at.unit}


PER_TERM = (
    "penalty", "estimated", "vanished", "edf", "log_sd_error", "lr", "flat", "flat_df",
)  # fmt: skip


# -- what the summary and the report say -----------------------------------------------------------


def ordinary(self: SelectionResults) -> Any:
    """(P,) whether a parameter is none of a penalised term."""
    names = np.ones(len(self.params), dtype=bool)
    for term in self.model.design.penalised:
        names[_position(self, term)] = False
    return names


def table_cells(self: SelectionResults, alpha: float) -> pd.DataFrame:
    """The terms as the summary shows them, one line each."""
    found = penalised_terms(self, alpha)
    ends = f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"

    def text(value: float, form: str = ".4f") -> str:
        return "" if np.isnan(value) else format(value, form)

    rows = []
    for _, row in found.iterrows():
        levels = np.isnan(row.df_flat)
        test, p = (row.lr_zero, row.p_zero) if levels else (row.chi2_flat, row.p_flat)
        rows.append(
            {
                "edf": text(row.edf, ".2f"),
                "sd": text(row.sd),
                ends[0]: text(row.sd_lower),
                ends[1]: text(row.sd_upper),
                "chi2": text(test, ".2f"),
                "P>chi2": text(p, ".3f"),
            }
        )
    return pd.DataFrame(rows, index=found.index)


def notes(self: SelectionResults) -> list[str]:
    """What a reader of the penalised terms must know."""
    found = _known(self)
    lines = [
        "Penalised terms: penalties maximise Laplace's approximation of the marginal likelihood. "
        "Intervals of coefficients, curves and predictions take them as known (bootstrap() with "
        "penalties='estimated' does not). chi2 of re() tests that the variance is zero (half a "
        "point mass at zero, half chi2(1)), that of smooth() that the curve is flat (Wald)."
    ]
    penalties = self._fit_info.penalties
    if penalties is not None and penalties.adjustment is not None:
        lines.append(
            "The dependence maximises that likelihood too: coefficients are integrated out. "
            "Profiles, likelihood ratios and the test of independence are those of this likelihood."
        )
    elif self._form.free.any():
        rows = {"outcome": self.nobs_selected, "select": self.nobs}
        small = [
            name
            for name, kind, equation, levels in zip(
                found.names, found.kinds, found.equations, found.ranks, strict=True
            )
            if kind == "re" and rows[equation] / levels < _SMALL
        ]
        if small:
            lines.append(
                f"The levels of {', '.join(small)} have fewer than {_SMALL} rows on average: "
                "effects and dependence are estimated at a joint mode, which then exaggerates the "
                "dependence. Fit with dependence='marginal', for a normalization that has it."
            )
    gone = [name for name, flag in zip(found.names, found.vanished, strict=True) if flag]
    if gone:
        lines.append(
            f"The variance of {', '.join(gone)} is estimated as zero: the term adds nothing to the "
            "other columns (a smooth is a straight line)."
        )
    fixed = [name for name, flag in zip(found.names, found.estimated, strict=True) if not flag]
    if fixed:
        lines.append(f"The penalty of {', '.join(fixed)} was given, not estimated.")
    return lines
