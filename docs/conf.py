"""The site: pages in Markdown, a reference from docstrings, a gallery of executed examples. No request leaves it."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_extensions"), str(DOCS.parent / "src")]

import probsym  # noqa: E402, which is found by the path above

project = "probsym"
author = "probsym developers"
copyright = "2026, probsym developers"
version = release = probsym.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "paper_tables",
    "plain_docstrings",
]
exclude_patterns = ["gallery/**/*.ipynb"]
suppress_warnings = [
    "config.cache",  # the order of the gallery is a function
    "ref.python",  # short names of attributes that several classes have
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

default_role = "code"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autosummary_generate = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"probsym {version}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.place",
    "copyfile_regex": r"^$",
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "show_memory": False,
    "remove_config_comments": True,
}
