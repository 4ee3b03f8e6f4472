"""``make campaign``: the full numbers that do not fit into ``make test``, kept with their commit.

Each part is a selection of tests run under the profile it names, or a program that keeps results
of its own and goes on where it stopped.  Its result is written to
``tests/benchmarks/results/campaign-<part>.json`` when it ends; a part whose result is of the
present sources is not run again, so an interrupted campaign goes on where it stopped.
``python -m tests.benchmarks.campaign [PART...]`` runs only the parts named.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
SEED = 1
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One selection of tests, or one program."""

    what: str
    arguments: tuple[str, ...] = ()
    program: str | None = None
    """A module that is run instead of pytest; its exit code is the verdict."""
    rests_on: tuple[str, ...]
    """Paths of the sources: with any of them changed, the part is run again."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> tuple[str, ...]:
        """What Python is given after ``-m``."""
        if self.program is not None:
            return (self.program, *self.arguments)
        return ("pytest", "-v", "-o", "timeout=0", *self.arguments)


PLANNER = (
    *("reconciler/domain", "reconciler/planning", "reconciler/simulate", "reconciler/cycle.py"),
    *("tests/property", "tests/builders.py", "tests/strategies.py"),
)
PARTS: Mapping[str, Part] = {
    "trainer-kills": Part(
        what="200 random kills of the trainer while it loads, trains and saves",
        # a folder of its own: pytest removes old ones, and this takes an hour on a busy machine
        arguments=(
            *("--basetemp", "build/campaign/trainer-kills"),
            *("-m", "campaign", "tests/e2e/test_training_kills.py"),
        ),
        rests_on=(
            *("trainer/callbacks", "trainer/checkpoints.py", "trainer/files.py", "trainer/loop.py"),
            *("trainer/resume.py", "trainer/sampling.py", "trainer/training.py"),
            "tests/e2e/test_training_kills.py",
        ),
        environment={"OMP_NUM_THREADS": "1"},
    ),
    "properties": Part(
        what="the planner over snapshots, 10,000 random worlds each",
        arguments=(
            *("-n", "2", f"--hypothesis-seed={SEED}"),
            "tests/property/test_planning_properties.py",
        ),
        rests_on=PLANNER,
        environment={"HEADWAY_HYPOTHESIS": "thorough"},
    ),
    "properties-of-lives": Part(
        what="the planner over whole lives of a fleet, 10,000 each",
        arguments=(
            *("-n", "2", f"--hypothesis-seed={SEED}"),
            "tests/property/test_life_properties.py",
        ),
        rests_on=PLANNER,
        environment={"HEADWAY_HYPOTHESIS": "thorough"},
    ),
    "properties-of-parts": Part(
        what="capacity, calendar, value order and memo, 10,000 random worlds each",
        arguments=(
            *("-n", "2", f"--hypothesis-seed={SEED}", "tests/property"),
            "--ignore=tests/property/test_life_properties.py",
            "--ignore=tests/property/test_planning_properties.py",
            "--ignore=tests/property/test_no_loops.py",
        ),
        rests_on=PLANNER,
        environment={"HEADWAY_HYPOTHESIS": "thorough"},
    ),
    "properties-of-stops": Part(
        what="lives in which nothing arrives any more come to rest, 10,000 each",
        arguments=(
            *("-n", "2", f"--hypothesis-seed={SEED}"),
            "tests/property/test_no_loops.py",
        ),
        rests_on=PLANNER,
        environment={"HEADWAY_HYPOTHESIS": "thorough"},
    ),
    "faults": Part(
        what="100 random kills of the loop; 50 starts of two reconcilers at once",
        arguments=("-m", "campaign", "tests/faults"),
        rests_on=("reconciler", "tests/faults", "tests/live_fleets.py", "tests/git_worlds.py"),
    ),
    "matrix": Part(
        what="each task of the trainer with each tuner",
        program="tests.benchmarks.campaign_matrix",
        rests_on=("trainer", "tests/e2e/tasks.py", "tests/benchmarks/campaign_matrix.py"),
        environment={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    ),
    "galore": Part(
        what="what GaLore and AdamW learn, equally tuned",
        program="tests.benchmarks.campaign_galore",
        rests_on=(
            *("trainer/optimizers", "tests/benchmarks/campaign_galore.py"),
            "tests/benchmarks/galore_model.py",
        ),
        environment={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    ),
}


def sources(part: Part) -> str:
    """Return a digest of every file the part's result rests on, as they are staged in git."""
    listed = subprocess.run(
        ["git", "ls-files", "-s", "--", *part.rests_on],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return hashlib.sha256(listed.stdout).hexdigest()


def commit() -> str:
    """Return the commit that is checked out, marked where files differ from it."""
    shown = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.strip()


def run(name: str, part: Part) -> bool:
    """Run one part, unless its result is of these sources; return whether everything passed."""
    path = RESULTS / f"campaign-{name}.json"
    resting_on = sources(part)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before["sources"] == resting_on and not before["failed"]:
            print(f"{name}: done at {before['commit']}")
            return True
    print(f"{name}: {part.what}", flush=True)
    (ROOT / "build" / "campaign").mkdir(parents=True, exist_ok=True)
    began, at = time.monotonic(), commit()
    with subprocess.Popen(
        [sys.executable, "-m", *part.command],
        cwd=ROOT,
        env={**os.environ, **part.environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:  # told as it comes: a campaign is long
            print(line, end="", flush=True)
            lines.append(line)
    if part.program is None:
        counts = {word: int(count) for count, word in COUNTS.findall(summary("".join(lines)))}
    else:
        counts = {"failed" if running.returncode else "passed": 1}
    RESULTS.mkdir(exist_ok=True)
    result = {
        "part": name,
        "what": part.what,
        "commit": at,
        "sources": resting_on,
        "seed": SEED,
        "command": " ".join(part.command),
        "environment": dict(part.environment),
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "skipped": counts.get("skipped", 0),
        "wall_s": round(time.monotonic() - began),
    }
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return running.returncode == 0 and bool(result["passed"])


def summary(output: str) -> str:
    """Return pytest's closing line."""
    lines = [line for line in output.splitlines() if " in " in line and COUNTS.search(line)]
    return lines[-1] if lines else ""


def main(names: list[str]) -> int:
    """Run the parts named, or all; 1 when one failed."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        print(f"no part named {', '.join(unknown)}; there are: {', '.join(PARTS)}")
        return 64
    verdicts = [run(name, part) for name, part in PARTS.items() if not names or name in names]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
