"""Is a fit the highest point there is? Random data sets, against random starts and submodels.

python -m tests.studies.maximum 300
python -m tests.studies.maximum 300 --part 1/2
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.special import expit

from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
from statsmodels_mnar.models.free import search_bounds
from statsmodels_mnar.optimize.maximize import maximize_many

TOLERANCE = 1e-6  # log-likelihood
STARTS = 32
FORMS = {
    "loading": (GreeneSelectionLogit, {"normalization": "loading"}),
    "sigma = 1": (GreeneSelectionLogit, {"normalization": {"sigma": 1.0}}),
    "probit": (ProbitSelection, {}),
    "free": (GreeneSelectionLogit, {"normalization": "free"}),
}


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcome, outcome design and selection design: n 60 to 400, instrument 0, 0.3 or 1."""
    rng = np.random.default_rng([77, seed])
    n, instrument = int(rng.integers(60, 401)), (0.0, 0.3, 1.0)[seed % 3]
    sigma, rho = rng.choice([0.3, 1.0, 3.0]), rng.uniform(-1.0, 1.0)
    x = rng.standard_normal((n, int(rng.integers(1, 3))))
    z, u, v = rng.standard_normal((3, n))
    e = rho * u + np.sqrt(1.0 - rho**2) * v
    y = (rng.random(n) < expit(rng.normal(0.0, 0.7) + x[:, 0] + sigma * e)).astype(float)
    selected = rng.normal(0.2, 0.5) + 0.5 * x[:, 0] + instrument * z + u > 0
    exog = np.column_stack([np.ones(n), x])
    return np.where(selected, y, np.nan), exog, np.column_stack([exog, z])


def random_climbs(model, apart: np.ndarray, rng: np.random.Generator) -> float:
    """The largest log-likelihood of Newton from random starts."""
    objective = search_bounds(model.objective())
    coef = apart + 0.5 * rng.standard_normal((STARTS, len(apart)))
    draw = {
        "loading": lambda: np.sinh(rng.uniform(-3.0, 3.0, STARTS)) * np.pi / np.sqrt(3.0),
        "athrho": lambda: rng.uniform(-3.0, 3.0, STARTS),
        "lnsigma": lambda: rng.uniform(-2.0, 1.8, STARTS),
    }
    values = np.column_stack([draw[name]() for name in objective.form.names])
    fixed = model.parametrized.values(np.zeros(model.parametrized.free.sum()))
    values = np.where(model.parametrized.free, values, fixed)
    starts = np.column_stack([coef, values])
    parts = maximize_many(objective, starts, free=model.estimated, maxiter=60)
    found = [solution.value for part in parts for solution in part]
    return max(value for value in found if np.isfinite(value))


def shortfalls(seed: int) -> dict[str, float]:
    """How far each form's fit lies below the best that is known; empty where data separate."""
    y, exog, exog_select = simulate(seed)
    rng = np.random.default_rng([78, seed])
    fitted, best = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (model_class, options) in FORMS.items():
            model = model_class(y, exog, exog_select=exog_select, **options)
            try:
                results = model.fit()
            except ValueError:
                return {}
            fitted[name] = results.llf
            best[name] = random_climbs(model, results._fit_info.independent.params, rng)
    best["free"] = max(best["free"], *fitted.values())
    return {name: best[name] - value for name, value in fitted.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=int)
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second set")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    worst: dict[str, float] = dict.fromkeys(FORMS, -np.inf)
    below, separated, done = 0, 0, 0
    for seed in range(part - 1, args.sets, parts):
        found = shortfalls(seed)
        separated += not found
        done += 1
        for name, value in found.items():
            worst[name] = max(worst[name], value)
            if value > TOLERANCE:
                below += 1
                print(f"set {seed}, {name}: {value:.2e} below", flush=True)
    print(f"{done} sets, {separated} separated, {below} fits below; largest shortfall {worst}")


if __name__ == "__main__":
    main()
