"""Real covariates and labels, masked by known mechanisms: when does each method help?

Not an experiment of the paper. All labels are known, so every method can be compared with the
oracle, a logit of all training labels. Half of the training labels are kept, those with the largest

    r + z + strength (y - mean)/sd + u

where r is the oracle's standardized risk index x'beta, z a standard normal column that only the
selection equation has, and u standard normal noise. ``strength=0`` is missing at random; the larger
the strength, the more the label itself decides. The cut-off keeps the labels with r above its
median: deterministic in x, as in the paper's experiments.

The work is done by :func:`statsmodels_mnar.learn.masking_study`; here are the data and the tables.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from statsmodels_mnar.datasets import FORMULAS, load_credit_card
from statsmodels_mnar.learn.masking import MECHANISMS, METHODS, Masked, masking_study
from statsmodels_mnar.models import BiasCorrLogit
from statsmodels_mnar.types import Floats

from .jobs import Job, Record, experiment
from .protocol import DECAY
from .tables import Settings

DATASETS = ("adult", "german", "drug", "credit card")
_MARKS = "ovsDx+^<>P*"  # lines apart in grey too


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


def _biascorr(rows: Masked) -> Any:
    """BiasCorr at sigma = 1."""
    model = BiasCorrLogit(*rows.arrays, normalization={"sigma": 1.0})
    return model.fit(penalty=rows.penalty, cov_type="nonrobust")


def one_mask(*, dataset: str, mechanism: str, seed: int, data: str | None) -> list[Record]:
    """All methods on one masked data set, scored on the test rows; one record for each."""
    y, X, y_test, X_test = _rows(dataset, data)
    columns = np.vstack([X, X_test])[:, 1:]  # the formula has a constant of its own
    names = [f"x{j}" for j in range(1, X.shape[1])]
    frame = pd.DataFrame(columns, columns=names).assign(y=np.concatenate([y, y_test]))
    study = masking_study(
        frame,
        f"y ~ {' + '.join(names)}",
        methods={**METHODS, "BiasCorr": _biascorr},
        mechanisms={mechanism: MECHANISMS[mechanism]},
        repeats=1,
        test=np.arange(len(frame)) >= len(y),
        penalty=DECAY,
        rng=seed,
    )
    records: list[Record] = []
    for row in study.frame.to_dict("records"):
        records.append(
            {
                "dataset": dataset,
                "mechanism": mechanism,
                "method": row["method"],
                "seed": seed,
                "labelled_share": row["labelled_share"],
                "accuracy": 100.0 * row["accuracy"],
                "auc": row["auc"],
                "brier": row["brier"],
                "prevalence_error": row["prevalence_error"],
                "effects_error": row["effects_error"],
                "converged": row["converged"],
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


SCORES = ["accuracy", "auc", "brier", "prevalence_error", "effects_error"]


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
            "effects error": both["effects_error"],
        }
    )


def across(lost: pd.DataFrame) -> pd.DataFrame:
    """:func:`losses`, averaged over the data sets."""
    means = lost.drop(columns="dataset").groupby(["mechanism", "method"], sort=False).mean()
    return means.reset_index()


def draw(lost: pd.DataFrame) -> Any:
    """Accuracy lost, prevalence error and effects error of each method over the mechanisms."""
    from matplotlib.figure import Figure

    panels = {
        "accuracy lost": "accuracy lost, points",
        "prevalence error": "prevalence error",
        "effects error": "mean error of the effects",
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
