"""``validate``, ``render``, ``schema`` and ``init``, as a person meets them in a work tree."""

import json
import os
from pathlib import Path

import pytest

from reconciler.cli.working_tree import WorkingTree
from reconciler.specs.yaml_text import read_yaml
from tests.git_worlds import Clone, Remote, run_git
from tests.unit.cli.command_line import Headway, Said, in_process
from tests.unit.specs.fleet_files import JOB, ROOT, conf_files

ONE = "jobs/support/one.yaml"
NOW = 1_796_234_400  # 2026-12-02T18:00:00Z


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the module: this project's conf/ is composed once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def clone(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    remote = Remote(tmp_path / "fleet.git")
    files: dict[str, str | bytes | None] = dict(conf_files())
    remote.commit(files | {ONE: JOB})
    made = remote.clone("Ada")
    monkeypatch.chdir(made.path)
    return made


@pytest.fixture
def headway(capsys: pytest.CaptureFixture[str], clone: Clone) -> Headway:
    return in_process(capsys, None, NOW)


def test_a_clean_fleet_has_nothing_to_say(headway: Headway) -> None:
    said = headway("validate")

    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("0 errors, 0 warnings in 0 of ")


def test_what_lies_in_the_work_tree_is_judged_committed_or_not(
    headway: Headway, clone: Clone
) -> None:
    clone.write(ONE, JOB + "nodes: 3\n")
    clone.write("jobs/support/new.yaml", JOB + "priority: hihg\n")

    said = headway("validate")

    assert said.code == 1
    assert f"{ONE}:5:1: error[HW040]: unknown key `nodes`" in said.out
    assert "jobs/support/new.yaml:5:11: error[HW042]" in said.out
    assert headway("validate", "--at", "HEAD").code == 0


def test_a_deleted_file_is_gone_and_a_link_is_refused_by_name(
    headway: Headway, clone: Clone
) -> None:
    clone.remove(ONE)
    (clone.path / "jobs/support").mkdir(exist_ok=True)
    (clone.path / "jobs/support/link.yaml").symlink_to("/etc/passwd")

    said = headway("validate")

    assert said.code == 1
    assert "link.yaml: error[HW021]: this is a symlink" in said.out
    assert ONE not in said.out


def test_only_the_paths_asked_for_are_charged(headway: Headway, clone: Clone) -> None:
    clone.write("jobs/support/bad.yaml", "a: no\n")

    fine = headway("validate", ONE)
    folder = headway("validate", "jobs/support")

    assert fine.code == 0
    assert "more in files that were not asked about" in fine.err
    assert folder.code == 1


def test_a_path_is_found_from_where_the_person_stands(
    headway: Headway, clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone.path / "jobs" / "support")

    assert headway("validate", "one.yaml").code == 0
    assert headway("validate", "support/one").code == 0
    missing = headway("validate", "nope.yaml")
    assert (missing.code, "no such file" in missing.err) == (3, True)


def test_against_a_base_only_what_changed_is_charged(headway: Headway, clone: Clone) -> None:
    clone.write("jobs/support/old.yaml", "a: no\n")
    clone.commit("Break something")
    clone.push()
    run_git(clone.path, "checkout", "--quiet", "-b", "change")
    clone.write(ONE, JOB + "suspend: true\n")
    clone.commit("Suspend")

    assert headway("validate").code == 1
    said = headway("validate", "--base", "origin/main")
    assert said.code == 0
    assert "more in files that were not asked about" in said.err


def test_a_change_of_conf_charges_every_job_it_breaks(headway: Headway, clone: Clone) -> None:
    clone.write("conf/teams/support.yaml", "quota: {any: 1}\n")

    said = headway("validate", "--base", "origin/main")

    assert said.code == 1
    assert f"{ONE}:4:" in said.out


def test_an_unknown_base_is_not_taken_for_no_change(headway: Headway) -> None:
    said = headway("validate", "--base", "origin/nowhere")

    assert said.code == 3
    assert "no commit origin/nowhere" in said.err


def test_a_shallow_clone_without_a_common_commit_says_what_to_do(
    headway: Headway, clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("jobs/support/two.yaml", JOB)
    clone.commit()
    clone.push()
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "--quiet", "--depth", "1", clone.remote.url, str(shallow))
    run_git(shallow, "checkout", "--quiet", "--orphan", "other")
    run_git(
        shallow, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "-m",
        "x",
    )  # fmt: skip
    monkeypatch.chdir(shallow)

    said = headway("validate", "--base", "origin/main")

    assert said.code == 64
    assert "git fetch --unshallow" in said.err


def test_a_p0_deadline_is_judged_where_the_job_is_new_and_not_again(
    headway: Headway, clone: Clone
) -> None:
    clone.write(ONE, JOB + 'priority: P0\ndeadline: "2026-12-03T18:00:00Z"\n')

    new = headway("validate")
    clone.commit("Submit")
    later = headway("validate")

    assert new.code == 1
    assert f"{ONE}:6:11: error[HW053]: P0 needs a deadline under 2 h away" in new.out
    assert later.code == 0


def test_every_format_says_the_same(headway: Headway, clone: Clone) -> None:
    clone.write(ONE, JOB.replace("gpus: 2", 'gpus: "*"'))

    def of(form: str) -> Said:
        return headway("validate", "--format-errors", form)

    assert {of(form).code for form in ("text", "github", "json", "sarif")} == {1}
    assert of("github").lines[0].startswith(f"::error file={ONE},line=4,col=19,title=HW069")
    assert "error[HW069]" in of("github").out
    (item,) = json.loads(of("json").out)["items"]
    assert (item["code"], item["line"], item["is_security_event"]) == ("HW069", 4, True)
    assert json.loads(of("sarif").out)["runs"][0]["results"][0]["ruleId"] == "HW069"


def test_another_cluster_is_named_by_its_file(headway: Headway, clone: Clone) -> None:
    clone.write(ONE, JOB.replace("gpus: 2", "gpus: 2, gpu_type: A100-80GB"))

    assert headway("validate", "--cluster", "slurm_demo").code == 0
    wrong = headway("validate", "--cluster", "nope")
    assert wrong.code == 64
    assert "conf/cluster/ has dgx_rack, laptop, slurm_demo" in wrong.err


def test_outside_a_repository_and_in_a_bare_one(
    headway: Headway, clone: Clone, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    outside = headway("validate", "--repo", str(empty))
    bare = headway("validate", "--repo", str(clone.remote.path))

    assert (outside.code, "is in no git repository" in outside.err) == (3, True)
    assert bare.code == 0


def test_render_shows_a_job_as_it_will_run(headway: Headway) -> None:
    said = headway("render", ONE, "resources.gpus=8", "tuner=full", "train.learning_rate=1e-4")

    assert said.code == 0
    document = read_yaml(said.out.encode(), ONE).value
    assert document is not None
    assert document["resources"] == {"gpus": 8}
    assert document["train"]["tuner_type"] == "full"
    assert document["train"]["learning_rate"] == 0.0001
    assert json.loads(headway("render", ONE, "-o", "json").out)["kind"] == "Job"


def test_render_of_a_broken_job_or_override_says_why(headway: Headway, clone: Clone) -> None:
    sweep = headway("render", ONE, "train.learning_rate=1e-4,5e-5")
    clone.write(ONE, JOB + "x: 1\n")
    broken = headway("render", ONE)
    other = headway("render", "conf/headway.yaml")

    assert (sweep.code, sweep.out) == (1, "")
    assert "headway submit" in sweep.err
    assert (broken.code, "error[HW040]" in broken.err) == (1, True)
    assert other.code == 64


def test_schema_prints_and_writes(headway: Headway, tmp_path: Path) -> None:
    printed = json.loads(headway("schema").out)
    written = headway("schema", "--write", str(tmp_path / "there"))

    assert printed["title"] == "headway Job"
    assert len(written.lines) == 2
    assert json.loads((tmp_path / "there/.headway/schema/job.json").read_text()) == printed
    assert json.loads(headway("schema", "reservation").out)["title"] == "headway Reservation"


def test_init_makes_a_fleet_that_is_valid_and_never_overwrites(
    headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tmp_path / "new"
    made = headway("init", str(fleet), "--team", "vision")
    monkeypatch.chdir(fleet)
    first = headway("validate")
    (fleet / "conf/teams/vision.yaml").write_text("quota: {any: 2}\n")
    again = headway("init", str(fleet), "--team", "vision")

    assert made.code == 0, made.err
    assert first.code == 0, first.out
    assert "kept    conf/teams/vision.yaml" in again.out
    assert (fleet / "conf/teams/vision.yaml").read_text() == "quota: {any: 2}\n"
    assert (fleet / ".github/workflows/headway.yaml").exists()
    assert "/jobs/vision/   @your-org/vision" in (fleet / ".github/CODEOWNERS").read_text()
    assert headway("validate", "--at", "HEAD").code == 3  # nothing is committed yet
    assert headway("init", str(fleet), "--team", "No Team").code == 64


def test_the_skeleton_s_conf_is_this_fleet_s_own() -> None:
    skeleton = ROOT / "reconciler/cli/skeleton/conf"
    for path in skeleton.rglob("*.yaml"):
        name = path.relative_to(skeleton)
        assert path.read_bytes() == (ROOT / "conf" / name).read_bytes(), name


def test_a_work_tree_reads_only_what_git_says_has_changed(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("jobs/support/two.yaml", JOB)
    (clone.path / "jobs/support/ignored.yaml").write_text(JOB)
    (clone.path / ".gitignore").write_text("ignored.yaml\n")
    opened: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: opened.append(self.name) or real(self))

    tree = WorkingTree(clone.path)

    assert tree.changed == ("jobs/support/two.yaml",)
    assert opened == ["two.yaml"]
    assert set(tree.entries) == {*conf_files(), ONE, "jobs/support/two.yaml"}
    entry = tree.entries["jobs/support/two.yaml"]
    assert tree.read((entry.oid,))[entry.oid] == JOB.encode()
    assert entry.oid == run_git(clone.path, "hash-object", "jobs/support/two.yaml")


def test_an_executable_file_is_one_here_too(headway: Headway, clone: Clone) -> None:
    os.chmod(clone.path / ONE, 0o755)  # noqa: PTH101

    assert "an executable file (mode 100755)" in headway("validate").out
