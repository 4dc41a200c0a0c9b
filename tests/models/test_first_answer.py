"""The line that a new user types, on many kinds of data: no exception and nothing absurd."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import BiasCorrLogit

SLOPE = 1.0

KINDS: dict[str, dict] = {
    "strong instrument": {"instrument": 1.0},
    "weak instrument": {"instrument": 0.15},
    "no instrument": {"instrument": 0.0},
    "most selected": {"instrument": 0.3, "shift": 1.0},  # s-bar above 1/2
    "few selected": {"instrument": 1.0, "shift": -1.5},
    "separated selection": {"instrument": 1.0, "separated": True},
}


def simulate(
    n: int, seed: int, instrument: float, shift: float = 0.0, separated: bool = False
) -> pd.DataFrame:
    """A logit outcome with slope 1 in x, and loading 1 on the error of selection."""
    rng = np.random.default_rng([seed, n])
    x, z, u = rng.standard_normal((3, n))
    index = shift + 0.5 * x + instrument * z
    s = index + (0.0 if separated else u) > 0
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(SLOPE * x + u)))
    return pd.DataFrame({"x": x, "z": z, "s": s.astype(int), "y": np.where(s, y, np.nan)})


def first_answer(data: pd.DataFrame) -> dict:
    """What the user's line prints, in a few numbers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = BiasCorrLogit.from_formula("y ~ x", "s ~ x + z", data).fit()
        text = str(results.summary())
    return {
        "slope": results.params["x"],
        "se": results.bse["x"],
        "largest": np.abs(results.params).max(),
        "status": results.status.name.lower(),
        "soft": results.soft_selection,
        "held": bool(results.held_by_penalty),
        "said": "penalty alone holds" in " ".join(text.split()),
        "finite": bool(np.isfinite(results.bse).all()),
        "warnings": tuple(sorted({w.category.__name__ for w in caught})),
    }


def study(sizes: list[int], seeds: int) -> pd.DataFrame:
    """One row for each fit."""
    rows = []
    for kind, options in KINDS.items():
        for seed in range(seeds):
            n = sizes[seed % len(sizes)]
            rows.append({"kind": kind, "n": n} | first_answer(simulate(n, seed, **options)))
    return pd.DataFrame(rows)


def check(found: pd.DataFrame) -> None:
    assert set(found["status"]) <= {"converged", "loading_infinite"}
    assert found["finite"].all()
    # 300 rows, of which a tenth may be labelled, have standard errors of up to 1.2.
    assert found["slope"].between(-0.5, 3.0).all()
    assert found["largest"].max() < 60.0
    assert (found["said"] == found["held"]).all()
    unbounded = (found["soft"] >= 0.5) | (found["kind"] == "separated selection")
    assert (found["held"] == unbounded).all()


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.full if i % 2 else ()) for i, k in enumerate(KINDS)]
)
def test_the_first_answer_is_finite_and_plausible(kind):
    found = first_answer(simulate(1_000, 0, **KINDS[kind]))
    check(pd.DataFrame([found | {"kind": kind, "n": 1_000}]))


@pytest.mark.slow
def test_the_first_answer_on_six_kinds_of_data_with_twenty_seeds():
    found = study([300, 1_000, 5_000, 50_000], 20)
    print("\n" + summarize(found).to_string())
    check(found)


def summarize(found: pd.DataFrame) -> pd.DataFrame:
    by = found.groupby(["kind", "n"], sort=False)
    return pd.DataFrame(
        {
            "fits": by.size(),
            "slope min": by["slope"].min().round(2),
            "median": by["slope"].median().round(2),
            "max": by["slope"].max().round(2),
            "se max": by["se"].max().round(2),
            "s-bar": by["soft"].agg(lambda v: f"{v.min():.2f}-{v.max():.2f}"),
            "held": by["held"].sum(),
            "statuses": by["status"].agg(lambda v: ", ".join(sorted(set(v)))),
            "warnings": by["warnings"].agg(lambda v: ", ".join(sorted(set(sum(v, ()))))),
        }
    )


if __name__ == "__main__":
    frame = study([300, 1_000, 5_000, 50_000], 20)
    print(summarize(frame).to_string())
    print(frame.sort_values("slope").iloc[[0, 1, 2, -3, -2, -1]].to_string())
