"""The identification report."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import (
    BiasCorrLogit,
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    WeakIdentificationWarning,
)
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.post.profile import Profile
from statsmodels_mnar.post.sensitivity import identify


def profiled(low: float, high: float) -> Profile:
    return Profile(
        "error_corr", 0.5 * (low + high), (low, high), (False, False), 0.95, -10.0, -11.92,
        np.empty(0), np.empty(0), (), (), pd.DataFrame(), "",
    )  # fmt: skip


def test_condition_and_weakest_direction_are_those_of_the_scaled_information():
    # Unit diagonal with a correlation of 0.8 between the last two: eigenvalues 0.2, 1 and 1.8.
    scaled = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.8], [0.0, 0.8, 1.0]])
    size = np.array([3.0, 0.5, 20.0])
    names = ["x", "lnsigma", "athrho"]
    found = identify(-scaled * np.outer(size, size), names, {"free": -1.0})
    assert found.condition == pytest.approx(9.0)
    np.testing.assert_allclose(found.weakest.abs(), [0.0, 0.5**0.5, 0.5**0.5], atol=1e-12)
    assert found.correlation == pytest.approx(-0.8)
    assert found.width is None
    assert found.verdict() == []


def test_verdict_says_what_the_interval_says():
    cheap = identify(-np.eye(2), ["a", "loading"], {})
    apart = replace(cheap, profile=profiled(0.2, 0.6), excluded=("z",))
    assert apart.width == pytest.approx(0.4)
    assert "not ignorable, and the sign is positive" in str(apart)
    assert "z moves selection only" in str(apart)
    assert "negative" in str(replace(cheap, profile=profiled(-0.6, -0.2)))
    vague = replace(cheap, profile=profiled(-0.3, 0.9), excluded=())
    assert "do not reject that selection is ignorable" in str(vague)
    assert "more than half of the range" in str(vague)
    assert "rests on the functional form" in str(vague)
    ridge = replace(cheap, correlation=-0.999)
    assert "not identified separately" in str(ridge)


def test_report_adds_the_profile_to_the_cheap_part():
    sim = simulate_greene(500, rng=1)
    results = GreeneSelectionLogit.from_formula(
        sim.formula, sim.select_formula, sim.data, normalization="loading"
    ).fit()
    assert results.identification.profile is None
    report = results.identification_report(alpha=0.1)
    assert report.profile.interval == pytest.approx(
        results.profile("error_corr", alpha=0.1).interval, abs=1e-4
    )
    assert report.excluded == ("z",)
    assert report.condition == results.identification.condition
    robust = results.get_robustcov_results("HC0").identification_report()
    assert robust.profile is None and robust.excluded == ("z",)
    results.remove_data()
    assert pickle.loads(pickle.dumps(results)).identification.condition == report.condition
    with pytest.raises(ValueError, match="data have been removed"):
        results.identification_report()


def test_report_without_an_exclusion_and_without_a_likelihood():
    sim = simulate_greene(1_000, rng=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoExclusionRestrictionWarning)
        warnings.simplefilter("ignore", WeakIdentificationWarning)
        bare = GreeneSelectionLogit.from_formula(
            sim.formula, "s ~ x1 + x2", sim.data, normalization="independent"
        ).fit()
    report = bare.identification_report()
    assert report.excluded == () and report.profile is None  # nothing to profile is estimated
    corrected = BiasCorrLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    assert corrected.identification_report().profile is None
