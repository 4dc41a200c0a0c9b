"""The troubleshooting page goes by the words of messages, which are those of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pandas as pd
import pytest

from statsmodels_mnar import (
    GreeneSelectionLogit,
    NoExclusionRestrictionWarning,
    NoVariationError,
    errors,
)
from statsmodels_mnar.datasets import simulate_greene

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^> (.+)$", PAGE, re.MULTILINE)


def said() -> str:
    """Every text of the package, adjacent literals joined as Python joins them."""
    found = []
    for path in (ROOT / "statsmodels_mnar").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(" ".join(node.value.split()))
    return "\n".join(found)


def test_quoted_messages_are_those_of_the_package():
    texts = said()
    assert len(QUOTED) > 15
    assert [quoted for quoted in QUOTED if quoted not in texts] == []


def test_warnings_and_errors_name_the_page():
    assert (ROOT / errors._MORE.removeprefix("See ").rstrip(".")).with_suffix(".md").is_file()
    data = simulate_greene(500).data
    with pytest.warns(NoExclusionRestrictionWarning, match=r"See docs/troubleshooting\.$"):
        GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1", data).fit()
    seen = pd.DataFrame(data[data.s == 1])
    with pytest.raises(NoVariationError, match=r"See docs/troubleshooting\.$"):
        GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", seen).fit()
