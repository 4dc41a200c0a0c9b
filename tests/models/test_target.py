"""BiasCorr* (Algorithm 2): the unlabelled rows taken from a sample of the target population."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from statsmodels_mnar import BiasCorrLogit
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.errors import DesignError
from statsmodels_mnar.models.target import augment

SIGMA_ONE = {"normalization": {"sigma": 1.0}}


def frame(**columns: list) -> pd.DataFrame:
    return pd.DataFrame(columns)


def tuples(data: pd.DataFrame, rows: np.ndarray, names: list[str]) -> Counter:
    return Counter(data.iloc[rows][names].itertuples(index=False, name=None))


# D_s has the tuples a (3 times), b, c; D_N is 10 rows, all drawn when n = 10.
LABELED = frame(t=list("aaabc"))
TARGET = frame(t=list("aabbbccdda"))  # a 3, b 3, c 2, d 2


def by_the_papers_loop(
    labeled: pd.DataFrame, drawn: pd.DataFrame, n: int, names: list[str]
) -> Counter:
    """Lines 2 to 12, a loop over distinct samples in order of appearance."""
    chosen: Counter = Counter()
    room = n - len(labeled)
    a = Counter(labeled[names].itertuples(index=False, name=None))
    b = Counter(drawn[names].itertuples(index=False, name=None))
    for t in drawn[names].drop_duplicates().itertuples(index=False, name=None):
        if b[t] > a[t]:
            chosen[t] += min(b[t] - a[t], room - chosen.total())
        if chosen.total() == room:
            break
    return +chosen


def test_example_by_hand():
    """b_t - a_t: a 3 - 3 = 0, b 3 - 1 = 2, c 2 - 1 = 1, d 2 - 0 = 2; five rows, n - m = 5."""
    for seed in range(5):
        chosen = augment(LABELED, TARGET, ["t"], 10, seed)
        assert tuples(TARGET, chosen, ["t"]) == {("b",): 2, ("c",): 1, ("d",): 2}
        assert len(set(chosen)) == 5  # no row twice: drawn without replacement


def test_breaks_when_full():
    """n = 7 leaves room for 2: distinct tuples are visited in the order of D_n."""
    labeled = frame(t=list("aaaax"))
    target = frame(t=list("bbbcccd"))
    for seed in range(10):
        chosen = augment(labeled, target, ["t"], 7, seed)
        assert len(chosen) == 2
        rng = np.random.default_rng(seed)
        first = target["t"].iloc[rng.choice(7, 7, replace=False)].iloc[0]
        assert target["t"].iloc[chosen[0]] == first  # the first tuple of D_n has b_t > a_t = 0


@pytest.mark.parametrize("n", [45, 60, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_agrees_with_the_papers_loop(n, seed):
    rng = np.random.default_rng(100 + seed)
    labeled = pd.DataFrame(rng.integers(0, 3, (40, 2)), columns=["u", "v"])
    target = pd.DataFrame(rng.integers(0, 4, (80, 2)), columns=["u", "v"])
    chosen = augment(labeled, target, ["u", "v"], n, seed)
    same = np.random.default_rng(seed)
    drawn = target.iloc[same.choice(80, size=n, replace=n > 80)]
    assert tuples(target, chosen, ["u", "v"]) == by_the_papers_loop(labeled, drawn, n, ["u", "v"])


def test_adds_n_less_m_rows():
    """Always: the b_t sum to n and the a_t to at most m."""
    rng = np.random.default_rng(0)
    labeled = pd.DataFrame({"t": rng.integers(0, 3, 50)})
    target = pd.DataFrame({"t": rng.integers(0, 5, 400)})
    for n in (51, 100, 400):
        assert len(augment(labeled, target, ["t"], n, 0)) == n - 50


def test_draws_with_replacement_from_a_small_target():
    chosen = augment(frame(t=list("ab")), frame(t=list("cd")), ["t"], 50, 0)
    assert len(chosen) == 48
    assert set(chosen) == {0, 1}


def test_default_size_is_that_of_the_target():
    assert len(augment(frame(t=["a"] * 2), frame(t=["b"] * 9), ["t"], None, 0)) == 7
    assert len(augment(frame(t=["a"] * 5), frame(t=["b"] * 2), ["t"], None, 0)) == 1


def test_cut_points_define_the_same_sample():
    """Continuous values are distinct everywhere; cut at 0 they are two tuples."""
    labeled = frame(v=[-1.0, -2.0, -0.5, 0.3])
    target = frame(v=[-0.1, -3.0, -1.1, 0.1, 0.2, 0.4, 2.0, 5.0])
    assert len(augment(labeled, target, ["v"], 8, 0)) == 4  # nothing matches: the first n - m
    chosen = augment(labeled, target, {"v": [0.0]}, 8, 0)
    assert (target["v"].iloc[chosen] > 0).all()  # below: 3 - 3 = 0; above: 5 - 1 = 4
    assert len(chosen) == 4


def test_cut_points_and_plain_columns_mix():
    labeled = frame(v=[-1.0, 1.0], g=["a", "b"])
    target = frame(v=[-2.0, -3.0, 2.0, 3.0], g=["a", "b", "a", "b"])
    chosen = augment(labeled, target, {"v": [0.0], "g": None}, 4, 0)
    assert sorted(chosen) == [1, 2]


def test_missing_values_match_each_other():
    labeled = frame(t=["a", None])
    target = frame(t=[None, "a", "b", "b"])
    assert sorted(augment(labeled, target, ["t"], 4, 0)) == [2, 3]


def test_is_a_function_of_its_rng():
    rng = np.random.default_rng(0)
    labeled = pd.DataFrame({"t": rng.integers(0, 5, 30)})
    target = pd.DataFrame({"t": rng.integers(0, 9, 300)})
    one, again = (augment(labeled, target, ["t"], 100, 7) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    given = augment(labeled, target, ["t"], 100, np.random.default_rng(7))
    np.testing.assert_array_equal(one, given)
    assert set(augment(labeled, target, ["t"], 100, 8)) != set(one)


@pytest.mark.slow
def test_a_million_rows():
    """Prints the seconds."""
    rng = np.random.default_rng(0)
    target = pd.DataFrame(rng.integers(0, 20, (1_000_000, 4)), columns=list("abcd"))
    labeled = target.iloc[:100_000]
    start = time.perf_counter()
    chosen = augment(labeled, target, list("abcd"), None, 0)
    print(f"\na million target rows: {time.perf_counter() - start:.2f} s, {len(chosen)} chosen")
    assert 0 < len(chosen) <= 900_000


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="n=5 must be an integer above the 5 labelled rows"):
        augment(LABELED, TARGET, ["t"], 5, 0)
    with pytest.raises(ValueError, match="labeled has 5 rows and target 0; both need at least one"):
        augment(LABELED, TARGET[:0], ["t"], 10, 0)
    with pytest.raises(ValueError, match="labeled has 0 rows and target 10"):
        augment(LABELED[:0], TARGET, ["t"], 10, 0)
    with pytest.raises(ValueError, match="match_on names 'v', which labeled does not have"):
        augment(LABELED, TARGET.assign(v=1), ["v"], 10, 0)
    with pytest.raises(ValueError, match="match_on names 'v', which target does not have"):
        augment(LABELED.assign(v=1), TARGET, ["v"], 10, 0)


# -- from_target -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def biased() -> pd.DataFrame:
    data = simulate_greene(800, rng=1).data
    return data[data["s"] == 1][["x1", "x2", "z", "y"]].reset_index(drop=True)


@pytest.fixture(scope="module")
def population() -> pd.DataFrame:
    return simulate_greene(900, rng=2).data[["x1", "x2", "z"]]


MATCH = {"x1": [-1.0, 0.0, 1.0], "x2": None, "z": [0.0]}


def test_from_target_equals_the_augmented_frame(biased, population):
    star = BiasCorrLogit.from_target(
        "y ~ x1 + x2", "~ x1 + x2 + z", biased, population, n=900, match_on=MATCH, rng=0,
        **SIGMA_ONE,
    ).fit()  # fmt: skip
    added = population.iloc[augment(biased, population, MATCH, 900, 0)]
    joined = pd.concat([biased.assign(s=1), added.assign(s=0, y=np.nan)], ignore_index=True)
    by_hand = BiasCorrLogit.from_formula("y ~ x1 + x2", "s ~ x1 + x2 + z", joined, **SIGMA_ONE)
    expected = by_hand.fit()
    np.testing.assert_array_equal(star.params, expected.params)
    np.testing.assert_array_equal(star.bse, expected.bse)
    assert star.soft_selection == expected.soft_selection
    assert star.nobs == len(biased) + len(added)
    assert star.nobs_selected == len(biased)


def test_labels_of_target_rows_are_not_read(biased, population):
    options = {"match_on": MATCH, "rng": 0, **SIGMA_ONE}
    formulas = ("y ~ x1 + x2", "~ x1 + x2 + z")
    plain = BiasCorrLogit.from_target(*formulas, biased, population, **options)
    labelled = BiasCorrLogit.from_target(*formulas, biased, population.assign(y=1.0), **options)
    assert plain.design.labelled.sum() == labelled.design.labelled.sum() == len(biased)
    np.testing.assert_array_equal(labelled.training_design.y, plain.training_design.y)


def test_matches_on_all_shared_columns_but_the_outcome():
    """A column whose name is part of the outcome's is still matched on."""
    rng = np.random.default_rng(0)
    labeled = pd.DataFrame({"pay": rng.integers(0, 2, 60), "p": rng.integers(0, 2, 60)})
    target = pd.DataFrame({"pay": rng.integers(0, 2, 90), "p": rng.integers(0, 3, 90)})
    model = BiasCorrLogit.from_target("pay ~ p", "~ p", labeled, target, rng=0)
    same = BiasCorrLogit.from_target("pay ~ p", "~ p", labeled, target, match_on=["p"], rng=0)
    np.testing.assert_array_equal(model.design.X, same.design.X)


def test_transformed_outcomes_are_not_matched_on():
    rng = np.random.default_rng(0)
    labeled = pd.DataFrame({"my y": rng.integers(0, 2, 60), "p": rng.integers(0, 2, 60)})
    target = pd.DataFrame({"my y": rng.integers(0, 2, 90), "p": rng.integers(0, 3, 90)})
    outcome = "Q('my y') ~ p"
    model = BiasCorrLogit.from_target(outcome, "~ p", labeled, target, rng=0)
    same = BiasCorrLogit.from_target(outcome, "~ p", labeled, target, match_on=["p"], rng=0)
    np.testing.assert_array_equal(model.design.X, same.design.X)


def test_formulas_find_the_callers_names(biased, population):
    def squared(v):
        return v**2

    model = BiasCorrLogit.from_target(
        "y ~ x1 + squared(x1)", "~ x1 + z", biased, population, match_on=MATCH, rng=0
    )
    np.testing.assert_allclose(model.design.X[:, 2], model.design.X[:, 1] ** 2)


def test_from_target_checks_its_arguments(biased, population):
    with pytest.raises(DesignError, match="must have no left side"):
        BiasCorrLogit.from_target("y ~ x1", "s ~ x1 + z", biased, population)
    with pytest.raises(ValueError, match="match_on is empty"):
        BiasCorrLogit.from_target("y ~ x1", "~ x1", biased, population[[]])
    with pytest.raises(ValueError, match="match_on is empty"):
        BiasCorrLogit.from_target("y ~ x1", "~ x1", biased, population, match_on=[])
    with pytest.raises(ValueError, match="match_on names 'w'"):
        BiasCorrLogit.from_target("y ~ x1", "~ x1", biased, population, match_on=["w"])
    with pytest.raises(ValueError, match="n=10 must be an integer above"):
        BiasCorrLogit.from_target("y ~ x1", "~ x1", biased, population, n=10)


def test_arrays_give_the_model_of_the_formulas():
    rng = np.random.default_rng(11)
    names = ["x", "z"]
    labeled = pd.DataFrame(rng.integers(0, 3, (200, 2)).astype(float), columns=names)
    labeled["y"] = (rng.random(200) < 0.3 + 0.2 * labeled.x).astype(float)
    target = pd.DataFrame(rng.integers(0, 4, (900, 2)).astype(float), columns=names)
    by_formula = BiasCorrLogit.from_target("y ~ x", "~ x + z", labeled, target, rng=3)

    def design(frame, *columns):
        return np.column_stack([np.ones(len(frame)), frame[list(columns)]])

    by_arrays = BiasCorrLogit.from_target_arrays(
        labeled.y,
        design(labeled, "x"),
        design(target, "x"),
        design(labeled, "x", "z"),
        design(target, "x", "z"),
        rng=3,
    )
    np.testing.assert_array_equal(by_arrays.design.s, by_formula.design.s)
    np.testing.assert_array_equal(by_arrays.design.W, by_formula.design.W)
    with pytest.raises(ValueError, match="exog_target"):
        BiasCorrLogit.from_target_arrays(labeled.y, design(labeled, "x"), target[["x"]])
