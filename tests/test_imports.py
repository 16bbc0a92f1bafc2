"""Imports point one way, and no package drags in a framework that it does not need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("graphalgo", "clrs_bridge", "search_bench", "analysis")
ALLOWED = {
    "graphalgo": {"graphalgo"},
    "clrs_bridge": {"graphalgo", "clrs_bridge"},
    "search_bench": {"graphalgo", "search_bench"},
    "analysis": {"graphalgo", "clrs_bridge", "search_bench", "analysis"},
}
COMPOSITION_ROOTS = {"graphalgo/cli.py", "graphalgo/demo.py"}
"""They put the packages together and may import all of them, inside functions."""
FOREIGN = ("clrs", "jax", "jaxlib", "haiku", "chex", "optax", "tensorflow", "tensorflow_datasets")

FILES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))


def imported(tree: ast.AST) -> list[tuple[str, ast.AST]]:
    """Top-level name of every module that a file imports, with the statement."""
    found = []
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            found += [(alias.name.split(".")[0], statement) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            module = statement.module.split(".")[0] if statement.level == 0 else "a relative module"
            found.append((module, statement))
    return found


def wrong_imports(name: str, source: str) -> list[str]:
    """The imports of a file that point the wrong way, ``name`` being its path below the root."""
    package = name.split("/")[0]
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lazy = {inner for function in functions for inner in ast.walk(function)}

    def allowed(module: str, is_lazy: bool) -> bool:
        if module in FOREIGN:
            return name == "clrs_bridge/upstream.py" and is_lazy
        if module in OURS and module not in ALLOWED[package]:
            return name in COMPOSITION_ROOTS and is_lazy
        return (module != "matplotlib" or package == "analysis") and module != "a relative module"

    return [
        f"{name}:{statement.lineno} imports {module}"
        for module, statement in imported(tree)
        if not allowed(module, statement in lazy)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path):
    assert wrong_imports(path.relative_to(ROOT).as_posix(), path.read_text()) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("graphalgo/batch.py", "import clrs_bridge"),
        ("graphalgo/batch.py", "def f():\n    from clrs_bridge.tasks import TASKS"),
        ("graphalgo/batch.py", "import torch, jax.numpy as jnp"),
        ("graphalgo/batch.py", "def f():\n    import tensorflow"),
        ("graphalgo/metrics.py", "import matplotlib.pyplot as plt"),
        ("graphalgo/loop.py", "from .blocks import PairBlock"),
        ("graphalgo/cli.py", "import analysis"),
        ("clrs_bridge/tasks.py", "from search_bench import generate"),
        ("clrs_bridge/tasks.py", "from analysis.tables import depth"),
        ("clrs_bridge/upstream.py", "import clrs"),
        ("clrs_bridge/samplers.py", "def f():\n    import clrs"),
        ("search_bench/generate.py", "import clrs_bridge"),
    ],
)
def test_wrong_imports_are_seen(name, source):
    assert len(wrong_imports(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("graphalgo/cli.py", "def f():\n    import analysis"),
        ("clrs_bridge/upstream.py", "def f():\n    import clrs"),
        ("clrs_bridge/tasks.py", "import torch\nfrom graphalgo.batch import Output"),
        ("analysis/figures.py", "import matplotlib\nfrom clrs_bridge import TASKS"),
    ],
)
def test_right_imports_are_let_through(name, source):
    assert wrong_imports(name, source) == []


def modules_after(statements: str) -> set[str]:
    """Top-level modules in a fresh interpreter."""
    code = f"{statements}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


def importing_all(package: str) -> str:
    names = [path.relative_to(ROOT).with_suffix("").as_posix() for path in FILES]
    modules = [name.removesuffix("/__init__").replace("/", ".") for name in names]
    return "\n".join(f"import {name}" for name in modules if name.split(".")[0] == package)


def test_importing_graphalgo_is_light():
    """torch and PyG, but neither Lightning, nor what draws, nor any foreign framework."""
    loaded = modules_after("import graphalgo")
    assert not loaded & {*FOREIGN, "matplotlib", "lightning", "torchmetrics", "clrs_bridge", "analysis"}


def test_importing_every_module_loads_no_foreign_framework():
    """The command line too; and it imports the analyses only when one is asked for."""
    loaded = modules_after(importing_all("graphalgo") + "\n" + importing_all("clrs_bridge"))
    assert not loaded & set(FOREIGN)
    assert "analysis" not in loaded
