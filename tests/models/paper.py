"""The German and Drug experiments of the paper: their designs (its appendix A) and splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# Columns of german.data; those of the outcome equation first, then those of selection alone.
GERMAN_OUTCOME = {
    "duration": 1, "savings": 5, "employment": 6, "personal_status_sex": 8, "residence": 10,
    "age": 12, "other_plans": 13, "existing_credits": 15, "liable": 17, "telephone": 18,
    "foreign_worker": 19,
}  # fmt: skip
GERMAN_SELECT = {"status_checking": 0, "credit_history": 2, "credit_amount": 4, "property": 11}
DRUG_OUTCOME = {"gender": 2, "education": 3, "country": 4, "ethnicity": 5, "escore": 7}
DRUG_SELECT = {
    "age": 1, "nscore": 6, "oscore": 8, "ascore": 9, "cscore": 10, "impulsive": 11, "ss": 12,
}  # fmt: skip
BENZOS = 16
USED = ("CL2", "CL3", "CL4", "CL5", "CL6")  # within the last decade or later


@dataclass(frozen=True)
class Experiment:
    """The training rows of one experiment, and the rows it is tested on."""

    y: np.ndarray  # (n,) all labels, which NoBias alone may read
    s: np.ndarray  # (n,) 1 where the label is seen
    X: pd.DataFrame  # (n, p) outcome design, standardized, with a constant
    W: pd.DataFrame  # (n, k)
    y_test: np.ndarray
    X_test: pd.DataFrame

    @property
    def seen(self) -> np.ndarray:
        """(n,) the labels as the models see them."""
        return np.where(self.s == 1, self.y, np.nan)

    def accuracy(self, beta: np.ndarray) -> float:
        """Per cent of the test rows whose label L(x'beta) > 0.5 predicts."""
        return 100.0 * float(np.mean((self.X_test.to_numpy() @ beta > 0) == (self.y_test == 1)))


def load_german(shared: Path) -> Experiment:
    """Good credit = 1; the label is seen where employment is A73, A74 or A75 (a year or more)."""
    raw = pd.read_csv(shared / "data" / "german" / "german.data", sep=" ", header=None)
    s = raw[GERMAN_OUTCOME["employment"]].isin(["A73", "A74", "A75"])
    return _experiment(raw[20] == 1, s, raw, GERMAN_OUTCOME, GERMAN_SELECT)


def load_drug(shared: Path) -> Experiment:
    """Benzodiazepines used = 1; the label is seen where the raw openness score is at most 43."""
    raw = pd.read_csv(shared / "data" / "drug" / "drug_consumption.data", header=None)
    return _experiment(
        raw[BENZOS].isin(USED), raw[DRUG_SELECT["oscore"]] < -0.35, raw, DRUG_OUTCOME, DRUG_SELECT
    )


def _experiment(
    y: pd.Series, s: pd.Series, raw: pd.DataFrame, outcome: dict[str, int], select: dict[str, int]
) -> Experiment:
    """Standardize over all rows; the first int(0.7 n) train, the others test."""
    columns = outcome | select
    data = pd.DataFrame({name: _numbers(raw[column]) for name, column in columns.items()})
    data = (data - data.mean()) / data.std(ddof=0)
    data.insert(0, "const", 1.0)
    n = int(0.7 * len(data))
    X = data[["const", *outcome]]
    labels, selected = y.to_numpy(dtype=float), s.to_numpy(dtype=float)
    return Experiment(labels[:n], selected[:n], X[:n], data[:n], labels[n:], X[n:])


def _numbers(column: pd.Series) -> pd.Series:
    """A column as it is, or its codes in sorted order."""
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(float)
    return pd.Series(pd.factorize(column, sort=True)[0].astype(float), index=column.index)
