"""How long do ten thousand specs take?  First pass, warm pass, and one change, in CPU seconds.

The specs lie in a bare repository made by ``fast-import``; every pass is a fresh process that
reads the tree with git, as the reconciler does.  A pass gives every job's spec as a value.
"""

import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figure import PYTHON, Figure, cpu_seconds

ROOT = Path(__file__).parents[2]
JOBS = 10_000
SEED = 20261130

_PASS = """
import gc
import sys
from pathlib import Path
from reconciler.domain.units import CommitId
from reconciler.specs.cache import SpecCache
from reconciler.specs.reading import read_specs
from reconciler.store.git.cat_file import GitTree

repo, commit, cache, wanted = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
reading = read_specs(GitTree(repo, CommitId(commit)), cache=SpecCache(cache))
valid = sum(entry.spec is not None for entry in reading.entries.values())
if (valid, len(reading.problems)) != (wanted, 0):
    raise SystemExit(f"{valid} valid specs, problems: {reading.problems[:3]}")
gc.freeze()  # as every command ends
"""


def figures() -> Iterator[Figure]:
    """Yield the figures; each pass must find every spec valid, or the benchmark fails."""
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        repo, cache = Path(folder) / "fleet.git", Path(folder) / "cache"
        commit = make_fleet(repo, JOBS)
        yield Figure(
            name="specs_first_pass_10000",
            value=run_pass(repo, commit, cache),
            unit="CPU s",
            target=60.0,
            better="lower",
        )
        yield Figure(
            name="specs_warm_pass_10000",
            value=min(run_pass(repo, commit, cache) for _ in range(3)),
            unit="CPU s",
            target=0.5,
            better="lower",
        )
        changed = change_one(repo)
        yield Figure(
            name="specs_one_change_in_10000",
            value=run_pass(repo, changed, cache),
            unit="CPU s",
            target=2.0,
            better="lower",
        )


def run_pass(repo: Path, commit: str, cache: Path) -> float:
    """Return the CPU seconds of one read of everything in a fresh process, git included."""
    spent, _ = cpu_seconds([PYTHON, "-c", _PASS, str(repo), commit, str(cache), str(JOBS)])
    return spent


def make_fleet(repo: Path, jobs: int) -> str:
    """Make a bare repository of this ``conf/`` and generated jobs; return its commit."""
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--bare", "--initial-branch=main", ".")
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in conf_paths()}
    chance = random.Random(SEED)
    teams = ("support", "search", "labs", "research")
    for number in range(jobs):
        path = f"jobs/{teams[number % len(teams)]}/job-{number:05d}.yaml"
        files[path] = a_job(chance).encode()
    return commit_files(repo, files)


def change_one(repo: Path) -> str:
    """Commit a change of one job and return the commit."""
    text = a_job(random.Random(SEED + 1))
    return commit_files(repo, {"jobs/support/job-00000.yaml": text.encode()}, parent="main")


def conf_paths() -> list[Path]:
    return sorted((ROOT / "conf").rglob("*.yaml"))


def a_job(chance: random.Random) -> str:
    """Return one valid document of the size people write."""
    task, data = chance.choice((("sft", "support-chats"), ("dpo", "support-pairs")))
    model = chance.choice(("smollm2-135m", "tiny-qwen3", "small-qwen3", "qwen3-8b"))
    optimizer = chance.choice(("/optimizer: adamw, ", ""))
    tuner = chance.choice(("full", "lora"))
    length, batch = chance.choice((512, 1024, 4096)), chance.choice((1, 2, 4))
    if model == "qwen3-8b":  # or it would not fit
        tuner, batch = "lora", min(batch, 4096 // length)
    return f"""\
# yaml-language-server: $schema=../../.headway/schema/job.json
defaults: [/model: {model}, /task: {task}, /tuner: {tuner}, {optimizer}/data: {data}, _self_]
api_version: headway/v1
kind: Job
priority: {chance.choice(("P1", "P2", "P3", "low"))}
serves_online: {chance.choice(("true", "false"))}
preemption: {{allowed: true, grace: 10m}}
resources:
  gpus: {chance.randint(1, 4)}
time: {{estimate: {chance.randint(1, 48)}h, limit: 72h}}
checkpoint: {{every_steps: {chance.randint(1, 50) * 10}, keep: 3}}
train:
  max_length: {length}
  per_device_train_batch_size: {batch}
  learning_rate: {chance.choice(("2e-5", "1e-4", "5e-5"))}
  max_steps: {chance.randint(10, 10_000)}
"""


def commit_files(repo: Path, files: dict[str, bytes], parent: str | None = None) -> str:
    """Commit files on main by one ``fast-import`` and return the commit."""
    person = b"Bench <bench@example.org> 1790000000 +0000"
    parts = [b"commit refs/heads/main\nmark :1\ncommitter " + person + b"\n", _data(b"Fleet")]
    if parent is not None:
        parts.append(f"from refs/heads/{parent}^0\n".encode())
    for path, data in files.items():
        parts.append(f"M 100644 inline {path}\n".encode() + _data(data))
    parts.append(b"get-mark :1\ndone\n")
    return git(repo, "fast-import", "--quiet", "--done", stdin=b"".join(parts))


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"


def git(repo: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-C", str(repo), *args], input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode().strip()
