"""Functions of the normal distribution, and what links say of themselves in several ways."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from statsmodels_mnar.kernel.links import (
    CLOGLOG,
    LOGIT,
    PROBIT,
    log_ndtr,
    log_ndtr_and_mills,
    mills,
)

# Both sides of zero, of where the density loses digits, and of where the tail underflows.
POINTS = torch.tensor(
    [-200.0, -40.0, -10.0 - 1e-9, -10.0, -10.0 + 1e-9, -3.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 9.0, 40.0],
    dtype=torch.float64,
)


def test_one_error_function_gives_both_functions_of_the_normal():
    z = torch.cat([POINTS, torch.linspace(-30.0, 8.5, 2001, dtype=torch.float64)])
    value, ratio = log_ndtr_and_mills(z)
    torch.testing.assert_close(value, log_ndtr(z), rtol=1e-14, atol=0.0)
    near = z < 8.0  # farther up the ratio itself is below 1e-14
    torch.testing.assert_close(ratio[near], mills(z[near]), rtol=2e-14, atol=0.0)
    assert ((ratio[~near] >= 0.0) & (ratio[~near] < 1e-13)).all()


@pytest.mark.parametrize("z", [-12.0, -9.5, -1.25, 0.75, 4.0])
def test_they_are_those_of_many_digits(z):
    value, ratio = log_ndtr_and_mills(torch.tensor([z], dtype=torch.float64))
    with mpmath.workdps(40):
        expected = mpmath.log(mpmath.ncdf(z)), mpmath.npdf(z) / mpmath.ncdf(z)
    np.testing.assert_allclose([value.item(), ratio.item()], [float(v) for v in expected], 3e-14)


@pytest.mark.parametrize("link", [LOGIT, PROBIT, CLOGLOG])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_terms_of_a_link_are_its_parts(link, sign):
    z = torch.linspace(-12.0, 6.0, 301, dtype=torch.float64)
    found = link.terms(z, sign)
    for one, other in zip(found, (link.log_cdf(z, sign), *link.ratios(z, sign)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-300)
