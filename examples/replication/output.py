"""Tables as CSV, Markdown and pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from statsmodels_mnar.results.page import png
from statsmodels_mnar.tools import write_whole

_DIGITS = {"train": 2, "test": 2, "f1": 2, "threshold": 4, "seconds": 2}


def markdown(frame: pd.DataFrame) -> str:
    """A frame as a Markdown table; missing values are left blank.

    Examples
    --------
    >>> print(markdown(pd.DataFrame({"x": [1.0, None], "name": ["a", "b"]})))
    | x | name |
    | --- | --- |
    | 1 | a |
    |  | b |
    """
    rows = [frame.columns.astype(str), ["---"] * frame.shape[1]]
    rows += [[_text(v) for v in row] for row in frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def side_by_side(frame: pd.DataFrame) -> pd.DataFrame:
    """Cells of :func:`.tables.beside_paper` as text: "ours ± sd", "paper ± sd", difference."""
    rows = []
    for row in frame.to_dict("records"):
        digits = _DIGITS[row["quantity"]]
        rows.append(
            {
                "data": row["dataset"],
                "method": row["method"],
                "quantity": row["quantity"],
                "ours": _plus_minus(row["ours"], row["ours_sd"], digits),
                "paper": _plus_minus(row["paper"], row["paper_sd"], digits),
                "difference": _number(row["difference"], digits, sign=True),
            }
        )
        if "converged" in row:
            rows[-1]["converged"] = _number(row["converged"], digits)
    return pd.DataFrame(rows)


def _number(value: float, digits: int, *, sign: bool = False) -> str:
    if math.isnan(value):
        return ""
    rounded = round(value, digits) + 0.0  # no "-0.00"
    return f"{rounded:{'+' if sign else ''}.{digits}f}"


def _plus_minus(value: float, sd: float, digits: int) -> str:
    return _number(value, digits) + ("" if math.isnan(sd) else f" ± {sd:.{digits}f}")


def draw_beside_paper(frame: pd.DataFrame, quantity: str, label: str) -> Any:
    """The paper's and our values of one quantity, a panel for each data set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    frame = frame[frame["quantity"] == quantity]
    datasets = list(frame["dataset"].unique())
    methods = list(frame["method"].unique())[::-1]
    size = (3.6 * len(datasets) + 1.4, 0.36 * len(methods) + 1.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
    marks = {"paper": "x", "ours": "o", "converged": "^"}
    for axes, dataset in zip(grid, datasets, strict=True):
        part = frame[frame["dataset"] == dataset].set_index("method").reindex(methods)
        for column, mark in marks.items():
            if column in part:
                axes.plot(
                    part[column], methods, mark, ms=6, label=column,
                    mfc="none" if mark != "x" else None,
                )  # fmt: skip
        axes.set(title=dataset, xlabel=label)
        axes.grid(axis="x", alpha=0.3)
    if quantity == "seconds":
        for axes in grid:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def write(out: Path, name: str, frames: dict[str, pd.DataFrame], text: str, picture: Any) -> None:
    """Write ``name``.md, one CSV for each frame, and ``name``.png where there is a picture."""
    for suffix, frame in frames.items():
        write_whole(out / f"{name}{suffix}.csv", frame.to_csv(index=False))
    write_whole(out / f"{name}.md", text.rstrip() + "\n")
    if picture is not None:
        write_whole(out / f"{name}.png", png(picture, 150))
