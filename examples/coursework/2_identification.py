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
# # Problem set 2: what can the data tell?
#
# A selection model always returns numbers. This set asks which of them are in the data and which
# are in the assumptions. The tools are profile likelihoods, the faces of the model, and
# sensitivity analysis.
#
# The data are Greene's 13,444 credit card applications if the loader finds them (set the
# environment variable `STATSMODELS_MNAR_DATA`, see the documentation on data sets), otherwise
# Fair's survey with a documented mask, which statsmodels ships. All text below speaks of "the
# outcome" and "being labelled", so that it fits both.
#
# With `--short` the file uses a part of the rows and coarser grids.

# %%
import sys
import warnings

import numpy as np
import pandas as pd

from statsmodels_mnar import (
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    ProbitSelection,
    exclusion_test,
)
from statsmodels_mnar.datasets import load_credit_card, load_fair

SHORT = "--short" in sys.argv


def read():
    """The data, the two sides' columns, the excluded ones, and the variable of interest."""
    try:
        data = load_credit_card()
    except FileNotFoundError:
        data = load_fair()
        both = ["rate_marriage", "age", "yrs_married", "religious", "educ"]
        return "Fair's survey", data, "y", "s", both, ["reminder"], "religious"
    data = data.assign(income=data.INCOME / 1_000, years=data.ACADMOS / 12)
    both = ["AGE", "income", "OWNRENT", "ADEPCNT", "SELFEMPL", "MAJORDRG", "MINORDRG", "ACBINQ"]
    both += ["TRADACCT", "years"]
    excluded = ["CREDMAJR", "BANKSAV", "BANKBOTH"]
    return "Card applications", data, "DEFAULT", "CARDHLDR", both, excluded, "MAJORDRG"


name, data, outcome, select, both, excluded, variable = read()
if SHORT:
    data = data.sample(2_000, random_state=0).sort_index()
formula = f"{outcome} ~ {' + '.join(both)}"
select_formula = f"{select} ~ {' + '.join(both + excluded)}"
print(f"{name}: {len(data):,} rows, {data[select].mean():.1%} labelled")

# %% [markdown]
# ## Question 1: how did the fit end?
#
# Fit the model with sigma and rho both free, `normalization="free"`. What does `results.status`
# say? Fit it again by default (the loading form), with `{"sigma": 1.0}`, and as
# `ProbitSelection`, and put
# log-likelihood, `error_corr`, the coefficient and the average marginal effect of the variable of
# interest side by side.
#
# *Hint.* The four are the same model with different restrictions; how far apart are their
# log-likelihoods?
#
# *A good answer* says which columns of the table may be compared across rows, and quantifies how
# much the choice of normalization matters for those and for the others.

# %% tags=["solution"]
fits = {
    "free": GreeneSelectionLogit.from_formula(
        formula, select_formula, data, normalization="free"
    ).fit(),
    "loading": GreeneSelectionLogit.from_formula(formula, select_formula, data).fit(),
    "sigma = 1": GreeneSelectionLogit.from_formula(
        formula, select_formula, data, normalization={"sigma": 1.0}
    ).fit(),
    "probit": ProbitSelection.from_formula(formula, select_formula, data).fit(),
}
print(f"Free form: {fits['free'].status.value}.")
rows = {}
for key, fit in fits.items():
    effect = fit.get_margeff().summary_frame().loc[variable]
    rows[key] = {
        "loglik": fit.llf,
        "error_corr": fit.dependence["estimate"].iloc[-1],
        "coefficient": fit.params[variable],
        "effect": effect.iloc[0],
        "std err": effect.iloc[1],
        "share of ones": fit.predict().mean(),
    }
table = pd.DataFrame(rows).T
print(table.round(4).to_string())
spread = np.ptp(table.coefficient) / abs(table.coefficient.mean())
errors = np.ptp(table.effect) / table["std err"].mean()
print(
    f"The log-likelihoods are within {np.ptp(table.loglik):.2f} of each other. The coefficient "
    f"varies by {spread:.0%} between normalizations, the effect by {errors:.2f} standard errors."
)

# %% [markdown] tags=["solution"]
# Coefficients are in units of the outcome's own error, whose size the normalization decides.
# Probabilities, and with them effects and shares, are what the likelihood sees. Where the
# log-likelihoods differ by more than a unit or two the data have a say about the shape of the
# link after all, and then effects may differ too; compare that with their standard errors. (With
# sigma = 1 the error correlation cannot exceed 0.483 in size. Where the data ask for more, that
# row is the odd one out.)

# %% [markdown]
# ## Question 2: profile likelihoods
#
# Profile `rho`, `sigma` and `error_corr` of the free fit. Which intervals are open, that is,
# never fall below the cut? Say in one sentence each what the data know about the three.
#
# *Hint.* `results.profile(name)`; print it. `results.plot_profile(name)` draws it.
#
# *A good answer* distinguishes "zero is in the interval" from "the interval is open", and does
# not call a point estimate of rho a finding.

# %% tags=["solution"]
free = fits["free"]
widths = {}
for quantity in ("error_corr",) if SHORT else ("error_corr", "rho", "sigma"):
    profile = free.profile(quantity)
    print(profile)
    widths[quantity] = profile.interval
low, high = widths["error_corr"]
zero = low <= 0 <= high
print(
    f"The error correlation lies between {low:.2f} and {high:.2f}: "
    f"{'ignorable selection is among the possibilities' if zero else 'selection is not ignorable'}."
)

# %% [markdown]
# ## Question 3: the report
#
# Read `identification_report()`. Which direction of the parameter space is weakest, and what is
# its meaning?
#
# *Hint.* `report.weakest` has the parameters' weights in that direction; those with large
# weights move together. Which change of the intercept makes up for more dependence?
#
# *A good answer* names the trade-off in words: which change of which parameters would the data
# hardly notice?

# %% tags=["solution"]
report = fits["loading"].identification_report()
print(report)
heaviest = report.weakest.abs().sort_values(ascending=False).index[:2]
print(f"The data would hardly notice {heaviest[0]} and {heaviest[1]} moving together like that.")

# %% [markdown]
# ## Question 4: how much of this is the exclusion restriction?
#
# Test the strength of the excluded columns. Then move them into the outcome equation too, so that
# only functional form identifies the model, and compare the profile intervals of `error_corr`.
#
# *Hint.* A `NoExclusionRestrictionWarning` is expected; silence it around that one fit only.
#
# *A good answer* argues for or against the restriction on substantive grounds: no test here can
# do it.

# %% tags=["solution"]
print(exclusion_test(fits["loading"]))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", NoExclusionRestrictionWarning)
    without = GreeneSelectionLogit.from_formula(
        f"{outcome} ~ {' + '.join(both + excluded)}", select_formula, data
    ).fit()
    bare = without.profile("error_corr").interval
kept = fits["loading"].profile("error_corr").interval
print(f"With the restriction    {kept[0]:.2f} to {kept[1]:.2f}")
print(f"Without the restriction {bare[0]:.2f} to {bare[1]:.2f}")
ratio = (bare[1] - bare[0]) / (kept[1] - kept[0])
apart = bare[0] > kept[1] or bare[1] < kept[0]
print(f"The second is {ratio:.1f} times as long{', and they do not overlap' if apart else ''}.")
if apart:
    print(
        "Then the two models disagree about the sign or size of selection: the restriction decides."
    )

# %% [markdown]
# ## Question 5: sensitivity
#
# For the effect of the variable of interest and for the share of ones in the population: fix the
# error correlation at a grid of values, refit, and find the tipping points. Then ask the same of
# the share without the selection model, by `delta`.
#
# *Hint.* `results.sensitivity(error_corr=..., target="margeff", variable=...)`,
# `target="prevalence"`, `delta=...`.
#
# *A good answer* ends with a sentence that could stand in a paper: what is robust, up to which
# dependence, and whether the data support dependences beyond it.

# %% tags=["solution"]
grid = np.linspace(-0.8, 0.8, 5 if SHORT else 17)
effect = fits["loading"].sensitivity(error_corr=grid, target="margeff", variable=variable)
print(effect)
share = fits["loading"].sensitivity(error_corr=grid, target="prevalence")
print(share)
print(fits["loading"].sensitivity(delta=[-1.0, 0.0, 1.0], target="prevalence"))
inside = [at for at in effect.tipping["at"] if kept[0] <= at <= kept[1]]
if len(effect.tipping) == 0:
    print(f"The effect of {variable} keeps sign and significance at every error correlation tried.")
elif inside:
    print(f"The effect of {variable} changes its verdict at a dependence that the data support.")
else:
    print(
        f"The effect of {variable} changes its verdict only where the data reject the dependence."
    )

# %% [markdown]
# ## Question 6: the truth, if there is one
#
# With Fair's survey all labels are known to the loader (`y_full`). Compare the share of ones with
# the interval of the model and of the naive logit. With the card applications nobody knows: say
# which data you would collect to find out.
#
# *Hint.* An interval that misses the truth in one data set proves nothing; how often should it
# miss? For a share of 5% known to within one point, how many of the rejected must be accepted?
#
# *A good answer* for the cards: labels for a random part of the rejected, and what that would
# cost.

# %% tags=["solution"]
average = fits["loading"].get_prediction(average=True).summary_frame().iloc[0]
print(f"Model: {average.predicted:.3f} [{average.ci_lower:.3f}, {average.ci_upper:.3f}]")
print(f"Labelled rows: {data[outcome].mean():.3f}")
if "y_full" in data:
    truth = data.y_full.mean()
    hit = average.ci_lower <= truth <= average.ci_upper
    print(f"Truth: {truth:.3f}, {'inside' if hit else 'outside'} the model's interval.")
