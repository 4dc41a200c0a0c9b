"""Intervals over the error correlations that a likelihood supports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from statsmodels_mnar.post.intervals import Across, Targets

CUT = chi2.ppf(0.95, 1)


def parabola(u: np.ndarray, centre: float = 0.0, width: float = 0.4) -> Across:
    """A regular likelihood of atanh(error_corr), with one coefficient that moves with it."""
    lr = ((u - centre) / width) ** 2
    coef = (2.0 + 3.0 * u)[:, None]
    one = np.ones_like(u)
    return Across(
        u, lr, np.tanh(u), one, np.tanh(u), coef, np.full((len(u), 1, 1), 0.25), (-1.0, 1.0)
    )


def ends(across: Across, alpha: float = 0.05) -> tuple[float, float]:
    (low, high) = across.interval(across.coef, np.sqrt(across.cov[:, :, 0]), alpha)[0]
    return low, high


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_the_union_is_that_of_the_conditional_intervals(alpha):
    """Of a coefficient 2 + 3u with error 0.5 given u, u within z times 0.4."""
    across = parabola(np.linspace(-1.4, 1.4, 29))
    z = norm.ppf(1.0 - alpha / 2.0)
    reach = 3.0 * 0.4 * z + 0.5 * z
    # Values between those fitted are interpolated, a fortieth of a standard error apart.
    assert ends(across, alpha) == pytest.approx((2.0 - reach, 2.0 + reach), abs=0.05)
    assert across.pieces(alpha)[0] == pytest.approx((np.tanh(-0.4 * z), np.tanh(0.4 * z)), abs=0.01)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_the_profile_likelihood_of_a_normal_one_gives_walds_interval(alpha):
    """The variance of 2 + 3u is that given u and that which u brings."""
    across = replace(parabola(np.linspace(-1.4, 1.4, 29)), conservative=False)
    reach = norm.ppf(1.0 - alpha / 2.0) * np.hypot(3.0 * 0.4, 0.5)
    assert ends(across, alpha) == pytest.approx((2.0 - reach, 2.0 + reach), abs=0.01)


@pytest.mark.parametrize("conservative", [True, False])
def test_p_values_agree_with_the_intervals(conservative):
    across = replace(parabola(np.linspace(-1.4, 1.4, 57)), conservative=conservative)
    estimate = across.coef - np.array([2.0, 0.5, -1.0])  # at 0, 1.5 and 3
    se = np.full_like(estimate, 0.5)
    p = across.pvalues(estimate, se)
    for j, value in enumerate(p):
        if value < 0.9:
            low, high = across.interval(estimate[:, [j]], se[:, [j]], float(value) * 1.1)[0]
            assert not low < 0.0 < high
        low, high = across.interval(estimate[:, [j]], se[:, [j]], float(value) * 0.9)[0]
        assert low < 0.0 < high
    assert p[0] == pytest.approx(1.0, abs=0.05)


def test_two_humps_give_two_pieces_and_one_interval():
    u = np.linspace(-2.0, 2.0, 41)
    lr = np.minimum(((u + 1.0) / 0.2) ** 2, 1.0 + ((u - 1.0) / 0.2) ** 2)
    across = parabola(u)
    across = Across(
        u, lr, across.error_corr, across.sigma, across.rho, across.coef, across.cov, (-1.0, 1.0)
    )
    (first, second) = across.pieces()
    assert first == pytest.approx(np.tanh([-1.39, -0.61]), abs=0.02)
    assert second == pytest.approx(np.tanh([0.66, 1.34]), abs=0.02)
    low, high = ends(across)
    assert low < 2.0 - 3.0 * 1.35 and high > 2.0 + 3.0 * 1.3  # from the first to the second


def test_an_open_set_reaches_the_limits():
    u = np.linspace(-1.0, 3.2, 22)
    across = parabola(u, centre=3.2, width=1.5)
    assert across.pieces()[0][1] == 1.0
    found = across.unbounded(
        np.array([[0.0, 9.0]]), across.coef, np.sqrt(across.cov[:, :, 0]), 0.05
    )
    assert found.tolist() == [[0.0, np.inf]]  # the coefficient grows with u


def test_a_few_values_keep_the_ends_of_the_set():
    u = np.sort(np.append(np.linspace(-1.4, 1.4, 20), [-0.4 * np.sqrt(CUT), 0.4 * np.sqrt(CUT)]))
    whole = parabola(u)
    few = whole.thin()
    assert len(few.u) == 11
    assert ends(few) == pytest.approx(ends(whole), abs=0.02)
    targets = Targets(few, few.coef, np.sqrt(few.cov[:, :, 0]))
    assert targets.interval(0.05)[0] == pytest.approx(ends(few))
    assert targets.pvalues().shape == (1,)
