"""Default is seen only for accepted applications: naive logit, Greene's selection logit, BiasCorr.

python examples/quickstart.py
"""

from statsmodels.discrete.discrete_model import Logit

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

simulated = simulate_greene(5_000)
data = simulated.data  # y is NaN where s = 0; y_full is what nobody observes
formulas = (simulated.formula, simulated.select_formula)

naive = Logit.from_formula(simulated.formula, data[data.s == 1]).fit(disp=False)
greene = GreeneSelectionLogit.from_formula(*formulas, data, normalization="loading").fit()
biascorr = BiasCorrLogit.from_formula(*formulas, data, normalization={"sigma": 1.0}).fit()

print(greene.summary())
print(biascorr.summary())
print("\nShare of y = 1 in the population")
print(f"  truth         {data.y_full.mean():.4f}")
print(f"  naive logit   {naive.predict(data).mean():.4f}")
average = greene.get_prediction(data, average=True).summary_frame().iloc[0]
print(
    f"  Greene        {average.predicted:.4f}  "
    f"(95% interval {average.ci_lower:.4f} to {average.ci_upper:.4f})"
)
print(f"  BiasCorr      {biascorr.predict(data).mean():.4f}")
