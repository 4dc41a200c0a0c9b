"""The one-way import rule: inside the package, data flows from designs to results, never back."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import statsmodels_mnar

# What each part of the package may import from the others, besides itself. docs/architecture.md
# explains the table; a new part must be entered in both. Imports inside functions and under
# `if TYPE_CHECKING` count too: the rule is about who knows whom.
_FITTING = {"design", "kernel", "optimize", "large", "post", "tools", "errors", "types"}
MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "tools": set(),
    "files": set(),
    "bias_theory": {"types"},
    "kernel": {"types"},
    "optimize": {"kernel", "types"},
    "design": {"errors", "types"},
    "post": {"design", "kernel", "optimize", "tools", "errors", "types"},
    "large": {"design", "kernel", "optimize", "post", "tools", "errors", "types"},
    "results": _FITTING | {"bias_theory"},
    "models": _FITTING | {"results"},
    "baselines": {"design", "kernel", "optimize", "tools", "errors", "types"},
    "datasets": {"design", "tools", "errors", "types"},
    "comparison": _FITTING | {"baselines", "models", "results"},
    "learn": _FITTING | {"baselines", "models", "results"},
    "montecarlo": _FITTING | {"models", "results", "datasets"},
}
# The entry points sit on top of everything.
MAY_IMPORT_ANYTHING = {"__init__", "__main__", "cli", "demo"}
# Libraries that a part must do without: kernel and optimisers know tensors, not tables.
MUST_NOT_USE: dict[str, set[str]] = {
    "kernel": {"pandas", "statsmodels", "patsy", "formulaic"},
    "optimize": {"pandas", "statsmodels", "patsy", "formulaic"},
}

PACKAGE = Path(__file__).resolve().parents[1] / "statsmodels_mnar"


def imported_names(module: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) for every import statement of a module.

    ``from a import b`` yields ``a.b``: whether b is a module or an object of a makes no difference
    to the part of the package it belongs to, except at the package's root.
    """
    parents = (package.name, *module.relative_to(package).parts[:-1])
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"), filename=str(module))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else ()
            origin = (*base, node.module) if node.module else base
            for alias in node.names:
                yield node.lineno, ".".join((*origin, alias.name))


def part_of(name: str, package: Path) -> str | None:
    """Return the part of the package a dotted name belongs to, None for another package's name."""
    root, _, rest = name.partition(".")
    if root != package.name:
        return None
    part = rest.partition(".")[0]
    exists = (package / part).is_dir() or (package / f"{part}.py").is_file()
    return part if part and exists else "__init__"  # `from package import __version__`


def violations(package: Path) -> list[str]:
    """List every breach of the rule in a package's source tree, without importing it."""
    found = []
    for module in sorted(package.rglob("*.py")):
        path = module.relative_to(package)
        part = path.parts[0].removesuffix(".py")
        if part in MAY_IMPORT_ANYTHING:
            continue
        if part not in MAY_IMPORT:
            found.append(f"{path}: {part} is in no row of MAY_IMPORT; decide what it may import")
            continue
        for line, name in imported_names(module, package):
            target = part_of(name, package)
            library = name.partition(".")[0]
            if target is None and library in MUST_NOT_USE.get(part, ()):
                found.append(f"{path}:{line}: {part} must do without {library}")
            elif target is not None and target not in {part} | MAY_IMPORT[part]:
                found.append(f"{path}:{line}: {part} may not import {target}")
    return found


def test_package_follows_the_import_rule():
    assert PACKAGE.is_dir()
    assert violations(PACKAGE) == []


def test_what_results_ask_for_reads_no_private_name_of_theirs():
    found = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for part in ("post", "kernel")
        for path in sorted((PACKAGE / part).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id not in ("self", "cls")
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
    ]
    assert found == []


def test_table_has_no_cycle():
    order: list[str] = []
    while len(order) < len(MAY_IMPORT):
        ready = [p for p in MAY_IMPORT if p not in order and MAY_IMPORT[p] <= set(order)]
        assert ready, f"the parts import each other in a circle: {set(MAY_IMPORT) - set(order)}"
        order += ready


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A tree that keeps the rule, with imports of every form."""
    sources = {
        "__init__.py": "from .models.greene import Model\nfrom .design import Design",
        "__main__.py": "from statsmodels_mnar import Model",
        "errors.py": "",
        "design.py": "import pandas\nfrom .errors import DataError",
        "kernel/__init__.py": "from . import rows",
        "kernel/rows.py": "import torch\nfrom .nodes import trapezoid",
        "kernel/nodes.py": "import statsmodels_mnar.kernel.rows",
        "kernel/draws/halton.py": "from .. import nodes\nfrom ..rows import value",
        "post/__init__.py": "from statsmodels_mnar import kernel",
        "models/greene.py": "def fit():\n    from .. import design, post\n",
    }
    root = tmp_path / "statsmodels_mnar"
    for name, source in sources.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)
    return root


def test_checker_accepts_a_clean_tree(package):
    assert violations(package) == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("kernel/bad.py", "from ..design import Design", "kernel may not import design"),
        ("kernel/bad.py", "from .. import design", "kernel may not import design"),
        ("kernel/bad.py", "import statsmodels_mnar.models", "kernel may not import models"),
        ("kernel/bad.py", "from statsmodels_mnar import Model", "kernel may not import __init__"),
        ("kernel/bad.py", "import pandas as pd", "kernel must do without pandas"),
        ("kernel/bad.py", "from statsmodels import api", "kernel must do without statsmodels"),
        ("kernel/draws/bad.py", "from ... import errors", "kernel may not import errors"),
        ("post/bad.py", "def f():\n    from ..models import greene", "may not import models"),
        ("design.py", "from .kernel import rows", "design may not import kernel"),
        ("helpers/new.py", "", "helpers is in no row of MAY_IMPORT"),
        ("helpers.py", "", "helpers is in no row of MAY_IMPORT"),
    ],
)
def test_checker_catches_a_planted_violation(package, path, source, message):
    (package / path).parent.mkdir(exist_ok=True)
    (package / path).write_text(source)
    (found,) = violations(package)
    assert message in found
    assert found.startswith(path)


def test_every_module_is_named_in_the_architecture():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for part in PACKAGE.iterdir():
        if part.is_dir() and part.name != "__pycache__":
            modules = {path.stem for path in part.glob("*.py")} - {"__init__"}
            missing = {name for name in modules if f"`{name}`" not in rows[f"{part.name}/"]}
            assert not missing, f"the row of {part.name}/ does not name {sorted(missing)}"
        elif part.suffix == ".py":
            assert f"`{part.name}`" in page


def test_every_public_name_is_found_on_demand():
    for name in (*statsmodels_mnar.__all__, "baselines", "bias_theory", "comparison", "datasets"):
        assert getattr(statsmodels_mnar, name).__name__.endswith(name)
        assert name in dir(statsmodels_mnar)
    assert not {"kernel", "post", "Any"} & set(dir(statsmodels_mnar))
    with pytest.raises(AttributeError, match="'statsmodels_mnar' has no attribute 'comparee'"):
        statsmodels_mnar.comparee  # noqa: B018


@pytest.mark.full  # it starts a process
def test_import_leaves_out_what_a_fit_does_not_need():
    code = "import sys, statsmodels_mnar; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    ours = {f"statsmodels_mnar.{part}" for part in ("baselines", "comparison", "datasets", "learn")}
    for name in ours | {"statsmodels_mnar.montecarlo", "matplotlib", "dask", "sklearn"}:
        assert name not in loaded
    assert "statsmodels_mnar.models.greene" in loaded
