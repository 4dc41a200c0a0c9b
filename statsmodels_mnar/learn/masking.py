"""Does a correction help on these data? Known labels are hidden by known mechanisms."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from ..baselines import (
    FuzzyAugmentation,
    IPWLogit,
    NaiveLogit,
    OracleLogit,
    Parcelling,
    Reclassification,
    RFLearn,
    RobustBiasAware,
    ScoreBandAugmentation,
)
from ..baselines.base import regress
from ..design import design_from_formula, refuse_penalised
from ..models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from ..post import metrics
from ..results.drawing import LINES, MARKERS, axes_of
from ..tools import check_alpha, progress_bar
from ..types import Floats

Mechanism = float | None | Callable[[Floats, Floats, np.random.Generator], Floats]
"""Strength of the label, None for a cut-off of the index, or a function of (y, index, rng)."""

Predict = Callable[[Floats, Floats], Floats]
"""(m, p) outcome and (m, k) selection designs to (m,) probabilities."""

MECHANISMS: dict[str, Mechanism] = {
    "MAR": 0.0, "MNAR 0.5": 0.5, "MNAR 1": 1.0, "MNAR 2": 2.0, "cut-off": None,
}  # fmt: skip
SCORES = (
    "accuracy", "auc", "brier", "calibration_slope", "prevalence_error", "effects_error",
)  # fmt: skip
_HIGHER_IS_BETTER = ("accuracy", "auc")
_GROUPS = 10  # of RFLearn
_CERTAIN = 1e-6  # probabilities nearer to 0 and 1 have no log-odds to calibrate


@dataclass(frozen=True, slots=True)
class Masked:
    """Training rows of which some labels are hidden."""

    y: Floats  # (n,) NaN where hidden
    full: Floats  # (n,) all labels
    X: Floats  # (n, p) outcome design
    W: Floats  # (n, k) selection design
    outcome_names: tuple[str, ...]
    select_names: tuple[str, ...]
    penalty: float

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(endog, exog, endog_select, exog_select) of the models."""
        return self.y, self.X, (~np.isnan(self.y)).astype(float), self.W


# -- methods ---------------------------------------------------------------------------------------


def _rflearn(rows: Masked) -> Any:
    """RFLearn, whose groups are bins of the estimated selection probability."""
    prob = IPWLogit(*rows.arrays).fit(penalty=rows.penalty).prob_select.to_numpy()
    groups = np.searchsorted(np.quantile(prob, np.arange(1, _GROUPS) / _GROUPS), prob)
    return RFLearn(*rows.arrays, groups=groups).fit(penalty=rows.penalty)


def _fitted(cls: Any, **options: Any) -> Callable[[Masked], Any]:
    """A method that is one of the statsmodels classes."""

    def fit(rows: Masked) -> Any:
        how: dict[str, Any] = {"penalty": rows.penalty}
        if cls in (GreeneSelectionLogit, BiasCorrLogit, ProbitSelection):
            how["cov_type"] = "nonrobust"
        return cls(*rows.arrays, **options).fit(**how)

    return fit


METHODS: dict[str, Callable[[Masked], Any]] = {
    "oracle": lambda rows: OracleLogit(rows.full, rows.X).fit(penalty=rows.penalty),
    "naive": _fitted(NaiveLogit),
    "IPW": _fitted(IPWLogit, trim=0.01),
    "RFLearn": _rflearn,
    "RBA": _fitted(RobustBiasAware),
    "reclassification": _fitted(Reclassification),
    "fuzzy augmentation": _fitted(FuzzyAugmentation),
    "parcelling": _fitted(Parcelling),
    "score bands": _fitted(ScoreBandAugmentation),
    "Greene": _fitted(GreeneSelectionLogit),
    "ProbitSelection": _fitted(ProbitSelection),
    "BiasCorr": _fitted(BiasCorrLogit),
}


def _by_classifier(estimator: Any, rows: Masked) -> Predict:
    """Fit a scikit-learn classifier; one that reads missing labels is given all rows."""
    from sklearn.base import clone

    names = {name: j for j, name in enumerate(rows.outcome_names) if np.ptp(rows.X[:, j]) > 0}
    own = {
        name: j
        for j, name in enumerate(rows.select_names)
        if name not in rows.outcome_names and np.ptp(rows.W[:, j]) > 0
    }

    def features(X: Floats, W: Floats, with_own: bool) -> pd.DataFrame:
        outcome = pd.DataFrame(X[:, list(names.values())], columns=list(names))
        if not with_own:
            return outcome
        return outcome.join(pd.DataFrame(W[:, list(own.values())], columns=list(own)))

    model = clone(estimator)
    options = model.get_params(deep=False)
    corrects = "missing_label" in options
    if corrects:
        given = {
            "outcome_features": list(names),
            "selection_features": [name for name in rows.select_names if name in names | own],
        }
        model.set_params(
            **{name: value for name, value in given.items() if options.get(name, 0) is None}
        )
    labelled = ~np.isnan(rows.y)
    if len(np.unique(rows.y[labelled])) < 2:  # some classifiers take one class for two
        raise ValueError("the labelled rows have one class only")
    seen = np.ones(len(rows.y), dtype=bool) if corrects else labelled
    model.fit(features(rows.X[seen], rows.W[seen], corrects), rows.y[seen])
    return lambda X, W: np.asarray(model.predict_proba(features(X, W, corrects)))[:, 1]


# -- masks -----------------------------------------------------------------------------------------


def hide(
    y: Floats, index: Floats, mechanism: Mechanism, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Who keeps the label: the ``share`` of rows with the largest

        index + strength (y - mean)/sd + u,    u standard normal,

    or, by a cut-off, with the largest index.

    Parameters
    ----------
    y, index : ndarray
        (n,) labels, and the part of the latent index that covariates decide.
    mechanism : float, None or callable
        Strength; None: the cut-off; or a function of (y, index, rng) whose values take the place of
        the sum.
    share : float
        Of rows that keep their label.
    rng : Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hide(np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0]), None, 0.5, rng)
    array([False, False,  True,  True])
    """
    noise = rng.standard_normal(len(y))  # drawn for each mechanism: all have the same
    if callable(mechanism):
        latent = np.asarray(mechanism(y, index, rng), dtype=float)
        if latent.shape != y.shape or not np.isfinite(latent).all():
            raise ValueError(
                f"a mechanism must return {len(y)} finite numbers, one for each training row; got "
                f"shape {latent.shape}"
            )
    elif mechanism is None:
        latent = index
    else:
        latent = index + mechanism * (y - y.mean()) / y.std() + noise
    order = np.argsort(-latent, kind="stable")
    kept = np.zeros(len(y), dtype=bool)
    kept[order[: round(share * len(y))]] = True
    return kept


def _standardized(values: Floats, by: Floats | None = None) -> Floats:
    by = values if by is None else by
    return (values - by.mean()) / (by.std() or 1.0)


@dataclass(frozen=True, slots=True)
class _Setting:
    """All that a mask needs, for a process of its own."""

    y: Floats  # (n,) labels of the labelled rows
    X: Floats
    W: Floats
    outcome_names: tuple[str, ...]
    select_names: tuple[str, ...]
    index: Floats | None  # (n,) of selection; None: the risk index of the oracle, and own columns
    instrument: float
    share: float
    test: Any  # a share, or (n,) mask
    penalty: float
    methods: dict[str, Any]
    seed: int

    def masked(
        self, mechanism: Mechanism, repeat: int
    ) -> tuple[Masked, tuple[Floats, Floats, Floats]]:
        """Training rows with hidden labels, and (y, X, W) of the test rows."""
        rng = np.random.default_rng([self.seed, repeat])
        n = len(self.y)
        if np.ndim(self.test):
            test = np.asarray(self.test, dtype=bool)
        else:
            test = np.zeros(n, dtype=bool)
            test[rng.permutation(n)[: round(self.test * n)]] = True
        train = ~test
        X, W, y = self.X[train], self.W, self.y[train]
        names = self.select_names
        z = rng.standard_normal(n)
        if self.index is not None:
            index = _standardized(self.index[train])
        else:
            risk = regress(y, X, self.outcome_names, "outcome", penalty=self.penalty)
            index = _standardized(X @ risk.params.numpy())
            own = [j for j, name in enumerate(names) if name not in self.outcome_names]
            if own:
                columns = np.column_stack([_standardized(W[train, j]) for j in own])
                index = index + _standardized(columns.sum(axis=1))
        if self.instrument:
            if mechanism is not None:  # beyond a cut-off of the data's own columns nobody is seen
                index = index + self.instrument * z[train]
            W, names = np.column_stack([W, z]), (*names, "mask_z")
        kept = hide(y, index, mechanism, self.share, rng)
        rows = Masked(
            np.where(kept, y, np.nan), y, X, W[train], self.outcome_names, names, self.penalty
        )
        return rows, (self.y[test], self.X[test], W[test])


def _one_mask(
    setting: _Setting, name: str, mechanism: Mechanism, repeat: int
) -> list[dict[str, Any]]:
    """All methods on one masked data set, scored on the test rows; one record for each."""
    rows, test = setting.masked(mechanism, repeat)
    records = []
    oracle = METHODS["oracle"](rows)
    truth = _effects(lambda X, W: oracle.predict(X), test, rows.X)
    for label, method in setting.methods.items():
        record: dict[str, Any] = {
            "mechanism": name,
            "repeat": repeat,
            "method": label,
            "labelled_share": float((~np.isnan(rows.y)).mean()),
            **dict.fromkeys(SCORES, np.nan),
            "converged": False,
            "seconds": np.nan,
            "error": "",
        }
        start = time.process_time()
        try:
            with warnings.catch_warnings():  # weak fits are what is studied here
                warnings.simplefilter("ignore")
                predict, converged = _fit(method, rows)
                record["seconds"] = time.process_time() - start
                record |= _scores(predict, test, rows.X, truth) | {"converged": converged}
        except (ValueError, np.linalg.LinAlgError) as error:
            record["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        records.append(record)
    return records


def _fit(method: Any, rows: Masked) -> tuple[Predict, bool]:
    if callable(method):
        results = method(rows)
        return lambda X, W: np.asarray(results.predict(X), dtype=float), bool(results.converged)
    return _by_classifier(method, rows), True


def _scores(
    predict: Predict, test: tuple[Floats, Floats, Floats], X: Floats, truth: Floats
) -> dict[str, float]:
    y, X_test, W_test = test
    p, ones = predict(X_test, W_test), np.ones(len(y))
    _, slope = metrics.calibration_line(np.clip(p, _CERTAIN, 1.0 - _CERTAIN), y, ones)
    return {
        "accuracy": float(np.mean((p > 0.5) == (y == 1))),
        "auc": metrics.auc(p, y, ones).value,
        "brier": float(np.mean((p - y) ** 2)),
        "calibration_slope": slope.value,
        "prevalence_error": float(p.mean() - y.mean()),
        "effects_error": float(np.abs(_effects(predict, test, X) - truth).mean()),
    }


def _effects(predict: Predict, test: tuple[Floats, Floats, Floats], X: Floats) -> Floats:
    """Average change of P(y = 1) over one standard deviation of each column, half on each side."""
    _, X_test, W_test = test
    effects = []
    for j in np.flatnonzero(np.ptp(X, axis=0) > 0):
        half = 0.5 * X[:, j].std()
        up, down = X_test.copy(), X_test.copy()
        up[:, j] += half
        down[:, j] -= half
        effects.append(float(np.mean(predict(up, W_test) - predict(down, W_test))))
    return np.array(effects)


# -- the study -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MaskingStudy:
    """Scores of methods on data whose labels were hidden by known mechanisms.

    Attributes
    ----------
    frame : DataFrame
        One row for each mechanism, repeat and method: ``labelled_share`` of the training rows;
        ``accuracy``, ``auc``, ``brier``, ``calibration_slope`` (1 is right; below, predictions are
        too extreme) and ``prevalence_error`` (mean prediction less the share of ones) on the test
        rows; ``effects_error``, the mean distance from the oracle's effects, each the average
        change of P(y = 1) over one standard deviation of a column; ``converged``, ``seconds`` of
        processor time, and ``error``, why a method failed.
    n_rows, n_ones : int
        Labelled rows of the data, and ones among them.
    methods : tuple of str
        Names, in the order in which they were given.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import load_fair
    >>> from statsmodels_mnar.learn import masking_study
    >>> study = masking_study(
    ...     load_fair().assign(y=lambda d: d.y_full), "y ~ rate_marriage + religious",
    ...     methods=["naive", "Greene"], mechanisms={"MNAR 1": 1.0}, repeats=2)
    >>> study.table("prevalence_error").loc["naive", "MNAR 1"] > 0.1
    np.True_
    """

    frame: pd.DataFrame
    n_rows: int
    n_ones: int
    methods: tuple[str, ...] = field(default=())

    def summary_frame(self, alpha: float = 0.05, against: str | None = None) -> pd.DataFrame:
        """Mean and interval of each score over the repeats, in a tidy frame.

        Parameters
        ----------
        alpha : float
            Of Student's intervals of the mean, which are NaN with one repeat.
        against : str, optional
            A method, such as "oracle": scores are then differences from it on the same mask, whose
            intervals are shorter.

        Returns
        -------
        DataFrame
            ``mechanism``, ``method``, ``score``, ``mean``, ``se``, ``ci_lower``, ``ci_upper``, and
            ``n``, the repeats on which the method did not fail. The prevalence error is its size,
            without the sign; so is the calibration slope's distance from one, as
            "calibration_error".
        """
        check_alpha(alpha)
        values = self._values()
        if against is not None:
            if against not in self.methods:
                raise ValueError(f"against={against!r} is none of the methods {self.methods}")
            base = values.xs(against, level="method")
            values = values.sub(base.reindex(values.index.droplevel("method")).to_numpy())
            values = values.drop(index=against, level="method")
        long = values.rename_axis(columns="score").stack().rename("value")
        groups = long.groupby(level=["mechanism", "method", "score"], sort=False)
        table = groups.agg(mean="mean", sd="std", n="count").reset_index()
        table["se"] = table.pop("sd") / np.sqrt(table["n"])
        reach = student.isf(alpha / 2.0, np.maximum(table["n"] - 1, 1)) * table["se"]
        table["ci_lower"], table["ci_upper"] = table["mean"] - reach, table["mean"] + reach
        columns = ["mechanism", "method", "score", "mean", "se", "ci_lower", "ci_upper", "n"]
        return table[columns]

    def _values(self) -> pd.DataFrame:
        """Scores of which the mean says something, by mechanism, repeat and method."""
        values = self.frame.set_index(["mechanism", "repeat", "method"])[list(SCORES)]
        values["prevalence_error"] = values["prevalence_error"].abs()
        values["calibration_slope"] = (values["calibration_slope"] - 1.0).abs()
        return values.rename(columns={"calibration_slope": "calibration_error"})

    def table(self, score: str = "brier", against: str | None = None) -> pd.DataFrame:
        """Means of one ``score``, methods by mechanisms; ``against`` as in `summary_frame`."""
        tidy = self.summary_frame(against=against)
        known = list(tidy["score"].unique())
        if score not in known:
            raise ValueError(f"score={score!r} is unknown; use one of {known}")
        wide = tidy[tidy["score"] == score].pivot(
            index="method", columns="mechanism", values="mean"
        )
        rows = [name for name in self.methods if name in wide.index]
        return wide.loc[rows, list(self.frame["mechanism"].unique())]

    def plot(self, score: str = "brier", against: str | None = None, ax: Any = None) -> Any:
        """Draw one score of each method over the mechanisms, with its intervals.

        Parameters
        ----------
        score, against : str
            As in :meth:`table`.
        ax : matplotlib axes, optional

        Returns
        -------
        matplotlib axes
        """
        means = self.table(score, against)  # checks both names
        tidy = self.summary_frame(against=against)
        tidy = tidy[tidy["score"] == score].set_index(["method", "mechanism"])
        ax = axes_of(ax, (6.0, 3.8))
        at = np.arange(means.shape[1])
        for k, (method, line) in enumerate(means.iterrows()):
            rows = tidy.loc[method].loc[list(means.columns)]
            reach = (rows["ci_upper"] - rows["mean"]).fillna(0.0)
            ax.errorbar(
                at + 0.04 * (k - 0.5 * (len(means) - 1)), line, yerr=reach, label=method,
                linestyle=LINES[k % len(LINES)], marker=MARKERS[k % len(MARKERS)], markersize=4,
                linewidth=1.0, elinewidth=0.6,
            )  # fmt: skip
        ax.set_xticks(at, means.columns)
        words = score.replace("_", " ")
        ax.set_ylabel(words if against is None else f"{words}, less that of {against}")
        ax.legend(fontsize="small", frameon=False)
        return ax

    def __str__(self) -> str:
        against = "oracle" if "oracle" in self.methods else None
        parts = [
            f"{self.n_rows} labelled rows, {self.n_ones} ones; "
            f"{self.frame['repeat'].nunique()} masks of each mechanism"
        ]
        for score in ("auc", "brier", "prevalence_error", "effects_error"):
            title = score if against is None else f"{score}, less that of the oracle"
            parts.append(f"{title}\n{self.table(score, against).round(4).to_string()}")
        failed = self.frame[self.frame["error"] != ""]
        if len(failed):
            counts = failed.groupby(["method", "error"]).size()
            parts.append("failed\n" + counts.to_string())
        return "\n\n".join(parts)


def masking_study(
    data: Any,
    formula: str,
    select_formula: str | None = None,
    methods: Sequence[str] | Mapping[str, Any] | None = None,
    mechanisms: Mapping[str, Mechanism] | None = None,
    *,
    repeats: int = 20,
    labelled_share: float | None = None,
    instrument: float | None = None,
    test: Any = 0.3,
    penalty: float = 1e-4,
    rng: int = 0,
    n_jobs: int = 1,
    disp: bool = False,
    env: Any = 0,
) -> MaskingStudy:
    """Hide known labels by known mechanisms, and score methods against the truth.

    Parameters
    ----------
    data : DataFrame
        Rows whose outcome is missing say how the data's own selection works, and are left out
        then: truth is known for the labelled rows only.
    formula : str
        The outcome equation, ``"y ~ x + C(g)"``.
    select_formula : str, optional
        The selection equation, ``"s ~ x + z"`` or ``"~ x + z"``; by default the right side of
        ``formula``.
    methods : sequence of str, or mapping, optional
        Names out of `METHODS`, or names of one's own with such a name, any scikit-learn classifier,
        or a function that fits a model to `Masked` rows (``Model(*rows.arrays).fit()``). A
        classifier with a parameter ``missing_label``, as those of this part, is given all training
        rows; another one those that are labelled. By default all of `METHODS`: oracle (a logit of
        all training labels), the baselines and the selection models.
    mechanisms : mapping, optional
        Name to strength of the label in the latent index of being labelled, in standard
        deviations (0: missing at random given the covariates), None for a cut-off of the index, or
        a function of (y, index, rng). By default MAR, MNAR of strength 0.5, 1 and 2, and a cut-off.
    repeats : int
        Masks for each mechanism. The split, the noise and the instrument of a repeat are the same
        for all.
    labelled_share : float, optional
        Of training rows that keep their label; by default the share of labelled rows in the data,
        or one half where all are.
    instrument : float, optional
        Coefficient of a standard normal column ``mask_z`` that is added to the selection equation.
        By default 1 where the selection equation has no column of its own, else 0.
    test : float or array_like
        Share of the labelled rows that are scored, drawn anew in each repeat, or a mask over the
        rows of ``data``.
    penalty : float
        Ridge of all methods by name.
    rng : int
        Seed.
    n_jobs : int
        Processes, by joblib.
    disp : bool
        Show progress.
    env : int or mapping
        How many frames up the formulas' functions are looked for, or a namespace.

    Returns
    -------
    MaskingStudy
        With ``frame``, ``summary_frame()``, ``table(score)`` and ``plot(score)``.

    Notes
    -----
    The index that hides labels is the data's own where there are unlabelled rows: that of a probit
    of who is labelled. Otherwise it is the oracle's risk index, plus the columns that only the
    selection equation has, standardized; plus the instrument, on which a cut-off does not depend.
    Either way the selection equation is right, which flatters methods that rely on it.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_credit
    >>> from statsmodels_mnar.learn import masking_study
    >>> sim = simulate_credit(2_000, rng=0)
    >>> study = masking_study(
    ...     sim.data, sim.formula, sim.select_formula, methods=["oracle", "naive", "IPW"],
    ...     mechanisms={"MAR": 0.0, "MNAR 1": 1.0}, repeats=2)
    >>> study.table("brier").shape
    (3, 2)
    """
    if not (isinstance(repeats, int | np.integer) and repeats > 0):
        raise ValueError(f"repeats={repeats!r} must be a positive integer")
    chosen = _read_methods(methods)
    masks = _read_mechanisms(mechanisms)
    right = f"~{formula.partition('~')[2]}" if select_formula is None else select_formula
    env = env + 1 if isinstance(env, int) and env >= 0 else env
    design = design_from_formula(formula, right, data, env=env)
    refuse_penalised(design, "masking_study")
    seen = design.labelled
    index = None
    if not seen.all():
        probit = regress(
            design.s, design.W, design.select_names, "selection", link="probit", penalty=penalty
        )
        index = design.W[seen] @ probit.params.numpy()
    if labelled_share is None:
        labelled_share = 0.5 if seen.all() else float(seen.mean())
    if not 0 < labelled_share < 1:
        raise ValueError(f"labelled_share={labelled_share!r} must lie between 0 and 1")
    if instrument is None:
        instrument = float(set(design.select_names) <= set(design.outcome_names))
    setting = _Setting(
        y=design.y[seen],
        X=design.X[seen],
        W=design.W[seen],
        outcome_names=design.outcome_names,
        select_names=design.select_names,
        index=index,
        instrument=float(instrument),
        share=labelled_share,
        test=_read_test(test, design.kept[seen]),
        penalty=penalty,
        methods=chosen,
        seed=int(rng),
    )
    tasks = [(name, how, repeat) for repeat in range(repeats) for name, how in masks.items()]
    found = _run(setting, tasks, n_jobs)
    with progress_bar(disp, "masks", len(tasks), over=found, unit="mask") as bar:
        records = [record for part in bar for record in part]
    frame = pd.DataFrame(records)
    order = {name: j for j, name in enumerate(masks)}
    frame = frame.sort_values(
        "mechanism", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )
    return MaskingStudy(frame, int(seen.sum()), int(setting.y.sum()), tuple(chosen))


def _run(
    setting: _Setting, tasks: list[tuple[str, Mechanism, int]], n_jobs: int
) -> Iterable[list[dict[str, Any]]]:
    if n_jobs == 1:
        return (_one_mask(setting, *task) for task in tasks)
    from joblib import Parallel, delayed

    return Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_one_mask)(setting, *task) for task in tasks
    )


def _read_methods(methods: Sequence[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Name to a function of masked rows, or to a classifier."""
    if methods is None:
        return dict(METHODS)
    if isinstance(methods, str):
        methods = [methods]
    named = methods if isinstance(methods, Mapping) else {name: name for name in methods}
    found: dict[str, Any] = {}
    for name, method in named.items():
        if isinstance(method, str):
            if method not in METHODS:
                raise ValueError(f"methods has {method!r}; known by name are {list(METHODS)}")
            method = METHODS[method]
        elif not callable(method) and not (
            hasattr(method, "fit") and hasattr(method, "predict_proba")
        ):
            raise ValueError(
                f"methods[{name!r}]={method!r} must be one of {list(METHODS)}, a classifier with "
                "fit and predict_proba, or a function of the masked rows"
            )
        found[str(name)] = method
    if not found:
        raise ValueError(f"methods is empty; name some of {list(METHODS)}")
    return found


def _read_mechanisms(mechanisms: Mapping[str, Mechanism] | None) -> dict[str, Mechanism]:
    if mechanisms is None:
        return dict(MECHANISMS)
    for name, how in mechanisms.items():
        number = isinstance(how, int | float | np.integer | np.floating) and np.isfinite(how)
        if not (how is None or callable(how) or number):
            raise ValueError(
                f"mechanisms[{name!r}]={how!r} must be a strength, None for the cut-off, or a "
                "function of (y, index, rng)"
            )
    if not mechanisms:
        raise ValueError("mechanisms is empty; leave it out for MAR, MNAR and a cut-off")
    return dict(mechanisms)


def _read_test(test: Any, kept: NDArray[np.int64]) -> Any:
    """The share, or a mask of the labelled rows."""
    if np.ndim(test) == 0:
        if not 0 < float(test) < 1:
            raise ValueError(f"test={test!r} must be a share between 0 and 1, or a mask")
        return float(test)
    mask = np.asarray(test)
    if mask.dtype.kind != "b" or len(mask) <= kept.max():
        raise ValueError("test must be a share, or True and False for each row of data")
    return mask[kept]
