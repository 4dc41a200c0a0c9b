"""Algorithm 2 (BiasCorr*), lines 1 to 14: unlabelled rows from a sample of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def augment(
    labelled: pd.DataFrame,
    target: pd.DataFrame,
    match_on: Sequence[Any] | Mapping[Any, Any],
    n: int | None,
    rng: int | np.random.Generator | None,
) -> NDArray[np.int64]:
    """Positions in ``target`` of the rows that become D_u, n - m of them.

    Parameters
    ----------
    labelled, target : DataFrame
        D_s and D_N, with the columns of ``match_on``.
    match_on : list of str or dict
        Columns that define "the same sample"; a dict maps a continuous column to its cut points
        (None for a column taken as it is).
    n : int, optional
        Size of D_n and of the augmented set; by default the size of ``target``, and at least
        m + 1.
    rng : int or Generator, optional

    Notes
    -----
    D_n is drawn without replacement, and with replacement where N < n. Distinct tuples are visited
    in the order in which they first appear in D_n, as the paper's loop does. D_u is always filled:
    the b_t sum to n and the a_t to at most m, so the positive b_t - a_t sum to n - m or more.
    """
    m = len(labelled)
    n = max(len(target), m + 1) if n is None else int(n)
    if n <= m:
        raise ValueError(f"n={n} must exceed the {m} labelled rows")
    if not m or not len(target):
        raise ValueError(f"labeled has {m} rows and target {len(target)}; both need some")
    rng = np.random.default_rng(rng)
    drawn = rng.choice(len(target), size=n, replace=len(target) < n)
    codes = _tuple_codes(labelled, target, match_on)
    of_labelled, of_drawn = codes[:m], codes[m:][drawn]
    n_tuples = int(codes.max()) + 1
    a = np.bincount(of_labelled, minlength=n_tuples)
    b = np.bincount(of_drawn, minlength=n_tuples)
    wanted = np.maximum(b - a, 0)

    # A random order within each tuple, tuples in order of first appearance: the first
    # ``wanted`` of each tuple are its draws without replacement.
    first_seen = np.full(n_tuples, n)
    np.minimum.at(first_seen, of_drawn, np.arange(n))
    order = np.lexsort((rng.random(n), first_seen[of_drawn]))
    sorted_codes = of_drawn[order]
    starts = np.r_[0, np.flatnonzero(np.diff(sorted_codes)) + 1]
    rank = np.arange(n) - np.repeat(starts, np.diff(np.r_[starts, n]))
    chosen = order[rank < wanted[sorted_codes]]
    return drawn[chosen[: n - m]]


def _tuple_codes(
    labelled: pd.DataFrame, target: pd.DataFrame, match_on: Sequence[Any] | Mapping[Any, Any]
) -> NDArray[np.int64]:
    """An integer for each distinct tuple, over the labelled and then the target rows."""
    cuts = match_on if isinstance(match_on, Mapping) else dict.fromkeys(match_on)
    for name in cuts:
        for label, frame in (("labeled", labelled), ("target", target)):
            if name not in frame:
                raise ValueError(f"match_on names {name!r}, which {label} does not have")
    codes = np.zeros(len(labelled) + len(target), dtype=np.int64)
    for name, points in cuts.items():
        values = pd.concat([labelled[name], target[name]], ignore_index=True)
        if points is not None:
            values = pd.Series(np.digitize(values.to_numpy(dtype=float), np.sort(points)))
        part, uniques = pd.factorize(values, use_na_sentinel=False)
        # Renumbered after every column, so that the product never overflows.
        codes = pd.factorize(codes * len(uniques) + part)[0]
    return codes
