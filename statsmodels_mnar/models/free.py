"""The free model, sigma and rho both estimated: its faces, its interior, and the highest of all.

It is closed by faces: |rho| = 1 (the loading form) and sigma -> infinity (a probit outcome). Each
is searched over all values of the dependence, as other forms are; the interior is climbed from the
maxima found there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from ..kernel.forms import CorrelationForm, FreeForm, outcome_scale
from ..kernel.links import LOGIT
from ..optimize.binary import Independent
from ..optimize.maximize import NEAR, maximize, parts
from ..optimize.objective import Objective
from ..optimize.solution import Solution, Status, comparable, ended_well
from ..post.dependence import Normalization
from ..post.paths import Inner, InnerCorrelation
from ..results.fitted import Fit
from ..types import Floats
from .search import Found, _climb, _climbs, _rarest_label, distinct, named, part_of

if TYPE_CHECKING:
    from .selection import SelectionModel

_SAME_HUMP = 0.25  # atanh of the error correlation: closer maxima of two forms are one hump


def fit_closed(
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
    rarest = _rarest_label(self)
    inner = search_interior(
        objective, places, comparable(best.solution), n_starts, rarest, **options
    )
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


def fit_from(
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


def search_interior(
    objective: Objective,
    places: list[Place],
    faces: float,
    n_starts: int | None = None,
    rarest: float = 0.5,
    **options: Any,
) -> Found:
    """Climb the interior of the free model from the maxima of its faces.

    Parameters
    ----------
    faces : float
        Largest log-likelihood on a face; an interior no higher than that is not refined.
    rarest : float
        Share of the rows with the rarer label, for the size of a sample.

    Notes
    -----
    Without a penalty in the coordinates of the error correlation, in which the likelihood is close
    to a ridge along one axis; with one, which holds in the coefficients' own units, in those.
    """
    form = objective.form
    assert isinstance(form, FreeForm)
    starts = np.stack([_interior_start(objective, place) for place in places])
    if n_starts is not None:
        starts = np.concatenate([starts, _spread(objective, places[0], n_starts)])
    if objective.penalised:
        found = _climb(
            search_bounds(objective), starts, np.ones(starts.shape[1], dtype=bool), options
        )
    else:
        narrow = objective.with_form(InnerCorrelation(form.integration))
        inner = np.stack([_to_correlation(objective, start) for start in starts])
        inner = _ahead(narrow, inner, rarest)
        found = _climb(narrow, inner, np.ones(inner.shape[1], dtype=bool), options)
        found = [replace(end, params=_to_free(objective, end.params)) for end in found]
        starts = np.stack([_to_free(objective, start) for start in inner])
    maxima = distinct(objective, found)
    if comparable(maxima[0]) > faces:  # from there in the form's own parameters and bounds
        maxima = (maximize(objective, maxima[0].params, **options), *maxima[1:])
    return Found(maxima, _climbs(objective, starts, found), starts[0])


def _ahead(objective: Objective, starts: Floats, rarest: float) -> Floats:
    """Starts from which all rows are climbed: most of the way is the same on a part of them.

    A start whose climb ends at a perfect correlation stays as it is. One row that contradicts it
    takes all rows away from there, and a part of the rows may not have it.
    """
    everything = np.ones(starts.shape[1], dtype=bool)
    low, high = objective.form.lower[1], objective.form.upper[1]
    for part in parts(objective, part_of(rarest)):
        climbed = _climb(part, starts, everything, {"maxiter": 50, "aim": NEAR})
        good = [ended_well(each) and low < each.params[-1] < high for each in climbed]
        ends = distinct(part, list(compress(climbed, good)))
        starts = np.vstack([*(each.params for each in ends), *starts[~np.array(good)]])
    return starts


def search_bounds(objective: Objective) -> Objective:
    """The free form within the bounds of a search; other forms as they are."""
    form = objective.form
    if isinstance(form, FreeForm):
        return objective.with_form(_Searched(form.integration))
    return objective


@dataclass(frozen=True)
class _Searched(Inner):
    """Wider in sigma than along a path: here a bound decides what is reported."""

    upper: ClassVar[tuple[float, ...]] = (math.log(10.0), Inner.upper[1])


@dataclass(frozen=True, slots=True)
class Place:
    """A maximum of a face, where the search of the interior begins."""

    coef: Floats  # (p + k,) in the face's units
    sigma: float  # infinite on the probit face
    atcorr: float

    @classmethod
    def of(cls, model: Any, solution: Solution) -> Place:
        spec = model.parametrized
        n_coef = len(solution.params) - len(spec.form.names)
        values = solution.params[n_coef:]
        sigma = spec.form.dependence(values).sigma
        return cls(solution.params[:n_coef], sigma, spec.form.atcorr(values))


def humps(found: list[tuple[Any, Solution]]) -> tuple[tuple[Any, Solution], ...]:
    """Models and their maxima that differ in the error correlation; the first is kept as such.

    The forms of the free model share their humps: of each, the highest point is shown.
    """
    kept = found[:1]
    for model, solution in sorted(found[1:], key=lambda pair: -comparable(pair[1])):
        at = Place.of(model, solution).atcorr
        if ended_well(solution) and all(
            abs(at - Place.of(*other).atcorr) > _SAME_HUMP for other in kept
        ):
            kept.append((model, solution))
    return tuple(kept)


def label(normalization: Normalization) -> str:
    """A normalization in words."""
    if isinstance(normalization, str):
        return normalization
    return ", ".join(f"{name} = {value:g}" for name, value in normalization.items())


def _interior_start(objective: Objective, place: Place) -> Floats:
    """Start values inside the form, close to a face and at its error correlation."""
    corr = math.tanh(float(np.clip(place.atcorr, -2.5, 2.5)))
    share = max(abs(corr) + 0.15 * (1.0 - abs(corr)), 0.05)  # of the normal error, near |rho| = 1
    if math.isinf(place.sigma):
        share = abs(corr) + 0.8 * (1.0 - abs(corr))
    sigma = math.sqrt(LOGIT.variance) * share / math.sqrt(1.0 - share**2)
    coef = place.coef.copy()
    own = math.sqrt(LOGIT.variance)
    standard = own if math.isinf(place.sigma) else 1.0 / outcome_scale(place.sigma)
    coef[: objective.p] *= standard * outcome_scale(sigma)
    return np.append(coef, [math.log(sigma), math.atanh(corr / share)])


def _spread(objective: Objective, place: Place, count: int) -> Floats:
    """Coefficients of one place with points spread over sigma (0.2 to 6) and rho (-0.97, 0.97)."""
    from scipy.stats import qmc

    power = math.ceil(math.log2(count))
    points = qmc.Sobol(d=2, rng=np.random.default_rng(0)).random_base2(power)[:count]
    at = qmc.scale(points, [math.log(0.2), -2.1], [math.log(6.0), 2.1])
    rows = np.tile(_interior_start(objective, place), (count, 1))
    scales = [outcome_scale(math.exp(v)) / outcome_scale(math.exp(rows[0, -2])) for v in at[:, 0]]
    rows[:, : objective.p] *= np.array(scales)[:, None]
    rows[:, -2:] = at
    return rows


def _to_correlation(objective: Objective, start: Floats) -> Floats:
    """Parameters of the free form -> coefficients standardized, (mix, atcorr)."""
    lnsigma, athrho = start[-2:]
    sigma, rho = math.exp(lnsigma), math.tanh(athrho)
    share = sigma / math.sqrt(sigma**2 + LOGIT.variance)
    corr = rho * share
    q = float(np.clip((share - abs(corr)) / (1.0 - abs(corr)), 1e-6, 1.0 - 1e-6))
    found = np.append(start[:-2], [math.log(q / (1.0 - q)), math.atanh(corr)])
    found[: objective.p] /= outcome_scale(sigma)
    low, high = InnerCorrelation.lower, InnerCorrelation.upper
    found[-2:] = np.clip(found[-2:], low, high)
    return found


def _to_free(objective: Objective, params: Floats) -> Floats:
    """Coefficients standardized, (mix, atcorr) -> parameters of the free form."""
    values = CorrelationForm().free_values(torch.as_tensor(params[-2:])[None])[0].numpy()
    coef = params[:-2].copy()
    coef[: objective.p] *= outcome_scale(math.exp(values[0]))
    return np.append(coef, values)
