"""One document from text to value: what people get wrong, and where they are told."""

import pytest

from reconciler.domain.job import Interconnect, PriorityClass, TopologyDomain
from reconciler.domain.problem import Severity
from reconciler.specs.platform import NO_PLATFORM
from tests.unit.specs.fleet_files import (
    JOB,
    PLAIN_JOB,
    MemoryTree,
    codes,
    conf_files,
    entry,
    read,
    read_specs,
    said,
    sample_files,
)


def test_every_sample_of_this_fleet_is_valid() -> None:
    reading = read_specs(MemoryTree(sample_files()))

    assert not reading.problems, said(reading.problems)
    assert len(reading.entries) >= 6
    assert all(each.spec or each.reservation for each in reading.entries.values())


def test_a_document_becomes_the_values_the_planner_knows() -> None:
    spec = entry(
        PLAIN_JOB
        + """\
priority: high
serves_online: true
deadline: "2026-12-02T18:00:00+08:00"
preemption: {allowed: true, grace: 5m}
resources: {gpus: 4, min_gpu_memory: 1GiB, interconnect: any}
time: {estimate: 1h30m, limit: 1d}
checkpoint: {every_steps: 50}
train: {per_device_train_batch_size: 2, gradient_accumulation_steps: 3, max_steps: 10}
notify: {on_start: [monitor]}
generation: 2
"""
    ).spec

    assert spec is not None
    assert spec.id == "support/one"
    assert spec.priority is PriorityClass.P1
    assert spec.deadline == 1_796_205_600
    assert (spec.preemptible, spec.grace_s) == (True, 300)
    assert (spec.estimate_s, spec.limit_s) == (5400, 86400)
    assert spec.gpus.count == 4
    assert spec.gpus.within is TopologyDomain.NODE
    assert spec.gpus.interconnect is Interconnect.ANY
    assert spec.facts.model == "random:qwen3-tiny"
    assert (spec.facts.global_batch, spec.facts.per_device_batch) == (24, 2)
    assert spec.facts.max_steps == 10
    assert (spec.generation, spec.checkpoint_every_steps) == (2, 50)
    assert spec.notify_on_start == ("monitor",)


@pytest.mark.parametrize(
    ("written", "code", "words"),
    [
        ("-1", "HW069", "at least 1, got -1"),
        ("0", "HW043", "at least 1, got 0"),
        ('"*"', "HW069", 'got "*"'),
        ("'4'", "HW043", "write 4 without quotes"),
        ("4.0", "HW043", "got 4.0 | write 4"),
        ("true", "HW043", "got true"),
        ("1e1", "HW043", "got 1e1 | write 10"),
        ("0.5", "HW043", "GPUs are whole"),
        ("5.333", "HW043", "GPUs are whole"),
        ("-0.5", "HW069", "got -0.5"),
        ("all", "HW069", "got all"),
        ("2000", "HW069", "absurd"),
        ("9", "HW051", "more than team support may hold at once (8)"),
        ("010", "HW015", "octal"),
        ("null", "HW041", "`resources.gpus` is missing"),
        ("[4]", "HW042", "must be a whole number, got [4]"),
    ],
)
def test_gpus_are_a_whole_number_and_nothing_else(written: str, code: str, words: str) -> None:
    refused = entry(PLAIN_JOB + f"resources:\n  gpus: {written}\n")

    assert refused.spec is None
    assert code in codes(refused.problems), said(refused.problems)
    assert words in said(refused.problems)
    first = refused.problems[0]
    assert first.file == "jobs/support/one.yaml"
    assert (first.line, first.column) == (5, 3 if written in ("null", "[4]") else 9)
    assert first.is_security_event == (code == "HW069")


def test_a_missing_gang_points_at_its_section() -> None:
    problems = entry(PLAIN_JOB + "resources: {within: node}\n").problems

    assert codes(problems) == ["HW041"]
    assert (problems[0].line, problems[0].column) == (4, 1)


@pytest.mark.parametrize("value", ["*", "-1", "0", "'4'", "4.0", "true", "0.5"])
def test_gpus_are_held_to_the_same_rule_on_the_command_line(value: str) -> None:
    refused = entry(JOB, f"resources.gpus={value}")

    assert refused.spec is None
    assert {problem.file for problem in refused.problems} == {"command line"}
    assert set(codes(refused.problems)) & {"HW043", "HW069"}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("72:00:00", "quote it"),
        ("1:30", "base 60"),
        ("72", "write 72h, 72m or 72s"),
        ("PT72H", "ISO 8601"),
        ("0h", "no time at all"),
        ("-1h", "a duration is positive"),
        ("1.5h", "no fractions"),
        ("72H", "lower case"),
        ("90m1h", "longest unit first"),
        ("'1:30'", "base 60"),
        ("400d", "longer than 366 days"),
    ],
)
def test_durations_have_one_grammar(written: str, words: str) -> None:
    problems = entry(JOB + f"time: {{limit: {written}}}\n").problems

    assert words in said(problems)


@pytest.mark.parametrize("written", ["72h", "3d", "1d12h", "90m", "1h0m30s"])
def test_durations_that_are_fine(written: str) -> None:
    assert not entry(JOB + f"time: {{limit: {written}}}\n").problems


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpu_count: 4", "did you mean `resources.gpus`?"),
        ("gpus: 4", "did you mean `resources.gpus`?"),
        ("priority_level: 0", "did you mean `priority`?"),
        ("depends_on: [a/b]", "did you mean `after`?"),
        ("learning_rate: 1e-4", "did you mean `train.learning_rate`?"),
        ("gpu_count:", "did you mean `resources.gpus`?"),
        ("resorces: {}", "did you mean `resources`?"),
        ("train: {foo: null}", "unknown key `train.foo`"),
        ("priorty: P1", "did you mean `priority`?"),
        ("team: support", "come from the path"),
        ("metadata: {name: x}", "come from the path"),
        ("nodes: 3", "did you mean `within`?"),
        ("preemptible: true", "did you mean `preemption.allowed`?"),
        ("train: {per_gpu_batch: 4}", "did you mean `per_device_train_batch_size`?"),
        ("train: {learning_rat: 1e-4}", "did you mean `learning_rate`?"),
        ("train: {save_steps: 5}", "write checkpoint.every_steps"),
        ("train: {save_total_limit: 5}", "write checkpoint.keep"),
        ("train: {output_dir: x}", "headway chooses the folder"),
        ("train: {resume_from_checkpoint: x}", "headway resumes by itself"),
        ("train: {seed: 1}", "headway sets the seed"),
        ("train: {deepspeed: ds.json}", "FSDP2 splits"),
        ("checkpoint: {save_steps: 5}", "did you mean `every_steps`?"),
        ("time: {walltime: 5h}", "did you mean `limit`?"),
    ],
)
def test_an_unknown_key_gets_the_nearest_known_one(line: str, words: str) -> None:
    refused = entry(JOB + line + "\n")

    assert refused.spec is None
    assert words in said(refused.problems), said(refused.problems)
    assert refused.problems[0].line == 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("resources: {gpus: 2, gpus_per_node: 5.333}", "did you mean `within`?"),
        ("resources: {gpus: 2, within: nod}", "did you mean `node`?"),
        ("resources: {gpus: 2, min_gpu_memory: 80GB}", "GB is not GiB"),
        ("resources: {gpus: 2, gpu_type: [H100 80GB]}", "write a device type"),
    ],
)
def test_what_is_wrong_with_a_gang_is_said(line: str, words: str) -> None:
    assert words in said(entry(PLAIN_JOB + line + "\n").problems)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("priority: hihg", "did you mean `high`?"),
        ("priority: 1", "must be one of P0"),
        ("deadline: 2026-12-02T18:00:00", "write the offset too"),
        ("deadline: tomorrow", "is not an instant"),
        ("after: support/other", "must be a list"),
        ("after: [other]", "team/name"),
        ("serves_online: 'yes'", "must be true or false, got 'yes'"),
        ("notify: {on_start: [https://x.example/y]}", "lower-case"),
        ("notify: {on_start: [monitr]}", "did you mean `monitor`?"),
        ("budget_group: q4-inovation", "did you mean `q4-innovation`?"),
        ("max_gpu_hours: 0", "must be above 0"),
        ("generation: 0", "must be at least 1"),
        ("checkpoint: 5", "must be a mapping"),
        ("kind: Task", "must be one of Job"),
        ("train: {max_steps: 1e4}", "got 1e4 | write 10000"),
        ("train: {learning_rate: '2e-5'}", "write 2e-5 without quotes"),
        ("train: {lora_rank: 0}", "must be at least 1, got 0"),
        ("train: {lora_dropout: 1.0}", "must be below 1, got 1.0"),
        ("train: {dataset: []}", "must not be an empty list"),
        ("train: {task: pretrian}", "must be one of pretrain, sft, dpo"),
        ("train: {packing: 1}", "must be true or false, got 1"),
        ("time: {estimate: 5h, limit: 1h}", "longer than the limit"),
        ("preemption: {allowed: true}", "needs checkpoints"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_advice(line: str, words: str) -> None:
    text = JOB.replace("kind: Job\n", "") if line.startswith("kind") else JOB
    refused = entry(text + line + "\n")

    assert refused.spec is None
    assert words in said(refused.problems), said(refused.problems)


def test_galore_with_an_adapter_is_refused_with_the_reason_and_the_nearest_choice() -> None:
    refused = entry(JOB + "train: {use_galore: true}\n")

    assert codes(refused.problems) == ["HW060"]
    assert "an adapter has none of those" in said(refused.problems)
    assert "tuner_type: full" in said(refused.problems)


@pytest.mark.parametrize(
    ("sizes", "gpus", "more", "words"),
    [
        ("tensor_model_parallel_size: 2", 4, "", "runs no replicas of a split model"),
        ("tensor_model_parallel_size: 2", 2, "elastic: {min_gpus: 2, max_gpus: 4}", "on fewer or"),
        ("pipeline_model_parallel_size: 2", 2, "", "as many micro-batches a step, not 1"),
        ("tensor_model_parallel_size: 2", 2, "", None),
        (
            "tensor_model_parallel_size: 2, expert_model_parallel_size: 2",
            2,
            "",
            None,
        ),
        (
            "pipeline_model_parallel_size: 2, gradient_accumulation_steps: 2",
            2,
            "",
            None,
        ),
    ],
)
def test_the_devices_that_split_one_model_are_all_of_the_job_s(
    sizes: str, gpus: int, more: str, words: str | None
) -> None:
    found = entry(PLAIN_JOB + f"resources: {{gpus: {gpus}}}\ntrain: {{{sizes}}}\n{more}\n")

    if words is None:
        assert "HW058" not in codes(found.problems)
        return
    assert words in said(found.problems), said(found.problems)
    assert "HW058" in codes(found.problems)


def test_parallel_sizes_must_divide_the_gang_even_where_the_trainer_has_none() -> None:
    sizes = "tensor_model_parallel_size: 4, context_parallel_size: 2"
    refused = entry(PLAIN_JOB + f"resources: {{gpus: 4}}\ntrain: {{{sizes}}}\n")

    assert "need a multiple of 8 GPUs, resources.gpus is 4" in said(refused.problems)
    assert {"HW049", "HW058"} <= set(codes(refused.problems))


def test_a_problem_of_a_group_file_s_value_points_into_the_group_file() -> None:
    files = {"conf/tuner/lora.yaml": "# @package train\ntuner_type: lora\nlora_rank: -3\n"}
    refused = entry(JOB, files=files)

    (problem,) = refused.problems
    assert (problem.file, problem.line, problem.column) == ("conf/tuner/lora.yaml", 3, 12)


def test_what_a_job_says_goes_over_its_groups_and_the_command_line_over_both() -> None:
    text = JOB + "train: {lora_rank: 4}\n"

    of_file = entry(text).document
    of_line = entry(text, "train.lora_rank=16", "resources.gpus=4").document

    assert of_file is not None and of_file["train"]["lora_rank"] == 4
    assert of_line is not None and of_line["train"]["lora_rank"] == 16
    assert of_line["resources"]["gpus"] == 4


def test_a_group_can_be_picked_and_any_known_key_set_on_the_command_line() -> None:
    document = entry(JOB, "tuner=full", "train.learning_rate=1e-4", "priority=P3").document

    assert document is not None
    assert document["train"]["tuner_type"] == "full"
    assert document["train"]["learning_rate"] == 0.0001
    assert "lora_rank" not in document["train"]
    assert document["priority"] == "P3"


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("tuner=lora,full", "HW034", "submit"),
        ("train.learning_rate=1e-4,5e-5", "HW034", "submit"),
        ("train.lora_rank=range(1,4)", "HW034", "submit"),
        ("hydra.run.dir=/", "HW035", "edit the file"),
        ("+hydra.searchpath=[file:///etc]", "HW035", "edit the file"),
        ("tuner=../../etc", "HW035", "leaves the folder"),
        ("tuner=nope", "HW031", "options are full, "),
        ("optimizer=galore", "HW035", "add `/optimizer: ...` to its defaults"),
        ("trian.lora_rank=4", "HW035", "did you mean `train.lora_rank`?"),
        ("+gpu_count=4", "HW040", "did you mean `resources.gpus`?"),
        ("train.model=${oc.env:HOME}", "HW035", "resolvers"),
        ("train.model=${train.nope}", "HW036", "cannot be resolved"),
        ("a b c", "HW035", "write key=value"),
        ("train.learning_rate=nan", "HW016", "not a finite number"),
        ("train.model=a\u0007b", "HW035", "nobody sees"),
        ("train.model=\udcff", "HW035", "nobody sees"),
        ("kind=Reservation", "HW035", "edit the file"),
        ("train.model=" + "x" * 5000, "HW035", "5012 characters"),
    ],
)
def test_an_override_that_is_no_plain_choice_is_refused(
    override: str, code: str, words: str
) -> None:
    refused = entry(JOB, override)

    assert refused.spec is None
    assert codes(refused.problems) == [code], said(refused.problems)
    assert words in said(refused.problems)
    assert refused.problems[0].file == "command line"


def test_no_secret_of_the_environment_can_reach_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_TOKEN", "s3cret")
    for value in ("${oc.env:HEADWAY_TOKEN}", "${env:HEADWAY_TOKEN}", "${oc.decode:${x}}"):
        refused = entry(JOB + f"train: {{model: '{value}'}}\n")
        assert codes(refused.problems) == ["HW033"]
        assert refused.document is None


def test_a_plain_interpolation_is_resolved() -> None:
    document = entry(JOB + "train: {lora_alpha: '${train.lora_rank}'}\n").document

    assert document is not None
    assert document["train"]["lora_alpha"] == document["train"]["lora_rank"] == 8


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ("[/model: tiny-qwen3, /task: sft]", "`_self_` is missing"),
        ("[/model: tiny-qwen3, _self_, _self_]", "given twice"),
        ("{/model: tiny-qwen3}", "must be a list"),
        ("[/model: ../../etc/passwd, _self_]", "leaves the folder"),
        ("[/../etc@_here_, _self_]", "leaves the folder"),
        ("[override hydra/launcher: basic, _self_]", "Hydra's own settings"),
        ("[/model: 7, _self_]", "must be the name of a file"),
        ("[{/model: a, /task: b}, _self_]", "an entry of defaults"),
        ("[/model: Tiny, _self_]", "is not the name"),
        ("[/model: ti~ny, _self_]", "is not the name"),
        ("[3, _self_]", "an entry of defaults"),
    ],
)
def test_a_defaults_list_only_picks_groups(defaults: str, words: str) -> None:
    refused = entry(f"defaults: {defaults}\napi_version: headway/v1\nkind: Job\n")

    assert set(codes(refused.problems)) == {"HW030"}, said(refused.problems)
    assert words in said(refused.problems)
    assert refused.problems[0].line == 1


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ("[/model: tiny-quen3, _self_]", "options are qwen3-8b, small-qwen3"),
        ("[/modell: tiny-qwen3, _self_]", "no such folder under conf/"),
        ("[/cluster: laptop, _self_]", "no such folder under conf/"),
        ("[/_base_: x, _self_]", "is not the name"),
    ],
)
def test_a_group_or_option_that_is_not_there_is_named_where_it_stands(
    defaults: str, words: str
) -> None:
    refused = entry(f"defaults: {defaults}\napi_version: headway/v1\nkind: Job\n")

    assert words in said(refused.problems)
    assert refused.problems[0].line == 1
    assert refused.problems[0].column > 10


def test_a_package_header_belongs_into_group_files() -> None:
    assert "HW030" in codes(entry("# @package train\n" + JOB).problems)


def test_a_group_file_must_say_which_section_it_fills() -> None:
    reading = read(JOB, files={"conf/task/odd.yaml": "task: sft\n"})

    (problem,) = reading.problems
    assert (problem.file, problem.code) == ("conf/task/odd.yaml", "HW038")
    assert "# @package train" in problem.hint


def test_a_broken_group_file_is_its_own_problem_and_that_of_who_loads_it() -> None:
    reading = read(JOB, files={"conf/tuner/lora.yaml": "# @package train\nlora_rank: no\n"})

    found = {(problem.file, str(problem.code)) for problem in reading.problems}
    assert ("conf/tuner/lora.yaml", "HW015") in found
    assert ("jobs/support/one.yaml", "HW038") in found


def test_train_and_run_exclude_each_other() -> None:
    both = JOB + "run: {command: [true.sh]}\n"
    neither = "api_version: headway/v1\nkind: Job\nresources: {gpus: 1}\n"

    assert codes(entry(both).problems) == ["HW047"]
    assert codes(entry(neither).problems) == ["HW047"]


def test_a_command_runs_only_where_the_team_may() -> None:
    text = "api_version: headway/v1\nkind: Job\nresources: {gpus: 1}\nrun: {command: [a, b]}\n"
    of_labs = entry(text, path="jobs/labs/one.yaml")

    assert codes(entry(text).problems) == ["HW054"]
    assert of_labs.spec is not None
    assert of_labs.spec.runs_command
    assert not of_labs.spec.preemptible


def test_a_team_that_is_not_there_is_named_with_the_nearest() -> None:
    refused = entry(JOB, path="jobs/suport/one.yaml")

    assert codes(refused.problems) == ["HW050"]
    assert "did you mean `support`?" in said(refused.problems)


def test_p0_is_for_teams_that_may_and_needs_a_deadline() -> None:
    text = JOB + "priority: P0\n"
    dated = text + 'deadline: "2026-12-02T18:00:00Z"\n'

    assert codes(entry(text).problems) == ["HW053"]
    assert not entry(dated).problems
    assert codes(entry(dated, path="jobs/search/one.yaml").problems) == ["HW053"]


def test_dependencies_must_exist_and_not_wait_for_each_other() -> None:
    files = {
        "jobs/support/two.yaml": JOB + "after: [support/three]\n",
        "jobs/support/three.yaml": JOB + "after: [support/two]\n",
        "jobs/support/four.yaml": JOB + "after: [support/two]\n",
    }
    reading = read(JOB + "after: [support/tow]\n", files=files)

    assert "there is no job support/tow | did you mean `support/two`?" in said(
        reading.entries["support/one"].problems
    )
    for job in ("support/two", "support/three"):
        assert "support/three -> support/two -> support/three" in said(
            reading.entries[job].problems
        )
    assert not reading.entries["support/four"].problems


def test_what_can_never_fit_is_refused_with_the_largest_that_would() -> None:
    text = PLAIN_JOB + "resources: {gpus: 9, gpu_type: H100-80GB, within: node}\n"
    refused = entry(text, path="jobs/research/one.yaml")

    assert "HW057" in codes(refused.problems)
    assert "never fit cluster dgx-rack: the largest has 8" in said(refused.problems)


def test_the_machine_s_own_devices_may_differ_so_a_misfit_there_is_a_warning() -> None:
    warned = entry(PLAIN_JOB + "resources: {gpus: 2, min_gpu_memory: 20GiB}\n")

    assert [problem.severity for problem in warned.problems] == [Severity.WARNING]
    assert warned.spec is not None


def test_another_cluster_can_be_judged_against() -> None:
    text = PLAIN_JOB + "resources: {gpus: 4, gpu_type: A100-80GB}\n"

    assert entry(text, cluster="slurm_demo").spec is not None
    assert "HW057" in codes(
        entry(text.replace("gpus: 4", "gpus: 8, within: node"), cluster="slurm_demo").problems
    )


def test_the_default_domain_is_the_smallest_that_can_hold_the_gang() -> None:
    def within(gpus: int) -> TopologyDomain:
        text = PLAIN_JOB + f"resources: {{gpus: {gpus}, gpu_type: H100-80GB}}\n"
        spec = entry(text, path="jobs/research/one.yaml").spec
        assert spec is not None
        return spec.gpus.within

    assert within(1) is TopologyDomain.NODE
    assert within(8) is TopologyDomain.NVLINK
    assert within(16) is TopologyDomain.RACK


def test_elastic_sizes_keep_the_global_batch() -> None:
    train = "train: {gradient_accumulation_steps: 3}\n"
    fine = PLAIN_JOB + "resources: {gpus: 4}\nelastic: {min_gpus: 2, max_gpus: 6}\n" + train
    outside = PLAIN_JOB + "resources: {gpus: 8}\nelastic: {min_gpus: 2, max_gpus: 6}\n"
    lonely = PLAIN_JOB + "resources: {gpus: 5}\nelastic: {min_gpus: 4, max_gpus: 6}\n"

    assert not entry(fine).problems
    assert "outside elastic 2 to 6" in said(entry(outside).problems)
    assert "no other size than 5" in said(entry(lonely).problems)


def test_a_symlink_is_an_entry_with_a_problem_and_never_an_absence() -> None:
    tree = MemoryTree(
        conf_files() | {"jobs/support/one.yaml": b"/etc/passwd"},
        modes={"jobs/support/one.yaml": "120000"},
    )
    reading = read_specs(tree)

    refused = reading.entries["support/one"]
    assert refused.spec is None
    assert codes(refused.problems) == ["HW021"]
    assert refused.problems[0].is_security_event


def test_identity_and_line_ends_change_no_digest() -> None:
    unix, windows = entry(JOB), entry("\ufeff" + JOB.replace("\n", "\r\n"))

    assert unix.digest == windows.digest
    assert (
        entry(JOB + "train: {learning_rate: 2e-5}\n").digest
        == entry(JOB + "train: {learning_rate: 0.00002}\n").digest
    )
    assert unix.digest != entry(JOB + "suspend: true\n").digest


def test_a_broken_conf_is_its_own_problem_and_nothing_is_judged_by_it() -> None:
    reading = read(JOB, files={"conf/policy/laptop.yaml": "rerank_every: often\n"})

    assert reading.platform is NO_PLATFORM
    assert codes(reading.problems) == ["HW081"]
    assert reading.entries["support/one"].spec is None


def test_a_fleet_without_headway_yaml_says_what_is_missing() -> None:
    reading = read_specs(MemoryTree({"jobs/a/b.yaml": JOB.encode()}))

    assert "HW080" in codes(reading.problems)


def test_a_team_file_with_problems_is_named_by_its_jobs() -> None:
    reading = read(JOB, files={"conf/teams/support.yaml": "quota: {any: many}\n"})

    assert "conf/teams/support.yaml has problems of its own" in said(reading.problems)
    assert reading.platform is not NO_PLATFORM
