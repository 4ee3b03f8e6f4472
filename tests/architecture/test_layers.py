"""The house rules that no single module can break unnoticed."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for part in ("reconciler", "trainer") for path in (ROOT / part).rglob("*.py"))


def imports_of(path: Path) -> Iterator[str]:
    """Yield every module a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def importers(name: str) -> set[str]:
    """Return the source files that import ``name`` or something inside it, from the root."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if any(module == name or module.startswith(f"{name}.") for module in imports_of(path))
    }


def test_there_are_sources_to_judge() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_is_longer_than_350_lines(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 350, f"{lines} lines: which two questions does it answer?"


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_package_files_are_empty_so_that_imports_stay_light() -> None:
    filled = [path for path in SOURCES if path.name == "__init__.py" and path.read_text().strip()]
    assert not filled


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("hydra", r"reconciler/specs/compose\w*\.py"),
        ("omegaconf", r"reconciler/specs/compose\w*\.py"),
        ("pydantic", r"reconciler/(specs|web)/.*"),
        ("git", r"reconciler/store/git/.*"),
        ("pynvml", r"(reconciler/devices|trainer)/.*"),
        ("torch", r"trainer/.*"),
        ("transformers", r"trainer/.*"),
        ("trl", r"trainer/.*"),
        (
            "subprocess",
            r"(reconciler/(store/git|launchers)/.*|reconciler/specs/bounded\.py|trainer/.*)",
        ),
        ("multiprocessing", r"(reconciler/specs/bounded\.py|trainer/.*)"),
        ("requests", r"nothing"),
        ("pickle", r"nothing"),
    ],
)
def test_a_library_is_imported_only_where_it_belongs(name: str, allowed: str) -> None:
    strangers = {path for path in importers(name) if not re.fullmatch(allowed, path)}
    assert not strangers


PURE = ("domain", "planning", "estimating")
IMPURE = {
    "os", "pathlib", "random", "subprocess", "time", "logging", "yaml", "pydantic", "socket",
    "threading", "tempfile", "shutil", "io", "sys", "uuid", "secrets",
}  # fmt: skip


def test_the_core_imports_nothing_that_touches_the_world() -> None:
    guilty = {
        f"{path.relative_to(ROOT)}: {module}"
        for part in PURE
        for path in (ROOT / "reconciler" / part).rglob("*.py")
        for module in imports_of(path)
        if module.split(".")[0] in IMPURE
    }
    assert not guilty


def test_the_core_never_reads_a_clock() -> None:
    guilty = [
        path.relative_to(ROOT).as_posix()
        for part in PURE
        for path in (ROOT / "reconciler" / part).rglob("*.py")
        if re.search(r"\b(datetime\.now|utcnow|date\.today)\b", path.read_text(encoding="utf-8"))
    ]
    assert not guilty


MODULE_NAMES_WITHOUT_MEANING = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def test_modules_are_named_by_what_they_answer() -> None:
    vague = [
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if path.stem in MODULE_NAMES_WITHOUT_MEANING
    ]
    assert not vague
