"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build/html``. Needs no network."""

import re
import sys
from importlib import import_module
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import statsmodels_mnar
from statsmodels_mnar.post.door import INSIDE

project = "statsmodels_mnar"
author = "statsmodels_mnar developers"
copyright = author
version = release = statsmodels_mnar.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "notes"]
suppress_warnings = ["config.cache"]  # autosummary_context holds a function

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # the anchors of headings are those that GitHub makes

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # types stand in the docstrings, in words
numpydoc_show_class_members = False  # docs/_templates/autosummary/class.rst lists them


def own_members(fullname: str, names: list[str]) -> list[str]:
    """Public members that this package defines or documents anew, not those of its parents."""
    module, _, name = fullname.rpartition(".")
    cls = getattr(import_module(module), name)
    ours = [vars(base) for base in cls.__mro__ if base.__module__.startswith(project)]
    return [
        name
        for name in names
        if not name.startswith("_")
        and name not in INSIDE
        and any(name in members and not from_sklearn(members[name]) for members in ours)
    ]


def from_sklearn(member: object) -> bool:
    """Whether scikit-learn put the member, such as set_fit_request, on a class of ours."""
    return type(member).__module__.startswith("sklearn.")


autosummary_context = {"own_members": own_members}
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_sidebars = {
    **{page: [] for page in ("index", "start")},  # these have no pages below them
    "api/**": [],  # seventy names in one list; the page has them grouped
}
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_theme_options = {
    "logo": {"text": project},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}


THIN = '<mspace width="0.17em" />'
# Where latex2mathml's output is not what TeX would set.
TYPOGRAPHY = {
    # A prime is high enough by itself: as a superscript it floats.
    r"<msup><mi>([^<]+)</mi><mi>&#x02032;</mi></msup>": (
        r'<mi>\1</mi><mo lspace="0" rspace="0.1em">&#x02032;</mo>'
    ),
    r"<mi>(&#x003[9A].;)</mi>": r'<mi mathvariant="normal">\1</mi>',  # capital Greek stands upright
    # A thin space before the name of a function, and after it where no bracket follows.
    r"(</m(?:i|n|sub|sup)>|&#x00029;</mo>)(?=<mi>(?:log|exp|cosh|atanh)</mi>)": rf"\1{THIN}",
    r"(<mi>(?:log|exp|cosh|atanh)</mi>)(?!<mo[^>]*>(?:&#x00028;|\())": rf"\1{THIN}",
    # A minus that has nothing before it is a sign.
    r"((?:&#x00028;|&#x0003D;|\()</mo>)<mo>&#x02212;</mo>": r'\1<mo form="prefix">&#x02212;</mo>',
    r"<mo>&#x0007C;</mo>": '<mo lspace="0" rspace="0">&#x0007C;</mo>',  # bars of absolute values
}


def mathml(formula: str, display: str) -> str:
    """TeX as MathML."""
    text = convert(formula, display=display)
    for pattern, replacement in TYPOGRAPHY.items():
        text = re.sub(pattern, replacement, text)
    return text


def setup(app: Sphinx) -> None:
    """Typeset formulas while building: browsers show MathML without a script."""

    def inline(self, node) -> None:
        self.body.append(mathml(node.astext(), "inline"))
        raise SkipNode

    def block(self, node) -> None:
        self.body.append(f'<div class="math-block">{mathml(node.astext(), "block")}</div>')
        raise SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
