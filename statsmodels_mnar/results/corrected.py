"""Results of BiasCorr."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import pandas as pd

from ..bias_theory import BiasCondition
from ..optimize.maximize import stops_early
from ..post.covariance import Covariance
from ..post.dependence import ExclusionTest
from ..post.door import SoftModel
from ..post.metrics import auc
from ..post.stacked import Stages, stacked_covariance, stacked_influence
from ..types import Floats
from .fitted import SelectionResults


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
    held_by_penalty : tuple of str
        Why the penalty alone keeps some coefficients finite; empty where it does not.
    """

    model: SoftModel

    _more_cov_types: ClassVar[tuple[str, ...]] = ("stacked",)
    _is_likelihood: ClassVar[bool] = False
    _estimator: ClassVar[str] = "BiasCorr"

    @property
    def first_stage(self) -> Any:
        """The classifiers of selection and of the outcome as trained."""
        return self.model.first_stage

    @property
    def soft_selection(self) -> float:
        """s-bar, or the value given in its place."""
        return self.model.s_bar()

    @property
    def pseudolabels(self) -> pd.Series:
        """Pseudolabels of the unlabelled rows, on their index."""
        missing = ~self.model.design.labelled
        labels = self.model.training_design.y[missing]
        return pd.Series(labels, index=self.model.design.index[missing], name="pseudolabel")

    @property
    def bias_condition(self) -> BiasCondition:
        """Whether the condition of the paper's theorem holds; print it."""
        return BiasCondition(self.eta, self.soft_selection)

    # -- covariance --------------------------------------------------------------------------------

    def _covariance(self, cov_type: str) -> Covariance:
        if cov_type != "stacked":
            found = super()._covariance(cov_type)
            return replace(found, description=f"{found.description}, given the pseudolabels")
        stage = self.first_stage
        if not stage.parametric or not self._fit_info.optimizer.at_maximum:
            raise ValueError(
                "cov_type='stacked' needs first stages 'probit' or 'logit' at their maxima "
                f"(here {stage.select.name} and {stage.outcome.name}); use 'HC0', or the bootstrap"
            )
        matrix = stacked_covariance(*self._stacked_equations())
        return Covariance(
            matrix, "stacked", "stacked equations, carrying the error of g_s, g_y and s-bar"
        )

    def _stages(self) -> Stages:
        model, stage = self.model, self.first_stage
        return Stages(
            select=stage.select.name,
            outcome=stage.outcome.name,
            rowwise=model.soft_selection == "rowwise",
            mean=self.soft_selection if model.soft_selection is None else None,
            soft_pseudolabels=model.soft_pseudolabels,
            sampling=self._sampling,
            penalty=self._fit_info.penalty,
            select_coef=stage.select.fit.params.cpu().numpy(),
            outcome_coef=stage.outcome.fit.params.cpu().numpy(),
            coef=np.asarray(self.params)[: len(model.rows.ridge)],
            ridge=model.rows.ridge,
        )

    def _param_influence(self) -> Floats:
        return self._stacked() if self.cov_type == "stacked" else super()._param_influence()

    def _refit_influence(self) -> Floats | None:
        return self._stacked() if self.first_stage.parametric else None

    def _stacked(self) -> Floats:
        """Influence of every row on the estimates, through the first stages too, (n, P)."""
        return stacked_influence(*self._stacked_equations())

    def _stacked_equations(self) -> tuple[Any, ...]:
        model = self.model
        return (
            model.plain_rows(), model.softening(), model.parametrized.form,
            model.expand(self.params), model.estimated, self._hessian(), self._stages(),
        )  # fmt: skip

    # -- the penalty -------------------------------------------------------------------------------

    @property
    def held_by_penalty(self) -> tuple[str, ...]:
        """Why the penalty alone keeps some coefficients finite; empty where it does not."""
        if not self._fit_info.penalty:
            return ()
        return self._once("held", self.model.coefs_held)  # outlives the data

    def _instrument(self) -> ExclusionTest:
        found = super()._instrument()
        if not any("holds the selection coefficients" in text for text in self.held_by_penalty):
            return found
        why = "the penalty holds the selection coefficients"
        return replace(found, statistic=np.nan, pvalue=np.nan, why=why)

    def _penalty_notes(self) -> list[str]:
        penalty = self._fit_info.penalty
        if not penalty:
            return []
        found = [
            f"Ridge penalty alpha = {penalty:g} (penalty=0 leaves it out): the standard errors "
            "treat it as fixed."
        ]
        return [*found, *self.held_by_penalty]

    # -- tables ------------------------------------------------------------------------------------

    def _criteria(self) -> dict[str, float]:
        return {"objective": self.llf, "soft_selection": self.soft_selection}

    def _first_stage_record(self) -> dict[str, Any] | None:
        return {
            "select": self.first_stage.select.name,
            "outcome": self.first_stage.outcome.name,
            "soft_selection": self.soft_selection,
            "held": self.held_by_penalty,
        }

    def remove_data(self) -> None:
        """Drop all arrays of the length of the data; predict on new data still works."""
        _ = self.held_by_penalty
        super().remove_data()

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
            "are those of its pseudo-true parameters, and its dependence is not that of the data, "
            "about which pseudolabels say nothing. GreeneSelectionLogit estimates and tests that.",
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
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("aic")

    @property
    def bic(self) -> float:
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("bic")

    @property
    def llnull(self) -> float:
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("llnull")

    @property
    def llr(self) -> float:
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("llr")

    @property
    def llr_pvalue(self) -> float:
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("llr_pvalue")

    @property
    def prsquared(self) -> float:
        """Not available: the objective is not a likelihood."""
        self._no_likelihood("prsquared")

    def compare_lr_test(self, restricted: Any) -> NoReturn:
        """Not available, whatever ``restricted``: the objective is not a likelihood."""
        raise ValueError("BiasCorr has no likelihood ratio test: its objective is not a likelihood")

    def test_independence(self, method: str | None = None) -> NoReturn:
        """Not available by any ``method``: pseudolabels carry no information on the dependence."""
        raise ValueError(
            "BiasCorr has no test of independence: its objective is not a likelihood, and "
            "pseudolabels say nothing about the dependence; use GreeneSelectionLogit"
        )

    # -- classification ----------------------------------------------------------------------------

    def pred_table(self, threshold: float = 0.5) -> Floats:
        """Labelled rows: [i, j] counts outcome i predicted as j, with P(y = 1) > ``threshold``."""
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
        with np.errstate(invalid="ignore", divide="ignore"):
            area = auc(p, labels, np.ones(len(p))).value
            f1 = 2 * table[1, 1] / (2 * table[1, 1] + table[0, 1] + table[1, 0])
        return pd.Series(
            {
                "accuracy": np.trace(table) / table.sum(),
                "f1": f1,
                "auc": area,
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
        options = {"method": self._fit_info.method, "penalty": self._fit_info.penalty}
        options |= self._fit_info.options | {"cov_type": "nonrobust"} | fit_options
        if stops_early(options["method"]) and "penalty" not in fit_options:
            options["penalty"] = 0.0  # it takes weight_decay instead
        names = list(self.model.design.outcome_names)
        rows = {}
        for value in grid:
            model = self.model.rebuilt(self.model.design, soft_selection=float(value))
            if not stops_early(options["method"]):
                model.stage = self.first_stage
            results = model.fit(**options)
            row = dict(zip(names, np.asarray(results.params), strict=False))
            if y is not None:
                row |= results.classification(y, exog).to_dict()
            rows[float(value)] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("soft_selection")


def _confusion(labels: Floats, p: Floats, threshold: float, counts: Floats | None = None) -> Floats:
    guess = p > threshold
    counts = np.ones(len(labels)) if counts is None else counts
    return np.array(
        [[counts @ ((labels == i) & (guess == j)) for j in (False, True)] for i in (0, 1)]
    )
