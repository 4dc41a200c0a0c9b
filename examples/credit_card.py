"""Reject inference on Greene's credit card applications: default is seen only for card holders.

python examples/credit_card.py --data FOLDER --out FIGURES

FOLDER has AmEx.csv (see statsmodels_mnar.datasets.load_credit_card); without it the loader's own
places are searched. Without --out no figures are made.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

from statsmodels_mnar import (
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    compare,
    exclusion_test,
    vuong_test,
)
from statsmodels_mnar.comparison import plot_coefficients
from statsmodels_mnar.datasets import load_credit_card

APPLICANT = ("AGE", "income", "income_head", "OWNRENT", "ADEPCNT", "SELFEMPL")
REPORTS = ("MAJORDRG", "MINORDRG", "ACBINQ")  # derogatory reports and inquiries
STANDING = ("TRADACCT", "years_address")  # open trade accounts, years at the address
ELSEWHERE = ("CREDMAJR", "BANKSAV", "BANKBOTH")  # major card, savings account, both accounts
FORM = "loading"  # the selection error itself enters the default equation
GRID = np.linspace(-0.8, 0.8, 17)


def read(folder: str | None) -> pd.DataFrame:
    """The applications, money in thousands of dollars a year and time in years."""
    try:
        data = load_credit_card(folder)
    except FileNotFoundError as error:
        sys.exit(f"This example needs Greene's credit card data. {error}")
    return data.assign(
        income=data.INCOME / 1_000, income_head=data.INCPER / 1_000, years_address=data.ACADMOS / 12
    )


def formulas(excluded: tuple[str, ...]) -> tuple[str, str]:
    """Card holding on everything, default on everything but ``excluded``."""
    everything = (*APPLICANT, *REPORTS, *STANDING, *ELSEWHERE)
    outcome = [name for name in everything if name not in excluded]
    return f"DEFAULT ~ {' + '.join(outcome)}", f"CARDHLDR ~ {' + '.join(everything)}"


def fit(data: pd.DataFrame, excluded: tuple[str, ...], form: str = FORM) -> Any:
    return GreeneSelectionLogit.from_formula(*formulas(excluded), data, normalization=form).fit()


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def show(table: pd.DataFrame, digits: int = 4) -> None:
    print(table.round(digits).to_string())


def per_cent(row: pd.Series) -> str:
    return f"{row.predicted:.1%} (95% interval {row.ci_lower:.1%} to {row.ci_upper:.1%})"


def default_rates(results: Any, data: pd.DataFrame) -> pd.DataFrame:
    """Mean predicted probability of default of all applicants, card holders and rejected ones."""
    got_card = data.CARDHLDR == 1
    averages = {
        "all": results.get_prediction(average=True),
        "card holders": results.get_prediction(data[got_card], which="mean-selected", average=True),
        "rejected": results.get_prediction(data[~got_card], which="mean-unselected", average=True),
    }
    return pd.concat([mean.summary_frame() for mean in averages.values()]).set_axis(list(averages))


def exclusion_table(data: pd.DataFrame) -> pd.DataFrame:
    """Error correlation and default among the rejected, for what default is assumed to lack."""
    choices = {
        "accounts elsewhere": ELSEWHERE,
        "and standing": (*ELSEWHERE, *STANDING),
        "and reports": (*ELSEWHERE, *STANDING, *REPORTS),
        "nothing": (),
    }
    rows = {}
    for name, excluded in choices.items():
        with warnings.catch_warnings():  # the last choice is there to show what it does
            warnings.simplefilter("ignore", NoExclusionRestrictionWarning)
            results = fit(data, excluded)
        rejected = default_rates(results, data).loc["rejected"]
        rows[name] = {
            "loglik": results.llf,
            "error_corr": results.error_corr,
            "p(indep)": results.test_independence().pvalue,
            "rejected": rejected.predicted,
            "ci_lower": rejected.ci_lower,
            "ci_upper": rejected.ci_upper,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("default lacks")


def analyse(data: pd.DataFrame) -> dict[str, Any]:
    """Print the analysis; return what the figures need."""
    got_card = data.CARDHLDR == 1
    heading("1. The data")
    counts = f"{len(data):,} applications, {got_card.sum():,} cards"
    print(f"{counts}, {data.DEFAULT.sum():,.0f} defaults.")
    print(f"Default is seen for card holders, of whom {data.DEFAULT.mean():.1%} defaulted.")

    heading("2. The model")
    results = fit(data, ELSEWHERE)
    print(f"Status: {results.status.value}.")
    print(exclusion_test(results))
    print(
        "That they move selection can be tested. That they do not move default cannot: section 6."
    )

    heading("3. Is selection ignorable?")
    test = results.test_independence()
    print(test)
    print(results.identification_report())
    if test.pvalue < 0.05:
        side = "more" if results.error_corr > 0 else "less"
        print(
            f"So what won a card beyond these columns goes with {side} default, and the rejected "
            f"default {'less' if side == 'more' else 'more'} often than card holders like them."
        )
    else:
        print("So the data do not tell card holders and rejected applicants like them apart.")

    heading("4. Average marginal effects on the probability of default")
    effects = [results.get_margeff(which=which) for which in ("mean", "mean-unselected")]
    names = list(effects[0].names)
    columns = {"all applicants": effects[0], "rejected": effects[1]}
    table = {key: each.summary_frame().iloc[:, :2].loc[names] for key, each in columns.items()}
    show(pd.concat(table, axis=1))
    print("Thousands of dollars and years; the rest in units of the columns.")

    heading("5. Default among the rejected")
    rates = default_rates(results, data)
    show(rates)
    naive = fit(data, ELSEWHERE, "independent")
    guess = default_rates(naive, data).loc["rejected"]
    print(f"Rejected applicants:         {per_cent(rates.loc['rejected'])}.")
    print(f"The card holders' own logit: {per_cent(guess)}.")
    apart = (
        rates.ci_upper["rejected"] < guess.predicted or rates.ci_lower["rejected"] > guess.predicted
    )
    print(f"The second lies {'outside' if apart else 'inside'} the first's interval.")

    heading("6. What that rests on: the exclusion restriction")
    restrictions = exclusion_table(data)
    show(restrictions)
    low, high = restrictions.rejected.min(), restrictions.rejected.max()
    print(
        f"Default among the rejected: {low:.1%} to {high:.1%}, by what default is assumed to lack."
    )
    ratio = 2.0 * (restrictions.loglik["nothing"] - restrictions.loglik["accounts elsewhere"])
    p = chi2.sf(ratio, len(ELSEWHERE))
    print(
        f"Letting the accounts elsewhere into the default equation: chi2({len(ELSEWHERE)}) = "
        f"{ratio:.1f}, {'p < 0.0001' if p < 0.0001 else f'p = {p:.4f}'}."
    )
    if p < 0.05:
        print("The data speak against this restriction too, as far as the model's form is right.")

    heading("7. How much dependence would change the conclusion?")
    found = results.sensitivity(error_corr=GRID, target="margeff", variable="MAJORDRG")
    print(found)
    low, high = results.profile("error_corr").interval
    inside = [at for at in found.tipping["at"] if low <= at <= high]
    if inside:
        where = " and ".join(f"{at:.2f}" for at in inside)
        print(f"{where}: among the values that the data do not reject ({low:.2f} to {high:.2f}).")
    else:
        print(f"No tipping point where the data do not reject ({low:.2f} to {high:.2f}).")

    heading("8. Other methods")
    models = ("naive", "ipw", "probit", "greene")
    fits = compare(*formulas(ELSEWHERE), data, models, normalization=FORM)
    show(fits.margeff.xs("AME", axis=1, level=1))
    show(fits.fit[["prevalence", "prevalence std err", "error_corr", "aic"]])

    print(vuong_test(fits.results["greene"], fits.results["probit"]))

    heading("9. A scorecard of the card holders, on everybody who came through the door")
    metrics = results.population_metrics(naive.predict())
    show(metrics.summary_frame())
    large = metrics.summary_frame().loc["calibration_in_the_large"]
    if large.ci_lower <= 0.0 <= large.ci_upper:
        print("Over all applicants its mean is not distinguishable from the default rate.")
    else:
        word = "too low" if large.estimate > 0 else "too high"
        points = 100.0 * abs(large.estimate)
        print(f"Over all applicants it is {word} by {points:.1f} percentage points on average.")
    return {"results": results, "effects": effects, "sensitivity": found, "fits": fits}


TITLES = {
    "profile": "The data reject independence of the two errors",
    "sensitivity": "At values that the data support, the effect may vanish",
    "prevalence": "The more the errors agree, the fewer applicants would default",
    "income": "Default falls with income, with a card or without",
    "reports": "With many reports, default differs most by who got a card",
    "effects": "Inquiries and minor reports raise default in both groups",
    "models": "The holders' own logit makes too much of major reports",
    "calibration": "Card holders default about as often as predicted",
    "trace": "Newton's steps are small on the way and exact near the maximum",
}


def figures(found: dict[str, Any], folder: Path) -> None:
    """Save the pictures of the analysis."""
    results = found["results"]
    pictures = {
        "profile": lambda: results.plot_profile("error_corr"),
        "sensitivity": lambda: results.plot_sensitivity(found["sensitivity"]),
        "prevalence": lambda: results.plot_sensitivity(error_corr=GRID, target="prevalence"),
        "income": lambda: results.plot_probabilities("income"),
        "reports": lambda: results.plot_probabilities("MAJORDRG", range(6)),
        "effects": lambda: results.plot_margeff(found["effects"]),
        "models": lambda: plot_coefficients(found["fits"], "margeff"),
        "calibration": lambda: results.plot_calibration(),
        "trace": lambda: results.plot_trace(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in pictures.items():
        figure = draw().figure
        figure.suptitle(TITLES[name])
        figure.savefig(folder / f"{name}.png", dpi=100)
    print(f"\n{len(pictures)} figures in {folder}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with AmEx.csv")
    parser.add_argument("--out", type=Path, help="folder for figures")
    options = parser.parse_args(arguments)
    found = analyse(read(options.data))
    if options.out is not None:
        figures(found, options.out)


if __name__ == "__main__":
    main()
