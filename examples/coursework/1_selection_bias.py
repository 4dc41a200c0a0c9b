# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Problem set 1: selection bias, and Greene's model, by simulation
#
# A bank lends to some applicants and sees default only for them. You will make such data
# yourself, so that the truth is known, and find out what a logit of the labelled rows estimates,
# whether more data or weights help, and what a selection model gains.
#
# The model: $y = 1$ with probability $L(x'\beta + \lambda u)$ and the label is seen when
# $w'\gamma + u > 0$, with $u$ standard normal. The same $u$ is in both equations; $\lambda$ is
# called the *loading*.
#
# Every answer should say what the numbers show *and* why. Where they come from simulated data sets,
# all problem sets use one rule: a difference counts if it is larger than two Monte Carlo errors.
# With `--short` this file runs in seconds, with fewer replications.

# %%
import sys

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

from statsmodels_mnar import GreeneSelectionLogit, monte_carlo
from statsmodels_mnar.baselines import IPWLogit
from statsmodels_mnar.datasets import simulate_greene

SHORT = "--short" in sys.argv
OUTCOME, SELECT = "y ~ x1 + x2", "s ~ x1 + x2 + z"


def naive(data):
    """A logit of the labelled rows."""
    return smf.logit(OUTCOME, data[data.s == 1]).fit(disp=0)


def greene(data):
    return GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data)


# %% [markdown]
# ## Question 1: look at the bias
#
# Simulate 5,000 rows with `simulate_greene(5_000, rng=0)`; its docstring has the equations.
# Compare the share of ones among labelled rows and among all rows (`y_full`), and the naive logit
# with a logit of all labels. Then do the same with `loading=-1.5`. In which direction are
# intercept and slope of `x1` off, and why?
#
# *Hint.* Among labelled rows with a low `x1`, what must `u` have been?
#
# *A good answer* explains both signs from $E[u \mid x, s = 1]$: its level moves the intercept,
# its slope in `x1` the coefficient of `x1`.

# %% tags=["solution"]
rows = {}
for loading in (1.5, -1.5):
    data = simulate_greene(5_000, loading=loading, rng=0).data
    oracle = smf.logit("y_full ~ x1 + x2", data).fit(disp=0)
    rows[f"loading {loading}, labelled"] = {"ones": data.y.mean(), **naive(data).params}
    rows[f"loading {loading}, all labels"] = {"ones": data.y_full.mean(), **oracle.params}
table = pd.DataFrame(rows).T
print(table.round(3).to_string())
for loading in (1.5, -1.5):
    off = table.loc[f"loading {loading}, labelled"] - table.loc[f"loading {loading}, all labels"]
    print(
        f"Loading {loading}: the intercept is too {'high' if off.Intercept > 0 else 'low'} by "
        f"{abs(off.Intercept):.2f}, the slope of x1 too {'high' if off.x1 > 0 else 'low'} by "
        f"{abs(off.x1):.2f}."
    )

# %% [markdown] tags=["solution"]
# The mean of $u$ given selection is positive and falls with the selection index: rows with a high
# `x1` are selected whatever their $u$, rows with a low `x1` only if $u$ is large. Times a
# positive loading it adds to the index of the outcome, more so at low `x1`: the intercept is too
# high and the slope too small. A negative loading turns both signs. (Even the logit of *all*
# labels has smaller coefficients than the simulation: it does not condition on $u$. The truth to
# compare with is the second row, or effects on probabilities.)

# %% [markdown]
# ## Question 2: does more data help? Do weights?
#
# Repeat the naive logit with 2,000, 20,000 and 200,000 rows. Then weight the labelled rows by the
# inverse of the selection probability (`IPWLogit`).
#
# *Hint.* What would weights need to know?
#
# *A good answer* separates bias from sampling error and says which assumption of IPW fails.

# %% tags=["solution"]
sizes = (2_000, 20_000) if SHORT else (2_000, 20_000, 200_000)
rows = {}
for n in sizes:
    data = simulate_greene(n, rng=1).data
    fit = naive(data)
    weighted = IPWLogit.from_formula(OUTCOME, SELECT, data).fit()
    rows[n] = {
        "intercept": fit.params["Intercept"],
        "std err": fit.bse["Intercept"],
        "IPW intercept": weighted.params["Intercept"],
        "share, naive": fit.predict(data).mean(),
        "share, IPW": weighted.predict().mean(),
        "share, truth": data.y_full.mean(),
    }
table = pd.DataFrame(rows).T
print(table.round(3).to_string())
first, last = table.iloc[0], table.iloc[-1]
print(
    f"From {sizes[0]:,} to {sizes[-1]:,} rows the standard error falls from {first['std err']:.3f} "
    f"to {last['std err']:.3f}; the share of ones is still off by "
    f"{last['share, naive'] - last['share, truth']:+.3f}."
)
worse = abs(last["share, IPW"] - last["share, truth"]) > abs(
    last["share, naive"] - last["share, truth"]
)
print(f"Weighting makes the share {'worse' if worse else 'better'}.")

# %% [markdown] tags=["solution"]
# The naive logit converges, to the wrong value. IPW assumes that selection is independent of $y$
# given $w$; here it is not. Its weights are large for rows with a low $z$, which were selected
# because their $u$ is high: it gives the most weight to the least typical rows.

# %% [markdown]
# ## Question 3: Greene's model
#
# Fit `GreeneSelectionLogit` to 5,000 rows. Report the average marginal effects and the share of
# ones with intervals, beside those of the oracle; test that selection is ignorable.
#
# *Hint.* `get_margeff()`, `get_prediction(average=True)`, `test_independence()`.
#
# *A good answer* compares effects, not coefficients, and knows why.

# %% tags=["solution"]
data = simulate_greene(5_000, rng=0).data
results = greene(data).fit()
oracle = smf.logit("y_full ~ x1 + x2", data).fit(disp=0)
effects = results.get_margeff().summary_frame()
effects["oracle"] = oracle.get_margeff(dummy=True).margeff
print(effects.drop(columns=["z", "Pr(>|z|)"]).round(4).to_string())
share = results.get_prediction(average=True).summary_frame().iloc[0]
covered = share.ci_lower <= data.y_full.mean() <= share.ci_upper
print(
    f"Share of ones {share.predicted:.3f} [{share.ci_lower:.3f}, {share.ci_upper:.3f}], in truth "
    f"{data.y_full.mean():.3f}: {'inside' if covered else 'outside'}."
)
test = results.test_independence()
print(test)
print(
    "Selection is not ignorable." if test.pvalue < 0.05 else "Ignorable selection is not rejected."
)

# %% [markdown] tags=["solution"]
# Coefficients of the selection model are given $u$, those of the oracle logit are not: they
# differ even with infinite data. Average effects on $P(y = 1 \mid x)$ mean the same in both.

# %% [markdown]
# ## Question 4: is one data set luck? A Monte Carlo experiment
#
# Use `monte_carlo` with 200 data sets of 2,000 rows to compare bias, root mean squared error and
# coverage of the naive logit, the oracle and Greene's model, for the average marginal effect of
# `x1`. Compute the true effect by simulation.
#
# *Hint.* `quantities` tells `monte_carlo` what to read from a fit. The true effect is $\beta_1
# E[L'(x'\beta + \lambda u)]$. An estimator that returns a model, not a fit, is fitted for all
# data sets as one batch.
#
# *A good answer* explains why not the coefficient (what does the oracle logit estimate?), and
# uses the Monte Carlo errors: a coverage of 93% in 200 data sets, whose error is 1.5 points, is not
# different from 95%.

# %% tags=["solution"]
n_rep = 10 if SHORT else 200


def oracle_logit(data):
    return smf.logit("y_full ~ x1 + x2", data).fit(disp=0)


def effect_of_x1(results):
    frame = results.get_margeff().summary_frame().loc[["x1"]]
    names = ["estimate", "std_error", "conf_low", "conf_high"]
    return frame.iloc[:, [0, 1, 4, 5]].set_axis(names, axis=1)


rng = np.random.default_rng(0)
x1, u = rng.standard_normal((2, 1_000_000))
x2 = rng.random(1_000_000) < 0.5
p = 1.0 / (1.0 + np.exp(0.5 - x1 + 0.7 * x2 - 1.5 * u))
truth = 1.0 * np.mean(p * (1.0 - p))
run = monte_carlo(
    lambda rng: simulate_greene(2_000, rng=rng),
    {"naive": naive, "oracle": oracle_logit, "Greene": greene},
    n_rep,
    rng=0,
    truth={"x1": truth},
    quantities=effect_of_x1,
)
table = run.table.droplevel("parameter")
columns = ["truth", "mean", "bias", "bias_mcse", "rmse", "coverage", "coverage_mcse"]
print(table[columns].round(4).to_string())
error = np.sqrt(0.95 * 0.05 / n_rep)  # of a coverage, if it is 95%
for name, row in table.iterrows():
    words = "biased" if abs(row.bias) > 2 * row.bias_mcse else "no bias beyond Monte Carlo error"
    agrees = abs(row.coverage - 0.95) <= 2 * error
    print(
        f"{name}: {words}; intervals cover in {row.coverage:.1%}, which "
        f"{'agrees' if agrees else 'does not agree'} with 95% (two errors are {2 * error:.1%})."
    )

# %% [markdown] tags=["solution"]
# The coefficient of `x1` in the simulation is 1.0 *given u*. A logit that does not know $u$
# estimates a smaller number even with all labels, so comparing the naive coefficient with 1.0
# would blame selection for something else.
#
# The oracle is right by construction. That it shows a bias of two Monte Carlo errors and covers in
# 91% says that these 200 data sets are unusual ones: chance breaks the rule of two errors in one
# of twenty comparisons, and those of this table are not independent, because all methods see the
# same data sets. Greene's model is to be judged beside the oracle. In 1,000 data sets the oracle's
# intervals cover in 94.7% and those of Greene's model in 94.4%, without bias in either. (The
# intervals take the covariates as given and the truth is an average over the population, which
# makes them too short in principle; here standard errors differ from the standard deviation of
# the estimates by one per cent.)

# %% [markdown]
# ## Question 5: size and power
#
# How often does the Wald test of `loading = 0` reject at the 5% level when selection is
# ignorable, and when the loading is 0.5 or 1? Read the rejection rates from
# `run.table.rejection`. How many rows would you want for a power of 80% at a loading of 0.5?
#
# *Hint.* A share $p$ of $B$ data sets has the error $\sqrt{p(1-p)/B}$. For 80% power the
# parameter must lie $1.96 + 0.84$ standard errors from zero.
#
# *A good answer* gives size with its Monte Carlo error and reasons with $\sqrt n$ for the last
# part.

# %% tags=["solution"]
rates = {}
for loading in (0.0, 0.5, 1.0):
    power = monte_carlo(
        lambda rng, loading=loading: simulate_greene(2_000, loading=loading, rng=rng),
        {"Greene": greene},
        n_rep,
        rng=1,
    )
    rates[loading] = power.table.loc[
        ("Greene", "loading"), ["rejection", "rejection_mcse", "mean_se"]
    ]
rates = pd.DataFrame(rates).T
print(rates.round(3).to_string())
error = np.sqrt(0.05 * 0.95 / n_rep)  # of the share, if the size is 5%
inside = abs(rates.rejection[0.0] - 0.05) <= 2 * error
words = "inside" if inside else "outside"
print(f"Size {rates.rejection[0.0]:.3f}: {words} 5% plus and minus two errors of {error:.3f}.")
needed = 2_000 * ((1.96 + 0.84) * rates.mean_se[0.5] / 0.5) ** 2
print(f"For 80% power at 0.5 the standard error must be 0.5/2.8 = 0.18: about {needed:,.0f} rows.")

# %% [markdown] tags=["solution"]
# A rejection rate without its error says nothing about the size of a test: with 200 data sets
# anything from 2% to 8% agrees with 5%. Standard errors fall with $\sqrt n$, so the number of rows
# is multiplied by the square of the ratio of the standard error at hand to the one needed. The
# one at hand must be that at a loading of 0.5: it is not the same at zero.

# %% [markdown]
# ## Question 6: what if the model is wrong?
#
# Leave the exclusion restriction out (selection on `x1 + x2` only, so that $z$ becomes part of
# $u$), or draw the outcome from another link, or make $u$ skewed. Pick one, predict what happens,
# then run it.
#
# *Hint.* The model takes $P(s = 1)$ and $E[u \mid s = 1]$ from the normal distribution. Where, as
# a function of the selection index, is the distribution of your $u$ furthest from it?
#
# *A good answer* states the prediction before the numbers, and does not stop at "it gets worse":
# which quantities suffer, effects or shares or standard errors?

# %% tags=["solution"]
rng = np.random.default_rng(0)
rows = {}
for name in ("normal", "skewed"):
    n = 5_000 if SHORT else 50_000
    x, z = rng.standard_normal((2, n))
    u = rng.standard_normal(n) if name == "normal" else rng.exponential(size=n) - 1.0
    frame = pd.DataFrame({"x": x, "z": z, "s": (0.3 + 0.5 * x + 0.9 * z + u > 0).astype(int)})
    p = 1.0 / (1.0 + np.exp(0.5 - x - 1.5 * u))
    frame["y_full"] = (rng.random(n) < p).astype(float)
    frame["y"] = frame.y_full.where(frame.s == 1)
    fit = GreeneSelectionLogit.from_formula("y ~ x", "s ~ x + z", frame).fit()
    plain = smf.logit("y ~ x", frame[frame.s == 1]).fit(disp=0)
    truth = smf.logit("y_full ~ x", frame).fit(disp=0)
    rows[name] = {
        "share, truth": frame.y_full.mean(),
        "share, naive": plain.predict(frame).mean(),
        "share, Greene": fit.predict().mean(),
        "effect, truth": truth.get_margeff().margeff[0],
        "effect, Greene": fit.get_margeff().margeff[0],
    }
table = pd.DataFrame(rows).T
print(table.round(3).to_string())
skewed = table.loc["skewed"]
errors = {
    name: abs(skewed[f"share, {name}"] - skewed["share, truth"]) for name in ("naive", "Greene")
}
verdict = "still better than none" if errors["Greene"] < errors["naive"] else "worse than none"
print(
    f"With a skewed error Greene's share is off by {errors['Greene']:.3f}, the naive one by "
    f"{errors['naive']:.3f}: the wrong selection model is {verdict} here."
)

# %% [markdown] tags=["solution"]
# With another $u$ both the probability of selection and $E[u \mid s = 1]$ have another shape in
# the selection index, and the model bends what it can, intercepts and loading, to fit them. In
# the full run share and effect are both off by about 0.01, which is more for the effect: the
# level of the correction is learned from all labelled rows, its slope in $x$ only from the shape.
# The standard errors take the model as right and know nothing of this.
