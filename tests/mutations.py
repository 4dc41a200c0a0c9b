"""Break the package in small ways, one at a time, and see whether the tests notice.

    python -m tests.mutations             # all of them
    python -m tests.mutations kernel      # those with the word in their name

Each mutation replaces one text in a copy of the package; text that is not there exactly once is an
error, so this list cannot fall behind the code. A part of the default test command runs against the
copy, first whole and then broken, up to the first failure. The exit code is 1 if any mutation
survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "statsmodels_mnar"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One text of one module, and what stands there instead."""

    name: str
    module: str  # below the package
    old: str
    new: str
    tests: str  # below tests/: files, or single tests, of the default test command


FULL, HALF = "engine/fullline.py", "engine/halfline.py"
COV, PROB = "inference/covariance.py", "inference/probabilities.py"
STACKED = "inference/stacked.py"

MUTATIONS = (
    # -- the kernels
    Mutation(
        "kernel: factor 1/2 of erfc lost", FULL,
        "value = torch.log(0.5 * total)", "value = torch.log(total)",
        "engine/test_fullline.py::test_likelihood_equals_adaptive_quadrature",
    ),
    Mutation(
        "kernel: sign of rho", FULL,
        "-SQRT_HALF * sinh * c, x)", "SQRT_HALF * sinh * c, x)",
        "engine/test_fullline.py::test_likelihood_equals_adaptive_quadrature",
    ),
    Mutation(
        "kernel: second derivative of the logistic", FULL,
        "h = d - 2.0 * node_sums", "h = d - 1.0 * node_sums",
        "engine/test_fullline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "kernel: chain rule of log sigma", FULL,
        "sigma * sigma * h[2] + l_sigma", "sigma * sigma * h[2]",
        "engine/test_fullline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "kernel: cross term in athrho", FULL,
        "2.0 * z_t0 * z_t1 * y[1]", "z_t0 * z_t1 * y[1]",
        "engine/test_fullline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "kernel: curvature of Mills' ratio in log space", FULL,
        "m1 = -m * (z + m)", "m1 = -m * (z - m)",
        "engine/test_fullline.py::test_log_space_path_equals_the_linear_one",
    ),
    Mutation(
        "kernel: score of log sigma in log space", FULL,
        "m * z_b, r1 * sigma * e, m * z_t]", "m * z_b, r1 * e, m * z_t]",
        "engine/test_fullline.py::test_log_space_path_equals_the_linear_one",
    ),
    Mutation(
        "half line: curvature at the end point", HALF,
        "-b * end - loading * end_slope", "-b * end + loading * end_slope",
        "engine/test_halfline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "half line: second moment of the stretched interval", HALF,
        "2.0 * length * m[1]", "length * m[1]",
        "engine/test_halfline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "half line: derivative of the density of a probit", HALF,
        "torch.mul(x, pdf, out=curve).neg_()", "torch.mul(x, pdf, out=curve)",
        "engine/test_halfline.py::test_derivatives_equal_autograd",
    ),
    Mutation(
        "forms: scale of a probit outcome", "engine/forms.py",
        "first = torch.stack([cosh * g_a,", "first = torch.stack([g_a,",
        "engine/test_halfline.py::test_probit_form_derivatives_equal_finite_differences",
    ),
    Mutation(
        "forms: second derivative of the standardized scale", "engine/forms.py",
        "v * (2.0 + v) / k**3", "v * (1.0 + v) / k**3",
        "engine/test_objective.py::test_score_and_hessian_equal_central_differences",
    ),
    Mutation(
        "forms: curvature of an unselected row", "engine/forms.py",
        "(m * (b - m))[None]", "(m * (b + m))[None]",
        "engine/test_objective.py::test_score_and_hessian_equal_central_differences",
    ),
    # -- nodes, rows, sums
    Mutation(
        "nodes: density of the trapezoidal weights", "engine/integration.py",
        "np.exp(-0.5 * e * e)", "np.exp(-0.49 * e * e)",
        "engine/test_integration.py::test_weights_are_those_of_the_standard_normal",
    ),
    Mutation(
        "nodes: an end of the rule left out", "engine/integration.py",
        "np.abs(k) <= reach[:, None]", "np.abs(k) < 0.6 * reach[:, None]",
        "engine/test_integration.py::test_trapezoid_keeps_its_promise",
    ),
    Mutation(
        "nodes: weight of a draw", "engine/integration.py",
        "1.0 / self.n_draws)", "1.0 / (self.n_draws - 1))",
        "engine/test_integration.py::test_weights_are_those_of_the_standard_normal",
    ),
    Mutation(
        "rows: floor of a soft pseudolabel", "engine/blocks.py",
        "0.5 * s * (1.0 - q.abs())", "s * (1.0 - q.abs())",
        "engine/test_rows.py",
    ),
    Mutation(
        "objective: Hessian without weights", "engine/objective.py",
        "weight * terms.second, block", "terms.second, block",
        "engine/test_objective.py::test_integer_weights_are_repetitions",
    ),
    Mutation(
        "objective: penalty without the number of rows", "engine/likelihood.py",
        "alpha = self.penalty * total", "alpha = self.penalty + 0.0 * total",
        "engine/test_objective.py::test_the_penalty_is_the_papers_weight_decay",
    ),
    # -- the optimiser
    Mutation(
        "Newton: half a step", "engine/newton.py",
        "step = along / (eigenvalue + shift[:, None])",
        "step = 0.5 * along / (eigenvalue + shift[:, None])",
        "engine/test_optimizers.py::test_trust_region_step_is_the_best_of_the_ball",
    ),
    Mutation(
        "Newton: accepts any step", "engine/newton.py",
        "accept = ratio > 1e-4", "accept = ratio > -torch.inf",
        "engine/test_optimizers.py models/test_faces.py",
    ),
    Mutation(
        "Newton: stops early", "engine/newton.py",
        "maximum = (\n        (norm <= slack * gtol)",
        "maximum = (\n        (norm <= 1e6 * slack * gtol)",
        "engine/test_optimizers.py",
    ),
    # -- covariances and tests
    Mutation(
        "covariance: sandwich without its second slice", COV,
        "return bread @ meat.matrix @ bread", "return bread @ meat.matrix",
        "inference/test_covariance.py",
    ),
    Mutation(
        "covariance: small-sample factor", COV,
        "meat) * n / (n - k)", "meat) * n / (n - 1)",
        "inference/test_covariance.py",
    ),
    Mutation(
        "covariance: correction for few clusters", COV,
        "count / (count - 1) if use_correction", "1.0 if use_correction",
        "inference/test_covariance.py",
    ),
    Mutation(
        "covariance: two ways of clustering added up", COV,
        "ways[1][0] - one_way(sums)[0]", "ways[1][0] + one_way(sums)[0]",
        "inference/test_covariance.py",
    ),
    Mutation(
        "covariance: cluster sums without weights", COV,
        "sums = pd.DataFrame(weighted(scores, weights))", "sums = pd.DataFrame(scores)",
        "inference/test_covariance.py",
    ),
    Mutation(
        "covariance: sampling weights as counts", COV,
        "left = weighted(scores, weights) if sampling else scores", "left = scores",
        "inference/test_covariance.py",
    ),
    Mutation(
        "stacked covariance: sign of g_s", STACKED,
        "rows.scores - select @ found.select", "rows.scores + select @ found.select",
        "models/test_biascorr.py::test_stacked_covariance_is_the_infinitesimal_jackknife",
    ),
    Mutation(
        "stacked covariance: spread of s-bar left out", STACKED,
        "total = total + np.outer(deviation, found.by_mean)", "pass",
        "models/test_biascorr.py::test_stacked_covariance_is_the_infinitesimal_jackknife",
    ),
    Mutation(
        "independence: likelihood ratio without its 2", "inference/independence.py",
        "max(2.0 * (llf - without), 0.0)", "max(llf - without, 0.0)",
        "models/test_free.py::test_score_test_is_the_same_for_every_normalization_and_close_to_lr",
    ),
    Mutation(
        "dependence: delta method of the error correlation", "inference/dependence.py",
        "(1.0 - at.rho**2) * weight]", "weight]",
        "inference/test_dependence.py",
    ),
    # -- predictions and effects
    Mutation(
        "prediction: rho not reversed for the unselected", PROB,
        "flip[[1, -1]] = -1.0", "flip[1] = -1.0",
        "inference/test_probabilities.py",
    ),
    Mutation(
        "prediction: population mean without sigma", PROB,
        "L = expit(a[rows, None] + scale * e)", "L = expit(a[rows, None] + 0.0 * e)",
        "inference/test_probabilities.py",
    ),
    Mutation(
        "prediction: slope of the selection probability", PROB,
        "found.first[1] = side * mills", "found.first[1] = mills",
        "inference/test_probabilities.py",
    ),
    Mutation(
        "prediction: interval's log-odds scale", "inference/prediction.py",
        "self.se / (self.predicted * (1.0 - self.predicted))", "self.se / self.predicted",
        "inference/test_prediction.py",
    ),
    Mutation(
        "effect: sign of the selection equation's part", "inference/margins.py",
        "by_a * beta + by_b * gamma, jacobian", "by_a * beta - by_b * gamma, jacobian",
        "results/test_margeff.py::test_slopes_are_differentiated_predictions",
    ),
    Mutation(
        "effect: own term of the Jacobian", "inference/margins.py",
        "jacobian[variable.outcome] += by_a", "jacobian[variable.outcome] += 0.0",
        "results/test_margeff.py::test_slopes_are_differentiated_predictions",
    ),
    Mutation(
        "effect: width of a count's move", "inference/margins.py",
        "self.moved(at, x + 1.0), 2.0", "self.moved(at, x + 1.0), 1.0",
        "results/test_margeff.py::test_differences_of_dummies_and_counts_move_both_equations",
    ),
    # -- BiasCorr
    Mutation(
        "BiasCorr: s-bar over all rows", "models/first_stage.py",
        "np.average(stage.select.probability[missing], weights=weights)",
        "np.average(stage.select.probability)",
        "models/test_biascorr.py::test_soft_selection_is_the_mean_prediction_of_unlabelled_rows",
    ),
    Mutation(
        "BiasCorr: pseudolabels the wrong way round", "models/first_stage.py",
        "labels = guess if soft_pseudolabels else (guess > 0.5).astype(float)",
        "labels = guess if soft_pseudolabels else (guess < 0.5).astype(float)",
        "models/test_biascorr.py::test_pseudolabels_are_those_of_a_logit_on_the_original_index",
    ),
    Mutation(
        "BiasCorr: g_y sees no weights of the batch", "models/first_stage.py",
        "regress(pseudolabel_model, X, y, weights * seen,",
        "regress(pseudolabel_model, X, y, (weights > 0) * 1.0 * seen,",
        "results/test_bootstrap.py::test_a_batch_equals_a_loop_that_refits_everything",
    ),
    # -- profiles and the bootstrap
    Mutation(
        "profile: two degrees of freedom", "inference/profile.py",
        "stats.chi2.ppf(1.0 - alpha, 1)", "stats.chi2.ppf(1.0 - alpha, 2)",
        "results/test_profile.py::test_interval_of_a_coefficient_is_walds_in_large_samples",
    ),
    Mutation(
        "profile: ends short of the cut", "inference/profile.py",
        "math.sqrt(max(2.0 * (top - value), 0.0))", "math.sqrt(max(2.1 * (top - value), 0.0))",
        "results/test_profile.py::test_interval_ends_lie_on_the_cut",
    ),
    Mutation(
        "bootstrap: half a sample", "engine/resampled.py",
        "rng.integers(len(own), size=size)", "rng.integers(len(own), size=size // 2)",
        "results/test_bootstrap.py::test_standard_errors_are_close_to_the_sandwich",
    ),
    Mutation(
        "bootstrap: clusters torn apart", "results/bootstrap.py",
        "rng, weighted=weighted)[clusters]", "rng, weighted=weighted)[rng.permutation(clusters)]",
        "results/test_bootstrap.py::test_counts_are_observations_and_clusters_stay_together",
    ),
    Mutation(
        "bootstrap: exponential weights of a wrong spread", "engine/resampled.py",
        "own * rng.standard_exponential(len(own))", "own * rng.random(len(own)) * 2.0",
        "results/test_bootstrap.py::test_random_weights_have_mean_and_variance_one",
    ),
    Mutation(
        "bootstrap: median bias of BCa", "results/bootstrap.py",
        "norm.cdf(z0 + z / (1.0 - acceleration * z))", "norm.cdf(z / (1.0 - acceleration * z))",
        "results/test_bootstrap.py::test_bca_levels_by_hand",
    ),
    # -- baselines
    Mutation(
        "IPW: probabilities in place of their inverses", "baselines/ipw.py",
        "weight = 1.0 / np.maximum(below.probability[seen], self.trim)",
        "weight = np.maximum(below.probability[seen], self.trim)",
        "baselines/test_ipw.py::test_estimates_are_a_weighted_glm_of_statsmodels",
    ),
)  # fmt: skip


def mutated(mutation: Mutation) -> str:
    """The module's text with the mutation in it."""
    text = (ROOT / PACKAGE / mutation.module).read_text(encoding="utf-8")
    if (count := text.count(mutation.old)) != 1:
        raise ValueError(
            f"{mutation.name}: {mutation.module} has {mutation.old!r} {count} times, not once; "
            "bring this list up to date"
        )
    return text.replace(mutation.old, mutation.new)


def copy_repository(folder: Path) -> None:
    for part in (PACKAGE, "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def passes(copy: Path, tests: Iterable[str]) -> bool:
    """Whether these tests pass in the copy."""
    chosen = [f"tests/{name}" for name in tests]
    marks = ["-m", "not slow and not benchmark"]
    options = ["-x", "-q", "-p", "no:cacheprovider", *marks]
    command = [sys.executable, "-B", "-m", "pytest", *options, *chosen]
    paths = os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        command, cwd=copy, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    if run.returncode not in (0, 1):  # neither passed nor failed: they did not run
        raise RuntimeError(f"pytest {chosen} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.returncode == 0


def caught(mutation: Mutation, copy: Path) -> bool:
    """Whether the mutation's tests fail in the copy with the mutation in it."""
    module = copy / PACKAGE / mutation.module
    whole = module.read_text(encoding="utf-8")
    module.write_text(mutated(mutation), encoding="utf-8")
    try:
        return not passes(copy, mutation.tests.split())
    finally:
        module.write_text(whole, encoding="utf-8")


def check(mutations: Iterable[Mutation]) -> list[Mutation]:
    """Print a line for each mutation; the ones that no test noticed."""
    mutations = list(mutations)
    for mutation in mutations:
        mutated(mutation)  # all of them apply, before any of them runs
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_repository(copy)
        if not passes(copy, sorted({name for m in mutations for name in m.tests.split()})):
            raise RuntimeError("the tests fail without a mutation: their verdict means nothing")
        for mutation in mutations:
            started = time.perf_counter()
            verdict = "caught"
            if not caught(mutation, copy):
                verdict = "SURVIVED"
                survivors.append(mutation)
            seconds = time.perf_counter() - started
            print(f"{verdict:<9}{seconds:4.0f} s  {mutation.name}", flush=True)
    print(f"{len(mutations) - len(survivors)} of {len(mutations)} caught")
    return survivors


def main(words: Iterable[str]) -> int:
    return int(bool(check(m for m in MUTATIONS if all(word in m.name for word in words))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
