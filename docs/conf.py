"""How the documentation is built: ``python -m sphinx -W -n -b html docs docs/_build``."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "schedule-sm"
author = "the schedule-sm authors"
release = version = installed_version("schedule-sm")
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "api", "charts"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "decisions", "examples"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []

nitpicky = True
nitpick_ignore_regex = [
    # no inventories are fetched: a build needs no network, so names of other projects have no pages here
    (r"py:.*", r"(asyncio|collections|datetime|enum|os|pathlib|types|typing|weakref)(\..*)?"),
    (r"py:.*", r"(pydantic|statemachine|pytest|time_machine)(\..*)?"),
    (
        r"py:(class|exc|data)",
        r"(Any|bool|bytes|dict|float|int|list|object|set|str|tuple|type|None|Exception|ValueError|RuntimeError)",
    ),
    # checked text and numbers: aliases of str and int, whose rules stand on the page "Log format"
    (r"py:class", r"(ScheduleId|Prompt|AfterSeconds|Instant|Version)"),
    # a type variable: it has no page
    (r"py:class", r".*\._T"),
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"schedule-sm {release}"
html_static_path = ["_static"]
html_css_files = ["charts.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
