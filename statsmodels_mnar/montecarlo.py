"""Monte Carlo experiments: bias, coverage, size and power of estimators on simulated data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from .kernel.integration import Quadrature
from .kernel.threads import one_thread_a_step
from .models.search import tops_many
from .models.selection import SelectionModel
from .optimize.batches import stacked
from .optimize.binary import fit_independents
from .optimize.maximize import maximize_many
from .results.fitted import Fit, SelectionResultsWrapper
from .tools import check_alpha, progress_bar


@one_thread_a_step
def fit_many(
    models: Sequence[SelectionModel], cov_type: str | None = None
) -> Iterator[SelectionResultsWrapper | str]:
    """Newton fits of models that differ in their data only.

    Members with several maxima, or whose search ends elsewhere than at an interior one, are fitted
    by their own ``fit``, which compares maxima, knows faces and names what is wrong; so are models
    with sigma and rho both free or with penalised terms, and those with a number of nodes of their
    own, which only ``fit`` checks to be enough.

    Yields
    ------
    results or str
        Of each model in order, or what is wrong with one that has none.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> models = [
    ...     GreeneSelectionLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z",
    ...                                       simulate_greene(800, rng=seed).data)
    ...     for seed in range(3)]
    >>> [round(float(results.params["x1"]), 2) for results in fit_many(models)]
    [0.72, 0.89, 0.9]
    """
    if any(model.design.penalised for model in models):  # whose penalties differ
        yield from (_fit_alone(model, cov_type) for model in models)
        return
    first = models[0]
    spec = first.parametrized
    alike = {(type(m), m.parametrized, m.k_outcome, m.k_select) for m in models}
    if len(alike) > 1:
        raise ValueError("models must be of one class, normalization and number of columns")
    rule = first.integration
    unchecked = isinstance(rule, Quadrature) and rule != rule.controlled()
    if spec.kind == "free" and (spec.free.all() or unchecked):
        yield from (_fit_alone(model, cov_type) for model in models)
        return
    penalty = first._default_penalty
    objective = first.objective(penalty).with_rows(stacked([m.rows for m in models]))
    plain = stacked([m.plain_rows() for m in models])
    apart = fit_independents(plain, link=first.link, penalty=penalty)
    fixed = spec.values(np.zeros(spec.free.sum()))
    coef = np.stack([independent.params for independent in apart])
    starts, single = tops_many(objective, coef, fixed, spec.free)
    parts = maximize_many(objective, starts, free=first.estimated)
    solutions = (solution for part in parts for solution in part)
    members = zip(models, starts, single, apart, solutions, strict=True)
    for model, start, one_top, independent, solution in members:
        if not (one_top and independent.converged and solution.status.converged):
            yield _fit_alone(model, cov_type)
            continue
        used, faces = start[model.estimated], {"independent": independent.value}
        if not model._results_class._is_likelihood:
            faces = {"independent": math.nan}
        fit = Fit(model, solution, independent, "newton", used, penalty, faces)
        yield SelectionResultsWrapper(
            model._results_class(fit, cov_type or model._default_cov_type(), {})
        )


def _fit_alone(model: Any, cov_type: str | None) -> SelectionResultsWrapper | str:
    try:
        return model.sibling(model.normalization)._quietly().fit(cov_type=cov_type)
    except ValueError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


# -- Monte Carlo experiments: bias, coverage, size and power of estimators on simulated data -------


Simulator = Callable[[np.random.Generator], Any]
Estimator = Callable[[pd.DataFrame], Any]

_AT_ONCE = 50  # data sets held in memory


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """Estimates on many simulated data sets.

    Attributes
    ----------
    estimates : DataFrame
        One row for each data set, estimator and parameter: estimate, std_error, conf_low,
        conf_high, truth.
    failed : dict of Counter
        Data sets on which an estimator failed, by its name and the reason.
    n_rep : int
        Data sets.
    """

    estimates: pd.DataFrame
    failed: dict[str, Counter[str]]
    n_rep: int
    alpha: float
    null: float

    @property
    def table(self) -> pd.DataFrame:
        """One row for each estimator and parameter, with Monte Carlo errors (``_mcse``).

        ``coverage`` is that of the intervals; ``rejection`` is how often the hypothesis that the
        parameter is ``null`` is rejected: the size of the test where it is true, else its power.
        """
        rows = [
            {"estimator": estimator, "parameter": parameter} | self._row(group)
            for (estimator, parameter), group in self.estimates.groupby(
                ["estimator", "parameter"], sort=False
            )
        ]
        return pd.DataFrame(rows).set_index(["estimator", "parameter"])

    def _row(self, group: pd.DataFrame) -> dict[str, float]:
        error = group.estimate - group.truth
        covered = ((group.conf_low <= group.truth) & (group.truth <= group.conf_high)).astype(float)
        unknown = group.truth.isna() | group.conf_low.isna()
        rejected = (np.abs(group.estimate - self.null) / group.std_error) > norm.ppf(
            1.0 - self.alpha / 2
        )
        n = len(group)
        rmse = np.sqrt(np.mean(error**2))
        return {
            "truth": group.truth.mean(),
            "n": n,
            "mean": group.estimate.mean(),
            "bias": error.mean(),
            "bias_mcse": error.std() / np.sqrt(n),
            "rmse": rmse,
            # Delta method for the root of a mean of squares.
            "rmse_mcse": (error**2).std() / (2.0 * rmse * np.sqrt(n)),
            "sd": group.estimate.std(),
            "mean_se": group.std_error.mean(),
            **_share("coverage", covered.where(~unknown)),
            **_share("rejection", rejected.astype(float).where(group.std_error.notna())),
        }

    def __str__(self) -> str:
        lines = [f"Monte Carlo: {self.n_rep} data sets, level {1 - self.alpha:g}"]
        columns = ["truth", "mean", "bias", "bias_mcse", "rmse", "sd", "mean_se", "coverage",
                   "coverage_mcse", "rejection"]  # fmt: skip
        lines.append(self.table[columns].round(4).to_string())
        for name, reasons in self.failed.items():
            what = ", ".join(f"{reason} {count}" for reason, count in reasons.items())
            lines.append(f"{name}: {reasons.total()} failed{f' ({what})' if what else ''}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _share(name: str, values: pd.Series) -> dict[str, float]:
    share, known = values.mean(), values.notna().sum()
    return {
        name: share,
        f"{name}_mcse": np.sqrt(share * (1.0 - share) / known) if known else np.nan,
    }


def monte_carlo(
    simulator: Simulator,
    estimators: Mapping[str, Estimator],
    n_rep: int = 500,
    rng: int | np.random.Generator | None = None,
    *,
    truth: Mapping[str, float] | None = None,
    quantities: Callable[[Any], pd.DataFrame] | None = None,
    alpha: float = 0.05,
    null: float = 0.0,
    progress: bool = False,
    n_jobs: int | None = None,
) -> MonteCarlo:
    """Fit estimators to many simulated data sets.

    Parameters
    ----------
    simulator : callable
        Generator -> an object with ``data`` (a DataFrame) and ``truth`` (a dict by parameter
        name), such as ``lambda rng: simulate_greene(2_000, rng=rng)``.
    estimators : dict of callables
        Each takes the data and returns a model of this package, which is then fitted together with
        those of the other data sets as one batch, or results (of any package) with ``params``,
        ``bse`` and ``conf_int()``, which go one by one through joblib.
    n_rep : int
        Data sets.
    rng : int or Generator, optional
        Every data set has a generator of its own that is spawned from this one.
    truth : dict, optional
        In place of, or besides, the simulator's.
    quantities : callable, optional
        Results -> DataFrame with columns estimate, std_error, conf_low and conf_high, indexed by
        the names of the truth; by default :func:`parameters`.
    alpha : float
        Of the intervals and tests.
    null : float
        Value of each parameter that is tested.
    progress : bool
        Show a bar.
    n_jobs : int, optional
        Of joblib.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit, monte_carlo
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> def greene(data):
    ...     return GreeneSelectionLogit.from_formula(
    ...         "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> run = monte_carlo(lambda rng: simulate_greene(500, rng=rng), {"Greene": greene}, 20, rng=0)
    >>> run.table.loc[("Greene", "x1"), ["truth", "n"]].tolist()
    [1.0, 20.0]
    """
    if not (isinstance(n_rep, int | np.integer) and n_rep >= 2):
        raise ValueError(f"n_rep={n_rep!r} must be an integer of at least 2")
    if not isinstance(estimators, Mapping) or not estimators:
        raise ValueError("estimators must be a dict from names to functions of the data")
    check_alpha(alpha)
    generators = np.random.default_rng(rng).spawn(n_rep)
    read = quantities or (lambda results: parameters(results, alpha))
    frames: list[pd.DataFrame] = []
    failed: dict[str, Counter[str]] = {name: Counter() for name in estimators}
    with progress_bar(progress, "monte carlo", n_rep * len(estimators)) as bar:
        for first in range(0, n_rep, _AT_ONCE):
            drawn = [simulator(g) for g in generators[first : first + _AT_ONCE]]
            truths = [dict(one.truth) | dict(truth or {}) for one in drawn]
            for name, estimator in estimators.items():
                fits = _fits(estimator, [one.data for one in drawn], n_jobs)
                for number, results in enumerate(fits):
                    bar.update()
                    if isinstance(results, str):
                        failed[name][results] += 1
                        continue
                    frame = read(results)
                    frame["truth"] = [truths[number].get(str(k), np.nan) for k in frame.index]
                    frame.insert(0, "estimator", name)
                    frame.insert(1, "replicate", first + number)
                    frames.append(frame.rename_axis("parameter").reset_index())
    if not frames:
        raise ValueError(f"every fit failed: { {k: dict(v) for k, v in failed.items()} }")
    return MonteCarlo(pd.concat(frames, ignore_index=True), failed, n_rep, alpha, null)


def _fits(estimator: Estimator, frames: list[pd.DataFrame], n_jobs: int | None) -> list[Any]:
    """Results on each data set, or what went wrong there."""
    try:
        from joblib import Parallel, delayed
    except ImportError:
        found = [_attempt(estimator, frame) for frame in frames]
    else:
        run = Parallel(n_jobs=n_jobs)
        found = run(delayed(_attempt)(estimator, frame) for frame in frames)
    models = [one for one in found if isinstance(one, SelectionModel)]
    fitted = iter(fit_many(models)) if models else iter(())
    return [next(fitted) if isinstance(one, SelectionModel) else one for one in found]


def _attempt(estimator: Estimator, frame: pd.DataFrame) -> Any:
    try:
        return estimator(frame)
    except (ValueError, np.linalg.LinAlgError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def parameters(results: Any, alpha: float = 0.05) -> pd.DataFrame:
    """Estimates, standard errors and intervals of the parameters of any results."""
    interval = np.asarray(results.conf_int(alpha))
    return pd.DataFrame(
        {
            "estimate": np.asarray(results.params),
            "std_error": np.asarray(results.bse),
            "conf_low": interval[:, 0],
            "conf_high": interval[:, 1],
        },
        index=pd.Index(results.params.index),
    )
