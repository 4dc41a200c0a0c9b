"""BiasCorr and BiasCorr*, the paper's contribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from statsmodels.tools.sm_exceptions import ConvergenceWarning, ModelWarning

from ..design import (
    Design,
    check_rank,
    degeneracies,
    refuse_penalised,
)
from ..errors import SingularDesignError, warn
from ..kernel.forms import FreeForm
from ..kernel.integration import Integration
from ..kernel.rows import Rows
from ..kernel.threads import one_thread, one_thread_a_step
from ..large.partitions import PartitionedRows, ResampledObjective, Resamples, in_parts
from ..optimize.batches import resampled, reweighted
from ..optimize.binary import Independent, fit_independent
from ..optimize.maximize import Method, maximize_many, stops_early
from ..optimize.solution import Solution, Status
from ..post.dependence import Normalization, Parametrized
from ..results.corrected import BiasCorrResults
from ..results.fitted import SelectionResults, SelectionResultsWrapper
from ..types import Floats
from .first_stage import (
    Classifier,
    Descent,
    FirstStage,
    Softening,
    can_train_many,
    check_classifier,
    is_regression,
    mean_soft_selection,
    soft_range,
    soften,
    soften_rows,
    train,
    train_many,
    train_partitioned,
    train_resampled,
)
from .greene import GreeneSelectionLogit
from .repeat import in_batches
from .search import SEPARATION_ROWS
from .target import FromTarget

_SEPARATED = "a first stage has no maximum (separation)"
_HIGH_SOFT_SELECTION = "s-bar is 1/2 or more, so the objective has no maximum"


SoftSelection = float | str | None

PENALTY = 1e-4
"""The paper's weight decay, and the ridge of ``BiasCorrLogit.fit`` where none is named."""

_LARGE_PULL = 1e-3  # of the penalty on a constant, for each row; its information is at most 0.25

_NOT_CONVERGED = (
    "a first stage did not converge, so that s-bar or the pseudolabels are where it stopped. "
    "Centre columns that are far from zero, drop nearly collinear ones, or use a ridge penalty."
)


class BiasCorrLogit(FromTarget, GreeneSelectionLogit):
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
    separates perfectly, the objective has no finite maximum of its own: the small ridge penalty
    that ``fit`` takes by default holds the coefficients then, and the summary says so.

    Mai, H., W. Huang, W. Du and X. Wu, A robust classifier under missing-not-at-random sample
    selection bias.

    Examples
    --------
    >>> from statsmodels_mnar import BiasCorrLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000).data
    >>> results = BiasCorrLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", data).fit()
    >>> round(results.soft_selection, 2)
    0.4
    """

    _default_penalty: ClassVar[float] = PENALTY
    _results_class: ClassVar[type[SelectionResults]] = BiasCorrResults
    # Soft rows have no closed form at sigma = 0 or infinity: these faces are held close by.
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: {"sigma": 50.0},
        Status.SIGMA_ZERO: {"sigma": 1e-3},
    }
    _links: ClassVar[tuple[str, ...]] = ("logit",)
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
            if not known or soft_selection is True or not 0.0 <= float(soft_selection) <= 1.0:
                shown = repr(soft_selection) if np.ndim(soft_selection) == 0 else "an array"
                raise ValueError(f"soft_selection={shown} must be a number in [0, 1] or 'rowwise'")
        if not isinstance(soft_pseudolabels, bool | np.bool_):
            raise ValueError(f"soft_pseudolabels={soft_pseudolabels!r} must be True or False")
        self.selection_model, self.pseudolabel_model = selection_model, pseudolabel_model
        self.soft_selection, self.soft_pseudolabels = soft_selection, bool(soft_pseudolabels)
        self.stage: FirstStage | None = None
        self._known_soft: float | None = None  # s-bar
        self._training_rows: Rows | None = None  # D'_tr; or PartitionedRows in their place

    def _set_up(self, design: Any, **options: Any) -> None:
        own = {name: options.pop(name) for name in self._own if name in options}
        if own or not hasattr(self, "stage"):
            self._take(**own)
        self._check_terms(design)
        super()._set_up(design, **options)

    @classmethod
    def _check_terms(cls, design: Any) -> None:
        refuse_penalised(design, "BiasCorrLogit")

    def parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        if normalization == "probit":
            raise ValueError(
                "normalization='probit' is not defined for BiasCorr, whose soft rows have no "
                "bivariate normal probability; use 'free', 'loading' or a fixed sigma"
            )
        if normalization == "independent":  # at sigma = 0 soft rows still depend on rho: both zero
            return Parametrized(FreeForm(integration), (math.log(1e-8), 0.0))
        return super().parametrize(normalization, integration)

    # -- Algorithm 1 -------------------------------------------------------------------------------

    @property
    def first_stage(self) -> FirstStage:
        """g_s and g_y, trained to their maxima under the penalty of ``fit()``."""
        if self.stage is None:
            self.stage = self._train()
        return self.stage

    def _staged(self, penalty: float, descent: tuple[Descent, Descent] | None = None) -> Self:
        """This model with first stages trained as ``fit`` was asked to train them."""
        if descent is None and self.stage is None and penalty == PENALTY:
            self.stage = self._train()
        if descent is None and self.stage is not None and self.stage.penalty == penalty:
            return self
        model = self.sibling(self.normalization)
        model.stage = self._train(descent, penalty)
        model._training_rows = model._known_soft = None
        return model

    def _train(
        self, descent: tuple[Descent, Descent] | None = None, penalty: float = PENALTY
    ) -> FirstStage:
        models = self.selection_model, self.pseudolabel_model
        if self.in_partitions:
            self.check_rows_at_hand()
            return train_partitioned(in_parts(self.plain_rows()), *models, penalty)
        return train(self.design, *models, descent, penalty, self.ridge_of(self.design))

    def _first_stage_converged(self) -> bool:
        """Whether g_y converged, and g_s where s-bar is its mean."""
        stage = self.first_stage
        given = self.soft_selection not in (None, "rowwise")
        return stage.outcome.converged and (given or stage.select.converged)

    def softening(self) -> Softening:
        """Return how unlabelled rows get their s' and y'."""
        rowwise = self.soft_selection == "rowwise"
        soft = "rowwise" if rowwise else self.s_bar()
        return Softening.of(self.first_stage, soft, self.soft_pseudolabels)

    @property
    def rows(self) -> Rows:
        """The rows of D'_tr on the device."""
        if self._training_rows is None:
            self.check_rows_at_hand()
            how = self.softening()
            self._training_rows = self.plain_rows().softened(how.kind, soften_rows, how)
        return self._training_rows

    @property
    def training_design(self) -> Design:
        """D'_tr: soft selection in s, labels and pseudolabels in y."""
        return soften(self.design, self.plain_rows(), self.softening())

    def remove_data(self) -> None:
        """Drop the rows and what the first stages said of them; s-bar stays."""
        self._known_soft = self.s_bar()
        stage = self.first_stage
        self._training_rows = None
        nothing = np.empty(0)
        self.stage = replace(
            stage,
            select=replace(stage.select, probability=nothing, index=nothing),
            outcome=replace(stage.outcome, probability=nothing, index=nothing),
        )
        super().remove_data()

    def s_bar(self) -> float:
        """s-bar, or the value in its place (the mean of row-wise ones)."""
        if self._known_soft is not None:
            return self._known_soft
        if self.soft_selection is not None and self.soft_selection != "rowwise":
            return float(self.soft_selection)
        how = Softening.of(self.first_stage)
        self._known_soft = float(mean_soft_selection(self.plain_rows(), how))
        return self._known_soft

    def sibling(self, normalization: Normalization, **changes: Any) -> Self:
        other = super().sibling(normalization, **changes)
        other.stage, other._training_rows = self.stage, self._training_rows
        other._known_soft = self._known_soft
        return other

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_training_rows": None}

    def _default_cov_type(self, method: str = "newton") -> str:
        both = is_regression(self.selection_model) and is_regression(self.pseudolabel_model)
        return "stacked" if both and method != "sgd" else "HC0"

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """Start values from the labelled rows; the value is the objective's at independence.

        That takes a fit of its own, which "sgd" and the user's start values can do without: the
        value is then NaN.
        """
        apart = fit_independent(self.plain_rows(), penalty=penalty)
        if not apart.converged and penalty == 0.0 and not stops_early(method):
            self._check_separation()  # at independence there would be no maximum either
        if stops_early(method) or started:
            return replace(apart, value=math.nan)
        face = self.sibling("independent")
        fit = face._fit(apart, None, "newton", penalty, {})
        return replace(apart, params=fit.solution.params[:-2], value=fit.solution.value)

    @one_thread()
    def fit(
        self,
        start_params: Any = None,
        method: Method = "newton",
        maxiter: int | None = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        disp: bool = False,
        penalty: float | None = None,
        callback: Any = None,
        checkpoint: str | Path | None = None,
        first_stage_tol: tuple[float, float] = (1e-3, 1e-4),
        **options: Any,
    ) -> SelectionResultsWrapper:
        """Run Algorithm 1.

        Parameters
        ----------
        start_params, method, maxiter, cov_kwds, disp, callback, checkpoint
            As in :meth:`GreeneSelectionLogit.fit`. "newton" maximises the objective. "sgd" is the
            paper's protocol: early-stopped gradient descent, in the first stages too.
        penalty : float, optional
            As in :meth:`GreeneSelectionLogit.fit`, and of the first stages "probit" and "logit"
            too. By default 1e-4, the paper's weight decay ("sgd" takes ``weight_decay`` instead).
            With 0 the objective is bare: it has no finite maximum where s-bar is 1/2 or more or
            an equation is separated. The ridge does not see offsets: centre those of which the
            mean is large.
        cov_type : {"stacked", "nonrobust", "OPG", "HC0", "HC1", "cluster"}, optional
            "stacked" (the default with "probit"/"logit" first stages) carries the error of g_s, g_y
            and s-bar. The others are given the pseudolabels.
        first_stage_tol : pair of float
            Relative loss changes at which "sgd" stops g_s and g_y.
        **options
            As in :meth:`GreeneSelectionLogit.fit`.
        """
        if penalty is None:
            penalty = 0.0 if stops_early(method) else PENALTY
        _check_tolerances(first_stage_tol)
        training = {"first_stage_tol": first_stage_tol} if stops_early(method) else {}
        return self._estimate(
            start_params, method, maxiter, cov_type, cov_kwds, disp, penalty, callback, checkpoint,
            options, **training,
        )  # fmt: skip

    def _trained(
        self, method: str, penalty: float, first_stage_tol: tuple[float, float] | None = None
    ) -> Self:
        """This model with its first stages, of which what is wrong is said before the fit."""
        tol = first_stage_tol
        model = self._staged(penalty, None if tol is None else (Descent(tol[0]), Descent(tol[1])))
        if not stops_early(method) and penalty == 0.0 and not model._first_stage_converged():
            self._check_separation()
            self._warn(_NOT_CONVERGED, ConvergenceWarning)
        model._check_offsets(penalty)
        model._check_pseudolabels(method, penalty)
        return model

    def _warn_about(self, results: SelectionResults) -> None:
        super()._warn_about(results)
        if isinstance(results, BiasCorrResults):
            for text in results.held_by_penalty:
                self._warn(text)

    # -- what the penalty holds --------------------------------------------------------------------

    def coefs_held(self) -> tuple[str, ...]:
        """Why the objective without a penalty has no finite maximum, or none that is unique.

        Each equation is fitted alone and without a penalty; only where that fails, or its columns
        are linearly dependent, are these looked at in detail. See also :meth:`_check_pseudolabels`.
        """
        self.check_rows_at_hand()
        found = []
        if self._pseudolabel_range()[0] >= 0.5:
            found.append(
                "The penalty alone holds the selection coefficients: soft_selection is "
                f"{self.s_bar():.4f}, and at 1/2 and above no row pulls the selection index down. "
                "Read the outcome equation only."
            )
        plain = self.plain_rows()
        if not (self._has_full_rank() and fit_independent(plain).converged):
            found += self._degenerate_equations(plain.spread(SEPARATION_ROWS))
        return tuple(found)

    def _has_full_rank(self) -> bool:
        try:
            check_rank(self.design.counted.sketch)
        except SingularDesignError:
            return False
        return True

    def _degenerate_equations(self, rows: Rows) -> list[str]:
        counted, seen = rows.weight > 0, rows.tilt > 0
        labelled = counted & seen
        y = (0.5 * (1.0 + rows.sign[labelled])).cpu().numpy()
        s = seen[counted].to(torch.float64).cpu().numpy()
        X, W = rows.X[:, labelled].mT.cpu().numpy(), rows.W[:, counted].mT.cpu().numpy()
        return [
            *degeneracies(s, W, self.design.select_names, "selection"),
            *degeneracies(y, X, self.design.outcome_names, "outcome"),
        ]

    def _pseudolabel_range(self) -> tuple[float, float, float]:
        """Smallest s', smallest and largest y' of the unlabelled rows."""
        s, low, high = soft_range(self.plain_rows(), self.softening())
        return float(s), float(low), float(high)

    def _check_offsets(self, penalty: float) -> None:
        """Warn of an offset that the penalty keeps the constant from making up for.

        The ridge is on the mean of an index without its offset. Rows in partitions are not looked
        at.
        """
        if self.in_partitions or not penalty:
            return
        for name in ("offset", "offset_select"):
            values = getattr(self.design, name)
            mean = (
                0.0 if values is None else abs(np.average(values, weights=self.design.row_weights))
            )
            if penalty * mean > _LARGE_PULL:
                self._warn(
                    f"{name} is {mean:.3g} from zero on average, which the constant cannot make up "
                    f"for under the ridge penalty of {penalty:g}. Subtract its mean, or use "
                    "penalty=0."
                )

    def _check_pseudolabels(self, method: str, penalty: float) -> None:
        """Name what makes the objective degenerate, before the fit."""
        lowest, *labels = self._pseudolabel_range()
        if lowest >= 0.5 and (stops_early(method) or penalty == 0.0):
            text = (
                f"soft_selection is {self.s_bar():.4f}: at 1/2 and above no row pulls the "
                "selection index down"
            )
            if not stops_early(method):
                raise ValueError(
                    f"{text}, so the objective has no finite maximum. Use a ridge penalty "
                    "(penalty=1e-4, the default), a smaller soft_selection, or the paper's "
                    "early-stopped method='sgd'."
                )
            self._warn(f"{text}; the selection coefficients are where the descent stopped.")
        if labels[0] == labels[1] and not self.soft_pseudolabels:
            counts = self.design.counts
            self._warn(
                f"all {counts.rows - counts.labelled} pseudolabels are {labels[0]:.0f}: g_y sees "
                "one class among the unlabelled rows, and the estimates mostly repeat it."
            )

    def _warn(self, text: str, category: type[Warning] = ModelWarning) -> None:
        if not self._quiet:
            warn(text, category)

    # -- refits: first stages, s-bar, pseudolabels and Newton for each set of row weights ----------

    def batchable(self) -> bool:
        """Whether the first stages can be trained as a batch too."""
        return can_train_many(self.selection_model, self.pseudolabel_model)

    @one_thread_a_step
    def refit_weights(
        self,
        weights: Iterable[Floats],
        start_params: Floats,
        penalty: float = 0.0,
        *,
        n_sets: int | None = None,
        chunk: int | None = None,
        **options: Any,
    ) -> Iterator[Solution | str]:
        """Algorithm 1 under B sets of row weights: first stages, s-bar, pseudolabels, Newton.

        ``weights``, ``start_params``, ``penalty`` and ``chunk`` are those of the other models;
        ``n_sets`` is not used, as each set has a likelihood of its own.
        """
        plain, objective = self.plain_rows(), self.objective(penalty)
        models = self.selection_model, self.pseudolabel_model
        start = self.expand(start_params)[None]
        for drawn in in_batches(weights, objective, start[0], chunk):
            own = torch.as_tensor(drawn, device=plain.device)
            how, converged = train_many(self.design, *models, own, penalty)
            by_row = own[:, plain.order]
            how = self._softening_of(how, reweighted(plain, by_row))
            members = objective.with_rows(resampled(how.rows(plain), by_row))
            fits = maximize_many(members, start, free=self.estimated, **options)
            yield from _with_reasons(fits, converged, soft_range(plain, how)[0], penalty)

    @one_thread_a_step
    def _refit_resamples(
        self, draws: Resamples, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution | str]:
        """Refit resamples of rows in partitions, by sums over them."""
        plain, form = in_parts(self.plain_rows()), self.parametrized.form
        start = self.expand(start_params)[None]
        size = options.pop("chunk", None) or self.objective().members_at_once(start[0])
        for first in range(0, len(draws), size):
            own = draws.members(np.arange(first, min(first + size, len(draws))))
            drawn = own.rows(plain)
            how, converged = train_resampled(drawn, self.first_stage, len(own), penalty)
            how = self._softening_of(how, drawn)

            def softened(
                which: NDArray[np.int64], own: Resamples = own, how: Softening = how
            ) -> PartitionedRows:
                some = how.members(which.tolist())
                return own.members(which).rows(plain).softened(how.kind, soften_rows, some)

            members = ResampledObjective(softened, np.arange(len(own)), form, penalty=penalty)
            fits = maximize_many(members, start, free=self.estimated, **options)
            yield from _with_reasons(fits, converged, soft_range(plain, how)[0], penalty)

    def _softening_of(self, how: Softening, rows: Rows | PartitionedRows) -> Softening:
        """Softening by what was trained, as this model asks for; the rows have their weights."""
        soft: float | str | tuple[float, ...] | None = self.soft_selection
        if soft is None:
            soft = tuple(mean_soft_selection(rows, how).tolist())
        return replace(how, soft_selection=soft, soft_pseudolabels=self.soft_pseudolabels)


def _check_tolerances(values: Any) -> None:
    pair = isinstance(values, tuple | list) and len(values) == 2
    if not (pair and all(isinstance(v, int | float) and v > 0 for v in values)):
        raise ValueError(f"first_stage_tol={values!r} must be two positive numbers")


def _with_reasons(
    fits: Iterator[list[Solution]], converged: torch.Tensor, lowest: torch.Tensor, penalty: float
) -> Iterator[Solution | str]:
    """The solutions, or why there is none.

    Parameters
    ----------
    converged : Tensor
        (B,) the first stages are at a maximum.
    lowest : Tensor
        (B,) smallest soft selection of the unlabelled rows.
    """
    bounded = (lowest < 0.5) | (penalty > 0)
    ends = zip(converged.tolist(), bounded.tolist(), chain.from_iterable(fits), strict=True)
    for good, finite, solution in ends:
        yield _SEPARATED if not good else solution if finite else _HIGH_SOFT_SELECTION
