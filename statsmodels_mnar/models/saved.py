"""Results from a JSON file: read and checked; `design.recorded` says what of it is evaluated."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, get_args

import numpy as np
import pandas as pd

from ..design.chunks import SavedDesign
from ..design.data import Counts
from ..design.recorded import restore
from ..design.specs import FormulaSpec
from ..design.terms import Levels, PenalisedTerm, Spline
from ..design.values import Dropped, WeightKind
from ..errors import DesignError
from ..kernel.integration import DRAW_KINDS, Integration, Quadrature, Rule, Simulation
from ..kernel.links import LINKS
from ..optimize.binary import Independent
from ..optimize.levels import Effects
from ..optimize.maximize import Method
from ..optimize.objective import Adjustment
from ..optimize.penalties import Penalties
from ..optimize.solution import Accuracy, Solution, Status
from ..post.covariance import ESTIMATORS, Covariance
from ..post.dependence import ExclusionTest, IndependenceTest, Normalization
from ..post.intervals import Across
from ..results.findings import LARGEST_FILE, SCHEMA
from ..results.fitted import Fit, SelectionResults, SelectionResultsWrapper
from ..results.shrinkage import TermFacts, labels
from ..types import Floats
from .biascorr import BiasCorrLogit
from .first_stage import FirstStage, Trained
from .greene import GreeneSelectionLogit
from .probit import ProbitSelection
from .selection import SelectionModel

_MODELS: dict[str, type[SelectionModel]] = {
    cls.__name__: cls for cls in (GreeneSelectionLogit, BiasCorrLogit, ProbitSelection)
}
_DEEPEST = 64  # levels of brackets; a record has six
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)  # and texts, to be skipped
_HUGE = 1e100  # no estimate; products of such numbers overflow
_NOT = "not a file of results:"
_LARGEST_DEPENDENCE = 50.0  # of lnsigma, athrho and the loading
_REPRODUCED = 1e-6  # relative difference of log-likelihoods of the same data


def from_json(source: str | Path, model: SelectionModel | None = None) -> SelectionResultsWrapper:
    """Results from what ``results.to_json()`` or ``results.report("fit.json")`` wrote.

    It is safe to read one from someone you do not trust, which a pickle is not: nothing is
    evaluated but the terms of the formulas, when data are predicted, and these must be columns,
    arithmetic and elementwise functions. What is missing or malformed raises an error that names
    the key.

    Parameters
    ----------
    source : str or Path
        The JSON text, or the path of a file.
    model : model, optional
        The model that was fitted, built by you from your formulas and data. It must have the same
        parameters, and its log-likelihood at the estimates must be that of the file.

    Returns
    -------
    results
        Without a model: estimates, covariance, tests, tables, and predictions from new data or
        from designs. The file has what the formulas learned (levels, means, knots), unless they
        use functions of your own or formulaic; predictions then take designs only, as arrays or
        as frames with the columns of the design. With a model: everything.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit, from_json
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> model = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data)
    >>> text = model.fit().to_json()
    >>> results = from_json(text)
    >>> results.predict([[1.0, 0.0, 0.0]]).round(3)
    array([0.422])
    >>> results.predict(sim.data.head(1)).round(3).tolist()
    [0.478]
    >>> from_json(text, model).nobs_selected == model.design.counts.selected
    True
    """
    record = _parse(source)
    if record.at("schema").value != SCHEMA:
        record.at("schema").refuse(f"is of another version of this package; known is {SCHEMA}")
    saved = _model(record)
    results = saved._results_class._restored(
        _fit(record, saved), _covariance(record, saved), _known(record, saved)
    )
    if model is not None:
        _attach(results, record, model)
    return SelectionResultsWrapper(results)


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the file, and the key under which it stands."""

    value: Any
    key: str = ""

    def refuse(self, why: str) -> NoReturn:
        shown = (
            type(self.value).__name__ if isinstance(self.value, dict | list) else repr(self.value)
        )
        raise ValueError(f"{_NOT} {self.key or 'its content'} {why}, got {shown[:60]}")

    def at(self, name: str) -> _Value:
        """The value under a key, which must be there."""
        if not isinstance(self.value, dict):
            self.refuse("must be an object")
        key = f"{self.key}.{name}" if self.key else name
        if name not in self.value:
            raise ValueError(f"{_NOT} the key {key!r} is missing")
        return _Value(self.value[name], key)

    def has(self, name: str) -> bool:
        """Whether a key is there that the first files do not have."""
        if not isinstance(self.value, dict):
            self.refuse("must be an object")
        return name in self.value

    @property
    def absent(self) -> bool:
        return self.value is None

    def items(self) -> list[tuple[str, _Value]]:
        if not isinstance(self.value, dict):
            self.refuse("must be an object")
        return [(name, self.at(name)) for name in self.value]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.refuse("must be a text")
        return self.value

    def choice(self, known: Iterable[str]) -> str:
        text, choices = self.text(), list(known)
        if text not in choices:
            self.refuse(f"must be one of {', '.join(choices)}")
        return text

    def scalar(self) -> Any:
        if isinstance(self.value, dict | list):
            self.refuse("must be a text, a number, true, false or null")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse("must be true or false")
        return self.value

    def integer(self, least: int = 0) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.refuse("must be an integer")
        if not least <= self.value < 2**53:
            self.refuse(f"must be at least {least} and below 2^53")
        return self.value

    def number(self, low: float = -_HUGE, high: float = _HUGE) -> float:
        """A finite number between these."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.refuse("must be a number")
        if not low <= self.value <= high:
            self.refuse(f"must lie between {low:g} and {high:g}")
        return float(self.value)

    def any_number(self) -> float:
        """A number, "inf" or "-inf"; NaN where it is null."""
        if self.value is None:
            return math.nan
        return float(self.value) if self.value in ("inf", "-inf") else self.number()

    def items_of(self) -> list[_Value]:
        if not isinstance(self.value, list):
            self.refuse("must be a list")
        return [_Value(v, f"{self.key}[{i}]") for i, v in enumerate(self.value)]

    def names(self) -> tuple[str, ...]:
        found = tuple(each.text() for each in self.items_of())
        if not found or len(set(found)) < len(found):
            self.refuse("must be different names")
        return found

    def vector(self, size: int) -> Floats:
        found = self.items_of()
        if len(found) != size:
            self.refuse(f"must have {size} numbers and has {len(found)}")
        return np.array([each.number() for each in found], dtype=float)

    def matrix(self, size: int) -> Floats:
        """A symmetric matrix; of NaN where all its entries are null."""
        rows = self.items_of()
        if len(rows) != size:
            self.refuse(f"must have {size} rows and has {len(rows)}")
        if all(each.value == [None] * size for each in rows):
            return np.full((size, size), np.nan)
        found = np.array([each.vector(size) for each in rows])
        if not np.allclose(found, found.T, rtol=1e-8, atol=1e-12 * np.abs(found).max()):
            self.refuse("must be symmetric")
        return found


def _parse(source: str | Path) -> _Value:
    text = _text(source)
    _check_depth(text)
    try:
        return _Value(
            json.loads(
                text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_integer
            )
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{_NOT} it is not JSON ({error})") from error


def _check_depth(text: str) -> None:
    """Refuse brackets within brackets that no record has, before a parser recurses into them."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        mark = match.group()
        depth += (mark in "[{") - (mark in "]}")
        if depth > _DEEPEST:
            raise ValueError(f"{_NOT} it is nested too deeply (more than {_DEEPEST} levels)")


def _text(source: str | Path) -> str:
    if isinstance(source, str) and source.lstrip().startswith(("{", "[")):
        return source
    if not isinstance(source, str | Path):
        raise TypeError(f"source must be a JSON text or a path, got {type(source).__name__}")
    path = Path(source)
    try:
        known = path.is_file()
    except OSError:  # a name that no file can have
        known = False
    if not known:
        raise FileNotFoundError(f"source={str(source)[:200]!r} is neither a JSON text nor a file")
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(
            f"{str(path)!r} is larger than {LARGEST_FILE >> 20} MB, which no file of results is"
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{_NOT} it is not UTF-8 text") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_NOT} the key {twice!r} appears twice in one object")
    return found


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else math.inf


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{_NOT} {name} is not a number of JSON")


# -- what it says ----------------------------------------------------------------------------------


def _model(record: _Value) -> SelectionModel:
    """The model without its rows, formulas as text."""
    cls = _MODELS[record.at("model").choice(_MODELS)]
    design = _design(record)
    normalization = _normalization(record.at("normalization"))
    integration = _integration(record.at("integration"))
    link: dict[str, Any] = {}
    if "link" in cls._set_up_keywords and record.has("link"):
        link = {"link": record.at("link").choice(LINKS)}
    try:
        model = cls._from_design(
            design, normalization=normalization, integration=integration, **link
        )
    except ValueError as error:
        raise ValueError(f"{_NOT} normalization: {error}") from error
    if record.has("offsets"):
        model.offset_columns = _offsets(record.at("offsets"))
    for name in ("formula", "select_formula"):
        if not record.at(name).absent:
            setattr(model, name, record.at(name).text())
    if isinstance(model, BiasCorrLogit):
        own, nothing = record.at("biascorr"), np.empty(0)
        select, outcome = (own.at(name).text() for name in ("select", "outcome"))
        model.stage = FirstStage(Trained(select, nothing), Trained(outcome, nothing))
        model._known_soft = own.at("soft_selection").number(0.0, 1.0)
    return model


def _design(record: _Value) -> SavedDesign:
    data, equations = record.at("data"), record.at("equations")
    nobs = data.at("nobs").number(1.0, 2.0**53)
    labelled = data.at("labelled").number(0.0, nobs)
    weights = data.at("weights")
    dropped = {name: data.at("dropped").at(name).integer() for name in Dropped._fields}
    saved = SavedDesign.of(
        equations.at("outcome").names(),
        equations.at("select").names(),
        data.at("outcome").text(),
        data.at("select").text(),
        None if weights.absent else weights.choice(get_args(WeightKind)),  # type: ignore[arg-type]
        Dropped(**dropped),
        Counts(int(nobs), int(labelled), nobs, labelled, (0.0, 1.0)),
        data.at("constant").flag(),
    )
    penalised = _terms(record, saved)
    outcome, select = _specs(record, equations, penalised)
    return replace(saved, outcome_spec=outcome, select_spec=select, penalised=penalised)


def _terms(record: _Value, design: SavedDesign) -> tuple[PenalisedTerm, ...]:
    """The penalised terms; files of before have none."""
    if not record.has("penalised_terms") or record.at("penalised_terms").absent:
        return ()
    found = []
    for each in record.at("penalised_terms").items_of():
        equation = each.at("equation").choice(("outcome", "select"))
        names = design.outcome_names if equation == "outcome" else design.select_names
        fixed = each.at("fixed")
        term = PenalisedTerm(
            each.at("kind").choice(("re", "smooth")),  # type: ignore[arg-type]
            each.at("column").text(),
            equation,  # type: ignore[arg-type]
            each.at("start").integer(),
            _basis(each),
            None if fixed.absent else fixed.number(0.0),
            each.has("apart") and each.at("apart").flag(),
        )
        if tuple(term.names) != names[term.columns]:
            each.at("start").refuse("must be where the columns of the term begin")
        found.append(term)
    return tuple(found)


def _basis(term: _Value) -> Levels | Spline:
    if term.at("kind").value == "re":
        return Levels(_levels(term.at("levels")))
    size = len(term.at("knots").items_of())
    knots = term.at("knots").vector(size)
    rows = term.at("constraint").items_of()
    if not 8 <= size < 10_000 or len(rows) != size - 4 or not (np.diff(knots) > 0).all():
        term.at("knots").refuse("must rise, and be four more than the basis functions")
    return Spline(knots, np.stack([row.vector(size - 5) for row in rows]))


def _levels(found: _Value) -> pd.Index:
    levels = pd.Index([each.scalar() for each in found.items_of()])
    if not len(levels) or levels.hasnans or not levels.is_unique:
        found.refuse("must be different numbers or texts")
    return levels


def _specs(
    record: _Value, equations: _Value, penalised: tuple[PenalisedTerm, ...]
) -> tuple[FormulaSpec | None, FormulaSpec | None]:
    """What both formulas have learned, where the file says it."""
    if not record.has("terms") or record.at("terms").absent:
        return None, None
    found = []
    for name in ("outcome", "select"):
        terms = record.at("terms").at(name)
        try:
            spec = restore(terms.value)
        except DesignError as error:
            raise ValueError(f"{_NOT} {terms.key}: {error}") from error
        own = tuple(term for term in penalised if term.equation == name)
        names = (*spec.column_names, *(column for term in own for column in term.names))
        if names != equations.at(name).names():
            terms.refuse("must make the columns of the equation")
        found.append(replace(spec, column_names=names, penalised=own))
    return found[0], found[1]


def _offsets(found: _Value) -> tuple[str | None, str | None]:
    both = [None if each.absent else each.text() for each in found.items_of()]
    if len(both) != 2:
        found.refuse("must be two names or null")
    return both[0], both[1]


def _normalization(found: _Value) -> Normalization:
    if isinstance(found.value, str):
        return found.value
    return {name: value.any_number() for name, value in found.items()}


def _integration(found: _Value) -> Integration:
    if found.at("by").choice(("Quadrature", "Simulation")) == "Simulation":
        return Simulation(
            found.at("n_draws").integer(1),
            found.at("kind").choice(DRAW_KINDS),  # type: ignore[arg-type]
            found.at("rng").integer(),
            found.at("redraw").flag(),
        )
    nodes = found.at("n_nodes")
    return Quadrature(
        found.at("rule").choice(get_args(Rule)),  # type: ignore[arg-type]
        None if nodes.absent else nodes.integer(2),
        found.at("tol").number(1e-15, 1e-2),
    )


def _fit(record: _Value, model: SelectionModel) -> Fit:
    status, likelihoods, apart = (record.at(name) for name in ("status", "likelihoods", "apart"))
    names = model.param_names
    params = record.at("params")
    if [name for name, _ in params.items()] != names:
        params.refuse(f"must have the keys {', '.join(names)}")
    estimates = np.array([value.number() for _, value in params.items()])
    for name in model.parametrized.names:
        params.at(name).number(-_LARGEST_DEPENDENCE, _LARGEST_DEPENDENCE)
    free = model.estimated
    hessian = np.zeros((len(free), len(free)))
    hessian[np.ix_(free, free)] = record.at("hessian").matrix(len(names))
    solution = Solution(
        params=model.expand(estimates),
        value=likelihoods.at("value").any_number(),
        score_norm=status.at("score_norm").any_number(),
        hessian=hessian,
        n_iter=status.at("iterations").integer(),
        trace=(),
        status=Status[status.at("name").choice([s.name.lower() for s in Status]).upper()],
    )
    model.effects = _effects(record, model, solution.params)
    independent = Independent(
        apart.at("params").vector(model.n_coef),
        apart.at("value").any_number(),
        apart.at("converged").flag(),
    )
    faces = {name: value.any_number() for name, value in likelihoods.at("faces").items()}
    options = {name: value.scalar() for name, value in status.at("options").items()}
    return Fit(
        model, solution, independent, status.at("method").choice(get_args(Method)), None,
        status.at("penalty").number(0.0), faces, options,
        asked=_normalization(record.at("asked")), accuracy=_accuracy(record.at("accuracy")),
        penalties=_penalties(record),
    )  # fmt: skip


def _penalties(record: _Value) -> Penalties | None:
    if not record.has("penalised_terms") or record.at("penalised_terms").absent:
        return None
    terms = record.at("penalised_terms").items_of()
    return Penalties(
        np.array([each.at("penalty").number(0.0) for each in terms]),
        np.array([each.at("estimated").flag() for each in terms]),
        np.array([each.at("vanished").flag() for each in terms]),
        math.nan, 0, True, _adjustment(record),
    )  # fmt: skip


def _effects(record: _Value, model: SelectionModel, theta: Floats) -> Effects | None:
    """The effects that are no parameters; files of before have none."""
    own = [term for term in model.design.penalised if term.apart]
    if not own:
        return None
    found, q = record.at("effects_apart"), own[0].rank
    tangent = found.at("tangent").items_of()
    if len(tangent) != len(theta):
        found.at("tangent").refuse(f"must have {len(theta)} rows and has {len(tangent)}")
    information = found.at("information").vector(q)
    if not (information > 0.0).all():
        found.at("information").refuse("must be positive numbers")
    values = found.at("values").vector(q)
    return Effects(theta, values, information, np.stack([row.vector(q) for row in tangent]))


def _adjustment(record: _Value) -> Adjustment | None:
    """What the dependence was adjusted by; files of before have none."""
    if not record.has("adjustment") or record.at("adjustment").absent:
        return None
    found = record.at("adjustment")
    size = len(found.at("knots").items_of())
    knots, values = found.at("knots").vector(size), found.at("values").vector(size)
    if size < 2 or not (np.diff(knots) > 0).all():
        found.at("knots").refuse("must be at least two rising numbers")
    unit = None if found.at("unit").absent else found.at("unit").number(0.0)
    return Adjustment(found.at("kind").choice(("probit", "loading")), knots, values, unit)


def _term_facts(record: _Value, model: SelectionModel) -> TermFacts:
    terms, design = record.at("penalised_terms").items_of(), model.design.penalised

    def numbers(name: str) -> Floats:
        return np.array([each.at(name).any_number() for each in terms])

    return TermFacts(
        names=labels(design),
        equations=tuple(term.equation for term in design),
        kinds=tuple(term.kind for term in design),
        ranks=tuple(term.rank for term in design),
        penalty=numbers("penalty"),
        estimated=tuple(each.at("estimated").flag() for each in terms),
        vanished=tuple(each.at("vanished").flag() for each in terms),
        **{name: numbers(name) for name in ("edf", "log_sd_error", "lr", "flat", "flat_df")},
    )


def _covariance(record: _Value, model: SelectionModel) -> Covariance:
    found = record.at("cov")
    if found.at("names").names() != tuple(model.param_names):
        found.at("names").refuse(f"must be {', '.join(model.param_names)}")
    matrix = found.at("matrix").matrix(model.nparams)
    groups = tuple(each.integer(2) for each in found.at("n_groups").items_of())
    converged = record.at("status").at("converged").flag()
    # Of two ways of clustering the difference of matrices need not be positive, nor that of a
    # Hessian which is not at a maximum.
    if np.isfinite(matrix).all() and converged and len(groups) < 2:
        scale = np.sqrt(np.abs(np.diag(matrix)))
        scaled = matrix / np.where(scale > 0, np.outer(scale, scale), 1.0)
        if (np.diag(matrix) < 0).any() or np.linalg.eigvalsh(scaled)[0] < -1e-6:
            found.at("matrix").refuse("must be positive semidefinite")
    known = (*ESTIMATORS, *model._results_class._more_cov_types)
    return Covariance(
        matrix, found.at("type").choice(known), found.at("description").text(), groups
    )


def _accuracy(found: _Value) -> Accuracy | None:
    if found.absent:
        return None
    before = found.at("replaced")
    if not before.absent and not before.at("replaced").absent:
        before.at("replaced").refuse("must be null")
    return Accuracy(
        found.at("rule").text(), found.at("finer").text(), found.at("difference").any_number(),
        found.at("shift").any_number(), found.at("simulated").flag(), _accuracy(before),
    )  # fmt: skip


def _known(record: _Value, model: SelectionModel) -> dict[str, Any]:
    """What the summary shows and only the data could tell."""
    likelihoods, test = record.at("likelihoods"), record.at("independence")
    known: dict[str, Any] = {"llf": likelihoods.at("llf").any_number()}
    for name in ("llnull", "ignorable"):
        if not likelihoods.at(name).absent:
            known[name] = likelihoods.at(name).number()
    biascorr = record.at("biascorr")
    known["held"] = ()
    if not biascorr.absent and biascorr.has("held"):
        known["held"] = tuple(text.text() for text in biascorr.at("held").items_of())
    if not test.absent:
        method = test.at("method").choice(("lr", "wald", "score"))
        known["independence"] = IndependenceTest(
            method, test.at("statistic").any_number(), test.at("p_value").any_number(),
            test.at("df").integer(1),
        )  # fmt: skip
    if record.has("instrument"):
        known["instrument"] = _instrument(record.at("instrument"))
    if model.design.penalised:
        known["terms"] = _term_facts(record, model)
        known["leverage"] = record.at("free_shares").vector(len(model.estimated))
        apart = [term.apart for term in model.design.penalised]
        if any(apart):
            known["apart_edf"] = float(known["terms"].edf[apart.index(True)])
    known["weak"] = ()
    if record.has("weak"):
        known["weak"] = tuple(text.text() for text in record.at("weak").items_of())
        if not record.at("across").absent:
            known["across"] = _across(record.at("across"))
    known["skewed"] = "across" in known
    return known


def _across(found: _Value) -> Across:
    """Refits over the error correlation; everything that is shown follows from these numbers."""
    size = len(found.at("u").items_of())
    names = ("u", "lr", "error_corr", "sigma", "rho")
    coef = found.at("coef").items_of()
    columns = len(coef[0].items_of()) if coef else 0
    cov = found.at("cov").items_of()
    if size < 2 or len(coef) != size or len(cov) != size:
        found.refuse("must have at least two values, and coefficients for each")
    limits = found.at("limits").items_of()
    if len(limits) != 2:
        found.at("limits").refuse("must be two numbers")
    known = {n: np.array([v.any_number() for v in found.at(n).items_of()]) for n in names}
    return Across(
        **known,
        coef=np.stack([row.vector(columns) for row in coef]),
        cov=np.stack([matrix.matrix(columns) for matrix in cov]),
        limits=(limits[0].any_number(), limits[1].any_number()),
        conservative=not found.has("conservative") or found.at("conservative").flag(),
        widened=found.at("widened").any_number() if found.has("widened") else 1.0,
    )


def _instrument(found: _Value) -> ExclusionTest:
    columns = tuple(each.text() for each in found.at("columns").items_of())
    return ExclusionTest(
        columns, found.at("statistic").any_number(), found.at("df").integer(),
        found.at("pvalue").any_number(), found.at("offset").flag(), found.at("known").flag(),
        found.at("why").text(),
    )  # fmt: skip


# -- with a model ----------------------------------------------------------------------------------


def _attach(results: SelectionResults, record: _Value, model: SelectionModel) -> None:
    """Put the user's model in place of the one without rows."""
    saved = results.model
    if results.cov_type == "cluster":  # a bootstrap would resample rows, as if there were none
        raise ValueError(
            "model: the file's covariance is clustered, but its clusters are not in the file; read "
            "it without a model, or fit the model again"
        )
    if type(model) is not type(saved):
        raise ValueError(f"model must be a {type(saved).__name__}, got {type(model).__name__}")
    asked = _normalization(record.at("asked"))
    if not _same(model.normalization, asked):
        raise ValueError(f"model has normalization={model.normalization!r}, the file {asked!r}")
    if model.link != saved.link:
        raise ValueError(f"model has link={model.link.name!r}, the file {saved.link.name!r}")
    own = model.sibling(saved.normalization, integration=saved.integration)
    if results._fit_info.penalties is not None and own.design.penalised:
        penalties = results._fit_info.penalties
        own = own.smoothed(penalties.values, penalties.adjustment)
    penalty = results._fit_info.penalty
    if isinstance(own, BiasCorrLogit):
        own = own._staged(penalty)
    if own.param_names != saved.param_names:
        raise ValueError(
            f"model has the parameters {own.param_names}, the file {saved.param_names}"
        )
    value, expected = own.loglike(results.params), results.llf
    if not abs(value - expected) <= _REPRODUCED * (1.0 + abs(expected)):
        raise ValueError(
            f"model has the log-likelihood {value:.8g} at the estimates and the file "
            f"{expected:.8g}: its data, weights or options are others"
        )
    own.effects = saved.effects
    results.model = own
    results._fit_info = replace(results._fit_info, model=own)


def _same(one: Normalization, other: Normalization) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return dict(one) == dict(other)
    return one == other
