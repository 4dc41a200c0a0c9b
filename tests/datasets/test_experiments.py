"""The paper's designs, splits and labelled rows; its exact cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from statsmodels_mnar.datasets import EXPERIMENTS, load_drug, load_experiment

# Training rows, unlabelled ones, eta as printed, columns of the two designs with the constant.
COUNTS = {
    "adult": (31_655, 23_664, 0.7476, 21, 29),
    "german": (700, 162, 0.2314, 12, 16),
    "drug": (1_319, 860, 0.6520, 6, 13),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_sizes_are_the_papers(shared: Path, name):
    data = load_experiment(name, shared / "data")
    n, unlabelled, eta, p, k = COUNTS[name]
    assert (len(data.y), int((data.s == 0).sum())) == (n, unlabelled)
    assert round(data.eta, 4) == eta
    assert (data.X.shape, data.W.shape) == ((n, p), (n, k))
    assert list(data.W.columns[:p]) == list(data.X.columns)
    assert len(data.y_test) == len(data.X_test) == len(data.W_test)
    everyone = np.vstack([data.W, data.W_test])[:, 1:]
    np.testing.assert_allclose(everyone.mean(0), 0.0, atol=1e-10)
    np.testing.assert_allclose(everyone.std(0), 1.0, rtol=1e-10)
    np.testing.assert_array_equal(np.isnan(data.seen), data.s == 0)


@pytest.mark.parametrize("eta", [0.5, 0.6, 0.7])
def test_other_missingness_ratios_move_the_openness_cut(shared: Path, eta):
    data = load_experiment("drug", shared / "data", eta=eta)
    assert data.eta == pytest.approx(eta, abs=1e-3)
    score = load_drug(shared / "data")["oscore"].to_numpy()[: len(data.s)]
    assert score[data.s == 1].max() <= score[data.s == 0].min()


def test_unknown_names_and_ratios_are_refused():
    with pytest.raises(ValueError, match=r"name='iris' is unknown; use one of \['adult'"):
        load_experiment("iris")
    with pytest.raises(ValueError, match=r"eta=0.5 .* needs name='drug'"):
        load_experiment("adult", eta=0.5)
    with pytest.raises(ValueError, match=r"eta=1.5 must lie in \(0, 1\)"):
        load_experiment("drug", eta=1.5)
