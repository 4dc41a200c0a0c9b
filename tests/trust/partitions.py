"""Hostile files and checkpoints: more questions of the catalogue, of data in partitions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from statsmodels_mnar import DesignError, Execution, GreeneSelectionLogit

from .doors import BASE, OUTCOME, SELECT
from .questions import accept, refuse

Change = Callable[[pd.DataFrame], pd.DataFrame]
HALF = len(BASE) // 2
FAR = 10_000.0  # so far from zero a number of 32 bits has three decimals


def model(data: Any, **options: Any) -> Any:
    options = {"normalization": "loading", "execution": Execution(partition_rows=150)} | options
    return GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data, **options)


@cache
def in_memory() -> float:
    return (
        GreeneSelectionLogit.from_formula(OUTCOME, SELECT, BASE, normalization="loading").fit().llf
    )


# ---- files ---------------------------------------------------------------------------------------

T = "Files of a data set"


def of_files(change: Change | None = None, first: Change | None = None, **others: bytes) -> float:
    """Log-likelihood of a fit to two files of which one is changed, and other files beside them."""
    with tempfile.TemporaryDirectory() as folder:
        halves = [BASE.iloc[:HALF], BASE.iloc[HALF:]]
        for i, (half, how) in enumerate(zip(halves, (first, change), strict=True)):
            table = half if how is None else how(half.copy())
            table.to_parquet(Path(folder, f"part-{i}.parquet"), index=False)
        for name, content in others.items():
            Path(folder, name.replace("_", ".")).write_bytes(content)
        return model(folder).fit().llf


def files_refused(name: str, *says: str, **how: Any) -> None:
    refuse(T, name, DesignError, *says, ask=lambda: of_files(**how))


def files_taken(name: str, **how: Any) -> None:
    accept(T, name, "the fit in memory", ask=lambda: of_files(**how), equals=in_memory)


files_refused("a file without a covariate", "part-1.parquet has no column 'x'", "All files",
              change=lambda d: d.drop(columns="x"))  # fmt: skip
files_refused("a first file without a covariate", "part-0.parquet has no column 'x'",
              first=lambda d: d.drop(columns="x"))  # fmt: skip
files_refused("an outcome with a capital letter in one file", "has no column 'y' (it has 'Y')",
              change=lambda d: d.rename(columns={"y": "Y"}))  # fmt: skip
files_refused("numbers as text in one file", "'x' is", "in part-1.parquet, but double in part-0",
              "one type", change=lambda d: d.assign(x=d.x.astype(str)))  # fmt: skip
files_refused("dates in one file", "'x' is timestamp", "one type",
              change=lambda d: d.assign(x=pd.Timestamp("2020-01-01")))  # fmt: skip
files_refused("a text file in the folder", "readme.txt is among the files", "Move it elsewhere",
              readme_txt=b"hello")  # fmt: skip
files_refused("an empty file in the folder", "z.parquet is among the files", z_parquet=b"")
files_refused("a file that was cut", "z.parquet is among the files", "write it again",
              z_parquet=b"PAR1" + bytes(50))  # fmt: skip
files_taken("a column that only some files have and no formula reads",
            change=lambda d: d.assign(more=1.0))  # fmt: skip
accept(
    T, "integers in one file, numbers in the next", "the fit in memory, no fraction lost",
    ask=lambda: of_files(first=lambda d: d.assign(x=d.x.round().astype("int8"))),
    equals=lambda: _memory_of(_first_half(x=BASE.x.round())),
)  # fmt: skip
files_taken("booleans in one file, integers in the next",
            change=lambda d: d.assign(s=d.s == 1))  # fmt: skip
files_taken("nullable numbers in one file",
            change=lambda d: d.assign(x=d.x.astype("Float64")))  # fmt: skip
accept(
    T, "an outcome that is nothing in a file of unlabelled rows", "the fit in memory",
    ask=lambda: of_files(first=lambda d: d.assign(y=None, s=0)),
    equals=lambda: _unlabelled_first(),
)  # fmt: skip
accept(
    T, "float32 in the first file", "the fit in memory, no digit of the second file lost",
    ask=lambda: of_files(
        first=lambda d: d.assign(x=(d.x + FAR).astype("float32")),
        change=lambda d: d.assign(x=d.x + FAR),
    ),
    equals=lambda: _memory_of(_first_half(BASE.x + FAR, x=(BASE.x + FAR).astype("float32"))),
)  # fmt: skip


def of_categories() -> np.ndarray:
    """Coefficients of a fit to two files, each with the categories that are in its rows."""
    with tempfile.TemporaryDirectory() as folder:
        for i, half in enumerate((OF_LEVELS[HALF:], OF_LEVELS[:HALF])):  # that with a comes last
            own = half.assign(g=half.g.astype("category"))
            own.to_parquet(Path(folder, f"part-{i}.parquet"), index=False)
        return _with_levels(folder)


def _with_levels(data: Any) -> np.ndarray:
    found = GreeneSelectionLogit.from_formula(
        f"{OUTCOME} + g", SELECT, data, normalization="independent",
        execution=Execution(partition_rows=150),
    )  # fmt: skip
    return np.asarray(found.fit().params)


OF_LEVELS = BASE.sort_values("g", ignore_index=True)  # level a in the first half alone
accept(T, "categories of its own in each file", "the coefficients of the text column",
       ask=of_categories,
       equals=lambda: _with_levels(
           pd.concat([OF_LEVELS[HALF:], OF_LEVELS[:HALF]], ignore_index=True)))  # fmt: skip


def rewritten(change: Callable[[Path], None]) -> Any:
    """Clustered errors by name of a fit to a file that changes after the fit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "loans.parquet")
        BASE.to_parquet(path, index=False)
        results = model(path).fit()
        before = path.stat().st_mtime_ns
        change(path)
        if path.exists():
            os.utime(path, ns=(before + 10_000_000, before + 10_000_000))
        return results.get_robustcov_results("cluster", groups="k")


CHANGED = "loans.parquet was written to or removed after it was opened"
refuse(T, "a file that is written again after the fit, its rows in another order", DesignError,
       CHANGED, ask=lambda: rewritten(lambda p: BASE[::-1].to_parquet(p, index=False)))  # fmt: skip
refuse(T, "a file that is removed after the fit", DesignError, CHANGED,
       ask=lambda: rewritten(lambda p: p.unlink()))  # fmt: skip


def _memory_of(data: pd.DataFrame) -> float:
    return (
        GreeneSelectionLogit.from_formula(OUTCOME, SELECT, data, normalization="loading").fit().llf
    )


def _first_half(otherwise: pd.Series | None = None, **columns: pd.Series) -> pd.DataFrame:
    """The rows of both files, a column changed in those of the first."""
    first = np.arange(len(BASE)) < HALF
    ((name, changed),) = columns.items()
    rest = BASE[name] if otherwise is None else otherwise
    return BASE.assign(**{name: rest.where(~first, changed.astype(float))})


def _unlabelled_first() -> float:
    first = np.arange(len(BASE)) < HALF
    return _memory_of(BASE.assign(y=BASE.y.where(~first), s=BASE.s.where(~first, 0)))


# ---- checkpoints ---------------------------------------------------------------------------------

T = "Checkpoints"


def resumed(change: Change | None = None, content: Callable[[bytes], bytes] | None = None) -> float:
    """Log-likelihood of a fit with the checkpoint of another, or one that was damaged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fit.npz")
        model(BASE).fit(checkpoint=path)
        if content is not None:
            path.write_bytes(content(path.read_bytes()))
        return model(BASE if change is None else change(BASE.copy())).fit(checkpoint=path).llf


def _turned(data: pd.DataFrame) -> pd.DataFrame:
    """As many labels one way as the other."""
    for value in (0.0, 1.0):
        rows = BASE.index[(BASE.s == 1) & (BASE.y == value)][:20]
        data.loc[rows, "y"] = 1.0 - value
    return data


OTHER = "is of a fit to other data"
refuse(T, "of other labels", ValueError, OTHER, "the outcome or the selection indicator",
       "Delete it to start over", ask=lambda: resumed(_turned))  # fmt: skip
refuse(T, "of rows in another order", ValueError, OTHER, "another order",
       ask=lambda: resumed(lambda d: d.iloc[::-1]))  # fmt: skip
refuse(T, "of a covariate that belongs to other rows", ValueError, OTHER, "the covariates",
       ask=lambda: resumed(lambda d: d.assign(x=np.roll(d.x, 1))))  # fmt: skip
refuse(T, "of fewer rows", ValueError, OTHER, "the number of rows differs",
       ask=lambda: resumed(lambda d: d.iloc[:-3]))  # fmt: skip
refuse(T, "an empty file", ValueError, "is not a checkpoint file", "it ends after 0 bytes",
       ask=lambda: resumed(content=lambda whole: b""))  # fmt: skip
refuse(T, "a file that was cut", ValueError, "is not a checkpoint file", "delete it to start over",
       ask=lambda: resumed(content=lambda whole: whole[: len(whole) // 2]))  # fmt: skip
accept(T, "of the same call", "the fit in memory", ask=resumed, equals=in_memory)
