"""Results of BiasCorr."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from ..design import Design
from ..engine.halfline import LOGIT, PROBIT
from ..inference.bias_theory import BiasCondition
from ..inference.covariance import Covariance
from ..inference.stacked import Stage, kernel_weights, stacked_covariance
from .selection import SelectionResults

Floats = NDArray[np.float64]


class BiasCorrResults(SelectionResults):
    """Estimates of BiasCorr.

    Attributes
    ----------
    soft_selection : float
        s-bar (or the value given in its place; the mean of row-wise ones).
    pseudolabels : Series
        Of the unlabelled rows, on their index.
    bias_condition : BiasCondition
        eta, the threshold 1/(2 - s-bar) and whether the theorem's condition holds; print it.
    first_stage : FirstStage
        g_s (``select``) and g_y (``outcome``).
    """

    _more_cov_types: ClassVar[tuple[str, ...]] = ("stacked",)
    _is_likelihood: ClassVar[bool] = False

    @property
    def first_stage(self) -> Any:
        return self.model.first_stage

    @property
    def soft_selection(self) -> float:
        return self.model._soft()

    @property
    def pseudolabels(self) -> pd.Series:
        missing = ~self.model.design.labelled
        labels = self.model.training_design.y[missing]
        return pd.Series(labels, index=self.model.design.index[missing], name="pseudolabel")

    @property
    def bias_condition(self) -> BiasCondition:
        return BiasCondition(self.eta, self.soft_selection)

    # -- covariance --------------------------------------------------------------------------------

    def _covariance(self, cov_type: str) -> Covariance:
        if cov_type != "stacked":
            found = super()._covariance(cov_type)
            return replace(found, description=f"{found.description}, given the pseudolabels")
        stage = self.first_stage
        if not stage.parametric or self.fit_info.method == "sgd":
            raise ValueError(
                "cov_type='stacked' needs first stages 'probit' or 'logit' at their maxima "
                f"(here {stage.select.name} and {stage.outcome.name}); use 'HC0', or the bootstrap"
            )
        return Covariance(
            self._stacked(),
            "stacked",
            "stacked equations, carrying the error of g_s, g_y and s-bar",
        )

    def _scores_on(self, design: Design) -> Floats:
        """Row scores at the estimates, were the training set another one; weighted."""
        model = self.model
        objective = model._objective()
        other = type(objective)(model._rows_of(design), objective.form)
        scores = other.row_scores(model._expand(self.params)).cpu().numpy()[:, model._estimated]
        return scores if design.weights is None else design.weights[:, None] * scores

    def _stacked(self) -> Floats:
        model = self.model
        design, training, stage = model.design, model.training_design, self.first_stage
        missing = ~design.labelled
        weights = np.ones(design.nobs) if design.weights is None else design.weights
        penalty = self.fit_info.penalty
        select = _stage(stage.select, design.W, design.s, weights, penalty)
        outcome = _stage(stage.outcome, design.X, design.y, weights * design.labelled, penalty)

        # How the scores move with each unlabelled row's soft selection and label.
        step = 1e-5
        moved = [
            self._scores_on(replace(training, s=np.clip(training.s + sign * step * missing, 0, 1)))
            for sign in (1.0, -1.0)
        ]
        by_soft = (moved[0] - moved[1])[missing] / (2.0 * step)  # (n_u, P)
        by_select = np.zeros((by_soft.shape[1], design.W.shape[1]))
        by_mean = None
        slopes = _density(stage.select)[missing, None] * design.W[missing]  # dp/dzeta
        if model.soft_selection == "rowwise":
            by_select = by_soft.T @ slopes
        elif model.soft_selection is None:
            total = by_soft.sum(0)
            share = weights[missing] / weights[missing].sum()
            by_select = np.outer(total, share @ slopes)
            deviation = np.zeros(design.nobs)
            deviation[missing] = share * (stage.select.probability[missing] - self.soft_selection)
            by_mean = (total, deviation)
        by_outcome = self._by_outcome(training, missing)
        scores = model.score_obs(self.params)
        if not self._sampling:
            # A row of count w is w observations, each of 1/w of its influence: w (1/w)^2 = 1/w.
            root = np.sqrt(np.where(weights > 0, weights, 1.0))[:, None]
            scores = scores / root
            select, outcome = (replace(v, scores=v.scores / root) for v in (select, outcome))
            by_mean = None if by_mean is None else (by_mean[0], by_mean[1] / root[:, 0])
        return stacked_covariance(
            self._hessian(), scores, select, outcome, by_select, by_outcome, by_mean
        )

    def _by_outcome(self, training: Design, missing: NDArray[np.bool_]) -> Floats:
        """Derivative of the total score in g_y's coefficients, through the pseudolabels, (P, p)."""
        X = self.model.design.X[missing]
        trained = self.first_stage.outcome
        if self.model.soft_pseudolabels:
            step = 1e-5
            ends = [np.clip(training.y + sign * step * missing, 0, 1) for sign in (1.0, -1.0)]
            density = _density(trained)[missing]
        else:
            step = 0.5  # the jump of the score between the two labels
            ends = [np.where(missing, label, training.y) for label in (1.0, 0.0)]
            design = self.model.design
            weights = (np.ones(design.nobs) if design.weights is None else design.weights)[missing]
            count = len(weights) if self._sampling else weights.sum()
            density = kernel_weights(trained.index[missing], weights, count)
        jump = np.subtract(*(self._scores_on(replace(training, y=y)) for y in ends))[missing]
        return (jump / (2.0 * step)).T @ (density[:, None] * X)

    # -- tables ------------------------------------------------------------------------------------

    def _criteria(self) -> dict[str, float]:
        return {"objective": self.llf, "soft_selection": self.soft_selection}

    def _header_rows(self) -> dict[str, str]:
        return {
            "Objective:": f"{self.llf:#.6g}",
            "Missing ratio:": f"{self.eta:.4f}",
            "Soft selection:": f"{self.soft_selection:.4f}",
            "g_s:": self.first_stage.select.name,
            "g_y:": self.first_stage.outcome.name,
        }

    def _own_notes(self) -> list[str]:
        return [
            "BiasCorr's objective is not the likelihood of the observed data: the standard errors "
            "are those of its pseudo-true parameters.",
            f"{str(self.bias_condition)[0].upper()}{str(self.bias_condition)[1:]}.",
        ]

    def _scale_remedy(self) -> str:
        # Not the loading form: at |rho| = 1 soft rows enter another objective.
        return "{'sigma': 1.0}"

    # -- what a likelihood would offer -------------------------------------------------------------

    def _no_likelihood(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name} is not defined for BiasCorr: its objective is not the likelihood of the "
            "observed data"
        )

    @property
    def aic(self) -> float:
        self._no_likelihood("aic")

    @property
    def bic(self) -> float:
        self._no_likelihood("bic")

    @property
    def llnull(self) -> float:
        self._no_likelihood("llnull")

    @property
    def llr(self) -> float:
        self._no_likelihood("llr")

    @property
    def llr_pvalue(self) -> float:
        self._no_likelihood("llr_pvalue")

    @property
    def prsquared(self) -> float:
        self._no_likelihood("prsquared")

    def compare_lr_test(self, restricted: Any) -> NoReturn:
        """Not available: the objective is not a likelihood."""
        raise ValueError("BiasCorr has no likelihood ratio test: its objective is not a likelihood")

    def test_independence(self, method: str | None = None) -> NoReturn:
        """Not available: pseudolabels carry no information on the dependence."""
        raise ValueError(
            "BiasCorr has no test of independence: its objective is not a likelihood, and "
            "pseudolabels say nothing about the dependence; use GreeneSelectionLogit"
        )

    # -- classification ----------------------------------------------------------------------------

    def pred_table(self, threshold: float = 0.5) -> Floats:
        """Labelled rows: [i, j] counts outcome i predicted as j."""
        design = self.model.design
        seen = design.labelled
        counts = None if design.weights is None or self._sampling else design.weights[seen]
        return _confusion(self.model.endog[seen], self.fittedvalues[seen], threshold, counts)

    def classification(
        self, y: Any, exog: Any = None, threshold: float = 0.5, offset: Any = None
    ) -> pd.Series:
        """Accuracy, F1, AUC and Brier score of P(y = 1) on rows with known labels.

        Parameters
        ----------
        y : array_like
            (m,) labels.
        exog : DataFrame or array_like, optional
            New data (formulas) or design; by default the model's own rows.
        threshold : float
            Of the predicted class; at 0.5 it is the sign of x'beta.
        offset : array_like, optional
            As in ``predict``.
        """
        labels = np.asarray(y, dtype=float)
        p = np.asarray(self.predict(exog, offset=offset))
        if labels.shape != p.shape or not np.isin(labels, (0.0, 1.0)).all():
            raise ValueError(f"y must be {len(p)} labels coded 0 and 1, one for each row of exog")
        table = _confusion(labels, p, threshold)
        ones, zeros = table[1].sum(), table[0].sum()
        rank_sum = rankdata(p)[labels == 1].sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            auc = (rank_sum - ones * (ones + 1) / 2) / (ones * zeros)
            f1 = 2 * table[1, 1] / (2 * table[1, 1] + table[0, 1] + table[1, 0])
        return pd.Series(
            {
                "accuracy": np.trace(table) / table.sum(),
                "f1": f1,
                "auc": auc,
                "brier": np.mean((p - labels) ** 2),
            }
        )

    def sbar_path(
        self, grid: Any = None, y: Any = None, exog: Any = None, **fit_options: Any
    ) -> pd.DataFrame:
        """Refit across soft selection values (the paper's sensitivity figure).

        Parameters
        ----------
        grid : array_like, optional
            Values of s-bar; by default 0.05, 0.10, ..., 0.45.
        y, exog : optional
            Rows with known labels on which to score each fit, see :meth:`classification`.
        **fit_options
            Of ``fit``; by default the method and penalty of this fit.

        Returns
        -------
        DataFrame
            One row for each value: the outcome coefficients and, with ``y``, the scores.
        """
        grid = np.arange(0.05, 0.46, 0.05) if grid is None else np.asarray(grid, dtype=float)
        options = {"method": self.fit_info.method, "penalty": self.fit_info.penalty}
        options |= self.fit_info.options | {"cov_type": "nonrobust"} | fit_options
        names = list(self.model.design.outcome_names)
        rows = {}
        for value in grid:
            model = self.model._rebuilt(self.model.design, soft_selection=float(value))
            if options["method"] != "sgd":
                model._stage = self.first_stage
            results = model.fit(**options)
            row = dict(zip(names, np.asarray(results.params), strict=False))
            if y is not None:
                row |= results.classification(y, exog).to_dict()
            rows[float(value)] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("soft_selection")


def _stage(trained: Any, design: Floats, labels: Floats, weights: Floats, penalty: float) -> Stage:
    """Scores and Hessian of a first-stage regression; rows of weight zero took no part."""
    used = weights > 0
    sign = np.where(used, 2.0 * np.nan_to_num(labels) - 1.0, 1.0)
    link = PROBIT if trained.name == "probit" else LOGIT
    index = torch.as_tensor(sign * trained.index)
    r1, r2 = (v.numpy() for v in link.ratios(index))
    scores = (weights * sign * r1)[:, None] * design
    hessian = design.T @ ((weights * (r2 - r1 * r1))[:, None] * design)
    hessian -= penalty * weights.sum() * np.eye(design.shape[1])
    return Stage(scores, hessian)


def _density(trained: Any) -> Floats:
    """Derivative of the predicted probability in its index, (n,)."""
    if trained.name == "probit":
        return norm.pdf(trained.index)
    return trained.probability * (1.0 - trained.probability)


def _confusion(labels: Floats, p: Floats, threshold: float, counts: Floats | None = None) -> Floats:
    guess = p > threshold
    counts = np.ones(len(labels)) if counts is None else counts
    return np.array(
        [[counts @ ((labels == i) & (guess == j)) for j in (False, True)] for i in (0, 1)]
    )
