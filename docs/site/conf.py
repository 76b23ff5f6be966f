"""How the site is made of docs/: `make docs`, or scripts/docs.sh."""

import pathlib
import re
import sys

from pygments import token
from pygments.lexer import RegexLexer
from sphinx.ext.autodoc.mock import _MockModule

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = "Unisono"
author = "the authors of Unisono"
copyright = author
release = re.search(r"^project\(unisono VERSION ([\d.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["figures", "site"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = False
# A namespace is declared in many headers; shortened code (…) is no C++
suppress_warnings = ["duplicate_declaration.cpp", "duplicate_declaration.c", "misc.highlighting_failure"]

# C++: Doxygen's XML of include/unisono (docs/site/Doxyfile)
breathe_projects = {"unisono": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "unisono"
breathe_show_include = False  # the paths of copies
cpp_id_attributes = []
SECTIONS = ("briefdescription detaileddescription innerclass innernamespace enum typedef func var define user-defined "
            "public-func public-attrib public-type public-static-func public-static-attrib")  # of a header, nothing private

# Python: docstrings of the built package; PyTorch is not installed for this
autodoc_mock_imports = ["torch", "torchvision", "onnx"]
stand_in = _MockModule("torch")
stand_in.__version__ = "2.15.0"  # which the package reads as it is imported
sys.modules["torch"] = stand_in
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


class EpilogueLexer(RegexLexer):
    """The text form of epilogues (docs/text-form.md), for code blocks that name the language unisono."""

    name, aliases = "Unisono", ["unisono"]
    tokens = {"root": [(r"#.*", token.Comment), (r"\b(store|over|as|let|if|else)\b", token.Keyword), (r"\b(f32|f16|bf16|bool|[iu](8|16|32|64))\b", token.Keyword.Type),
                       (r"[A-Za-z_]\w*(?=\()", token.Name.Function), (r"[A-Za-z_]\w*", token.Name), (r"\d[\w.]*", token.Number), (r"\s+", token.Text), (r".", token.Operator)]}


def without_folders(app, name, text):
    """Links to folders of the tree, which the site does not have, become their text; those to files become downloads."""
    text[0] = re.sub(r"`tables/(\S+\.html)`", lambda m: f'<a href="{"../" * name.count("/")}tables/{m[1]}">tables/{m[1]}</a>', text[0])  # of tables.py
    here = (ROOT / "docs" / name).parent
    text[0] = re.sub(r"\[([^\]]*)\]\(([^)#\s:]+)\)", lambda m: m.group(1) if (here / m.group(2)).is_dir() else m.group(0), text[0])


def of_public_members(app, name, text):
    """Every header of the C++ reference shows these sections."""
    text[0] = re.sub(r"(```\{doxygenfile\} \S+\n)", rf"\1:sections: {SECTIONS}\n", text[0])


def in_sphinx_markup(app, what, name, obj, options, lines):
    """Docstrings are plain text: what is indented behind a colon is code, and a star is a star."""
    for i, line in enumerate(lines):
        if line.rstrip().endswith(":") and not line.rstrip().endswith("::") and i + 2 < len(lines) and not lines[i + 1].strip() and lines[i + 2][:1] == " ":
            lines[i] = line.rstrip() + ":"
        elif not line.startswith(" "):
            lines[i] = re.sub(r"(?<!\\)\*", r"\\*", line)


def setup(app):
    app.connect("autodoc-process-docstring", in_sphinx_markup)
    app.connect("source-read", without_folders)
    app.connect("source-read", of_public_members)
    app.add_lexer("unisono", EpilogueLexer)


html_theme = "furo"
html_title = f"Unisono {release}"
html_static_path = []
html_copy_source = False
html_show_search_summary = False  # which would fetch the pages that were found
html_show_sphinx = False
html_theme_options = {"light_css_variables": {"font-stack": "system-ui, sans-serif", "font-stack--monospace": "ui-monospace, monospace"}}
