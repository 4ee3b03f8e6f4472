"""Composition from blobs is Hydra's: equal to stock ``compose()``, by both ways."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from reconciler.specs.bounded import BoundedComposer
from reconciler.specs.codes import Code
from reconciler.specs.compose import Composer
from reconciler.specs.composed import BASE, ComposeError, GroupFile
from reconciler.specs.conf_files import ConfFiles
from reconciler.specs.group_files import GroupFiles
from reconciler.specs.pipeline import Pipeline, laid_over
from reconciler.specs.shape import base_document
from tests.unit.specs.fleet_files import MemoryTree

GROUPS: Mapping[str, tuple[str | None, Mapping[str, Any]]] = {
    "model/small.yaml": ("train", {"model": "s", "max_length": 64}),
    "model/large.yaml": ("train", {"model": "l", "torch_dtype": "bfloat16"}),
    "task/sft.yaml": ("train", {"task": "sft"}),
    "task/dpo.yaml": ("train", {"task": "dpo", "beta": 0.1, "lora_rank": None}),
    "tuner/lora.yaml": ("train", {"tuner_type": "lora", "lora_rank": 8}),
    "tuner/wide.yaml": (
        "train",
        {"defaults": ["lora", "_self_"], "lora_rank": 64, "target_modules": ["q", "v"]},
    ),
    "tuner/linked.yaml": ("train", {"lora_rank": 4, "lora_alpha": "${train.lora_rank}"}),
    "size/big.yaml": ("_global_", {"resources": {"gpus": 8}, "time": {"limit": "2d"}}),
    "size/node.yaml": ("resources", {"within": "node", "gpu_type": ["A", "B"]}),
}
BASE_DOCUMENT = base_document("Job")


@pytest.fixture
def conf_folder(tmp_path: Path) -> Iterator[Path]:
    """The same groups as files, for stock Hydra."""
    for name, (package, value) in {**GROUPS, f"{BASE}.yaml": (None, BASE_DOCUMENT)}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        header = f"# @package {package}\n" if package else ""
        path.write_text(header + yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
    yield tmp_path
    GlobalHydra.instance().clear()


def group_files() -> dict[str, GroupFile]:
    return {name: GroupFile(value, package) for name, (package, value) in GROUPS.items()}


def some_jobs(count: int) -> list[tuple[dict[str, Any], list[str]]]:
    """Return random (document, overrides), the same on every run."""
    chance = random.Random(20261130)
    jobs = []
    for _ in range(count):
        defaults: list[Any] = [{"/model": chance.choice(["small", "large"])}]
        defaults.append({chance.choice(["task", "/task"]): chance.choice(["sft", "dpo"])})
        if chance.random() < 0.7:
            defaults.append({"/tuner": chance.choice(["lora", "wide", "linked"])})
        if chance.random() < 0.4:
            defaults.append({"/size": chance.sample(["big", "node"], chance.choice([1, 2]))})
        defaults.insert(len(defaults) if chance.random() < 0.7 else 1, "_self_")
        body: dict[str, Any] = {"defaults": defaults, "kind": "Job", "priority": "P1"}
        if chance.random() < 0.6:
            body["train"] = {"lora_rank": chance.choice([2, None]), "dataset": ["x"]}
        if chance.random() < 0.5:
            body["resources"] = {"gpus": 4, "gpu_type": ["C"]}
        overrides = []
        if chance.random() < 0.4:
            overrides.append(f"model={chance.choice(['small', 'large'])}")
        if chance.random() < 0.4:
            overrides.append("resources.gpus=2")
        if chance.random() < 0.3:
            overrides.append("+train.new_key=1e-4")
        if chance.random() < 0.3:
            overrides.append("elastic={min_gpus:1,max_gpus:2}")
        if chance.random() < 0.2:
            overrides.append("~task")
        jobs.append((body, overrides))
    return jobs


def by_stock_hydra(folder: Path, body: Mapping[str, Any], overrides: Sequence[str]) -> Any:
    mounted = {**body, "defaults": [f"{BASE}@_here_", *body["defaults"]]}
    (folder / "job.yaml").write_text(yaml.safe_dump(mounted, sort_keys=False), encoding="utf-8")
    with initialize_config_dir(str(folder), version_base="1.3"):
        found = OmegaConf.to_container(compose("job", list(overrides)), resolve=True)
    (folder / "job.yaml").unlink()
    return found


def test_composing_from_blobs_equals_stock_hydra(conf_folder: Path) -> None:
    composer = Composer(group_files())
    for body, overrides in some_jobs(20):
        wanted = by_stock_hydra(conf_folder, body, overrides)

        found = composer.compose(BASE_DOCUMENT, body, overrides)

        assert found.document == wanted, (body, overrides)


VALUES = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.text("abc", max_size=3),
    st.lists(st.integers(0, 3), max_size=2),
)
SECTIONS = st.dictionaries(
    st.sampled_from(["lora_rank", "max_length", "model", "target_modules", "new", "beta"]),
    st.one_of(VALUES, st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2)),
    max_size=4,
)
BODIES = st.fixed_dictionaries(
    {
        "defaults": st.sampled_from(
            [
                ["_self_"],
                [{"/model": "small"}, {"/tuner": "wide"}, "_self_"],
                [{"model": "large"}, {"/task": "dpo"}, {"/size": ["big", "node"]}, "_self_"],
            ]
        )
    },
    optional={
        "train": st.one_of(st.none(), SECTIONS),
        "resources": st.one_of(st.none(), SECTIONS, st.just("text")),
        "priority": VALUES,
        "new": SECTIONS,
    },
)

_COMPOSER = Composer(group_files(), "property")


@given(BODIES)
def test_laying_a_document_over_its_prefix_equals_composing_it_whole(body: dict[str, Any]) -> None:
    prefix = _COMPOSER.compose(BASE_DOCUMENT, {"defaults": body["defaults"]})
    own = {key: value for key, value in body.items() if key != "defaults"}

    def composed_or_said(compose: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | str:
        try:
            return compose()
        except ComposeError as error:
            return error.message

    short = composed_or_said(lambda: laid_over(prefix.document, own))
    assert short == composed_or_said(lambda: _COMPOSER.compose(BASE_DOCUMENT, body).document)


def test_a_mapping_over_a_list_is_refused_by_the_short_way_and_the_full_way_alike() -> None:
    body = {"defaults": [{"/model": "small"}, {"/tuner": "wide"}, "_self_"]}
    prefix = _COMPOSER.compose(BASE_DOCUMENT, body)
    assert isinstance(prefix.document["train"]["target_modules"], list)
    own = {"train": {"target_modules": {"x": 1}}}

    with pytest.raises(ComposeError, match="a mapping where the groups") as short:
        laid_over(prefix.document, own)
    with pytest.raises(ComposeError, match="a mapping where the groups") as full:
        _COMPOSER.compose(BASE_DOCUMENT, {**body, **own})

    assert short.value.code == full.value.code == Code.BAD_VALUE
    assert short.value.about == "train.target_modules"


def test_the_short_way_and_the_full_way_judge_alike() -> None:
    files = {
        f"conf/{name}": (
            (f"# @package {package}\n" if package else "") + yaml.safe_dump(value, sort_keys=False)
        ).encode()
        for name, (package, value) in GROUPS.items()
    }
    tree = MemoryTree(files)
    groups = GroupFiles(tree, ConfFiles(tree.entries, tree.entries))
    text = (
        b"defaults: [/model: small, /task: sft, /tuner: wide, _self_]\napi_version: headway/v1\n"
        b"kind: Job\nresources: {gpus: 2}\ntrain: {dataset: [x], lora_rank: 0}\n"
    )
    with BoundedComposer({"jobs": groups.for_jobs}) as composer:
        short = Pipeline(groups, composer).judge("jobs/a/b.yaml", text)
        # an override that changes nothing takes the full way
        full = Pipeline(groups, composer).judge("jobs/a/b.yaml", text, ("resources.gpus=2",))

    assert short.document == full.document
    assert [each.message for each in short.problems] == [each.message for each in full.problems]
    assert list(short.loaded) == list(full.loaded)
    assert list(short.listed) == list(full.listed)


def test_a_composition_names_everything_it_rests_on() -> None:
    body = {"defaults": [{"/model": "small"}, {"/tuner": "wide"}, "_self_"]}

    found = Composer(group_files()).compose(BASE_DOCUMENT, body)

    assert found.loaded == ["model/small.yaml", "tuner/lora.yaml", "tuner/wide.yaml"]
    assert set(found.listed) >= {"model", "tuner"}
    assert found.sections == [("model/small", "train"), ("tuner/lora", "train"),
                              ("tuner/wide", "train")]  # fmt: skip


@pytest.mark.parametrize(
    "files",
    [
        {
            f"a/g{level}.yaml": GroupFile(
                {"defaults": [{f"/a@x{n}": f"g{level + 1}"} for n in range(3)]}, "_global_"
            )
            for level in range(8)
        }
        | {"a/g8.yaml": GroupFile({}, "_global_")},
        {"a/g0.yaml": GroupFile({"defaults": [{"/a@x": "g0"}, "_self_"]}, "_global_")},
    ],
    ids=["fan-out", "recursion"],
)
def test_groups_that_multiply_or_recur_are_cut_off(files: dict[str, GroupFile]) -> None:
    with BoundedComposer({"jobs": lambda: files}) as composer, pytest.raises(ComposeError) as said:
        composer.compose("jobs", {}, {"defaults": [{"/a": "g0"}, "_self_"]})

    assert said.value.code == "HW037"
