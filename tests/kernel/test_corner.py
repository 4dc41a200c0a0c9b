"""The probit form close to |rho| = 1, against mpmath, the half line and its own limit."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import log_ndtr

from statsmodels_mnar.kernel.bivariate import CORNER, near_corner
from statsmodels_mnar.kernel.forms import ProbitForm
from statsmodels_mnar.kernel.links import log_ndtr_difference

from .conftest import make_block

CPU = torch.device("cpu")
FARTHEST = ProbitForm.upper[0]


def tensor(values) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values, dtype=float))


def terms(a, b, t, y, order=0):
    sign = tensor(2.0 * np.asarray(y) - 1.0)
    return near_corner(tensor(a)[None], tensor(b)[None], tensor([t]), sign, order)


def by_mpmath(a: float, b: float, t: float, y: int) -> float:
    """log P by Plackett's integral from the corner to rho, to 25 digits."""
    with mpmath.workdps(25):
        q = 2 * y - 1
        h, k, r = q * mpmath.mpf(a), mpmath.mpf(b), q * mpmath.tanh(mpmath.mpf(t))
        c, width = mpmath.sign(r), 1 / mpmath.cosh(mpmath.mpf(t))
        d = h - c * k

        def density(depth):  # in x = width exp(-depth)
            x = width * mpmath.exp(-depth)
            slope = mpmath.sqrt(1 - x * x)
            return x * mpmath.exp(-(d**2) / (2 * x * x) - c * h * k / (1 + slope)) / slope

        end = mpmath.log(1 + 240 * (width / d) ** 2) / 2  # exp(-120) is left
        edges = [end * j / 16 for j in range(17)]
        distance = mpmath.quad(density, edges) / (2 * mpmath.pi)
        if c > 0:
            return float(mpmath.log(mpmath.ncdf(min(h, k)) - distance))
        upper, lower = (k, -h) if -k > 0 else (h, -k)  # by symmetry, away from one
        gap = max(mpmath.ncdf(upper) - mpmath.ncdf(lower), mpmath.mpf(0))
        return float(mpmath.log(gap + distance))


@pytest.mark.parametrize("t", [5.0, pytest.param(-8.0, marks=pytest.mark.full), FARTHEST])
def test_values_are_those_of_mpmath(t):
    """At, near and far from the kink, in both tails; a row's own rounding is its error."""
    for y in (0, 1):
        side = np.sign(t) * (1 if y else -1)  # the kink is at q a = side b
        b = np.array([0.3, -1.2, 6.0, -20.0])
        for gap in (0.7 / math.cosh(t), -3.0 / math.cosh(t), 0.8):
            a = (2 * y - 1) * (side * b + gap)
            found = terms(a, b, t, np.full(4, y)).value[0].numpy()
            seen = found > -1e4
            expected = [by_mpmath(*pair, t, y) for pair in zip(a[seen], b[seen], strict=True)]
            # d = q a - side b is a difference of numbers of the size of b
            slack = 4e-16 * np.abs(b[seen]) * math.cosh(t) * (1 + np.abs(gap) * math.cosh(t))
            assert (np.abs(found[seen] - expected) <= 1e-12 * np.abs(expected) + slack).all()


@pytest.mark.parametrize("t", [CORNER + 0.01, pytest.param(-CORNER - 0.01, marks=pytest.mark.full)])
def test_the_half_line_goes_over_into_it(t):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.0, 1.5, (2, 60))
    y = (rng.random(60) < 0.5).astype(float)
    found = terms(a, b, t, y, order=2)
    form, at = ProbitForm(tol=1e-12), tensor([[t]])
    block = make_block(tensor(y), torch.ones(60))
    half = form._by_half_line(tensor(a)[None], tensor(b)[None], at[:, 0], block, abs(t), 2)
    likely = half.value[0] > -30.0  # below, second derivatives are differences of large numbers
    for one, other in ((found.value, half.value), (found.first, half.first)):
        torch.testing.assert_close(one[..., likely], other[..., likely], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(
        found.second[..., likely], half.second[..., likely], rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("t", [5.5, -7.0])
def test_derivatives_are_those_of_the_values(t):
    """By differences in units of the kink's width, where values are of order one."""
    rng = np.random.default_rng(2)
    width = 1.0 / math.cosh(t)
    b = rng.normal(size=40)
    y = np.tile([0.0, 1.0], 20)
    q = 2.0 * y - 1.0
    a = q * (np.sign(q * t) * b + width * rng.uniform(-2.0, 2.0, 40))
    exact = terms(a, b, t, y, order=2)
    steps = {0: (1e-4 * width, 0, 0), 1: (0, 1e-4 * width, 0), 2: (0, 0, 1e-4)}

    def moved(i, sign):
        da, db, dt = (sign * step for step in steps[i])
        return terms(a + da, b + db, t + dt, y, order=1)

    place = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
    for i, step in steps.items():
        above, below, h = moved(i, 1), moved(i, -1), 2 * sum(step)
        unit = 1.0 if i == 2 else 1.0 / width
        first = (above.value - below.value) / h
        assert ((first - exact.first[i]).abs().max() / unit).item() < 1e-6
        for j in range(i, 3):
            second = (above.first[j] - below.first[j])[0] / h
            size = unit * (1.0 if j == 2 else 1.0 / width)
            known = exact.second[place[i, j], 0]
            assert ((second - known).abs().max() / size).item() < 1e-6


def test_members_near_and_far_from_a_corner_share_a_batch():
    rng = np.random.default_rng(3)
    a, b = (tensor(v) for v in rng.normal(size=(2, 4, 30)))
    t = tensor([[0.4], [9.0], [-2.0], [-FARTHEST]])
    block = make_block(tensor(rng.random(30) < 0.5), torch.ones(30))
    form = ProbitForm()
    together = form.terms(a, b, t, block, form.nodes(t.numpy(), CPU), 2)
    for m in range(4):
        cut = slice(m, m + 1)
        alone = form.terms(a[cut], b[cut], t[cut], block, form.nodes(t[cut].numpy(), CPU), 2)
        for one, other in zip(
            (together.value[cut], together.first[:, cut], together.second[:, cut]),
            (alone.value, alone.first, alone.second),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_the_bound_is_the_limit():
    """Away from the kink the rows have PHI(min(a, b)) and PHI(b) - PHI(a)."""
    a, b = np.array([0.5, 1.5, -0.3]), np.array([1.0, 0.2, 0.9])
    ones = terms(a, b, FARTHEST, np.ones(3)).value[0].numpy()
    np.testing.assert_allclose(ones, log_ndtr(np.minimum(a, b)), rtol=0, atol=1e-12)
    above = b > a
    zeros = terms(a[above], b[above], FARTHEST, np.zeros(above.sum())).value[0]
    limit = log_ndtr_difference(tensor(b[above]), tensor(a[above]))
    torch.testing.assert_close(zeros, limit, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("high", "low"), [(1.0, -0.5), (30.001, 30.0), (-8.0, -8.5), (1e-9, 0.0)])
def test_differences_of_probabilities_keep_their_digits(high, low):
    found = log_ndtr_difference(tensor([high]), tensor([low])).item()
    with mpmath.workdps(300):
        exact = mpmath.log(mpmath.ncdf(mpmath.mpf(high)) - mpmath.ncdf(mpmath.mpf(low)))
    # high - low is known to the rounding of the two
    assert found == pytest.approx(float(exact), abs=1e-11 + 4e-16 * abs(high) / (high - low))
    assert log_ndtr_difference(tensor([low]), tensor([high])).item() == -math.inf


def test_soft_rows_are_refused():
    block = make_block(tensor([1.0]), tensor([0.7]))
    form, at = ProbitForm(), tensor([[9.0]])
    with pytest.raises(ValueError, match="no probit form"):
        form.terms(at, at, at, block, form.nodes(at.numpy(), CPU), 0)
