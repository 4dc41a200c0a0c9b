"""Break what the package's functions return, one at a time, and see whether the tests notice.

    python -m tests.mutations             # all of them
    python -m tests.mutations kernel      # those with the word in their name

A mutation wraps one function of the package, so it says what would be wrong with its answer and not
how the answer is written: the code inside may change freely. A part of the tests runs first with
the whole package and then with each mutation, up to the first failure, in a process of its own
that loads this module as a plugin of pytest. The exit code is 1 if any mutation survives.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "statsmodels_mnar"
CHOSEN = "STATSMODELS_MNAR_MUTATION"  # the environment variable that names one

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One function of the package, and what it becomes."""

    name: str
    target: str  # "kernel.full_line:full_line", or "module:Class.method"
    change: Callable[[Function], Function]
    tests: str  # below tests/: files or single tests, that need not be slow


# -- how an answer may be wrong --------------------------------------------------------------------


def returned(change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """The answer goes through ``change``."""
    return lambda function: lambda *args, **kwargs: change(function(*args, **kwargs))


def given(position: int, change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """The argument at a position (the object itself is 0 in a method) goes through ``change``."""

    def wrap(function: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            changed = change(args[position])
            return function(*args[:position], changed, *args[position + 1 :], **kwargs)

        return call

    return wrap


def keyword(**values: Any) -> Callable[[Function], Function]:
    """Keywords have these values, whatever is asked for."""
    return lambda function: lambda *args, **kwargs: function(*args, **(kwargs | values))


def field(name: str, change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """A field of the answer, a dataclass, goes through ``change``; None stays."""

    def changed(answer: Any) -> Any:
        old = getattr(answer, name)
        return answer if old is None else replace(answer, **{name: change(old)})

    return returned(changed)


def scaled(position: int, factor: float) -> Callable[[Any], Any]:
    """One entry along the first axis of an array is multiplied."""

    def change(values: Any) -> Any:
        values = values.clone() if hasattr(values, "clone") else values.copy()
        values[position] *= factor
        return values

    return change


def times(factor: float) -> Callable[[Any], Any]:
    return lambda value: factor * value


def minus(value: Any) -> Any:
    return -value


def in_place(position: int, change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """The argument that the function writes into goes through ``change`` afterwards."""

    def wrap(function: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = function(*args, **kwargs)
            change(args[position])
            return answer

        return call

    return wrap


def _heavier(nodes: Any) -> Any:
    powers = None if nodes.powers is None else 1.01 * nodes.powers
    return replace(nodes, weight=1.01 * nodes.weight, powers=powers)


FULL = "kernel.full_line:full_line"
HALF = "kernel.half_line:half_line"
COV, PROB, STACKED = "post.covariance", "post.prediction", "post.stacked"
QUADRATURE = "kernel/test_full_line.py::test_likelihood_equals_adaptive_quadrature"
AUTOGRAD = "kernel/test_full_line.py::test_derivatives_equal_autograd"
HALF_AUTOGRAD = "kernel/test_half_line.py::test_derivatives_equal_autograd"
CORNER = "kernel/test_corner.py::test_derivatives_are_those_of_the_values"
DIFFERENCES = "optimize/test_objective.py::test_score_and_hessian_equal_central_differences"
JACKKNIFE = "models/test_biascorr.py::test_stacked_covariance_is_the_infinitesimal_jackknife"
COVARIANCE, PROBABILITIES = "post/test_covariance.py", "post/test_probabilities.py"
MARGINS = "results/test_margeff.py::test_slopes_are_differentiated_predictions"
PROFILE = "results/test_profile.py::test_interval_ends_lie_on_the_cut"

MUTATIONS = (
    # -- the kernels
    Mutation("kernel: a factor lost", FULL, field("value", lambda v: v + 0.7), QUADRATURE),
    Mutation("kernel: sign of rho", FULL, given(3, minus), QUADRATURE),
    Mutation("kernel: score of the outcome index", FULL, field("first", scaled(0, 0.9)), AUTOGRAD),
    Mutation("kernel: score of log sigma", FULL, field("first", scaled(2, 1.1)), AUTOGRAD),
    Mutation("kernel: curvature of the outcome", FULL, field("second", scaled(0, 0.9)), AUTOGRAD),
    Mutation("kernel: curvature of athrho", FULL, field("second", scaled(9, 0.9)), AUTOGRAD),
    Mutation("kernel: mixed derivative", FULL, field("second", scaled(1, -1.0)), AUTOGRAD),
    Mutation(
        "kernel: rows in log space", "kernel.full_line:_log_space",
        returned(lambda answer: type(answer)(1e-3 + answer[0], *answer[1:])),
        "kernel/test_full_line.py::test_log_space_path_equals_the_linear_one",
    ),
    Mutation(
        "half line: sign of the loading", HALF, given(2, minus),
        "kernel/test_half_line.py",
    ),
    Mutation("half line: score at the end", HALF, field("first", scaled(1, 0.9)), HALF_AUTOGRAD),
    Mutation("half line: end's curvature", HALF, field("second", scaled(3, -1.0)), HALF_AUTOGRAD),
    Mutation("half line: loading's own", HALF, field("second", scaled(5, 0.9)), HALF_AUTOGRAD),
    Mutation(
        "half line: large loadings", "kernel.half_line:StepNodes.integral",
        returned(lambda answer: answer._replace(log_J=answer.log_J + 1e-6)),
        "kernel/test_half_line.py::test_large_loadings_are_integrated_over_the_index",
    ),
    Mutation(
        "probit: slope of its density", "kernel.links:Probit.derivatives",
        in_place(4, lambda out: out[-1].neg_()), HALF_AUTOGRAD,
    ),
    Mutation(
        "plackett: value", "kernel.bivariate:plackett",
        returned(lambda found: (replace(found[0], value=found[0].value + 1e-6), found[1])),
        "kernel/test_plackett.py::test_it_equals_the_half_line",
    ),
    Mutation(
        "corner: value", "kernel.bivariate:near_corner", field("value", lambda v: v + 1e-6),
        "kernel/test_corner.py::test_values_are_those_of_mpmath",
    ),
    Mutation(
        "corner: score of rho", "kernel.bivariate:near_corner",
        field("first", scaled(2, -1.0)), CORNER
    ),
    Mutation(
        "forms: curvature of an unselected row", "kernel.forms:unselected",
        field("second", minus), DIFFERENCES,
    ),
    # -- nodes, rows, sums
    Mutation(
        "nodes: weights that add up to 1.01", "kernel.integration:Quadrature.nodes",
        returned(_heavier),
        "kernel/test_integration.py::test_weights_are_those_of_the_standard_normal",
    ),
    Mutation(
        "nodes: too wide a step", "kernel.integration:trapezoid_step", returned(times(2.0)),
        "kernel/test_integration.py::test_trapezoid_keeps_its_promise",
    ),
    Mutation(
        "nodes: half of those on the half line", "kernel.integration:legendre_count",
        returned(lambda count: max(2, count // 2)), "kernel/test_half_line.py",
    ),
    Mutation(
        "nodes: weight of a draw", "kernel.integration:Simulation.nodes", returned(_heavier),
        "kernel/test_integration.py::test_weights_are_those_of_the_standard_normal",
    ),
    Mutation(
        "rows: floor of a soft row", "kernel.rows:outcome_factor",
        returned(lambda answer: (answer[0], 2.0 * answer[1], answer[2])), "kernel/test_rows.py",
    ),
    Mutation(
        "sums: score of the selection equation", "optimize.objective:add_score",
        in_place(0, lambda score: score[..., -2].mul_(1.01)), DIFFERENCES,
    ),
    Mutation(
        "sums: Hessian of a block", "optimize.objective:add_hessian",
        in_place(0, lambda hessian: hessian.mul_(0.99)), DIFFERENCES,
    ),
    Mutation(
        "penalty: without the number of rows", "optimize.objective:Likelihood._penalised",
        given(3, lambda total: 0.0 * total + 1.0),
        "optimize/test_objective.py::test_the_penalty_is_the_papers_weight_decay",
    ),
    # -- the optimiser
    Mutation(
        "Newton: half a step", "optimize.maximize:trust_region_step", returned(times(0.5)),
        "optimize/test_optimizers.py::test_trust_region_step_is_the_best_of_the_ball",
    ),
    Mutation(
        "Newton: stops at once", "optimize.maximize:judge",
        returned(lambda at: at._replace(maximum=at.maximum | True, distance=0.0 * at.distance)),
        "optimize/test_optimizers.py",
    ),
    # -- covariances and tests
    Mutation(
        "covariance: sandwich without a slice", f"{COV}:_sandwich", returned(times(1.2)), COVARIANCE
    ),
    Mutation(
        "covariance: small-sample factor", f"{COV}:estimate",
        given(0, lambda name: "HC0" if name == "HC1" else name), COVARIANCE,
    ),
    Mutation(
        "covariance: correction for few clusters", f"{COV}:meat_of_sums",
        keyword(use_correction=False), COVARIANCE,
    ),
    Mutation(
        "covariance: cluster sums without weights", f"{COV}:cluster_sums",
        given(1, lambda weights: None), COVARIANCE,
    ),
    Mutation(
        "covariance: sampling weights as counts", f"{COV}:row_meat", keyword(sampling=False),
        COVARIANCE,
    ),
    Mutation(
        "stacked covariance: errors of g_s left out", f"{STACKED}:derivatives",
        field("select", times(0.0)), JACKKNIFE,
    ),
    Mutation(
        "stacked covariance: spread of s-bar left out", f"{STACKED}:derivatives",
        field("by_mean", times(0.0)), JACKKNIFE,
    ),
    Mutation(
        "independence: likelihood ratio without its 2", "post.dependence:likelihood_ratio",
        field("statistic", times(0.5)),
        "models/test_free.py::test_score_test_is_the_same_for_every_normalization_and_close_to_lr",
    ),
    Mutation(
        "dependence: delta method of the error correlation", "kernel.forms:LoadingForm.corr_slope",
        returned(times(1.1)), "post/test_dependence.py",
    ),
    # -- predictions and effects
    Mutation(
        "prediction: rho not reversed for the unselected", f"{PROB}:_log_joint",
        lambda function: lambda form, a, b, at, y, s, order: function(
            form, a, b, at if s else -at, y, s, order
        ),
        PROBABILITIES,
    ),
    Mutation(
        "prediction: population mean without the dependence", f"{PROB}:_mean_over_errors",
        given(2, lambda at: at - 1.0), PROBABILITIES,
    ),
    Mutation(
        "prediction: slope of the selection probability", f"{PROB}:_log_select",
        returned(lambda jet: replace(jet, first=-jet.first)), PROBABILITIES,
    ),
    Mutation(
        "prediction: an interval too short", "post.prediction:Prediction.conf_int",
        given(0, lambda own: replace(own, se=0.9 * own.se)), "post/test_prediction.py",
    ),
    Mutation(
        "effect: sign of the selection equation's part", f"{PROB}:Quantity.coefficients",
        returned(lambda pair: (pair[0], -pair[1])), MARGINS,
    ),
    Mutation(
        "effect: width of a count's move", "post.margins:Column.ends",
        returned(lambda ends: (*ends[:2], 0.5 * ends[2])),
        "results/test_margeff.py::test_differences_of_dummies_and_counts_move_both_equations",
    ),
    # -- BiasCorr
    Mutation(
        "BiasCorr: another s-bar", "models.first_stage:mean_soft_selection", returned(times(1.01)),
        "models/test_biascorr.py::test_soft_selection_is_the_mean_prediction_of_unlabelled_rows",
    ),
    Mutation(
        "BiasCorr: pseudolabels the wrong way round", "models.first_stage:soften",
        field("y", lambda y: 1.0 - y),
        "models/test_biascorr.py::test_pseudolabels_are_those_of_a_logit_on_the_original_index",
    ),
    # -- profiles, intervals and the bootstrap
    Mutation(
        "profile: too narrow a cut", "post.profile:_pieces", given(2, times(0.9)), PROFILE
    ),
    Mutation(
        "weak fits: a union that leaves the ends out", "post.intervals:Across.interval",
        returned(times(0.99)), "post/test_intervals.py results/test_weak.py",
    ),
    Mutation(
        "bootstrap: exponential weights of a wrong spread", "large.partitions:row_weights",
        returned(lambda weights: weights**0.5),
        "results/test_bootstrap.py::test_random_weights_have_mean_and_variance_one",
    ),
    Mutation(
        "bootstrap: BCa levels", "results.bootstrap:bca_levels", returned(times(0.9)),
        "results/test_bootstrap.py::test_bca_levels_by_hand",
    ),
    # -- baselines
    Mutation(
        "IPW: probabilities in place of their inverses", "baselines.logit:propensity",
        field("probability", lambda p: 1.0 / p),
        "baselines/test_ipw.py::test_estimates_are_a_weighted_glm_of_statsmodels",
    ),
)  # fmt: skip


# -- putting one in place --------------------------------------------------------------------------


def modules() -> list[ModuleType]:
    """All modules of the package, imported."""
    package = importlib.import_module(PACKAGE)
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def locate(mutation: Mutation) -> tuple[Any, str, Function]:
    """The owner of a mutation's function, its name there, and the function."""
    module, _, path = mutation.target.partition(":")
    owner: Any = importlib.import_module(f"{PACKAGE}.{module}")
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name, getattr(owner, name)


def apply(mutation: Mutation) -> None:
    """Put the mutation in the place of its function, wherever that has been imported."""
    everywhere = modules()
    owner, name, function = locate(mutation)
    broken = functools.wraps(function)(mutation.change(function))
    if isinstance(owner.__dict__[name], staticmethod | classmethod):
        raise TypeError(f"{mutation.name}: {mutation.target} is bound to no object")
    setattr(owner, name, broken)
    for module in everywhere:
        for key, value in list(vars(module).items()):
            if value is function:
                setattr(module, key, broken)


def pytest_configure() -> None:
    """Apply the mutation that the environment names; this module is then a plugin."""
    apply(next(m for m in MUTATIONS if m.name == os.environ[CHOSEN]))


# -- the verdicts ----------------------------------------------------------------------------------


def passes(tests: Iterable[str], mutation: Mutation | None = None) -> bool:
    """Whether these tests pass, with a mutation or without."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not benchmark"]
    plugin = [] if mutation is None else ["-p", "tests.mutations"]
    chosen = [f"tests/{name}" for name in tests]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugin, *chosen],
        cwd=ROOT,
        env=os.environ | ({} if mutation is None else {CHOSEN: mutation.name}),
        capture_output=True,
        text=True,
    )
    if run.returncode not in (0, 1):  # neither passed nor failed: they did not run
        raise RuntimeError(f"pytest {chosen} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.returncode == 0


def check(mutations: Iterable[Mutation]) -> list[Mutation]:
    """Print a line for each mutation; the ones that no test noticed."""
    mutations = list(mutations)
    if not passes(sorted({name for m in mutations for name in m.tests.split()})):
        raise RuntimeError("the tests fail without a mutation: their verdict means nothing")
    survivors = []
    for mutation in mutations:
        started = time.perf_counter()
        survived = passes(mutation.tests.split(), mutation)
        survivors += [mutation] * survived
        verdict = "SURVIVED" if survived else "caught"
        print(f"{verdict:<9}{time.perf_counter() - started:4.0f} s  {mutation.name}", flush=True)
    print(f"{len(mutations) - len(survivors)} of {len(mutations)} caught")
    return survivors


def main(words: Iterable[str]) -> int:
    return int(bool(check(m for m in MUTATIONS if all(word in m.name for word in words))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
