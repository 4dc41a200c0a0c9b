"""Pictures: they draw what the tables say, on the axes given, and refuse bad input by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm
from statsmodels.stats.proportion import proportion_confint

from statsmodels_mnar import BiasCorrLogit, GreeneSelectionLogit, compare
from statsmodels_mnar.comparison import plot_coefficients
from statsmodels_mnar.datasets import simulate_greene
from statsmodels_mnar.post.metrics import calibration_bins
from statsmodels_mnar.results.inference import widened

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

FORMULAS = ("y ~ x1 + x2 + x3", "s ~ x1 + x2 + x3 + z")


@pytest.fixture(scope="module")
def data(logit_data):
    return logit_data.iloc[:1_000]


@pytest.fixture(scope="module")
def results(data):
    return GreeneSelectionLogit.from_formula(*FORMULAS, data, normalization="loading").fit()


@pytest.fixture(scope="module")
def free_form(logit_data):
    data = logit_data.iloc[:2_000]  # as many as close the interval of sigma below
    return GreeneSelectionLogit.from_formula(*FORMULAS, data, normalization="free").fit()


@pytest.fixture(scope="module")
def fits(data):
    return compare(*FORMULAS, data, ["naive", "probit", "greene"], normalization="loading")


@pytest.fixture
def ax():
    return Figure().add_subplot()


def line(ax, label):
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return found


def bars(ax, i=0, axis=0):
    """Centres and ends of an error bar's points, along the axis of the interval."""
    points, _, (segments,) = ax.containers[i].lines
    ends = np.array([segment[:, axis] for segment in segments.get_segments()])
    return points.get_xydata(), ends


DRAWINGS = {
    "profile": lambda r, ax: r.plot_profile("error_corr", ax=ax, grid=[0.2, 0.5, 0.8]),
    "sensitivity": lambda r, ax: r.plot_sensitivity(error_corr=[0, 0.3], variable="x1", ax=ax),
    "margeff": lambda r, ax: r.plot_margeff(ax=ax),
    "probabilities": lambda r, ax: r.plot_probabilities("x1", ax=ax),
    "calibration": lambda r, ax: r.plot_calibration(ax=ax),
    "trace": lambda r, ax: r.plot_trace(ax=ax),
    "coefficients": lambda r, ax: plot_coefficients({"a": r}, ax=ax),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_draws_on_the_axes_given_and_renders(results, ax, name):
    assert DRAWINGS[name](results, ax) is ax
    assert ax.get_xlabel()
    ax.figure.canvas.draw()
    # Series differ by more than colour.
    shown = [each for each in ax.lines if not each.get_label().startswith("_")]
    styles = [(each.get_linestyle(), each.get_marker(), each.get_linewidth()) for each in shown]
    assert len(set(styles)) == len(styles)


@pytest.mark.parametrize("name", DRAWINGS)
def test_makes_a_figure_that_pyplot_does_not_know(results, name):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    assert isinstance(DRAWINGS[name](results, None).figure, Figure)
    assert plt.get_fignums() == before


@pytest.mark.parametrize("name", DRAWINGS)
def test_axes_are_checked(results, name):
    with pytest.raises(ValueError, match="ax must be matplotlib axes, got tuple"):
        DRAWINGS[name](results, (Figure(), None))


def test_profile_shows_values_cut_estimate_and_interval(results):
    found = results.profile("error_corr")
    ax = results.plot_profile(found)
    points = line(ax, "fitted values").get_xydata()
    np.testing.assert_array_equal(points, np.column_stack([found.grid, found.values - found.llf]))
    assert line(ax, f"estimate {found.estimate:.3g}").get_xdata()[0] == found.estimate
    cut = found.cut - found.llf
    assert line(ax, f"cut, {cut:.2f}").get_ydata()[0] == cut
    low, high = found.interval
    bar = line(ax, f"95% interval {low:.3g} to {high:.3g}")
    np.testing.assert_array_equal(bar.get_xdata(), found.interval)
    np.testing.assert_array_equal(bar.get_ydata(), [cut, cut])


@pytest.mark.full
def test_profile_curve_lies_on_values_that_it_was_not_given(results):
    ax = results.plot_profile("error_corr")
    curve = line(ax, "profile log-likelihood")
    low, high = results.profile("error_corr").interval
    between = results.profile("error_corr", grid=np.linspace(low, high, 8))
    drawn = np.interp(between.grid, *curve.get_data())
    np.testing.assert_allclose(drawn, between.values - between.llf, atol=0.01)


@pytest.mark.full
def test_profile_of_an_open_side_says_so(free_form):
    found = free_form.profile("sigma")
    assert found.open[1]
    ax = free_form.plot_profile(found)
    labels = ax.get_legend_handles_labels()[1]
    assert any("open above" in label for label in labels)
    ax.figure.canvas.draw()


def test_sensitivity_shows_its_table_and_tipping_points(results):
    grid = np.linspace(-0.9, 0.95, 12)
    found = results.sensitivity(error_corr=grid, variable="Intercept")
    assert len(found.tipping)
    ax = results.plot_sensitivity(found)
    np.testing.assert_array_equal(
        line(ax, "estimate").get_xydata(), found.table["estimate"].reset_index().to_numpy()
    )
    np.testing.assert_array_equal(line(ax, "95% interval").get_ydata(), found.table["ci_lower"])
    assert line(ax, f"fitted model, {found.fitted:.2f}").get_xdata()[0] == found.fitted
    points = [each for each in ax.lines if each.get_markersize() == 8]
    assert [each.get_xdata()[0] for each in points] == found.tipping["at"].tolist()


def test_shaded_region_of_a_sensitivity_is_the_profile_interval(results):
    ax = results.plot_sensitivity(error_corr=np.linspace(-0.9, 0.9, 19), target="prevalence")
    (region,) = ax.collections
    edges = region.get_paths()[0].vertices[:, 0]
    plain = chi2.sf(chi2.ppf(0.95, 1) / widened(results), 1)  # of the set that is not widened
    interval = results.profile("error_corr", alpha=plain).interval  # in the same, the loading form
    np.testing.assert_allclose([edges.min(), edges.max()], interval, atol=0.01)
    bounds = line(ax, "worst-case bounds").get_ydata()[0]
    assert bounds == results.sensitivity(delta=[0.0], target="prevalence").bounds[0]


def test_margeff_shows_effects_and_intervals(results):
    effects = results.get_margeff(which="mean-unselected")
    ax = results.plot_margeff(effects, alpha=0.1)
    points, ends = bars(ax)
    np.testing.assert_array_equal(points[:, 0], effects.margeff)
    np.testing.assert_allclose(ends, effects.conf_int(0.1), rtol=1e-12)
    assert [each.get_text() for each in ax.get_yticklabels()] == list(effects.names)
    assert "P(y = 1 | s = 0)" in ax.get_xlabel()
    assert "90%" in ax.get_xlabel()


def test_several_margeffs_share_the_rows_of_their_variables(results):
    several = [results.get_margeff(which=which) for which in ("mean", "mean-unselected")]
    ax = results.plot_margeff(several)
    first, second = (container.lines[0].get_xydata() for container in ax.containers)
    assert ax.get_legend_handles_labels()[1] == ["P(y = 1)", "P(y = 1 | s = 0)"]
    assert len(first) == len(second) == len(several[1].names)
    assert np.isnan(first[-1, 0])  # z has no effect on the population's mean
    assert np.ptp(np.round([first[:, 1], second[:, 1]]), axis=0).max() == 0


def test_probabilities_of_a_typical_row(results, data):
    values = np.linspace(-1.0, 1.0, 20)
    ax = results.plot_probabilities("x1", values)
    row = data[["x2", "x3", "z"]].mean().to_frame().T
    frame = pd.concat([row] * 20).assign(x1=values)
    for which, label in {"mean": "P(y = 1)", "mean-unselected": "P(y = 1 | s = 0)"}.items():
        expected = results.get_prediction(frame, which=which).summary_frame()
        np.testing.assert_allclose(line(ax, label).get_ydata(), expected["predicted"], rtol=1e-12)
    low = [each for each in ax.lines if each.get_linewidth() == 0.5][-2]
    np.testing.assert_allclose(low.get_ydata(), expected["ci_lower"], rtol=1e-12)


def test_probabilities_averaged_over_rows(results, data):
    rows = data.iloc[:50]
    table = results.probabilities_along("z", [0.0, 1.5], which="mean-selected", data=rows)
    expected = [
        results.predict(rows.assign(z=value), which="mean-selected").mean() for value in (0.0, 1.5)
    ]
    np.testing.assert_allclose(table["mean-selected", "predicted"], expected, rtol=1e-12)


def test_probabilities_from_arrays_equal_those_from_formulas(results, data):
    X = np.column_stack([np.ones(len(data)), data[["x1", "x2", "x3"]]])
    W = np.column_stack([X, data["z"]])
    frames = [
        pd.DataFrame(m, columns=["const", "x1", "x2", "x3", "z"][: m.shape[1]]) for m in (X, W)
    ]
    model = GreeneSelectionLogit(
        data["y"].to_numpy(), frames[0], data["s"].to_numpy(), frames[1], normalization="loading"
    )
    arrays = model.fit()
    for variable in ("x1", "z"):
        table = results.probabilities_along(variable)
        np.testing.assert_allclose(arrays.probabilities_along(variable), table, rtol=1e-5)
    with pytest.raises(ValueError, match="variable='w' must be one of"):
        arrays.plot_probabilities("w")
    with pytest.raises(ValueError, match="data needs a model built from formulas"):
        arrays.plot_probabilities("x1", data=data)


def test_typical_row_uses_weights_and_offsets(data):
    weights = np.arange(len(data)) % 3 + 1.0
    fitted = GreeneSelectionLogit.from_formula(
        "y ~ x1 + x2", "s ~ x1 + x2 + z", data, normalization="loading",
        freq_weights=weights, offset=0.3 * data["x3"].to_numpy(),
    ).fit()  # fmt: skip
    table = fitted.probabilities_along("x1", [0.5])
    row = {name: [np.average(data[name], weights=weights)] for name in ("x2", "z")}
    offset = 0.3 * np.average(data["x3"], weights=weights)
    for which in ("mean", "mean-unselected"):
        expected = fitted.predict(pd.DataFrame(row | {"x1": [0.5]}), which=which, offset=offset)
        np.testing.assert_allclose(table[which, "predicted"], expected, rtol=1e-12)


def test_few_or_categorical_values_are_points(data):
    coded = data.assign(group=np.where(data["x1"] > 0, "high", "low"))
    fitted = GreeneSelectionLogit.from_formula(
        "y ~ group + x2", "s ~ group + x2 + z", coded, normalization="loading"
    ).fit()
    ax = fitted.plot_probabilities("group")
    assert [each.get_text() for each in ax.get_xticklabels()] == ["high", "low"]
    points, ends = bars(ax, 2, axis=1)
    expected = fitted.probabilities_along("group")["mean-unselected"]
    np.testing.assert_allclose(points[:, 1], expected["predicted"], rtol=1e-12)
    np.testing.assert_allclose(ends, expected[["ci_lower", "ci_upper"]], rtol=1e-10)
    # Another variable's typical row has the most frequent group.
    usual = coded["group"].mode()[0]
    row = pd.DataFrame({"group": [usual], "x2": [0.5], "z": [coded["z"].mean()]})
    table = fitted.probabilities_along("x2", [0.5], which="p11")
    assert table["p11", "predicted"].iloc[0] == fitted.predict(row, which="p11").iloc[0]


def test_numbers_that_code_a_factor_are_points(data):
    coded = data.assign(k=np.arange(len(data)) % 10 + 1)  # more levels than are few
    fitted = GreeneSelectionLogit.from_formula(
        "y ~ x1 + C(k)", "s ~ x1 + C(k) + z", coded, normalization="loading"
    ).fit()
    table = fitted.probabilities_along("k", which="mean")
    assert table.index.tolist() == list(range(1, 11))
    row = coded[["x1", "z"]].mean()
    cases = pd.DataFrame({"k": range(1, 11)}).assign(**row)
    np.testing.assert_allclose(table["mean", "predicted"], fitted.predict(cases), rtol=1e-12)
    assert len(fitted.plot_probabilities("k").get_xticklabels()) == 10
    # Along another variable it has its most frequent level, here by the weights.
    weights = np.where(coded.k == 4, 3.0, 1.0)
    weighted = GreeneSelectionLogit.from_formula(
        "y ~ x1 + C(k)", "s ~ x1 + C(k) + z", coded, normalization="loading", freq_weights=weights
    ).fit()
    case = pd.DataFrame({"x1": [0.5], "k": [4], "z": [np.average(coded.z, weights=weights)]})
    found = weighted.probabilities_along("x1", [0.5], which="p11")
    np.testing.assert_allclose(found["p11", "predicted"], weighted.predict(case, which="p11"))


def test_rows_given_as_data_count_alike_and_bring_their_offsets(data):
    weights, offset = np.arange(len(data)) % 3 + 1.0, 0.3 * data["x3"]
    formulas = "y ~ x1 + x2", "s ~ x1 + x2 + z"
    options = {"normalization": "loading", "freq_weights": weights}
    known = data.assign(known=offset)
    named = GreeneSelectionLogit.from_formula(*formulas, known, offset="known", **options).fit()
    table = named.probabilities_along("x1", [0.5], which="mean", data=known)
    expected = named.predict(known.assign(x1=0.5)).mean()
    np.testing.assert_allclose(table["mean", "predicted"], expected, rtol=1e-12)
    array = GreeneSelectionLogit.from_formula(
        *formulas, data, offset=offset.to_numpy(), **options
    ).fit()
    table = array.probabilities_along("x1", [0.5], which="mean", data=data)
    expected = named.predict(known.assign(x1=0.5, known=0.0)).mean()
    np.testing.assert_allclose(table["mean", "predicted"], expected, rtol=1e-6)


def test_calibration_bins_are_counted_shares_with_wilson_intervals():
    rng = np.random.default_rng(0)
    p = rng.random(1_000)
    y = (rng.random(1_000) < p).astype(float)
    table = calibration_bins(y, p, np.ones(1_000), counts=True, n_bins=4)
    by = pd.DataFrame({"y": y, "p": p}).groupby(pd.qcut(p, 4, labels=False))
    np.testing.assert_array_equal(table["n"], by.size())
    np.testing.assert_allclose(table["predicted"], by["p"].mean(), rtol=1e-12)
    np.testing.assert_allclose(table["observed"], by["y"].mean(), rtol=1e-12)
    ends = proportion_confint(by["y"].sum(), by.size(), 0.05, method="wilson")
    np.testing.assert_allclose(table[["ci_lower", "ci_upper"]].to_numpy().T, ends, rtol=1e-10)


def test_calibration_bins_weigh_rows():
    p, y, w = np.array([0.1, 0.1, 0.9]), np.array([0.0, 1.0, 1.0]), np.array([3.0, 1.0, 2.0])
    rows = np.repeat(np.arange(3), w.astype(int))
    counted = calibration_bins(y, p, w, counts=True, n_bins=2)
    pd.testing.assert_frame_equal(
        counted, calibration_bins(y[rows], p[rows], np.ones(6), counts=True, n_bins=2)
    )
    sampled = calibration_bins(y, p, w, counts=False, n_bins=2)
    np.testing.assert_allclose(sampled["n"], [16.0 / 10.0, 1.0])
    np.testing.assert_array_equal(sampled["observed"], counted["observed"])


def test_calibration_is_of_the_labelled_rows(results, data):
    ax = results.plot_calibration(5)
    seen = data["s"] == 1
    p = results.predict(data[seen], which="mean-selected").to_numpy()
    expected = calibration_bins(
        data["y"][seen].to_numpy(), p, np.ones(seen.sum()), counts=True, n_bins=5
    )
    points, ends = bars(ax, axis=1)
    np.testing.assert_allclose(points, expected[["predicted", "observed"]], rtol=1e-10)
    np.testing.assert_allclose(ends, expected[["ci_lower", "ci_upper"]], rtol=1e-10)
    for limits in (ax.get_xlim(), ax.get_ylim()):
        assert limits[0] <= expected["ci_lower"].min()
        assert expected["ci_upper"].max() <= limits[1]


def test_trace_is_the_solutions(results):
    ax = results.plot_trace()
    trace = results.solution.trace
    norms = line(ax, "score norm").get_xydata()
    np.testing.assert_array_equal(norms, [(step.iteration, step.score_norm) for step in trace])
    below = line(ax, "log-likelihood below its best value").get_ydata()
    np.testing.assert_allclose(below[0], max(s.value for s in trace) - trace[0].value)
    assert np.isnan(below).any()  # the best itself has no place on a log scale


@pytest.mark.parametrize(("show", "name"), [("coefficients", "coef"), ("margeff", "AME")])
def test_coefficients_across_models(fits, show, name):
    ax = plot_coefficients(fits, show, alpha=0.1)
    table = getattr(fits, show).drop(index="Intercept", errors="ignore")
    assert [each.get_text() for each in ax.get_yticklabels()] == ["x1", "x2", "x3"]
    assert ax.get_legend_handles_labels()[1] == ["naive", "probit", "greene"]
    for i, model in enumerate(fits.results):
        points, ends = bars(ax, i)
        estimate, error = table[model].to_numpy().T
        np.testing.assert_array_equal(points[:, 0], table[model, name])
        reach = norm.ppf(0.95) * error
        np.testing.assert_allclose(ends[:, 0], estimate - reach, rtol=1e-10)
        np.testing.assert_allclose(ends[:, 1], estimate + reach, rtol=1e-10)


def test_coefficients_of_chosen_variables(fits, results):
    ax = plot_coefficients(fits, variables=["x3", "Intercept"])
    assert [each.get_text() for each in ax.get_yticklabels()] == ["x3", "Intercept"]
    ax = plot_coefficients({"mine": results}, variables="x2")
    assert ax.containers[0].lines[0].get_xdata()[0] == results.params["x2"]


def test_biascorr_has_the_pictures_that_make_sense(data):
    fitted = BiasCorrLogit.from_formula(*FORMULAS, data, normalization={"sigma": 1.0}).fit()
    for drawn in (
        fitted.plot_margeff(),
        fitted.plot_probabilities("x1"),
        fitted.plot_calibration(),
    ):
        drawn.figure.canvas.draw()
    with pytest.raises(ValueError, match="not a likelihood"):
        fitted.plot_profile("error_corr")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda r: r.plot_profile(r.profile("x1", grid=[0.5]), alpha=0.1), "param is a Profile"),
        (lambda r: r.plot_profile("nothing"), "nothing"),
        (lambda r: r.plot_sensitivity(0.3), "found must come from sensitivity"),
        (lambda r: r.plot_margeff("mean"), "effects must come from get_margeff"),
        (lambda r: r.plot_margeff([]), "effects must come from get_margeff"),
        (lambda r: r.plot_margeff(r.get_margeff(), which="mean"), "effects is a MarginalEffects"),
        (
            lambda r: r.plot_margeff([r.get_margeff(), r.get_margeff(method="eydx")]),
            "effects have the methods",
        ),
        (lambda r: r.plot_margeff(alpha=2.0), "alpha=2.0"),
        (lambda r: r.plot_probabilities("nothing"), "nothing"),
        (lambda r: r.plot_probabilities("x1", which="linear"), "which='linear' is an index"),
        (lambda r: r.plot_probabilities("x1", which="odds"), "which='odds'"),
        (lambda r: r.plot_probabilities("x1", ["a"]), "values must be values of x1"),
        (lambda r: r.plot_probabilities("x1", []), "values must be values of x1"),
        (lambda r: r.plot_calibration(0), "n_bins=0"),
        (lambda r: plot_coefficients({"a": r}, "odds"), "show='odds'"),
        (lambda r: plot_coefficients({"a": r}, variables=["w"]), r"variables=\['w'\]"),
        (lambda r: plot_coefficients([3]), "int"),
    ],
)
def test_bad_input_is_refused_by_name(results, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(results)


def test_support_is_shaded_from_the_best_value_on_the_path():
    """The fit itself may be a fixed dependence that the data reject."""
    simulated = simulate_greene(500, rng=3)
    results = GreeneSelectionLogit.from_formula(
        simulated.formula, simulated.select_formula, simulated.data, normalization="independent"
    ).fit()
    found = results.sensitivity(error_corr=[-0.3, 0.0, 0.3, 0.6, 0.9], variable="x1")
    assert found.table["supported"].tolist() == [False, False, False, False, True]
    (shade,) = results.plot_sensitivity(found).collections
    shaded = np.vstack([path.vertices for path in shade.get_paths()])[:, 0]
    assert shaded.min() > 0.6
    assert shaded.max() == pytest.approx(0.9)
