"""What ``python -m statsmodels_mnar demo`` shows."""

from __future__ import annotations

import pandas as pd
from statsmodels.discrete.discrete_model import Logit

from .datasets import simulate_greene
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection


def demo(n: int = 5_000, seed: int = 0) -> str:
    """Fit the models to simulated data and put the estimates beside the truth.

    Examples
    --------
    >>> print(demo(2_000).splitlines()[0])
    Labels missing not at random: 2,000 applications, 1,205 labelled.
    """
    if n < 500:
        raise ValueError(f"rows={n} is too few for the demonstration; use 500 or more")
    simulated = simulate_greene(n, rng=seed)
    data, truth = simulated.data, simulated.truth
    formulas = (simulated.formula, simulated.select_formula)
    labelled = data[data.s == 1]
    naive = Logit.from_formula(simulated.formula, labelled).fit(disp=False)
    oracle = Logit.from_formula("y_full ~ x1 + x2", data).fit(disp=False)
    loading = GreeneSelectionLogit.from_formula(*formulas, data, normalization="loading").fit()
    free = GreeneSelectionLogit.from_formula(*formulas, data).fit()
    probit = ProbitSelection.from_formula(*formulas, data).fit()
    biascorr = BiasCorrLogit.from_formula(*formulas, data, normalization={"sigma": 1.0}).fit()

    terms = list(naive.params.index)
    coefficients = pd.DataFrame(
        {"truth": [truth[name] for name in terms], "naive logit": naive.params,
         "Greene, loading": loading.params[terms], "std err": loading.bse[terms]}, index=terms,
    )  # fmt: skip
    prevalence = pd.Series(
        {
            "truth (all labels)": data.y_full.mean(),
            "oracle logit (all labels)": oracle.predict(data).mean(),
            "labelled rows": labelled.y.mean(),
            "naive logit": naive.predict(data).mean(),
            "Greene, loading form": loading.predict(data).mean(),
            "Greene, free form": free.predict(data).mean(),
            "probit selection": probit.predict(data).mean(),
            "BiasCorr, sigma = 1": biascorr.predict(data).mean(),
        }
    )
    fits = {"naive logit": naive, "Greene, loading form": loading, "BiasCorr, sigma = 1": biascorr}
    accuracy = pd.Series(
        {name: ((fit.predict(data) > 0.5) == data.y_full).mean() for name, fit in fits.items()}
    )
    missing = loading.predict(data, which="mean-unselected")[data.s == 0].mean()
    return "\n\n".join(
        [
            f"Labels missing not at random: {n:,} applications, {len(labelled):,} labelled.",
            str(loading.summary()),
            f"The free form on the same data: {free.status.value}.\n"
            f"Log-likelihoods: free {free.llf:.4f}, loading {loading.llf:.4f}, "
            f"probit {probit.llf:.4f}, independent {loading.llindep:.4f}.",
            "Outcome coefficients (the error has scale sqrt(sigma^2 + pi^2/3), so compare with "
            f"sigma = {truth['sigma']:g} in mind)\n{coefficients.round(3).to_string()}",
            f"Share of y = 1 in the population\n{prevalence.round(4).to_string()}",
            "Share of y = 1 among the unlabelled: model "
            f"{missing:.4f}, truth {data.y_full[data.s == 0].mean():.4f}",
            f"Accuracy on all rows\n{accuracy.round(4).to_string()}",
            f"BiasCorr: {biascorr.bias_condition}.",
        ]
    )
