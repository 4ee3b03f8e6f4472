"""One word for one thing: the glossary of ``docs/words.md``, held in code, YAML and prose."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BANNED = {
    r"\bevict(s|ed|ion|ions|ing|or)?\b": "preempt, victim, preemptor",
    r"\btenants?\b": "team",
    r"\bworkloads?\b(?! facts)": "job (workload facts is the one exception)",
    r"\bpods?\b": "attempt",
}
# A word may be named where it is explained away, and in other people's names for things.
EXCEPTIONS = {
    "docs/words.md": ".*",
    "tests/architecture/test_words.py": ".*",
    "reconciler/domain/team.py": r"(?i)\btenants?\b",
    "reconciler/domain/job.py": r"WorkloadFacts",
    "reconciler/simulate/kueue_yaml.py": r"""\("workloads"\)""",
    "tests/unit/simulate/test_kueue_yaml.py": r"^ +workloads:$",
    "tests/benchmarks/kueue/baseline.yaml": r"^ +workloads:$",
    "tests/benchmarks/kueue/large-scale.yaml": r"^ +workloads:$",
    "tests/benchmarks/kueue/tas.yaml": r"^ +workloads:$",
}
SUFFIXES = {".py", ".md", ".yaml", ".yml"}
FOLDERS = ("reconciler", "trainer", "conf", "jobs", "docs", "tests", ".github")


def texts() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    kept = [path for path in found if path.suffix in SUFFIXES and "__pycache__" not in path.parts]
    return [*sorted(kept), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def test_there_are_texts_to_judge() -> None:
    assert len(texts()) > 100


@pytest.mark.parametrize("pattern", BANNED)
def test_no_second_word_for_a_thing(pattern: str) -> None:
    uses = []
    for path in texts():
        name = path.relative_to(ROOT).as_posix()
        allowed = EXCEPTIONS.get(name)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if re.search(pattern, line, re.IGNORECASE) and not (
                allowed and re.search(allowed, line)
            ):
                uses.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not uses, f"say {BANNED[pattern]}"
