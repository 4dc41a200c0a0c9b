"""Real covariates and labels, masked by known mechanisms: when does each method help?

Not an experiment of the paper. All labels are known, so every method can be compared with the
oracle, a logit of all training labels. Half of the training labels are kept, those with the largest

    r + z + strength (y - mean)/sd + u

where r is the oracle's standardized risk index x'beta, z a standard normal column that only the
selection equation has, and u standard normal noise. ``strength=0`` is missing at random; the larger
the strength, the more the label itself decides. The cut-off keeps the labels with r above its
median: deterministic in x, as in the paper's experiments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from statsmodels.tools.sm_exceptions import ConvergenceWarning, ModelWarning

from statsmodels_mnar.baselines import IPWLogit, NaiveLogit, OracleLogit, RFLearn, RobustBiasAware
from statsmodels_mnar.datasets import FORMULAS, load_credit_card
from statsmodels_mnar.models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.types import Floats

from .jobs import Job, Record, experiment
from .protocol import DECAY
from .tables import Settings

DATASETS = ("adult", "german", "drug", "credit card")
MECHANISMS: dict[str, float | None] = {
    "MAR": 0.0, "MNAR 0.5": 0.5, "MNAR 1": 1.0, "MNAR 2": 2.0, "cut-off": None,
}  # fmt: skip
STRATA = 10  # groups of RFLearn
_STEP = 1e-4  # of the numerical derivatives, in standard deviations
_MARKS = "ovsDx+^"  # lines apart in grey too


@lru_cache(maxsize=4)
def _rows(dataset: str, data: str | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Labels and designs of the training and the test rows."""
    if dataset != "credit card":
        given = experiment(dataset, data)
        return given.y, given.X.to_numpy(), given.y_test, given.X_test.to_numpy()
    cards = load_credit_card(data).query("CARDHLDR == 1")
    names = FORMULAS["credit_card"][0].split("~")[1].replace("+", " ").split()
    X = cards[names].to_numpy(dtype=float)
    X = np.column_stack([np.ones(len(X)), (X - X.mean(0)) / X.std(0)])
    y = cards["DEFAULT"].to_numpy(dtype=float)
    n = int(0.7 * len(y))
    return y[:n], X[:n], y[n:], X[n:]


def mask(
    y: Floats, risk: Floats, strength: float | None, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Who is labelled, and the column z: see the module's text.

    Parameters
    ----------
    y : ndarray
        (n,) all labels.
    risk : ndarray
        (n,) risk index.
    strength : float or None
        None: the cut-off.
    rng : Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s, z = mask(np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0]), None, rng)
    >>> s
    array([0., 0., 1., 1.])
    """
    z, u = rng.standard_normal((2, len(y)))
    latent = (risk - risk.mean()) / risk.std()
    if strength is not None:
        latent = latent + z + strength * (y - y.mean()) / y.std() + u
    return (latent > np.median(latent)).astype(float), z


def _fits(y: Floats, X: Floats, s: Floats, W: Floats) -> dict[str, Callable[[], Any]]:
    """Each method, as a call that fits it; all with the same small ridge on standardized columns.

    RFLearn's groups are bins of the estimated selection probability. Greene's model takes its
    default form, BiasCorr sigma = 1.
    """
    arrays = (np.where(s == 1, y, np.nan), X, s, W)
    ipw = IPWLogit(*arrays, trim=0.01).fit(penalty=DECAY)
    prob = ipw.prob_select.to_numpy()
    groups = np.searchsorted(np.quantile(prob, np.arange(1, STRATA) / STRATA), prob)
    greene = GreeneSelectionLogit(*arrays)
    biascorr = BiasCorrLogit(*arrays, normalization={"sigma": 1.0})
    return {
        "oracle": lambda: OracleLogit(y, X).fit(penalty=DECAY),
        "naive": lambda: NaiveLogit(*arrays).fit(penalty=DECAY),
        "IPW": lambda: ipw,
        "RFLearn": lambda: RFLearn(*arrays, groups=groups).fit(penalty=DECAY),
        "RBA": lambda: RobustBiasAware(*arrays).fit(penalty=DECAY),
        "Greene": lambda: greene.fit(penalty=DECAY, cov_type="nonrobust"),
        "ProbitSelection": lambda: ProbitSelection(*arrays).fit(
            penalty=DECAY, cov_type="nonrobust"
        ),
        "BiasCorr": lambda: biascorr.fit(penalty=DECAY, cov_type="nonrobust"),
    }


def auc(score: Floats, y: Floats) -> float:
    """Area under the ROC curve, ties one half.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    0.875
    """
    ones = y == 1
    n1, n0 = int(ones.sum()), int((~ones).sum())
    return float((rankdata(score)[ones].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def marginal_effects(predict: Callable[[Floats], Floats], X: Floats) -> Floats:
    """Average derivative of P(y = 1 | x) in each column but the constant, (p - 1,)."""
    effects = []
    for j in range(1, X.shape[1]):
        up, down = X.copy(), X.copy()
        up[:, j] += _STEP
        down[:, j] -= _STEP
        effects.append(float(np.mean(predict(up) - predict(down))) / (2.0 * _STEP))
    return np.array(effects)


def one_mask(*, dataset: str, mechanism: str, seed: int, data: str | None) -> list[Record]:
    """All methods on one masked data set, scored on the test rows; one record for each."""
    y, X, y_test, X_test = _rows(dataset, data)
    risk = X @ OracleLogit(y, X).fit(penalty=DECAY).params.to_numpy()
    s, z = mask(y, risk, MECHANISMS[mechanism], np.random.default_rng([seed, 8]))
    records: list[Record] = []
    oracle_effects = np.empty(0)
    with warnings.catch_warnings():
        # Weak identification and boundary estimates are what is studied here.
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for method, fit in _fits(y, X, s, np.column_stack([X, z])).items():
            results = fit()

            def predict(design: Floats, results: Any = results) -> Floats:
                return np.asarray(results.predict(design), dtype=float)

            p = predict(X_test)
            effects = marginal_effects(predict, X_test)
            if method == "oracle":
                oracle_effects = effects
            records.append(
                {
                    "dataset": dataset,
                    "mechanism": mechanism,
                    "method": method,
                    "seed": seed,
                    "labelled_share": float(s.mean()),
                    "accuracy": 100.0 * float(np.mean((p > 0.5) == (y_test == 1))),
                    "auc": auc(p, y_test),
                    "brier": float(np.mean((p - y_test) ** 2)),
                    "prevalence_error": float(p.mean() - y_test.mean()),
                    "ame_error": float(np.abs(effects - oracle_effects).mean()),
                    "converged": bool(results.converged),
                }
            )
    return records


def masked_jobs(settings: Settings) -> list[Job]:
    """Every data set under every mechanism; at most two masks of Adult, which is large."""
    return [
        Job(
            one_mask,
            {"dataset": dataset, "mechanism": mechanism, "seed": seed, "data": settings.data},
        )
        for dataset in DATASETS
        for mechanism in MECHANISMS
        for seed in range(min(settings.runs, 2) if dataset == "adult" else settings.runs)
    ]


SCORES = ["accuracy", "auc", "brier", "prevalence_error", "ame_error"]


def scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds; prevalence_error as its mean size. Order of methods as they ran."""
    runs = runs.assign(prevalence_error=runs["prevalence_error"].abs())
    keys = ["dataset", "mechanism", "method"]
    return runs.groupby(keys, sort=False)[[*SCORES, "converged"]].mean().reset_index()


def losses(frame: pd.DataFrame) -> pd.DataFrame:
    """What each method loses against the oracle on each data set under each mechanism."""
    keys = ["dataset", "mechanism"]
    oracle = frame.loc[frame["method"] == "oracle", [*keys, "accuracy", "auc", "brier"]]
    both = frame[frame["method"] != "oracle"].merge(oracle, on=keys, suffixes=("", "_oracle"))
    return both[[*keys, "method"]].assign(
        **{
            "accuracy lost": both["accuracy_oracle"] - both["accuracy"],
            "AUC lost": both["auc_oracle"] - both["auc"],
            "Brier added": both["brier"] - both["brier_oracle"],
            "prevalence error": both["prevalence_error"],
            "AME error": both["ame_error"],
        }
    )


def across(lost: pd.DataFrame) -> pd.DataFrame:
    """:func:`losses`, averaged over the data sets."""
    means = lost.drop(columns="dataset").groupby(["mechanism", "method"], sort=False).mean()
    return means.reset_index()


def draw(lost: pd.DataFrame) -> Any:
    """Accuracy lost, prevalence error and AME error of each method over the mechanisms."""
    from matplotlib.figure import Figure

    panels = {
        "accuracy lost": "accuracy lost, points",
        "prevalence error": "prevalence error",
        "AME error": "mean AME error",
    }
    datasets = list(lost["dataset"].unique())
    size = (3.4 * len(datasets), 2.6 * len(panels))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(panels), len(datasets), squeeze=False, sharex=True)
    for i, (score, label) in enumerate(panels.items()):
        for j, dataset in enumerate(datasets):
            part = lost[lost["dataset"] == dataset]
            for k, (method, line) in enumerate(part.groupby("method", sort=False)):
                mark = _MARKS[k % len(_MARKS)]
                grid[i, j].plot(line["mechanism"], line[score], marker=mark, ms=4, label=method)
            grid[i, j].tick_params(axis="x", rotation=30)
            if i == 0:
                grid[i, j].set_title(dataset)
        grid[i, 0].set_ylabel(label)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure
