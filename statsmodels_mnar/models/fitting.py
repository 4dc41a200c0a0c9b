"""What a fit does: options, progress, from start values to the maximum, and warnings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..design import check_separation
from ..design.checks import nearly_collinear
from ..design.data import unpenalised_columns
from ..errors import DesignError, IntegrationAccuracyWarning, WeakIdentificationWarning, warn
from ..kernel.forms import FreeForm
from ..kernel.integration import Integration, Quadrature, is_integer, is_number
from ..kernel.threads import one_thread
from ..large.checkpoint import Journal
from ..large.partitions import PartitionedRows, Session
from ..optimize.binary import Independent
from ..optimize.maximize import Method, as_optimizer, maximize
from ..optimize.objective import Objective
from ..optimize.solution import Accuracy, Callback, Climb, Solution, Status, Step, measure
from ..post.dependence import Normalization
from ..post.paths import comparable
from ..results.fitted import Fit, SelectionResults
from ..tools import progress_bar
from ..types import Floats
from .search import Place, at_corner, humps, label, search, search_interior, tops

if TYPE_CHECKING:
    from .selection import SelectionModel


_DEPENDENCE = ("lnsigma", "athrho", "loading")  # of one normalization or another


def named(face: Fit, status: Status) -> Fit:
    """A converged fit on a face, by the name of the boundary."""
    if not face.solution.status.converged:
        return face
    return replace(face, solution=replace(face.solution, status=status), start_params=None)


def check_options(
    method: str,
    options: dict[str, Any],
    penalty: float,
    maxiter: int | None = None,
    callback: Any = None,
) -> None:
    """Refuse what the method does not take, misspelled keywords among them."""
    optimizer = as_optimizer(method)
    unknown = set(options) - optimizer.options
    if unknown:
        raise TypeError(
            f"fit got unexpected option(s) {sorted(unknown)}; method={method!r} takes "
            f"{sorted(optimizer.options)}"
        )
    if maxiter is not None and not (is_integer(maxiter) and maxiter > 0):
        raise ValueError(f"maxiter={maxiter!r} must be a positive integer")
    n_starts = options.get("n_starts", 2)
    if not (is_integer(n_starts) and n_starts >= 2):
        raise ValueError(f"n_starts={n_starts!r} must be an integer of at least 2")
    if not (is_number(penalty) and 0 <= penalty < math.inf):
        raise ValueError(f"penalty={penalty!r} must be a nonnegative number")
    gtol = options.get("gtol")
    if gtol is not None and not (is_number(gtol) and 0 < gtol < math.inf):
        raise ValueError(f"gtol={gtol!r} must be a positive number")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r} must be a function of a Step")
    if penalty and not optimizer.penalised:
        raise ValueError(f"penalty={penalty!r}: method={method!r} takes weight_decay instead")


def check_names(outcome: Sequence[str], select: Sequence[str]) -> None:
    """Refuse names that two parameters would have: nobody could tell which one is meant."""
    for name, count in Counter([*outcome, *select, *_DEPENDENCE]).items():
        if count > 1:
            other = "a parameter of the model" if name in _DEPENDENCE else "another column"
            raise DesignError(
                f"the column {name!r} has the name of {other}. Rename it, or write I({name}) in "
                "the formula."
            )


def both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(step: Step) -> None:
        first(step)
        second(step)

    return call


@contextmanager
def iterations(show: bool, method: str, total: int | None) -> Iterator[Callback | None]:
    """A bar over the iterations of a fit, and what moves it on."""
    with progress_bar(show, method, total, unit="it") as bar:

        def move(step: Step) -> None:
            bar.set_postfix_str(f"log-lik {step.value:.6f}, |score| {step.score_norm:.1e}")
            bar.update()

        yield move if show else None


class Passes:
    """A checkpoint and, with ``disp``, a line for each pass over rows in partitions.

    A line has the rows done and to do, rows per second and the time left, and the log-likelihood
    before the pass.
    """

    def __init__(
        self, rows: PartitionedRows, disp: bool, checkpoint: str | Path | None = None
    ) -> None:
        self.session, self.disp, self.text = rows.session, bool(disp), "start values"
        self.before = replace(rows.session)
        journal = None if checkpoint is None else Journal(checkpoint, rows.fingerprint)
        self.during = Session(journal, self._watch if disp else None)

    def _watch(self, results: Iterable[Any], sizes: list[int]) -> Iterator[Any]:
        with progress_bar(True, self.text, sum(sizes), unit=" rows", unit_scale=True) as bar:
            for result, size in zip(results, sizes, strict=True):
                bar.update(size)
                yield result

    def _show(self, step: Step) -> None:
        self.text = f"iteration {step.iteration + 1}, log-lik {step.value:.6f}"

    def __enter__(self) -> Callback | None:
        self.session.journal, self.session.watch = self.during.journal, self.during.watch
        return self._show if self.disp else None

    def __exit__(self, *error: object) -> None:
        self.session.journal, self.session.watch = self.before.journal, self.before.watch


def warn_about(results: SelectionResults) -> None:
    """Say what a user must know before reading a number."""
    solution: Solution = results.solution
    if solution.status in (Status.MAXITER, Status.STALLED, Status.NONFINITE, Status.SINGULAR):
        free = results.model.normalization == "free"
        simpler = ", or a simpler normalization such as 'loading'" if free else ""
        warn(
            f"{solution.status.value}. Scaled score {solution.score_norm:.1e} after "
            f"{solution.n_iter} iterations. Try other start_params, a larger maxiter, a ridge "
            f"penalty{simpler}.{nearly_collinear(results.model.design.sketch)}",
            ConvergenceWarning,
        )
    penalties = results._fit_info.penalties
    if penalties is not None and not penalties.converged and results.converged:
        warn(
            f"penalties of re() and smooth() were not settled in {penalties.n_updates} updates: "
            "the marginal likelihood still rises. Fix one of them (sd=, penalty=), or drop a term.",
            ConvergenceWarning,
        )
    if solution.status is Status.FLAT:
        warn(
            f"{solution.status.value}. It is held at an error correlation of "
            f"{results.error_corr:.3f}; look at others with sensitivity(error_corr=...).",
            WeakIdentificationWarning,
        )
    coarse = results.accuracy.note if results.accuracy is not None else None
    if coarse is not None:
        warn(coarse, IntegrationAccuracyWarning)
    for message in (results._weakness, results._doubt()):
        if message is not None:
            warn(message, WeakIdentificationWarning)


# -- from start values to the maximum: search, faces, and how exact the integration was ------------


SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


def _fit_searched(
    self: SelectionModel,
    start_params: Floats | None,
    method: Method,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    """The maximum, from the two equations apart or from start values."""
    independent = self._independent(method, penalty, start_params is not None)
    unpenalised = not penalty and as_optimizer(method).at_maximum
    if unpenalised and not independent.converged:
        self._check_separation()
    return self._fit_checked(independent, start_params, method, penalty, options)


def _fit_checked(self: SelectionModel, *arguments: Any) -> Fit:
    """:meth:`_fit`, repeated by a finer rule where the one asked for is too coarse.

    From where it began, not from the solution: a coarse rule invents maxima.
    """
    fit = self._fit(*arguments)
    if fit.solution.status is Status.NONFINITE:
        return fit
    found = _accuracy_of(self, fit)
    if not found.sufficient and not found.simulated and fit.optimizer.at_maximum:
        finer = self.sibling(self.normalization, integration=self.integration.finer())
        fit = finer._fit(*arguments)
        found = replace(_accuracy_of(finer, fit), replaced=found)
    return replace(fit, accuracy=found)


def _accuracy_of(self: SelectionModel, fit: Fit) -> Accuracy:
    """Return the accuracy of the solution and, on a face, of the search that led there."""
    fixed = isinstance(self.integration, Quadrature)
    if fit.inner is not None and fixed and self.integration.controlled() != self.integration:
        searched = _measured(self, fit.inner, fit.penalty, maximum=False)
        if not searched.sufficient:
            return searched
    maximum = fit.solution.status.converged or fit.solution.status.boundary
    return _measured(cast("SelectionModel", fit.model), fit.solution, fit.penalty, maximum=maximum)


def _measured(
    self: SelectionModel, solution: Solution, penalty: float, *, maximum: bool
) -> Accuracy:
    form, rule = self.parametrized.form, self.integration
    whole_line = isinstance(form, FreeForm)
    if not whole_line:  # which has a rule of its own
        rule = rule.controlled()
    finer = rule.finer()
    own = self.objective(penalty)
    objective = own.with_form(self.parametrize(self.normalization, finer).form)
    # Of a rule whose error is known beforehand a part of the rows tells enough.
    controlled = isinstance(own, Objective) and rule.controlled() == rule
    difference, shift = measure(
        own if controlled else None, objective, solution, self.estimated, maximum=maximum
    )

    def words(rule: Integration) -> str:
        return str(rule) if whole_line else f"Gauss-Legendre (tol {rule.controlled().tol:g})"

    simulated = form.simulation is not None
    return Accuracy(words(rule), words(finer), difference, shift, simulated)


def _fit(
    self: SelectionModel,
    independent: Independent,
    start_params: Floats | None,
    method: Method,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    objective = self.objective(penalty)
    spec = self.parametrized
    options = dict(options)
    n_starts = options.pop("n_starts", None)
    optimizer = as_optimizer(method)
    if spec.kind == "free" and spec.free.all() and optimizer.batched:
        if start_params is None:
            return _fit_closed(self, objective, independent, penalty, n_starts, options)
        return _fit_from(self, objective, independent, start_params, penalty, options)
    start = None if start_params is None else self.expand(start_params)
    maxima: tuple[Solution, ...] = ()
    climbs: tuple[Climb, ...] = ()
    if optimizer.free_only:
        maxima = (maximize(self._sgd_objective(options), start, method=method, **options),)
    elif start is None:
        fixed = spec.values(np.zeros(spec.free.sum()))
        at = (objective, independent.params, fixed, spec.free, n_starts, _rarest_label(self))
        if optimizer.batched:
            found = search(*at, **options)
            maxima, climbs, start = found.maxima, found.climbs, found.start
        else:
            start = tops(*at)[0]
    if not maxima:
        ended = maximize(objective, start, method=method, free=self.estimated, **options)
        maxima = (at_corner(objective, ended),)
    used = None if start is None else start[self.estimated]
    solution = maxima[0]
    face = _face_of(self, solution)
    if face is not None:
        # With the dependence held the coefficients are those that the search ended with.
        held = None if face == "independent" else solution.params[: len(independent.params)]
        on_face = self.sibling(face)._fit(independent, held, method, penalty, options)
        fit = replace(named(on_face, solution.status), inner=solution)
    else:
        faces = {"independent": independent.value}
        fit = Fit(self, solution, independent, method, used, penalty, faces)
    others = tuple((self, other) for other in maxima[1:])
    return replace(fit, climbs=climbs, maxima=((fit.model, fit.solution), *others))


def maximum(self: SelectionModel, independent: Independent) -> Solution:
    """The maximum of the likelihood, without anything around it."""
    return self._fit(independent, None, "newton", 0.0, {}).solution


def _fit_closed(
    self: SelectionModel,
    objective: Objective,
    independent: Independent,
    penalty: float,
    n_starts: int | None,
    options: dict[str, Any],
) -> Fit:
    """The free model: its faces, its interior from their maxima, and the highest of all."""
    more = {} if n_starts is None else {"n_starts": n_starts}
    fits = [
        (status, self.sibling(face)._fit(independent, None, "newton", penalty, options | more))
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
    self: SelectionModel,
    objective: Objective,
    independent: Independent,
    start_params: Floats,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    """The free model from the user's start values, and the face that this leads to."""
    solution = maximize(objective, self.expand(start_params), **options)
    faces = {"independent": independent.value}
    fit = Fit(self, solution, independent, "newton", start_params, penalty, faces)
    if solution.status.boundary:
        face = self.sibling(self._faces[solution.status])._fit(
            independent, None, "newton", penalty, options
        )
        faces[label(face.model.normalization)] = face.solution.value
        if face.solution.value >= solution.value:
            fit = replace(named(face, solution.status), faces=faces, inner=solution)
    return replace(fit, maxima=((fit.model, fit.solution),))


def _rarest_label(self: SelectionModel) -> float:
    """Share of the rows that have the rarer label; in partitions it is not looked for."""
    if self.in_partitions:
        return 0.5
    y = self.design.y[self.design.labelled]
    ones = float((y > 0.5).sum())
    return min(ones, len(y) - ones) / self.design.nobs


def _face_of(self: SelectionModel, solution: Solution) -> Normalization | None:
    """The normalization of the face on which a search that ended at a bound goes on."""
    status, spec = solution.status, self.parametrized
    if not status.boundary:
        return None
    if spec.kind == "free" and spec.free.all():
        return self._faces[status]
    at = spec.form.dependence(solution.params[self.k_outcome + self.k_select :])
    if spec.kind != "probit" and status in (Status.RHO_PLUS, Status.RHO_MINUS):
        return {"sigma": at.sigma, "rho": float(np.sign(at.rho))}
    limit = self._faces.get(status)
    if limit == "independent" or at.sigma == 0.0:  # such a top may be flat around independence
        return "independent"
    return {"sigma": np.inf if limit == "probit" else at.sigma, "rho": at.rho}


@one_thread()
def _check_separation(self: SelectionModel) -> None:
    """Raise with the column and the remedies where an equation separates perfectly."""
    rows = self.plain_rows().spread(SEPARATION_ROWS)  # separated rows are so in any sample
    counted = rows.weight > 0
    selected, seen = rows.tilt[counted] > 0, counted & (rows.tilt > 0)
    y = (0.5 * (1.0 + rows.sign[seen])).cpu().numpy()
    X, W = rows.X[:, seen].mT.cpu().numpy(), rows.W[:, counted].mT.cpu().numpy()
    d, terms = self.design, () if self.in_partitions else self.design.penalised
    X, outcome_names = unpenalised_columns(X, d.outcome_names, terms, "outcome")
    W, select_names = unpenalised_columns(W, d.select_names, terms, "select")
    check_separation(y, X, outcome_names, "outcome")
    check_separation(selected.double().cpu().numpy(), W, select_names, "selection")
