"""`probsym` as a program: `python -m probsym`, its version, and what it says where the laboratory is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

import probsym

SRC = str(Path(probsym.__file__).parents[1])


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False, env={"PYTHONPATH": SRC}
    )


def test_the_version() -> None:
    done = run("-m", "probsym", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"probsym {probsym.__version__}")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_libraries_one_line_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from probsym.__main__ import main; main()"
    done = run("-c", code)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert f"got no {missing}" in line
    assert "pip install 'probsym[lab]'" in line


def test_the_version_needs_none_of_its_libraries() -> None:
    code = "import sys; sys.modules['typer'] = None; sys.argv[1:] = ['--version']; "
    code += "from probsym.__main__ import main; main()"
    assert run("-c", code).stdout == f"probsym {probsym.__version__}\n"


def test_the_core_needs_none_of_them() -> None:
    names = [
        "typer",
        "rich",
        "safetensors",
        "huggingface_hub",
        "transformers",
        "lightning",
        "matplotlib",
        "scipy",
        "jinja2",
        "ase",
    ]
    code = f"import sys; sys.modules.update(dict.fromkeys({names!r})); import probsym, torch; "
    code += "m = probsym.Symmetrized(torch.nn.Linear(3, 2), 'n -> k', {'n': probsym.groups.S()}); m(torch.rand(2, 3))"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["list"]], ids=" ".join)
def test_help_and_lists_need_no_torch(arguments: list[str]) -> None:
    code = f"import sys; sys.modules['torch'] = None; sys.argv[1:] = {arguments!r}; "
    done = run("-c", code + "from probsym.__main__ import main; main()")
    assert done.returncode == 0, done.stderr
    assert ("mlp-ps" if arguments == ["list"] else "Usage") in done.stdout


def test_what_the_package_has_is_there_when_asked_for() -> None:
    code = "import sys, probsym; assert 'torch' not in sys.modules; assert set(probsym.__all__) <= set(dir(probsym)); "
    code += "assert probsym.Symmetrized is probsym.symmetrized.Symmetrized; "
    code += "assert probsym.groups.S; from probsym import *; "
    code += "Symmetrized, quadrature_degree, Estimate, Signature, testing; probsym.nothing"
    done = run("-c", code)
    assert done.stderr.strip().endswith("AttributeError: module 'probsym' has no attribute 'nothing'")
