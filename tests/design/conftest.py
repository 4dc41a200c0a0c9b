"""Data for the design tests."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula


@pytest.fixture
def data():
    """200 rows, 80 unlabelled, with columns of every kind."""
    rng = np.random.default_rng(20240601)
    n = 200
    s = (np.arange(n) % 5 < 3).astype(int)
    y = rng.integers(0, 2, n).astype(float)
    return pd.DataFrame(
        {
            "y": np.where(s == 1, y, np.nan),
            "s": s,
            "x": rng.normal(size=n),
            "z": rng.normal(size=n),
            "g": rng.choice(["a", "b", "c"], n),
            "flag": rng.random(n) < 0.5,
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "odd name": rng.exponential(size=n),
        }
    )


@pytest.fixture(params=["patsy", "formulaic"])
def engine(request, monkeypatch):
    """The formula engine, as the user chooses it in statsmodels."""
    pytest.importorskip(request.param)
    monkeypatch.setattr(statsmodels.formula.options, "formula_engine", request.param)
    return request.param
