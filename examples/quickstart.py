"""Default is seen only for accepted applications: naive logit, Greene's selection logit, BiasCorr.

python examples/quickstart.py [--rows 5000] [--out figures]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit
from statsmodels_mnar.baselines import NaiveLogit
from statsmodels_mnar.datasets import simulate_greene


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000, help="rows to simulate")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for figures")
    options = parser.parse_args(arguments)

    simulated = simulate_greene(options.rows)
    data = simulated.data  # y is NaN where s = 0; y_full is what nobody observes
    formulas = (simulated.formula, simulated.select_formula)  # y ~ x1 + x2, s ~ x1 + x2 + z

    naive = NaiveLogit.from_formula(*formulas, data).fit()
    greene = GreeneSelectionLogit.from_formula(*formulas, data).fit()
    biascorr = BiasCorrLogit.from_formula(*formulas, data).fit()

    print(greene.summary())
    print(greene.get_margeff().summary())
    print(greene.identification_report())

    print("\nShare of y = 1 in the population")
    print(f"  truth         {data.y_full.mean():.4f}")
    print(f"  naive logit   {naive.predict(data).mean():.4f}")
    print(f"  BiasCorr      {biascorr.predict(data).mean():.4f}")
    average = greene.get_prediction(average=True).summary_frame().iloc[0]
    print(
        f"  Greene        {average.predicted:.4f}  "
        f"(95% interval {average.ci_lower:.4f} to {average.ci_upper:.4f})"
    )

    options.out.mkdir(parents=True, exist_ok=True)
    greene.plot_probabilities("x1").figure.savefig(options.out / "probabilities.png", dpi=100)
    greene.plot_profile("error_corr").figure.savefig(options.out / "profile.png", dpi=100)
    print(f"\nprobabilities.png and profile.png are in {options.out}")


if __name__ == "__main__":
    main()
