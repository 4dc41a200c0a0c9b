"""What the selection models share: data, likelihood, fitting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..design import (
    Design,
    check_design,
    check_outcome_varies,
    check_selection_varies,
    check_separation,
    design_from_arrays,
    design_from_formula,
)
from ..design.chunks import recipe_from_formula
from ..design.partitioned import PartitionedDesign
from ..design.sources import find_source
from ..engine.binary import Independent, fit_independent
from ..engine.device import resolve_device
from ..engine.forms import FreeForm
from ..engine.integration import Integration, Quadrature, as_integration
from ..engine.objective import Objective
from ..engine.optimize import Method, maximize
from ..engine.partitioned import PartitionedObjective, PartitionedRows
from ..engine.rows import Rows
from ..engine.solution import Callback, Solution, Status
from ..errors import DesignError, NotInMemoryError
from ..inference.accuracy import Accuracy, measure
from ..inference.covariance import Meat, check_cov_type, joined_sums, meat_of_sums
from ..inference.dependence import dependence
from ..results.selection import Fit, SelectionResults, SelectionResultsWrapper
from .fitting import Passes, Progress, both, check_options, named, warn_about
from .large import Execution, Frames, build, sample, score_sums_by_key
from .normalization import Normalization, Parametrized
from .predictor import SelectionPredictor
from .search import search_free, start_values

Floats = NDArray[np.float64]

_SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


class SelectionModel(SelectionPredictor):
    """A binary outcome observed only for selected rows; see the subclasses."""

    _probit_outcome: ClassVar[bool] = False
    _quiet: bool = False  # one of many fits, whose warnings nobody could read
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: "probit",
        Status.SIGMA_ZERO: "independent",
    }
    _results_class: ClassVar[type[SelectionResults]] = SelectionResults
    _set_up_keywords: ClassVar[tuple[str, ...]] = ("normalization", "integration", "device")
    _keywords: ClassVar[tuple[str, ...]] = (
        "endog_select", "exog_select", "normalization", "integration", "device",
        "offset", "offset_select", "freq_weights", "prob_weights",
    )  # fmt: skip

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        normalization: Normalization = "free",
        integration: str | Integration = "quadrature",
        device: str | torch.device = "auto",
        missing: Any = "none",
        hasconst: bool | None = None,
        offset: Any = None,
        offset_select: Any = None,
        freq_weights: Any = None,
        prob_weights: Any = None,
    ) -> None:
        design = design_from_arrays(
            endog, exog, endog_select, exog_select, missing=missing, offset=offset,
            offset_select=offset_select, freq_weights=freq_weights, prob_weights=prob_weights,
        )  # fmt: skip
        labelled_frames = any(isinstance(v, pd.Series | pd.DataFrame) for v in (endog, exog))
        self._set_up(
            design,
            normalization=normalization,
            integration=integration,
            device=device,
            hasconst=hasconst,
            pandas=labelled_frames,
        )

    @classmethod
    def from_formula(
        cls,
        formula: str,
        select_formula: str,
        data: Any,
        subset: Any = None,
        *,
        missing: Any = "drop",
        offset: Any = None,
        offset_select: Any = None,
        freq_weights: Any = None,
        prob_weights: Any = None,
        env: Any = 0,
        execution: Execution | None = None,
        **model_options: Any,
    ) -> Self:
        """Build the model from an outcome and a selection formula.

        Parameters
        ----------
        formula : str
            ``"y ~ x + C(g)"``. Rows whose outcome is missing are unlabelled.
        select_formula : str
            ``"s ~ x + z"``, or ``"~ x + z"`` for "the outcome is observed".
        data : DataFrame, dask DataFrame, path or pyarrow Dataset
            A path is that of a parquet file or a folder of them. Data that are not in memory stay
            in partitions; see the page on large data. Polars frames are converted.
        subset : array_like, optional
            Rows to use, as in ``data.loc[subset]``; for data in memory.
        missing : {"drop", "raise", "none"}
            What happens to rows with missing covariates, jointly in both equations.
        offset, offset_select, freq_weights, prob_weights : str or array_like, optional
            Column names or values.
        env : int or mapping
            How many frames up the formulas' functions are looked for, or a namespace.
        execution : Execution, optional
            How data in partitions are read, kept and evaluated. With it a DataFrame is cut into
            partitions too.
        **model_options
            Keywords of the class itself: normalization, integration, device, hasconst.
        """
        unknown = set(model_options) - {*cls._set_up_keywords, "hasconst"}
        if unknown:
            raise TypeError(
                f"{cls.__name__}.from_formula got unexpected keyword(s) {sorted(unknown)}"
            )
        env = env + 1 if isinstance(env, int) and env >= 0 else env
        roles = {"offset": offset, "offset_select": offset_select}
        roles |= {"freq_weights": freq_weights, "prob_weights": prob_weights}
        how = execution or Execution()
        source = find_source(data, how.partition_rows, split=execution is not None)
        model = cls.__new__(cls)
        if source is None:
            design = design_from_formula(
                formula, select_formula, data, subset, missing, env=env, **roles
            )
            model._set_up(design, pandas=True, **model_options)
            model._frame = data
        else:
            if subset is not None:
                raise DesignError("subset is for data in memory; select the rows of data before")
            recipe = recipe_from_formula(
                formula, select_formula, source.columns, missing, env=env, **roles
            )
            large = build(recipe, source, how, resolve_device(model_options.get("device", "auto")))
            model._set_up(large.design, pandas=True, **model_options)
            model._rows, model._frames = large.rows, large.frames
        model.formula, model.select_formula = formula, select_formula
        model._offset_columns = (
            offset if isinstance(offset, str) else None,
            offset_select if isinstance(offset_select, str) else None,
        )
        return model

    def _set_up(
        self,
        design: Design | PartitionedDesign,
        *,
        pandas: bool,
        normalization: Normalization = "free",
        integration: str | Integration = "quadrature",
        device: str | torch.device = "auto",
        hasconst: bool | None = None,
    ) -> None:
        self.normalization = normalization
        self.integration = as_integration(integration)
        self.device = device
        self._device = resolve_device(device)
        self._parametrized = self._parametrize(normalization, self.integration)
        self.design = design
        self._rows: Rows | PartitionedRows | None = None
        self._frames: Frames | None = None  # of data in partitions
        self._pandas = pandas
        self._frame: Any = None  # the user's data, for column names given to fit
        self._offset_columns: tuple[str | None, str | None] = (None, None)  # by name, for predict
        if isinstance(design, PartitionedDesign):
            self._set_up_partitioned(design, hasconst)
        else:
            self._set_up_rows(design, pandas, hasconst)
        self._init_keys = list(self._keywords)
        self._data_attr += ["endog_select", "exog_select", "offset", "offset_select"]
        self._data_attr += ["freq_weights", "prob_weights"]
        self.data.ynames = design.outcome_name
        self.data.xnames = list(design.outcome_names)
        extra = [f"select_{name}" for name in design.select_names]
        self._set_extra_params_names([*extra, *self._parametrized.names])
        self.k_outcome, self.k_select = len(design.outcome_names), len(design.select_names)
        self.df_model = float(self.k_outcome - self.k_constant)
        self.df_resid = float(self._n_weighted() - self.nparams)
        if self._in_partitions:
            self.endog = self.exog = self.data.endog = self.data.exog = None

    def _set_up_rows(self, design: Design, pandas: bool, hasconst: bool | None) -> None:
        endog: Any = design.y
        exog: Any = design.X
        if pandas:
            endog = pd.Series(design.y, index=design.index, name=design.outcome_name)
            exog = pd.DataFrame(design.X, index=design.index, columns=list(design.outcome_names))
        # The second design, weights and missing rows are handled here, not by statsmodels.
        super().__init__(endog, exog, missing="none", hasconst=hasconst)
        self.endog_select, self.exog_select = design.s, design.W
        self.offset, self.offset_select = design.offset, design.offset_select
        weighted = {design.weight_kind: design.weights}
        self.freq_weights = weighted.get("freq_weights")
        self.prob_weights = weighted.get("prob_weights")

    def _set_up_partitioned(self, design: PartitionedDesign, hasconst: bool | None) -> None:
        """statsmodels sees the names and one row; the arrays of the data are not there."""
        exog = pd.DataFrame(np.zeros((1, len(design.outcome_names))), columns=design.outcome_names)
        super().__init__(pd.Series([0.0], name=design.outcome_name), exog, hasconst=False)
        constant = design.has_constant if hasconst is None else bool(hasconst)
        self.k_constant = self.data.k_constant = int(constant)
        self.nobs = float(design.nobs)
        self.endog_select = self.exog_select = self.offset = self.offset_select = None
        self.freq_weights = self.prob_weights = None

    def initialize(self) -> None:
        """Degrees of freedom are set with the parameters; statsmodels would guess them."""

    def _parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        raise NotImplementedError

    def _sibling(self, normalization: Normalization, **changes: Any) -> Self:
        """The same data under another normalization; the rows on the device are shared."""
        other = self._rebuilt(self.design, normalization=normalization, **changes)
        other._rows, other._frames, other._quiet = self._rows, self._frames, self._quiet
        other._frame, other._offset_columns = self._frame, self._offset_columns
        for name in ("formula", "select_formula"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def _quietly(self) -> Self:
        """This model without warnings; filters would be those of other threads too."""
        self._quiet = True
        return self

    def _rebuilt(self, design: Design, **changes: Any) -> Self:
        """A model of the same options on another design."""
        other = type(self).__new__(type(self))
        options = {name: getattr(self, name) for name in self._set_up_keywords}
        other._set_up(design, pandas=self._pandas, **(options | changes))
        return other

    def remove_data(self) -> None:
        """Drop the rows, here and in the design; the formulas stay."""
        self._frames = None
        if self._in_partitions:
            self._rows = None
            return
        nothing = np.empty(0)
        self.design = replace(
            self.design,
            y=nothing,
            s=nothing,
            X=np.empty((0, self.k_outcome)),
            W=np.empty((0, self.k_select)),
            index=pd.RangeIndex(0),
            kept=np.empty(0, dtype=np.int64),
            offset=None,
            offset_select=None,
            weights=None,
        )
        self._rows = self._frame = None
        getattr(self.data, "_cache", {}).pop("row_labels", None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "_frame": None, "_frames": None}

    # -- fitting -----------------------------------------------------------------------------------

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """The two equations fitted apart; ``started`` where they are not needed as start values."""
        return fit_independent(self.rows, probit=self._probit_outcome, penalty=penalty)

    def fit(
        self,
        start_params: Any = None,
        method: Method = "newton",
        maxiter: int | None = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        disp: bool = False,
        penalty: float = 0.0,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
        **options: Any,
    ) -> SelectionResultsWrapper:
        """Estimate the model by maximum likelihood.

        Parameters
        ----------
        start_params : array_like, optional
            In the order of ``param_names``; by default the two equations fitted apart and the best
            of a few dependence parameters.
        method : {"newton", "bfgs", "lbfgs", "sgd"}
            "newton" has the exact Hessian and a trust region. "sgd" is the paper's early-stopped
            gradient descent, whose result is not a maximum.
        maxiter : int, optional
            Limit on iterations; by default 100 (newton), 1,000 (bfgs, lbfgs), 10,000 (sgd).
        cov_type : {"nonrobust", "OPG", "HC0", "HC1", "cluster"}, optional
            By default "nonrobust", with ``prob_weights`` "HC0".
        cov_kwds : dict, optional
            For "cluster": ``groups`` (an array or Series over the rows; two for two ways) and
            ``use_correction``.
        disp : bool
            Show progress.
        penalty : float
            alpha: ``n * alpha/2 * |(beta, gamma)|^2`` is subtracted from the log-likelihood.
        callback : callable, optional
            Called after each iteration with a ``Step``: iteration, value and score_norm.
        checkpoint : str or Path, optional
            For data in partitions: a file that is written after each pass over them, and from
            which the same call goes on after an interruption.
        **options
            gtol (newton, bfgs, lbfgs); n_starts (newton with sigma and rho free: start from that
            many points at once, see ``results.multistart``); lr, weight_decay, tol, batch_size,
            rng, redraw (sgd).

        Returns
        -------
        SelectionResults
        """
        sampling = self.design.weight_kind == "prob_weights"
        cov_type = cov_type or self._default_cov_type()
        check_cov_type(cov_type, self._results_class._more_cov_types, sampling=sampling)
        check_options(method, options, penalty, maxiter)
        self._check_data_at_hand()
        if self._in_partitions and method == "sgd":
            raise NotInMemoryError(
                "method='sgd' draws batches from all rows, which are in partitions; use 'newton'"
            )
        penalised = penalty > 0 or method == "sgd"
        if penalised:  # collinear columns and separation do no harm there
            check_selection_varies(self.design)
            check_outcome_varies(self.design)
        else:
            check_design(self.design)
        if start_params is not None:
            start_params = np.asarray(start_params, dtype=float)
            if not np.isfinite(start_params).all():
                raise ValueError("start_params has values that are not finite")
            self._expand(start_params)
        if maxiter is not None:
            options["maxiter"] = maxiter
        given = dict(options)
        with self._progress(disp, method, maxiter, checkpoint) as show:
            independent = self._independent(method, penalty, start_params is not None)
            if not penalised and not independent.converged:
                self._check_separation()
            options["callback"] = both(callback, show)
            fit = self._fit_checked(independent, start_params, method, penalty, options)
            fit = replace(fit, options=given, asked=self.normalization)
            results = self._results_class(fit, cov_type, cov_kwds or {})
        if not self._quiet:
            warn_about(results)
        return SelectionResultsWrapper(results)

    def _progress(
        self, disp: bool, method: str, maxiter: int | None, checkpoint: str | Path | None
    ) -> Progress | Passes:
        """What surrounds a fit: a progress bar and, for rows in partitions, a checkpoint."""
        if self._in_partitions:
            return Passes(self._plain_rows(), disp, checkpoint)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is for data in partitions; give from_formula an execution=Execution()"
            )
        return Progress(disp, method, maxiter)

    def _fit_checked(self, *arguments: Any) -> Fit:
        """:meth:`_fit`, repeated by a finer rule where the one asked for is too coarse.

        From where it began, not from the solution: a coarse rule invents maxima.
        """
        fit = self._fit(*arguments)
        if fit.solution.status is Status.NONFINITE:
            return fit
        found = self._accuracy_of(fit)
        if not found.sufficient and not found.simulated and fit.method != "sgd":
            finer = self._sibling(self.normalization, integration=self.integration.finer())
            fit = finer._fit(*arguments)
            found = replace(finer._accuracy_of(fit), replaced=found)
        return replace(fit, accuracy=found)

    def _accuracy_of(self, fit: Fit) -> Accuracy:
        """Of the solution and, where that lies on a face, of the search that led there."""
        fixed = isinstance(self.integration, Quadrature)
        if fit.inner is not None and fixed and self.integration.controlled() != self.integration:
            searched = self._measured(fit.inner, fit.penalty, maximum=False)
            if not searched.sufficient:
                return searched
        maximum = fit.solution.status.converged or fit.solution.status.boundary
        return fit.model._measured(fit.solution, fit.penalty, maximum=maximum)

    def _measured(self, solution: Solution, penalty: float, *, maximum: bool) -> Accuracy:
        form, rule = self._parametrized.form, self.integration
        whole_line = isinstance(form, FreeForm)
        if not whole_line:  # which has a rule of its own
            rule = rule.controlled()
        finer = rule.finer()
        objective = self._objective(penalty).with_form(
            self._parametrize(self.normalization, finer).form
        )
        difference, shift = measure(objective, solution, self._estimated, maximum=maximum)

        def words(rule: Integration) -> str:
            return str(rule) if whole_line else f"Gauss-Legendre (tol {rule.controlled().tol:g})"

        simulated = form.simulation is not None
        return Accuracy(words(rule), words(finer), difference, shift, simulated)

    def _fit(
        self,
        independent: Independent,
        start_params: Floats | None,
        method: Method,
        penalty: float,
        options: dict[str, Any],
    ) -> Fit:
        objective = self._objective(penalty)
        spec = self._parametrized
        searched = spec.kind == "free" and spec.free.all()
        options = dict(options)
        n_starts = options.pop("n_starts", 2)
        if n_starts > 2 and (not searched or start_params is not None):
            raise ValueError(
                f"n_starts={n_starts} needs normalization='free' and no start_params: with one "
                "dependence parameter a few start values are compared anyway"
            )
        if searched and method == "newton":

            def fit_face(solution: Solution) -> Fit:
                return self._sibling(self._faces[solution.status])._fit(
                    independent, None, method, penalty, options
                )

            found = search_free(objective, independent, fit_face, start_params, n_starts, **options)
            fit = Fit(self, found.solution, independent, method, None, penalty, found.faces)
            if found.face is not None:
                fit = replace(
                    named(found.face, found.solution.status),
                    faces=found.faces,
                    inner=found.solution,
                )
            return replace(fit, starts=found.starts)
        start = None if start_params is None else self._expand(start_params)
        if start is None and method != "sgd":
            start = start_values(
                objective, independent.params, spec.values(np.zeros(spec.free.sum())), spec.free
            )
        if method == "sgd":
            objective = self._sgd_objective(options)
            solution = maximize(objective, start, method="sgd", **options)
        else:
            solution = maximize(objective, start, method=method, free=self._estimated, **options)
        used = None if start is None else start[self._estimated]
        face = self._face_of(solution)
        if face is not None:
            on_face = self._sibling(face)._fit(independent, None, method, penalty, options)
            return replace(named(on_face, solution.status), inner=solution)
        faces = {"independent": independent.value}
        return Fit(self, solution, independent, method, used, penalty, faces)

    def _check_refit_options(
        self,
        method: str,
        penalty: float,
        maxiter: int | None = None,
        start_params: Any = None,
        first_stage_tol: Any = None,
        **options: Any,
    ) -> None:
        """What ``fit`` would refuse, before many of them run."""
        check_options(method, options, penalty, maxiter)
        if start_params is not None:
            self._expand(start_params)

    def _default_cov_type(self) -> str:
        return "HC0" if self.design.weight_kind == "prob_weights" else "nonrobust"

    def _plain_rows(self) -> Any:
        """The rows on which the two equations are fitted apart."""
        return self.rows

    def _sgd_objective(self, options: dict[str, Any]) -> Objective:
        raise ValueError(
            f"method='sgd' is the paper's optimiser for sigma and rho free; {type(self).__name__} "
            "does not have them"
        )

    def _face_of(self, solution: Solution) -> Normalization | None:
        """The normalization of the face on which a search that ended at a bound goes on."""
        status, spec = solution.status, self._parametrized
        if not status.boundary:
            return None
        if spec.kind == "free" and spec.free.all():
            return self._faces[status]
        at = dependence(spec.kind, solution.params[self.k_outcome + self.k_select :])
        if spec.kind != "probit" and status in (Status.RHO_PLUS, Status.RHO_MINUS):
            return {"sigma": at.sigma, "rho": float(np.sign(at.rho))}
        limit = self._faces.get(status)
        if limit == "independent":
            return limit
        return {"sigma": np.inf if limit == "probit" else at.sigma, "rho": at.rho}

    def _check_separation(self) -> None:
        """Raise with the column and the remedies where an equation separates perfectly."""
        if self._in_partitions:  # separated rows are so in any sample of them
            self._check_separation_of(sample(self._plain_rows(), _SEPARATION_ROWS))
            return
        d = self.design
        seen = d.labelled
        check_separation(d.y[seen], d.X[seen], d.outcome_names, "outcome")
        check_separation(d.s, d.W, d.select_names, "selection")

    def _check_separation_of(self, rows: Rows) -> None:
        seen = rows.tilt > 0
        y = (0.5 * (1.0 + rows.sign[seen])).cpu().numpy()
        X, W = rows.X[:, seen].mT.cpu().numpy(), rows.W.mT.cpu().numpy()
        check_separation(y, X, self.design.outcome_names, "outcome")
        check_separation(seen.cpu().numpy().astype(float), W, self.design.select_names, "selection")

    def _partitioned_meat(
        self,
        objective: PartitionedObjective,
        theta: Floats,
        cov_type: str,
        groups: tuple[str, ...],
        use_correction: bool,
    ) -> Meat:
        """Meat of rows in partitions, at the engine's parameters."""
        counts, at = self.design.counts, objective.as_theta(theta)
        sampling = self.design.weight_kind == "prob_weights"
        if cov_type != "cluster":
            matrix = objective.opg(at, sampling=sampling).cpu().numpy()
            return Meat(matrix, float(counts.rows) if sampling else counts.observations)
        self._check_data_at_hand()
        assert self._frames is not None
        pairs = objective.rows.parts.zip(self._frames.read(groups))
        parts = list(pairs.map(score_sums_by_key, objective.form, at))
        return meat_of_sums(joined_sums(parts), counts.rows, use_correction=use_correction)

    def _fit_zeros(
        self,
        keep_index: Any = None,
        start_params: Any = None,
        return_auxiliary: bool = False,
        k_params: int | None = None,
        **fit_kwds: Any,
    ) -> SelectionResultsWrapper:
        """Fit with some outcome coefficients held at zero (statsmodels' protected interface)."""
        keep = np.arange(self.k_outcome)[keep_index]
        kept = np.concatenate([keep, np.arange(self.k_outcome, self.nparams)])
        design = replace(
            self.design,
            X=self.design.X[:, keep],
            outcome_names=tuple(self.design.outcome_names[i] for i in keep),
            outcome_spec=None,
        )
        small = self._rebuilt(design)
        if start_params is not None:
            fit_kwds["start_params"] = np.asarray(start_params)[kept]
        part = small.fit(**fit_kwds)
        return SelectionResultsWrapper(part._results.embed(self, kept))
