"""Data of the reference values."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

FORMULAS = ("y ~ x1 + x2 + x3", "s ~ x1 + x2 + x3 + z")
MROZ = ("y ~ exper + exper2 + educ + city", "s ~ age + age2 + faminc + kids + educ")


@pytest.fixture(scope="session")
def logit_data(reference_dir: Path) -> pd.DataFrame:
    return pd.read_csv(reference_dir / "logit_n5000.csv")


@pytest.fixture(scope="session")
def probit_data(reference_dir: Path) -> pd.DataFrame:
    return pd.read_csv(reference_dir / "probit_n5000.csv")


@pytest.fixture(scope="session")
def mroz_data(shared: Path) -> pd.DataFrame:
    return pd.read_csv(shared / "data" / "mroz" / "mroz_selection.csv")
