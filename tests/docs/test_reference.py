"""Every public module has a page of the reference, and the gallery has a place for every example."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.public_names import public_modules, public_names

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_every_public_module_has_a_page() -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")}
    modules = [module.__name__ for module in public_modules()]
    assert len(modules) >= 9
    assert [
        name for name in modules if f".. automodule:: {name}\n" not in pages.get(name.removeprefix("probsym."), "")
    ] == []


def test_names_of_the_package_itself_are_on_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "core.md").read_text()
    names = [name.removeprefix("probsym.") for name in public_names() if name.count(".") == 1]
    assert names == [name for name in names if re.search(rf"^\.\. auto(class|function):: {name}$", page, re.M)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_a_title_and_a_place_in_the_gallery(path: Path) -> None:
    title, line, *_ = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    assert re.fullmatch(r"=+", line), "a title, underlined by ="
    assert len(line) >= len(title)
    assert f'"{path.name}"' in (ROOT / "docs" / "_extensions" / "gallery_order.py").read_text()
