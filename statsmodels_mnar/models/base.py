"""What the selection models share: fitting."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..design import (
    check_design,
    check_outcome_varies,
    check_selection_varies,
    check_separation,
    check_width,
)
from ..errors import NotInMemoryError
from ..inference.accuracy import Accuracy, measure
from ..inference.covariance import Meat, check_cov_type
from ..inference.curve import comparable
from ..inference.dependence import dependence
from ..kernel.forms import FreeForm
from ..kernel.integration import Integration, Quadrature
from ..kernel.rows import Rows
from ..kernel.threads import as_users, one_thread
from ..large.partitions import PartitionedObjective
from ..optimize.binary import Independent, fit_independent
from ..optimize.maximize import Method, maximize
from ..optimize.objective import Objective
from ..optimize.solution import Callback, Climb, Solution, Status
from ..results.groups import read_groups
from ..results.selection import Fit, SelectionResults, SelectionResultsWrapper
from .building import SelectionData
from .fitting import Passes, both, check_options, iterations, named, warn_about
from .keys import meat_by_keys
from .normalization import Normalization
from .search import Place, at_corner, humps, label, search, search_interior, tops

Floats = NDArray[np.float64]

SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


class SelectionModel(SelectionData):
    """A binary outcome observed only for selected rows; see the subclasses."""

    _probit_outcome: ClassVar[bool] = False
    _default_penalty: ClassVar[float] = 0.0
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: "probit",
        Status.SIGMA_ZERO: "independent",
        Status.FLAT: "loading",  # with one dependence parameter; where that is flat, it is held
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
            In the order of ``param_names``. By default the dependence is scanned, and Newton climbs
            from each top of the profile that is seen; with start values it climbs from them only.
        method : {"newton", "bfgs", "lbfgs", "sgd"}
            "newton" has the exact Hessian and a trust region; it converges within 1e-6 standard
            errors of the maximum, "bfgs" and "lbfgs" within 2e-4. "sgd" is the paper's
            early-stopped gradient descent, whose result is not a maximum; it estimates sigma and
            rho both, and takes normalization="free" by itself where the model names none.
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
            alpha, of a ridge on the coefficients of standardized columns: in each equation
            ``n * alpha/2 * (m^2 + sum of v_j b_j^2)`` is subtracted from the log-likelihood, m the
            mean of the index and v_j the variance of column j. Units and origins of the columns
            do not matter, and on standardized ones it is the paper's weight decay.
        callback : callable, optional
            Called after each iteration with a ``Step``: iteration, value and score_norm.
        checkpoint : str or Path, optional
            For data in partitions: a file that is written after each pass over them, and from
            which the same call goes on after an interruption.
        **options
            gtol (newton, bfgs, lbfgs); n_starts (newton: values of the dependence from which the
            maximum is sought, by default seven; see ``results.maxima``); lr, weight_decay, tol,
            batch_size, rng, redraw (sgd).

        Returns
        -------
        SelectionResults
        """
        if self._needs_free_form(method):
            return self._sibling("free").fit(
                start_params, method, maxiter, cov_type, cov_kwds, disp, penalty, callback,
                checkpoint, **options,
            )  # fmt: skip
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
            if method != "sgd":
                check_width(self.design.counted)
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

    def _needs_free_form(self, method: str) -> bool:
        """The paper's optimiser, for a model whose normalization nobody named."""
        usual = self._form_by_default and self.normalization == "loading"
        return usual and isinstance(method, str) and method == "sgd"

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
        options = dict(options)
        n_starts = options.pop("n_starts", None)
        if spec.kind == "free" and spec.free.all() and method == "newton":
            if start_params is None:
                return self._fit_closed(objective, independent, penalty, n_starts, options)
            return self._fit_from(objective, independent, start_params, penalty, options)
        start = None if start_params is None else self._expand(start_params)
        maxima: tuple[Solution, ...] = ()
        climbs: tuple[Climb, ...] = ()
        if method == "sgd":
            maxima = (maximize(self._sgd_objective(options), start, method="sgd", **options),)
        elif start is None:
            fixed = spec.values(np.zeros(spec.free.sum()))
            at = (objective, independent.params, fixed, spec.free, n_starts, self._rarest_label())
            if method == "newton":
                found = search(*at, **options)
                maxima, climbs, start = found.maxima, found.climbs, found.start
            else:
                start = tops(*at)[0]
        if not maxima:
            ended = maximize(objective, start, method=method, free=self._estimated, **options)
            maxima = (at_corner(objective, ended),)
        used = None if start is None else start[self._estimated]
        solution = maxima[0]
        face = self._face_of(solution)
        if face is not None:
            # With the dependence held the coefficients are those that the search ended with.
            held = None if face == "independent" else solution.params[: len(independent.params)]
            on_face = self._sibling(face)._fit(independent, held, method, penalty, options)
            fit = replace(named(on_face, solution.status), inner=solution)
        else:
            faces = {"independent": independent.value}
            fit = Fit(self, solution, independent, method, used, penalty, faces)
        others = tuple((self, other) for other in maxima[1:])
        return replace(fit, climbs=climbs, maxima=((fit.model, fit.solution), *others))

    def _fit_closed(
        self,
        objective: Objective,
        independent: Independent,
        penalty: float,
        n_starts: int | None,
        options: dict[str, Any],
    ) -> Fit:
        """The free model: its faces, its interior from their maxima, and the highest of all."""
        more = {} if n_starts is None else {"n_starts": n_starts}
        fits = [
            (status, self._sibling(face)._fit(independent, None, "newton", penalty, options | more))
            for status, face in self._faces.items()
            # rho = -1 and a flat top are places on a face that is there; no dependence is a point
            # of the loading form
            if status not in (Status.RHO_MINUS, Status.FLAT) and face != "independent"
        ]
        places = [Place.of(*pair) for _, fit in fits for pair in fit.maxima]
        where, best = max(fits, key=lambda pair: comparable(pair[1].solution))
        inner = search_interior(objective, places, comparable(best.solution), n_starts, **options)
        faces = {"independent": independent.value}
        faces |= {label(fit.model.normalization): fit.solution.value for _, fit in fits}
        interior = inner.maxima[0]
        found = [pair for _, fit in fits for pair in fit.maxima]
        if comparable(interior) > comparable(best.solution) and not interior.status.boundary:
            faces["free"] = interior.value
            fit = Fit(self, interior, independent, "newton", None, penalty, faces)
        else:
            minus = where is Status.RHO_PLUS and best.solution.params[-1] < 0
            status = Status.RHO_MINUS if minus else where
            fit = replace(named(best, status), faces=faces, inner=interior)
        found = [(fit.model, fit.solution), *found, *((self, s) for s in inner.maxima)]
        return replace(fit, climbs=inner.climbs, maxima=humps(found))

    def _fit_from(
        self,
        objective: Objective,
        independent: Independent,
        start_params: Floats,
        penalty: float,
        options: dict[str, Any],
    ) -> Fit:
        """The free model from the user's start values, and the face that this leads to."""
        solution = maximize(objective, self._expand(start_params), **options)
        faces = {"independent": independent.value}
        fit = Fit(self, solution, independent, "newton", start_params, penalty, faces)
        if solution.status.boundary:
            face = self._sibling(self._faces[solution.status])._fit(
                independent, None, "newton", penalty, options
            )
            faces[label(face.model.normalization)] = face.solution.value
            if face.solution.value >= solution.value:
                fit = replace(named(face, solution.status), faces=faces, inner=solution)
        return replace(fit, maxima=((fit.model, fit.solution),))

    def _rarest_label(self) -> float:
        """Share of the rows that have the rarer label; in partitions it is not looked for."""
        if self._in_partitions:
            return 0.5
        y = self.design.y[self.design.labelled]
        ones = float((y > 0.5).sum())
        return min(ones, len(y) - ones) / self.design.nobs

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
            self._check_separation_of(self._plain_rows().spread(SEPARATION_ROWS))
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
