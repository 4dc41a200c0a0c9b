"""A checkpoint is of one fit: other labels, offsets, weights or rows are never answered by it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from statsmodels.tools.sm_exceptions import ModelWarning

from statsmodels_mnar import BiasCorrLogit, Execution, GreeneSelectionLogit
from statsmodels_mnar.datasets import simulate_greene

N = 900


def simulated():
    data = simulate_greene(N, rng=4).data
    rng = np.random.default_rng(4)
    data["known"] = 0.1 * rng.standard_normal(N)
    data["count"] = rng.integers(1, 4, N).astype(float)
    return data


def built(data, *, kind=GreeneSelectionLogit, partition_rows=400, **options):
    options = {"normalization": "loading", "offset": "known", "freq_weights": "count"} | options
    return kind.from_formula(
        "y ~ x1", "s ~ x1 + z", data, execution=Execution(partition_rows=partition_rows), **options
    )


def fit(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return model.fit(**options)


def corrected(data):
    """A tenth of the labels the other way round, as many of each: counts and scales stay."""
    ones, zeros = (data.index[(data.s == 1) & (data.y == value)][:30] for value in (1, 0))
    data.loc[ones, "y"], data.loc[zeros, "y"] = 0.0, 1.0
    return data


def moved(column):
    """A column's values given to other rows, its scale and sum unchanged."""

    def change(data):
        data[column] = np.roll(data[column].to_numpy(), 1)
        return data

    return change


OTHERS = {
    "labels": (corrected, "the outcome or the selection indicator have other values"),
    "one covariate": (moved("x1"), "the covariates of the outcome equation"),
    "instrument": (moved("z"), "the covariates of the selection equation have other values"),
    "offset": (moved("known"), "the offsets have other values"),
    "weights": (moved("count"), "the weights have other values"),
    "order": (lambda data: data.iloc[::-1], "or the rows another order"),
    "fewer rows": (lambda data: data.iloc[5:], r"the number of rows differs \(900 there, 895 here"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A finished fit and its checkpoint."""
    path = tmp_path_factory.mktemp("fits") / "fit.npz"
    return fit(built(simulated()), checkpoint=path), path


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_other_data_is_refused_with_what_differs(what, written):
    change, says = OTHERS[what]
    before = written[1].read_bytes()
    with pytest.raises(ValueError, match=f"is of a fit to other data: .*{says}"):
        fit(built(change(simulated())), checkpoint=written[1])
    assert written[1].read_bytes() == before


def test_a_checkpoint_answers_the_same_call_however_the_rows_are_cut(written):
    expected, path = written
    for partition_rows in (400, 333, 5_000):
        found = fit(built(simulated(), partition_rows=partition_rows), checkpoint=path)
        np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
    assert fit(built(simulated()), checkpoint=path).llf == expected.llf


@pytest.mark.full
def test_other_models_and_options_on_the_same_rows_are_fits_of_their_own(tmp_path):
    """They may share a file: what a sum depends on is part of its name in it."""
    path = tmp_path / "fit.npz"
    ways = [
        ({}, {}),
        ({"normalization": {"sigma": 1.0}}, {}),
        ({}, {"penalty": 0.01}),
        ({"kind": BiasCorrLogit, "soft_selection": 0.3}, {"penalty": 1e-4}),
        ({"kind": BiasCorrLogit, "soft_selection": 0.2}, {"penalty": 1e-4}),
        ({"kind": BiasCorrLogit, "soft_pseudolabels": True}, {"penalty": 1e-4}),
    ]
    for model, options in ways:
        expected = fit(built(simulated(), **model), **options)
        for _ in range(2):
            found = fit(built(simulated(), **model), checkpoint=path, **options)
            np.testing.assert_array_equal(found.params, expected.params)
            np.testing.assert_array_equal(found.cov_params(), expected.cov_params())


def test_a_checkpoint_without_offsets_or_weights_is_not_that_with_them(written):
    for left_out in ("offset", "freq_weights"):
        with pytest.raises(ValueError, match="other data"):
            fit(built(simulated(), **{left_out: None}), checkpoint=written[1])


@pytest.mark.parametrize("content", [b"", b"PK", b"not a checkpoint", b"\x93NUMPY"])
def test_a_file_that_is_no_checkpoint_is_named(content, tmp_path):
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    says = rf"checkpoint='.*fit\.npz' is not a checkpoint file.*\(it ends after {len(content)} by"
    with pytest.raises(ValueError, match=says):
        fit(built(simulated()), checkpoint=path)
