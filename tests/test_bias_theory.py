"""The paper's bias analysis: the formulas, where they hold, and counterexamples where not."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr, ndtri, xlogy
from scipy.stats import norm

from statsmodels_mnar import GreeneSelectionLogit
from statsmodels_mnar.bias_theory import (
    BiasCondition,
    biascorr_bias,
    cortes_bound,
    expected_loss,
    greene_bias,
    soft_probability,
    theorem_terms,
)


def random_problems(seed, count, spread):
    """Selection and outcome probabilities that meet the theorem's condition."""
    rng = np.random.default_rng(seed)
    while count:
        n = int(rng.integers(1, 40))
        p = expit(rng.normal(rng.uniform(-4, 0), spread * rng.random(), n))
        f_hat = expit(rng.normal(rng.uniform(-1, 3), 3 * rng.random(), n))
        s_bar, eta = rng.uniform(0.01, 0.99), 1 - p.mean()
        if BiasCondition(eta, s_bar).holds:
            count -= 1
            yield f_hat, p, s_bar, eta


def losses_of_the_lemmas(f, terms):
    """L*, E[L] and E[L'] as the lemmas have them."""
    return -np.mean(np.log(f)), -np.mean(np.log(terms.greene)), -np.mean(np.log(terms.biascorr))


# -- the formulas ----------------------------------------------------------------------------------


def test_the_lemmas_as_printed():
    rng = np.random.default_rng(0)
    f, f_hat, p, p_hat = rng.uniform(0.05, 0.95, (4, 7))
    s_bar, eta = 0.3, 0.4
    log_greene = log_biascorr = 0.0
    for i in range(7):
        log_greene += np.log(f[i] / (p_hat[i] + p[i] * p_hat[i] * (f_hat[i] - 1)))
        log_biascorr += np.log(f[i] / (p_hat[i] + (p[i] + s_bar * eta) * p_hat[i] * (f_hat[i] - 1)))
    assert greene_bias(f, f_hat, p, p_hat) == pytest.approx(abs(log_greene / 7))
    assert biascorr_bias(f, f_hat, p, p_hat, s_bar, eta) == pytest.approx(abs(log_biascorr / 7))


def test_the_terms_sum_to_the_mean_of_diff():
    for f_hat, p, s_bar, eta in random_problems(1, 200, spread=4):
        terms = theorem_terms(f_hat, p, s_bar, eta)
        extra = s_bar * eta
        by_hand = extra * (1 + (f_hat - 1) * (2 * p + extra))
        np.testing.assert_allclose(terms.diff, by_hand, atol=1e-12)
        assert terms.bound == pytest.approx(by_hand.mean(), abs=1e-12)
        assert terms.term1 == pytest.approx(1 - extra - 2 * (1 - eta))
        assert terms.term2 > 0


def test_the_condition_is_that_term_1_is_positive():
    for s_bar in np.linspace(0.01, 0.99, 20):
        for eta in np.linspace(0.01, 0.99, 40):
            terms = theorem_terms([0.7], [1 - eta], s_bar, eta)
            assert BiasCondition(eta, s_bar).holds == (terms.term1 > 0)


def test_soft_probabilities_integrate_out_the_draws():
    for index, s_bar, rho in [(-0.7, 0.3, 0.0), (0.4, 0.2, 0.6), (-1.5, 0.45, -0.9)]:
        by_quadrature = quad(
            lambda e, b=index, s=s_bar, r=rho: (
                ndtr((2 * s - 1) * (b + r * e) / np.sqrt(1 - r**2)) * norm.pdf(e)
            ),
            -10, 10,
        )[0]  # fmt: skip
        assert soft_probability(index, s_bar, rho) == pytest.approx(by_quadrature, abs=1e-9)


# -- where the theorem holds -----------------------------------------------------------------------


def test_the_inequality_holds_where_every_row_agrees():
    checked = 0
    for f_hat, p, s_bar, eta in random_problems(2, 3_000, spread=4):
        terms = theorem_terms(f_hat, p, s_bar, eta)
        if terms.rowwise:
            checked += 1
            assert terms.difference >= terms.bound - 1e-12 and terms.bound > 0
    assert checked > 1_000


def test_the_theorem_holds_where_selection_has_one_probability():
    """Then the condition holds for every row, so the inequality needs nothing else."""
    for f_hat, p, s_bar, eta in random_problems(3, 2_000, spread=0):
        terms = theorem_terms(f_hat, p, s_bar, eta)
        assert terms.rowwise and terms.difference >= terms.bound > 0


def test_a_loss_below_log_2_stands_in_for_the_proofs_sign_assumption():
    """E[L] + E[L'] > 2 log 2 by Jensen, so the larger expected loss has the larger bias."""
    checked = 0
    for f_hat, p, s_bar, eta in random_problems(4, 3_000, spread=4):
        terms = theorem_terms(f_hat, p, s_bar, eta)
        if not terms.rowwise:
            continue
        f = 1 - 0.5 * f_hat[::-1] * (1 - p)  # need not be f_hat; at least one half
        checked += 1
        _, greene, biascorr = losses_of_the_lemmas(f, terms)
        assert greene + biascorr > 2 * np.log(2)
        smaller = biascorr_bias(f, f_hat, p, p + s_bar * eta, s_bar, eta)
        assert smaller < greene_bias(f, f_hat, p, p)
    assert checked > 1_000


# -- where it does not -----------------------------------------------------------------------------


def test_counterexample_rows_that_are_likely_selected_and_badly_fitted():
    """All the theorem asks for holds, and its conclusion does not."""
    p = np.array([0.95, 0.1375, 0.1375, 0.1375, 0.1375])
    f = np.array([0.14, 0.9, 0.9, 0.9, 0.9])
    s_bar, eta = 0.3, 0.7
    assert p.mean() == pytest.approx(1 - eta) and BiasCondition(eta, s_bar).holds
    terms = theorem_terms(f, p, s_bar, eta)
    star, greene, biascorr = losses_of_the_lemmas(f, terms)
    assert star < np.log(2) and greene > star and biascorr > star  # the proof's signs are right
    assert terms.term1 > 0 and terms.term2 > 0 and terms.bound > 0
    assert terms.diff[0] < 0 and not terms.rowwise
    assert terms.difference < 0 < terms.bound
    assert biascorr_bias(f, f, p, p + s_bar * eta, s_bar, eta) > greene_bias(f, f, p, p)


def test_counterexample_the_lemma_takes_the_log_of_a_negative_number():
    p, f = np.array([0.98, 0.05, 0.05, 0.05]), np.array([0.1, 0.9, 0.9, 0.9])
    s_bar, eta = 0.5, 1 - p.mean()
    assert BiasCondition(eta, s_bar).holds
    terms = theorem_terms(f, p, s_bar, eta)
    assert p[0] + s_bar * eta > 1 and terms.biascorr[0] < 0  # "probabilities" above one
    assert np.isnan(terms.difference)


def test_with_the_selection_model_as_stated_the_comparison_is_reversed():
    """The text assumes p-hat(s') = p; the proof puts p + s-bar eta. Lemma 2 with the former."""
    checked = 0
    for f_hat, p, s_bar, eta in random_problems(5, 2_000, spread=1):
        literal = biascorr_bias(f_hat, f_hat, p, p, s_bar, eta)
        greene_above = np.mean(np.log(f_hat / (p * (1 - p * (1 - f_hat))))) >= 0  # E[L] >= L*
        if greene_above and np.isfinite(literal):
            checked += 1
            assert literal > greene_bias(f_hat, f_hat, p, p)
    assert checked > 1_000


def test_a_row_enters_with_its_own_missing_probability_not_with_eta():
    """E[s'] = p + s-bar (1 - p); the lemma's p + s-bar eta agrees on average only."""
    rng = np.random.default_rng(6)
    p, s_bar = np.array([0.1, 0.2, 0.6, 0.9]), 0.3
    selected = rng.random((200_000, 4)) < p
    simulated = np.where(selected, 1.0, s_bar).mean(axis=0)
    np.testing.assert_allclose(simulated, p + s_bar * (1 - p), atol=0.005)
    lemma = p + s_bar * (1 - p.mean())
    assert np.abs(simulated - lemma).max() > 0.05
    assert simulated.mean() == pytest.approx(lemma.mean(), abs=0.005)


# -- the expectations themselves -------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixed_rows():
    rng = np.random.default_rng(8)
    n = 200
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    W = np.column_stack([X, rng.normal(size=n)])
    y = (rng.random(n) < expit(X @ [0.3, 1.0])).astype(float)
    return y, X, W


def simulated_losses(y, X, W, p, loss, replications):
    """Mean and standard error of a loss over redrawn selections."""
    rng = np.random.default_rng(9)
    values = [loss((rng.random(len(p)) < p).astype(float)) for _ in range(replications)]
    return np.mean(values), np.std(values) / np.sqrt(replications)


@pytest.mark.parametrize("soft_selection", [None, 0.3])
def test_expected_loss_is_the_mean_of_the_packages_objective(fixed_rows, soft_selection):
    """Greene's loss and BiasCorr's, evaluated by the engine on redrawn selections."""
    y, X, W = fixed_rows
    beta, gamma = np.array([0.3, 1.0]), np.array([-0.8, 0.2, 0.3])
    p, f = ndtr(W @ gamma), expit((2 * y - 1) * (X @ beta))
    params = np.r_[beta, gamma, np.log(1e-6), 0.0]  # sigma = rho = 0: a product of the equations
    model = GreeneSelectionLogit(y, X, np.r_[0.0, np.ones(len(y) - 1)], W, normalization="free")

    def loss(s):
        values = s if soft_selection is None else np.where(s == 1, 1.0, soft_selection)
        drawn = model.rebuilt(replace(model.design, y=y, s=values))
        return -drawn.loglike(params) / len(y)

    mean, error = simulated_losses(y, X, W, p, loss, 150)
    if soft_selection is None:
        unlabelled = 1 - p
        lemma = -np.mean(np.log(p * (1 - p * (1 - f))))
    else:
        unlabelled = (1 - soft_selection * (1 - f)) * soft_probability(W @ gamma, soft_selection)
        q = p + soft_selection * (1 - p.mean())
        lemma = -np.mean(np.log(q * (1 - q * (1 - f))))
    assert expected_loss(p, f * p, unlabelled) == pytest.approx(mean, abs=4 * error)
    assert abs(lemma - mean) > 20 * error  # the expectation inside the log


def test_lemma_1_is_exact_for_deterministic_selection():
    """Nothing random is left, and p-hat is the probability of the value that selection takes."""
    rng = np.random.default_rng(10)
    f, f_hat, p_one = rng.uniform(0.1, 0.9, (3, 50))
    p = (rng.random(50) < 0.4).astype(float)
    of_value = np.where(p == 1, p_one, 1 - p_one)
    exact = expected_loss(p, f_hat * p_one, 1 - p_one)
    assert greene_bias(f, f_hat, p, of_value) == pytest.approx(abs(exact + np.mean(np.log(f))))


def test_the_log_of_the_mean_understates_the_loss():
    """Jensen: with one p-hat for both values of s, the lemma's E[L] is never above the mean."""
    for f_hat, p, _, _ in random_problems(11, 300, spread=4):
        lemma = -np.mean(np.log(0.5 * (1 - p * (1 - f_hat))))
        assert lemma <= expected_loss(p, 0.5 * f_hat, np.full(len(p), 0.5)) + 1e-12


def test_draws_shared_by_both_equations_do_not_factorise():
    """f-hat p-hat is the mean of the product only where sigma rho = 0."""
    a, b, sigma, rho = 0.2, -0.4, 1.5, 0.8

    def mean(function):
        return quad(lambda e: function(e) * norm.pdf(e), -10, 10)[0]

    def outcome(e):
        return expit(a + sigma * e)

    def select(e):
        return ndtr((b + rho * e) / np.sqrt(1 - rho**2))

    apart = mean(outcome) * mean(select)
    together = mean(lambda e: outcome(e) * select(e))
    assert together - apart > 0.05


def test_with_exact_expectations_the_simplest_case_contradicts_the_theorem():
    """One probability for all rows, accurate models, right pseudolabels; the condition holds."""
    p, f, s_bar, eta = 0.3, 0.8, 0.3, 0.7
    assert BiasCondition(eta, s_bar).holds
    assert biascorr_bias([f], [f], [p], [p + s_bar * eta], s_bar, eta) < greene_bias(
        [f], [f], [p], [p]
    )
    soft = soft_probability([ndtri(p)], s_bar)
    star = -np.log(f)
    greene = expected_loss([p], [f * p], [1 - p]) - star
    biascorr = expected_loss([p], [f * p], (1 - s_bar * (1 - f)) * soft) - star
    assert 0 < greene < biascorr


def test_biascorrs_exact_loss_is_never_the_smaller_one_where_selection_is_unlikely():
    """p-hat <= 1/2 on all rows: E[L'] >= E[L], so also its bias where E[L] >= L*."""
    checked = 0
    for f_hat, p, s_bar, _ in random_problems(12, 1_000, spread=2):
        p = np.minimum(p, 0.5)
        greene = expected_loss(p, f_hat * p, 1 - p)
        biascorr = expected_loss(
            p, f_hat * p, (1 - s_bar * (1 - f_hat)) * soft_probability(ndtri(p), s_bar)
        )
        assert biascorr >= greene - 1e-12
        entropy = -np.mean(xlogy(p, p) + xlogy(1 - p, 1 - p))
        star = -np.mean(np.log(f_hat))
        if entropy >= -np.mean((1 - p) * np.log(f_hat)):  # E[L] >= L* with f = f_hat
            checked += 1
            assert abs(biascorr - star) >= abs(greene - star) - 1e-12
    assert checked > 200


def test_the_condition_does_not_decide_which_exact_bias_is_smaller():
    """Rare labels that are hard to predict: E[L] < L*, and raising the loss brings it nearer."""

    def biases(p, f, s_bar):
        assert BiasCondition(1 - p, s_bar).holds
        soft = (1 - s_bar * (1 - f)) * soft_probability([ndtri(p)], s_bar)
        greene, biascorr = expected_loss([p], [f * p], [1 - p]), expected_loss([p], [f * p], soft)
        return abs(greene + np.log(f)), abs(biascorr + np.log(f))

    greene, biascorr = biases(0.3, 0.8, 0.3)
    assert biascorr > greene
    greene, biascorr = biases(0.02, 0.5, 0.3)
    assert biascorr < greene


# -- the bound of Cortes et al. --------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_bound_holds_for_rows_drawn_from_the_unbiased_sample(delta):
    rng = np.random.default_rng(13)
    share = np.array([0.05, 0.15, 0.3, 0.5])
    select = np.array([0.5, 0.9, 0.2, 0.6])
    n, replications = 2_000, 400
    b = rng.multinomial(n, share, size=replications)
    a = rng.binomial(b, select)
    bound = cortes_bound(4, share.min() * n, delta)
    worst = np.abs(a / b - select).max(axis=1)
    assert np.mean(worst > bound) <= delta
    assert worst.max() > 0.3 * bound  # the bound says something


def test_the_bound_as_printed():
    assert cortes_bound(7, 30, 0.1) == pytest.approx(np.sqrt((np.log(14) + np.log(10)) / 30))


# -- errors ----------------------------------------------------------------------------------------


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="shapes"):
        greene_bias([0.5, 0.5], [0.5], [0.5], [0.5])
    with pytest.raises(ValueError, match="f_hat must hold probabilities"):
        greene_bias([0.5], [1.5], [0.5], [0.5])
    with pytest.raises(ValueError, match="soft_selection=2"):
        biascorr_bias([0.5], [0.5], [0.5], [0.5], 2, 0.5)
    with pytest.raises(ValueError, match="eta=-1"):
        theorem_terms([0.5], [0.5], 0.5, -1)
    with pytest.raises(ValueError, match="rarest=0"):
        cortes_bound(3, 0)
    with pytest.raises(ValueError, match="delta=0"):
        cortes_bound(3, 3, 0)
