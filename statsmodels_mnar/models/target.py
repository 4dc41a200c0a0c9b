"""Algorithm 2 (BiasCorr*), lines 1 to 14: unlabelled rows from a sample of the target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.formula import split
from ..design.values import as_frame, binary_floats, new_matrix, read_matrix
from ..errors import DesignError, listing
from .selection import SelectionModel


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
    n = max(len(target), m + 1) if n is None else n
    if not isinstance(n, int | np.integer) or n <= m:
        raise ValueError(f"n={n!r} must be an integer above the {m} labelled rows")
    if not m or not len(target):
        raise ValueError(f"labeled has {m} rows and target {len(target)}; both need at least one")
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
    taken: NDArray[np.int64] = drawn[chosen[: n - m]]
    return taken


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


class FromTarget(SelectionModel):
    """Builds a model from biased labelled rows and unbiased unlabelled ones."""

    @classmethod
    def from_target(
        cls,
        formula: str,
        select_formula: str,
        labeled: pd.DataFrame,
        target: pd.DataFrame,
        n: int | None = None,
        match_on: Any = None,
        rng: int | np.random.Generator | None = None,
        *,
        env: int = 0,
        **keywords: Any,
    ) -> Self:
        """BiasCorr* (Algorithm 2): unlabelled rows come from a sample of the target population.

        Parameters
        ----------
        formula, select_formula : str
            As in ``from_formula``; the selection formula has no left side, because "selected" means
            "comes from ``labeled``".
        labeled : DataFrame
            D_s, biased rows with labels.
        target : DataFrame
            D_N, unbiased rows without.
        n : int, optional
            Rows of the augmented set; by default as many as ``target`` has.
        match_on : list of str or dict, optional
            Columns that define "the same sample", by default all columns that both frames share
            except the outcome; a dict maps continuous columns to cut points.
        rng : int or Generator, optional
            Of the draws from ``target``.
        env : int
            How many frames up the formulas' functions are looked for.
        **keywords
            Of ``from_formula``.
        """
        if split(select_formula, "select_formula")[0] is not None:
            raise DesignError(
                f"select_formula={select_formula!r} must have no left side, as in '~ x + z': rows "
                "of labeled are selected, rows of target are not"
            )
        labeled, target = as_frame(labeled), as_frame(target)
        for argument, frame in (("labeled", labeled), ("target", target)):
            if not frame.columns.is_unique:
                repeated = frame.columns[frame.columns.duplicated()].unique()
                raise DesignError(f"{argument} has more than one column {listing(repeated)}")
        match_on = [match_on] if isinstance(match_on, str) else match_on
        left = split(formula, "formula")[0] or ""
        if match_on is None:
            outcome = {*re.findall(r"\w+", left), *re.findall(r"[\"'](.+?)[\"']", left)}
            match_on = [c for c in labeled.columns if c in target.columns and c not in outcome]
        if not len(match_on):
            raise ValueError("match_on is empty: labeled and target share no covariates")
        added = target.iloc[augment(labeled, target, match_on, n, rng)]
        data = pd.concat([labeled, added], ignore_index=True)
        selected = np.r_[np.ones(len(labeled)), np.zeros(len(added))]
        data["_from_labeled"] = selected
        # Rows of target may carry labels; they are not read where _from_labeled is 0.
        model = cls.from_formula(
            formula, f"_from_labeled {select_formula.strip()}", data, env=env + 1, **keywords
        )
        specs = model.design.outcome_spec, model.design.select_spec
        read = {name for spec in specs if spec is not None for name in spec.columns}
        for argument, frame in (("labeled", labeled), ("target", target)):
            lacking = sorted(read & (set(data.columns) - set(frame.columns) - {"_from_labeled"}))
            if lacking:
                raise DesignError(f"{argument} lacks the column(s) {listing(lacking)}")
        return model

    @classmethod
    def from_target_arrays(
        cls,
        endog: Any,
        exog: Any,
        exog_target: Any,
        exog_select: Any = None,
        exog_select_target: Any = None,
        n: int | None = None,
        match_on: Any = None,
        rng: int | np.random.Generator | None = None,
        **keywords: Any,
    ) -> Self:
        """BiasCorr* from arrays.

        Parameters
        ----------
        endog, exog, exog_select : array_like
            (m,), (m, p) and (m, k): D_s, all of it labelled; ``exog_select`` is by default
            ``exog``.
        exog_target, exog_select_target : array_like
            (N, p) and (N, k): the same columns of D_N.
        n, rng
            As in :meth:`from_target`.
        match_on : list of int or dict, optional
            Positions of columns of ``exog_select``, all of them by default, or a dict from them to
            cut points.
        **keywords
            Of the class.
        """
        exog_select = exog if exog_select is None else exog_select
        if exog_select_target is None:
            exog_select_target = exog_target
        X, names = read_matrix(exog, "exog")
        W, select_names = read_matrix(exog_select, "exog_select")
        X_target = new_matrix(exog_target, names, "exog_target")
        W_target = new_matrix(exog_select_target, select_names, "exog_select_target")
        if len(X_target) != len(W_target):
            raise ValueError("exog_target and exog_select_target must have the same rows")
        on = range(W.shape[1]) if match_on is None else match_on
        chosen = augment(pd.DataFrame(W), pd.DataFrame(W_target), on, n, rng)
        selected = np.r_[np.ones(len(X)), np.zeros(len(chosen))]
        labels = np.r_[binary_floats(endog, "endog", "outcome"), np.full(len(chosen), np.nan)]
        return cls(
            labels,
            np.vstack([X, X_target[chosen]]),
            selected,
            np.vstack([W, W_target[chosen]]),
            **keywords,
        )
