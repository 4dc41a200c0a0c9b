"""The data sets that the reference values were computed on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

MROZ_OUTCOME = ("const", "exper", "exper2", "educ", "city")
MROZ_SELECT = ("const", "age", "age2", "faminc", "kids", "educ")
SIMULATED_OUTCOME = ("const", "x1", "x2", "x3")
SIMULATED_SELECT = (*SIMULATED_OUTCOME, "z")


class Arrays(NamedTuple):
    """The positional arguments of Rows.build."""

    X: np.ndarray
    W: np.ndarray
    y: np.ndarray
    s: np.ndarray


def read(path: Path, outcome: tuple[str, ...], select: tuple[str, ...]) -> Arrays:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    columns = {
        name: np.array([float(row[name] if row[name] not in ("", "NA") else "nan") for row in rows])
        for name in rows[0]
    }
    columns["const"] = np.ones(len(rows))
    X, W = (np.column_stack([columns[name] for name in names]) for names in (outcome, select))
    return Arrays(X, W, columns["y"], columns["s"])


def simulated(reference_dir: Path, name: str) -> Arrays:
    return read(reference_dir / f"{name}.csv", SIMULATED_OUTCOME, SIMULATED_SELECT)


def mroz(shared: Path) -> Arrays:
    return read(shared / "data" / "mroz" / "mroz_selection.csv", MROZ_OUTCOME, MROZ_SELECT)


def parameter_sets(path: Path) -> list[tuple[np.ndarray, float, np.ndarray]]:
    """theta = (beta, gamma, lnsigma, athrho), total and per-row log-likelihood of each set."""
    return [
        (
            np.concatenate([at["beta"], at["gamma"], [np.log(at["sigma"]), np.arctanh(at["rho"])]]),
            at["loglik"],
            np.array(at["loglik_obs"]),
        )
        for at in json.loads(path.read_text())["parameter_sets"]
    ]
