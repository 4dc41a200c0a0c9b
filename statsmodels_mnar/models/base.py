"""What the selection models share: fitting."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..design import check_design, check_outcome_varies, check_selection_varies, check_separation
from ..engine.binary import Independent, fit_independent
from ..engine.forms import FreeForm
from ..engine.integration import Integration, Quadrature
from ..engine.objective import Objective
from ..engine.optimize import Method, maximize
from ..engine.partitioned import PartitionedObjective
from ..engine.rows import Rows
from ..engine.solution import Callback, Solution, Status
from ..engine.threads import as_users, one_thread
from ..errors import NotInMemoryError
from ..inference.accuracy import Accuracy, measure
from ..inference.covariance import Meat, check_cov_type
from ..inference.dependence import dependence
from ..results.groups import read_groups
from ..results.selection import Fit, SelectionResults, SelectionResultsWrapper
from .building import SelectionData
from .fitting import Passes, both, check_options, iterations, named, warn_about
from .keys import meat_by_keys
from .normalization import Normalization
from .search import search_free, start_values

Floats = NDArray[np.float64]

_SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


class SelectionModel(SelectionData):
    """A binary outcome observed only for selected rows; see the subclasses."""

    _probit_outcome: ClassVar[bool] = False
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: "probit",
        Status.SIGMA_ZERO: "independent",
    }
    _results_class: ClassVar[type[SelectionResults]] = SelectionResults

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """The two equations fitted apart; ``started`` where they are not needed as start values."""
        return fit_independent(self.rows, probit=self._probit_outcome, penalty=penalty)

    @one_thread()
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
        check_options(method, options, penalty, maxiter, callback)
        self._check_data_at_hand()
        cov_kwds = dict(cov_kwds or {})
        read_groups(cov_type, cov_kwds, self)  # what is wrong with them is said before the fit
        if self._in_partitions and method == "sgd":
            raise NotInMemoryError(
                "method='sgd' draws batches from all rows, which are in partitions; use 'newton'"
            )
        penalised = penalty > 0 or method == "sgd"
        if penalised:  # collinear columns and separation do no harm there
            check_selection_varies(self.design.counted)
            check_outcome_varies(self.design.counted)
        else:
            check_design(self.design.counted)
        if start_params is not None:
            start_params = self._in_order(start_params, "start_params")
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
            options["callback"] = both(as_users(callback), show)
            fit = self._fit_checked(independent, start_params, method, penalty, options)
            fit = replace(fit, options=given, asked=self.normalization)
            results = self._results_class(fit, cov_type, cov_kwds)
        if not self._quiet:
            warn_about(results)
        return SelectionResultsWrapper(results)

    def _progress(
        self, disp: bool, method: str, maxiter: int | None, checkpoint: str | Path | None
    ) -> AbstractContextManager[Callback | None]:
        """What surrounds a fit: a progress bar and, for rows in partitions, a checkpoint."""
        if self._in_partitions:
            return Passes(self._plain_rows(), disp, checkpoint)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is for data in partitions; give from_formula an execution=Execution()"
            )
        return iterations(disp, method, maxiter)

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
            self._check_separation_of(self._plain_rows().spread(_SEPARATION_ROWS))
            return
        d = self.design.counted
        seen = d.labelled
        check_separation(d.y[seen], d.X[seen], d.outcome_names, "outcome")
        check_separation(d.s, d.W, d.select_names, "selection")

    @one_thread()
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
        return meat_by_keys(objective, self._frames, at, groups, use_correction=use_correction)

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
