"""BiasCorr and BiasCorr*, the paper's contribution."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from statsmodels.tools.sm_exceptions import ModelWarning

from ..design import Design, check_outcome_varies, check_selection_varies
from ..engine.binary import Independent, fit_independent
from ..engine.forms import FreeForm
from ..engine.integration import Integration
from ..engine.optimize import Method
from ..engine.solution import Status
from ..errors import DesignError
from ..results.biascorr import BiasCorrResults
from ..results.selection import SelectionResults, SelectionResultsWrapper
from .first_stage import (
    Classifier,
    Descent,
    FirstStage,
    check_classifier,
    mean_soft_selection,
    soften,
    train,
)
from .greene import GreeneSelectionLogit
from .normalization import Normalization, Parametrized
from .target import augment

SoftSelection = float | str | None


class BiasCorrLogit(GreeneSelectionLogit):
    """BiasCorr (Algorithm 1): Greene's objective on pseudolabelled rows with soft selection.

    A classifier g_s of selection and a classifier g_y of the outcome give each unlabelled row the
    soft selection value s-bar and a pseudolabel; Greene's objective is then maximised over all
    rows.

    Parameters
    ----------
    endog, exog, endog_select, exog_select, normalization, integration, device, missing, hasconst
        As in :class:`GreeneSelectionLogit`.
    selection_model : {"probit", "logit"} or classifier
        g_s, trained on all rows to predict selection. Any object with ``fit`` and
        ``predict_proba`` serves.
    pseudolabel_model : {"logit", "mlp"}, MLP or classifier
        g_y, trained on the labelled rows to predict the outcome.
    soft_selection : float or "rowwise", optional
        In place of s-bar, the mean predicted selection probability of the unlabelled rows: a value
        in [0, 1], or each row's own prediction (which goes beyond the paper).
    soft_pseudolabels : bool
        Keep g_y's probabilities instead of 1[g_y > 0.5] (beyond the paper).
    offset, offset_select, freq_weights, prob_weights : array_like, optional

    Notes
    -----
    The objective is not the likelihood of the observed data, and its maximum does not estimate the
    parameters of Greene's model consistently: there are no information criteria, and standard
    errors are those of the pseudo-true parameter. With s-bar >= 1/2, or a selection equation that
    separates perfectly, the objective has no finite maximum without a ``penalty``.

    Mai, H., W. Huang, W. Du and X. Wu, A robust classifier under missing-not-at-random sample
    selection bias.

    Examples
    --------
    >>> from statsmodels_mnar import BiasCorrLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000).data
    >>> results = BiasCorrLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> round(results.soft_selection, 2)
    0.42
    """

    _results_class: ClassVar[type[SelectionResults]] = BiasCorrResults
    # Soft rows have no closed form at sigma = 0 or infinity: these faces are held close by.
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: {"sigma": 50.0},
        Status.SIGMA_ZERO: {"sigma": 1e-3},
    }
    _own: ClassVar[tuple[str, ...]] = (
        "selection_model", "pseudolabel_model", "soft_selection", "soft_pseudolabels",
    )  # fmt: skip
    _set_up_keywords: ClassVar[tuple[str, ...]] = GreeneSelectionLogit._set_up_keywords + _own
    _keywords: ClassVar[tuple[str, ...]] = GreeneSelectionLogit._keywords + _own

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        selection_model: Classifier = "probit",
        pseudolabel_model: Classifier = "logit",
        soft_selection: SoftSelection = None,
        soft_pseudolabels: bool = False,
        **keywords: Any,
    ) -> None:
        self._take(selection_model, pseudolabel_model, soft_selection, soft_pseudolabels)
        super().__init__(endog, exog, endog_select, exog_select, **keywords)

    def _take(
        self,
        selection_model: Classifier = "probit",
        pseudolabel_model: Classifier = "logit",
        soft_selection: SoftSelection = None,
        soft_pseudolabels: bool = False,
    ) -> None:
        """Check and keep the keywords that are BiasCorr's own."""
        check_classifier(selection_model, ("probit", "logit"), "selection_model")
        check_classifier(pseudolabel_model, ("logit", "mlp"), "pseudolabel_model")
        by_name = isinstance(soft_selection, str) and soft_selection == "rowwise"
        if soft_selection is not None and not by_name:
            known = isinstance(soft_selection, int | float | np.floating)
            if not known or not 0.0 <= float(soft_selection) <= 1.0:
                raise ValueError(
                    f"soft_selection={soft_selection!r} must be a number in [0, 1] or 'rowwise'"
                )
        self.selection_model, self.pseudolabel_model = selection_model, pseudolabel_model
        self.soft_selection, self.soft_pseudolabels = soft_selection, bool(soft_pseudolabels)
        self._stage: FirstStage | None = None
        self._known_soft: float | None = None  # s-bar, once the data are gone

    def _set_up(self, design: Design, **options: Any) -> None:
        own = {name: options.pop(name) for name in self._own if name in options}
        if own or not hasattr(self, "_stage"):
            self._take(**own)
        super()._set_up(design, **options)

    @classmethod
    def from_target(
        cls,
        formula: str,
        select_formula: str,
        labeled: pd.DataFrame,
        target: pd.DataFrame,
        n: int | None = None,
        match_on: Any = None,
        rng: int | np.random.Generator | None = None,
        *,
        env: int = 0,
        **keywords: Any,
    ) -> Self:
        """BiasCorr* (Algorithm 2): unlabelled rows come from a sample of the target population.

        Parameters
        ----------
        formula, select_formula : str
            As in ``from_formula``; the selection formula has no left side, because "selected" means
            "comes from ``labeled``".
        labeled : DataFrame
            D_s, biased rows with labels.
        target : DataFrame
            D_N, unbiased rows without.
        n : int, optional
            Rows of the augmented set; by default as many as ``target`` has.
        match_on : list of str or dict, optional
            Columns that define "the same sample", by default all columns that both frames share
            except the outcome; a dict maps continuous columns to cut points.
        rng : int or Generator, optional
            Of the draws from ``target``.
        **keywords
            Of ``from_formula``.
        """
        if "~" not in select_formula or select_formula.split("~", 1)[0].strip():
            raise DesignError(
                f"select_formula={select_formula!r} must have no left side, as in '~ x + z': rows "
                "of labeled are selected, rows of target are not"
            )
        if match_on is None:
            left = formula.split("~", 1)[0]
            outcome = {*re.findall(r"\w+", left), *re.findall(r"[\"'](.+?)[\"']", left)}
            match_on = [c for c in labeled.columns if c in target.columns and c not in outcome]
        if not len(match_on):
            raise ValueError("match_on is empty: labeled and target share no covariates")
        added = target.iloc[augment(labeled, target, match_on, n, rng)]
        data = pd.concat([labeled, added], ignore_index=True)
        selected = np.r_[np.ones(len(labeled)), np.zeros(len(added))]
        data["_from_labeled"] = selected
        # Rows of target may carry labels; they are not read where _from_labeled is 0.
        return cls.from_formula(
            formula, f"_from_labeled {select_formula.strip()}", data, env=env + 1, **keywords
        )

    @classmethod
    def from_target_arrays(
        cls,
        endog: Any,
        exog: Any,
        exog_target: Any,
        exog_select: Any = None,
        exog_select_target: Any = None,
        n: int | None = None,
        match_on: Any = None,
        rng: int | np.random.Generator | None = None,
        **keywords: Any,
    ) -> Self:
        """BiasCorr* from arrays.

        Parameters
        ----------
        endog, exog, exog_select : array_like
            (m,), (m, p) and (m, k): D_s, all of it labelled; ``exog_select`` is by default
            ``exog``.
        exog_target, exog_select_target : array_like
            (N, p) and (N, k): the same columns of D_N.
        n, rng
            As in :meth:`from_target`.
        match_on : list of int or dict, optional
            Positions of columns of ``exog_select``, all of them by default, or a dict from them to
            cut points.
        **keywords
            Of the class.
        """
        exog_select = exog if exog_select is None else exog_select
        if exog_select_target is None:
            exog_select_target = exog_target
        X, X_target, W, W_target = (
            pd.DataFrame(np.asarray(v, dtype=float))
            for v in (exog, exog_target, exog_select, exog_select_target)
        )
        if X.shape[1] != X_target.shape[1] or W.shape[1] != W_target.shape[1]:
            raise ValueError(
                f"exog_target and exog_select_target must have {X.shape[1]} and {W.shape[1]} "
                f"columns, as exog and exog_select do; got {X_target.shape[1]} and "
                f"{W_target.shape[1]}"
            )
        if len(X_target) != len(W_target):
            raise ValueError("exog_target and exog_select_target must have the same rows")
        chosen = augment(W, W_target, range(W.shape[1]) if match_on is None else match_on, n, rng)
        selected = np.r_[np.ones(len(X)), np.zeros(len(chosen))]
        labels = np.r_[np.asarray(endog, dtype=float), np.full(len(chosen), np.nan)]
        return cls(
            labels,
            np.vstack([X, X_target.iloc[chosen]]),
            selected,
            np.vstack([W, W_target.iloc[chosen]]),
            **keywords,
        )

    def _parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        if normalization == "probit":
            raise ValueError(
                "normalization='probit' is not defined for BiasCorr, whose soft rows have no "
                "bivariate normal probability; use 'free', 'loading' or a fixed sigma"
            )
        if normalization == "independent":  # at sigma = 0 soft rows still depend on rho: both zero
            return Parametrized(FreeForm(integration), "free", (math.log(1e-8), 0.0))
        return super()._parametrize(normalization, integration)

    # -- Algorithm 1 -------------------------------------------------------------------------------

    @property
    def first_stage(self) -> FirstStage:
        """g_s and g_y, trained to their maxima where nothing else was asked for."""
        if self._stage is None:
            self._stage = train(self.design, self.selection_model, self.pseudolabel_model)
        return self._stage

    @property
    def training_design(self) -> Design:
        """D'_tr: soft selection in s, labels and pseudolabels in y."""
        return soften(
            self.design, self.first_stage, self.soft_selection,
            soft_pseudolabels=self.soft_pseudolabels,
        )  # fmt: skip

    def remove_data(self) -> None:
        """Drop the rows and what the first stages said of them; s-bar stays."""
        self._known_soft = self._soft()
        stage = self.first_stage
        nothing = np.empty(0)
        self._stage = FirstStage(
            *(replace(v, probability=nothing, index=nothing) for v in (stage.select, stage.outcome))
        )
        super().remove_data()

    def _soft(self) -> float:
        """s-bar, or the value in its place (the mean of row-wise ones)."""
        if self._known_soft is not None:
            return self._known_soft
        if self.soft_selection is None or self.soft_selection == "rowwise":
            return mean_soft_selection(self.design, self.first_stage)
        return float(self.soft_selection)

    def _sibling(self, normalization: Normalization) -> Self:
        other = super()._sibling(normalization)
        other._stage = self._stage
        return other

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """Start values from the labelled rows; the value is the objective's at independence.

        That takes a fit of its own, which "sgd" and the user's start values can do without: the
        value is then NaN.
        """
        apart = fit_independent(self._rows_of(self.design), penalty=penalty)
        if not apart.converged and penalty == 0.0 and method != "sgd":
            self._check_separation()  # at independence there would be no maximum either
        if method == "sgd" or started:
            return replace(apart, value=math.nan)
        face = self._sibling("independent")
        fit = face._fit(apart, None, "newton", penalty, {})
        return replace(apart, params=fit.solution.params[:-2], value=fit.solution.value)

    def fit(
        self,
        start_params: Any = None,
        method: Method = "newton",
        maxiter: int | None = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        disp: bool = False,
        penalty: float = 0.0,
        callback: Any = None,
        first_stage_tol: tuple[float, float] = (1e-3, 1e-4),
        **options: Any,
    ) -> SelectionResultsWrapper:
        """Run Algorithm 1.

        Parameters
        ----------
        start_params, method, maxiter, cov_kwds, disp, penalty, callback
            As in :meth:`GreeneSelectionLogit.fit`. "newton" maximises the objective. "sgd" is the
            paper's protocol: early-stopped gradient descent, in the first stages too. A penalty
            also applies to the first stages "probit" and "logit".
        cov_type : {"stacked", "nonrobust", "OPG", "HC0", "HC1", "cluster"}, optional
            "stacked" (the default with "probit"/"logit" first stages) carries the error of g_s, g_y
            and s-bar. The others are given the pseudolabels.
        first_stage_tol : pair of float
            Relative loss changes at which "sgd" stops g_s and g_y.
        **options
            As in :meth:`GreeneSelectionLogit.fit`.
        """
        model = self
        check_selection_varies(self.design)  # before the first stages, which need both kinds
        check_outcome_varies(self.design)
        descent = None
        if method == "sgd":
            descent = (Descent(first_stage_tol[0]), Descent(first_stage_tol[1]))
        if descent is not None or penalty > 0.0:
            model = self._sibling(self.normalization)
            model._stage = train(
                self.design, self.selection_model, self.pseudolabel_model, descent, penalty=penalty
            )
            model._rows = None
        model._check_pseudolabels(method, penalty)
        if cov_type is None:
            ready = model.first_stage.parametric and method != "sgd"
            cov_type = "stacked" if ready else "HC0"
        fitted = super(BiasCorrLogit, model).fit(
            start_params, method, maxiter, cov_type, cov_kwds, disp, penalty, callback, **options
        )
        if method == "sgd":
            info = fitted._results.fit_info
            again = info.options | {"first_stage_tol": first_stage_tol}
            fitted._results.fit_info = replace(info, options=again)
        return fitted

    def _check_pseudolabels(self, method: str, penalty: float) -> None:
        """Name what makes the objective degenerate, before the fit."""
        training, missing = self.training_design, ~self.design.labelled
        values = training.s[missing]
        if values.min() >= 0.5:
            text = (
                f"soft_selection is {self._soft():.4f}: at 1/2 and above no row pulls the "
                "selection index down"
            )
            if method != "sgd" and penalty == 0.0:
                raise ValueError(
                    f"{text}, so the objective has no finite maximum. Use a ridge penalty "
                    "(penalty=1e-4), a smaller soft_selection, or the paper's early-stopped "
                    "method='sgd'."
                )
            warnings.warn(
                f"{text}; the selection coefficients are where "
                f"{'the descent stopped' if method == 'sgd' else 'the penalty holds them'}.",
                ModelWarning,
                stacklevel=3,
            )
        labels = training.y[missing]
        if labels.min() == labels.max() and not self.soft_pseudolabels:
            warnings.warn(
                f"all {len(labels)} pseudolabels are {labels[0]:.0f}: g_y sees one class among the "
                "unlabelled rows, and the estimates mostly repeat it.",
                ModelWarning,
                stacklevel=3,
            )
