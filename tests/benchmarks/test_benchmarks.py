"""The benchmarks run, at sizes too small to time anything."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

from statsmodels_mnar import Execution

from . import draws, kernel, large_data


def test_kernel_benchmark_measures_both_sides():
    figures = kernel.cost_ratio(300, blocks=(100, 200), repeat=1)
    assert {"bare 100", "bare 200", "whole 100", "whole 200", "whole default"} < set(figures)
    assert min(figures.values()) > 0.0
    assert figures["ratio"] <= figures["default ratio"]
    assert list(kernel.growth((200, 400), repeat=1)) == [200, 400]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
@pytest.mark.full
def test_memory_is_that_of_the_engine_alone():
    """20,000 rows hold 3.5 MB: the figure must count them, and neither data nor libraries."""
    figures = kernel.memory(20_000)
    assert 1.0 < figures["peak"] < 120.0
    assert figures["build"] <= figures["peak"]
    assert figures["before"] > 50.0


def test_stratified_draws_beat_random_ones():
    table = draws.errors(200, n_draws=(50, 200), seeds=2)
    assert set(table) == {"random", "antithetic", "halton", "sobol", "mlhs"}
    for kind, by_count in table.items():
        assert 0.0 < by_count[200] < by_count[50]
        if kind != "random":
            assert by_count[200] < table["random"][200]
    # An order of magnitude at R = 200, not a close race.
    assert max(table["halton"][200], table["sobol"][200]) < table["random"][200] / 4


@pytest.mark.full
def test_large_data_benchmark_fits_what_it_makes(tmp_path):
    pytest.importorskip("pyarrow")
    large_data.make(tmp_path / "made", 3_000)
    frame = pd.read_parquet(tmp_path / "made")
    assert len(frame) == 3_000 and 0.3 < frame.s.mean() < 0.9
    stream = large_data.fit(str(tmp_path / "made"), Execution(partition_rows=1_000, memory=0))
    memory = large_data.fit(frame)
    assert stream["rows"] == memory["rows"] == 3_000
    assert stream["llf"] == pytest.approx(memory["llf"], rel=1e-12)
    assert min(stream["us_per_row"], stream["peak_gb"]) > 0
