"""One run of one method of the paper on one experiment, by its optimiser or at the optimum."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar.baselines import NaiveLogit, OracleLogit, RFLearn, RobustBiasAware
from statsmodels_mnar.datasets import Experiment
from statsmodels_mnar.kernel.integration import Simulation
from statsmodels_mnar.models import BiasCorrLogit, GreeneSelectionLogit
from statsmodels_mnar.models.first_stage import MLP
from statsmodels_mnar.types import Floats

from .draws import FreshDraws, SummarizedDraws

Draws = Literal["summary", "full"]

# Appendix B of the paper.
TOL = {"adult": 2.5e-4, "german": 5e-4, "drug": 5e-4}
DECAY = 1e-4
DESCENT: dict[str, Any] = {"method": "sgd", "lr": 0.01, "weight_decay": DECAY}
N_DRAWS = 200
LARGEST = 0.1  # sigma and rho for which SummarizedDraws is trusted; the paper's path ends at 0.06
# s-bar of the probit g_s, whose training the paper does not describe, from the captions of its
# sensitivity figure; that of Drug from 1/(2 - s-bar) in its table of missingness ratios.
PROBIT_SOFT = {"adult": 0.2957, "german": 0.4240, "drug": 0.6032}


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the paper's tables."""

    name: str
    select: Literal["probit", "logit"] | None = None  # g_s
    outcome: Literal["logit", "mlp"] | None = None  # g_y


NOBIAS, SSBIAS, GREENE = Method("NoBias"), Method("SSBias"), Method("Greene's method")
PROBIT_LR = Method("BiasCorr (probit, LR)", "probit", "logit")
LR_LR = Method("BiasCorr (LR, LR)", "logit", "logit")
PROBIT_MLP = Method("BiasCorr (probit, MLP)", "probit", "mlp")
LR_MLP = Method("BiasCorr (LR, MLP)", "logit", "mlp")
RFLEARN, RBA = Method("RFLearn"), Method("RBA")
BIASCORR = (PROBIT_LR, LR_LR, PROBIT_MLP, LR_MLP)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gives; accuracies and F1 in per cent."""

    train: float
    test: float
    f1: float
    seconds: float  # of processor time
    steps: int = 0
    soft: float = float("nan")  # s-bar
    sigma: float = float("nan")
    rho: float = float("nan")


def accuracy(beta: Floats, X: Floats, y: Floats) -> float:
    """Per cent of the rows whose label 1[x'beta > 0] equals."""
    return 100.0 * float(np.mean((X @ beta > 0) == (y == 1)))


def f1_score(predicted: NDArray[np.bool_], actual: NDArray[np.bool_]) -> float:
    """Harmonic mean of precision and recall of the ones, per cent; 0 where there are none."""
    total = int(predicted.sum() + actual.sum())
    return 200.0 * float((predicted & actual).sum()) / total if total else 0.0


def draws(seed: int, kind: Draws) -> Simulation:
    """The paper's R = 200 draws a row, new at each step."""
    if kind == "full":
        return FreshDraws(N_DRAWS, "random", rng=seed)
    return SummarizedDraws(rng=seed, of=N_DRAWS)


def run(
    method: Method,
    data: Experiment,
    *,
    seed: int = 0,
    kind: Draws = "summary",
    soft: float | None = None,
    mlp: MLP | None = None,
    target: bool = False,
) -> Run:
    """Run a method by the paper's protocol.

    Parameters
    ----------
    method : Method
    data : Experiment
    seed : int
        Of the draws, of the MLP's start values and of BiasCorr*'s sample.
    kind : {"summary", "full"}
        How the draws are made; see :mod:`.draws`.
    soft : float, optional
        In place of the s-bar that g_s gives.
    mlp : MLP, optional
        Architecture and training of g_y.
    target : bool
        BiasCorr* instead of BiasCorr.
    """
    start = time.process_time()
    if method in (NOBIAS, SSBIAS):
        return _plain(method, data, start, descend=True)
    model = _model(method, data, draws(seed, kind), soft, mlp, seed, target)
    with warnings.catch_warnings():
        # s-bar above one half on Drug, and pseudolabels of one class, are the paper's own.
        warnings.simplefilter("ignore", ModelWarning)
        results = model.fit(tol=TOL[data.name], **DESCENT)
    found = _scored(method, data, results, start)
    if kind == "summary" and max(found.sigma, abs(found.rho)) > LARGEST:
        warnings.warn(
            f"sigma={found.sigma:.3f}, rho={found.rho:.3f}: beyond {LARGEST} two nodes no longer "
            "stand for 200 draws; use draws='full'",
            ModelWarning,
            stacklevel=2,
        )
    return found


def converge(
    method: Method,
    data: Experiment,
    *,
    soft: float | None = None,
    mlp: MLP | None = None,
    target: bool = False,
) -> Run:
    """Run a method to its optimum: Newton, quadrature, first stages at their maxima.

    The paper's selection rules separate the selection equation, and on Adult all who serve in the
    armed forces work for the government, so its weight decay is kept as a ridge: without one there
    is no maximum.
    """
    start = time.process_time()
    if method in (NOBIAS, SSBIAS):
        return _plain(method, data, start, descend=False)
    model = _model(method, data, "quadrature", soft, mlp, 0, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        results = model.fit(penalty=DECAY, cov_type="nonrobust")
    return _scored(method, data, results, start)


def run_baseline(method: Method, data: Experiment) -> Run:
    """RFLearn or RBA on the labelled rows and the unlabelled target sample of BiasCorr*.

    At their optimum, because the paper does not say how it trained them. The ridge is its weight
    decay: labelled and unlabelled rows are separated.
    """
    start = time.process_time()
    (y, X, W), (X_target, W_target) = _labelled_and_target(data)
    kind = RFLearn if method == RFLEARN else RobustBiasAware
    model = kind(
        np.r_[y, np.full(len(X_target), np.nan)],
        np.vstack([X, X_target]),
        np.r_[np.ones(len(y)), np.zeros(len(X_target))],
        np.vstack([W, W_target]),
        target="unlabelled",
    )
    results = model.fit(penalty=DECAY)
    seconds = time.process_time() - start
    train = 100.0 * float(np.mean((results.predict(X) > 0.5) == (y == 1)))
    predicted = np.asarray(results.predict(data.X_test.to_numpy())) > 0.5
    actual = data.y_test == 1
    test = 100.0 * float(np.mean(predicted == actual))
    return Run(train, test, f1_score(predicted, actual), seconds)


def _labelled_and_target(
    data: Experiment,
) -> tuple[tuple[Floats, Floats, Floats], tuple[Floats, Floats]]:
    """D_s with its designs, and those of D_N: every other row, the test rows among them."""
    seen = data.s == 1
    X, W = data.X.to_numpy(), data.W.to_numpy()
    target = (
        np.vstack([X[~seen], data.X_test.to_numpy()]),
        np.vstack([W[~seen], data.W_test.to_numpy()]),
    )
    return (data.y[seen], X[seen], W[seen]), target


def _plain(method: Method, data: Experiment, start: float, *, descend: bool) -> Run:
    """NoBias and SSBias: a logit of all rows, or of the labelled ones."""
    model = OracleLogit(data.y, data.X) if method == NOBIAS else NaiveLogit(data.seen, data.X)
    results = model.fit("sgd", tol=TOL[data.name]) if descend else model.fit(penalty=DECAY)
    seconds = time.process_time() - start
    beta, used = results.params.to_numpy(), model.design.labelled
    train = accuracy(beta, data.X.to_numpy()[used], data.y[used])
    return Run(train, data.accuracy(beta), _f1(beta, data), seconds)


def _f1(beta: Floats, data: Experiment) -> float:
    return f1_score(data.predict_test(beta), data.y_test == 1)


def _model(
    method: Method,
    data: Experiment,
    integration: Simulation | str,
    soft: float | None,
    mlp: MLP | None,
    seed: int,
    target: bool,
) -> GreeneSelectionLogit:
    if method == GREENE:
        return GreeneSelectionLogit(
            data.seen, data.X, data.s, data.W, normalization="free", integration=integration
        )
    network = MLP(rng=seed) if mlp is None else replace(mlp, rng=seed)
    options: dict[str, Any] = {
        "normalization": "free",
        "integration": integration,
        "selection_model": method.select,
        "pseudolabel_model": network if method.outcome == "mlp" else "logit",
        "soft_selection": soft,
    }
    if not target:
        return BiasCorrLogit(data.seen, data.X, data.s, data.W, **options)
    (y, X, W), (X_target, W_target) = _labelled_and_target(data)
    # "We fix n to be the number of samples that is obtained after splitting each dataset."
    return BiasCorrLogit.from_target_arrays(
        y, X, X_target, W, W_target, n=len(data.y), rng=seed, **options
    )


def _scored(method: Method, data: Experiment, results: Any, start: float) -> Run:
    seconds = time.process_time() - start
    beta = np.asarray(results.params)[: results.model.k_outcome]
    # Greene's train accuracy is against all labels, BiasCorr's against those it trained on.
    if method == GREENE:
        X, labels = data.X.to_numpy(), data.y
    else:
        X, labels = results.model.training_design.X, results.model.training_design.y
    return Run(
        train=accuracy(beta, X, labels),
        test=data.accuracy(beta),
        f1=_f1(beta, data),
        seconds=seconds,
        steps=results.solution.n_iter,
        soft=float("nan") if method == GREENE else float(results.soft_selection),
        sigma=float(results.sigma),
        rho=float(results.rho),
    )
