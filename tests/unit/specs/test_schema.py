"""What an editor is told agrees with what the validator judges."""

import json
import os

import jsonschema
import pytest

from reconciler.specs.schema import FOLDER, KINDS, editor_schema, schema_text, write_schemas
from reconciler.specs.shape import field_paths
from reconciler.specs.yaml_text import read_yaml
from tests.unit.specs.fleet_files import ROOT, sample_files


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_the_one_the_documents_give(kind: str) -> None:
    if os.environ.get("HEADWAY_GOLDEN") == "rewrite":
        write_schemas(ROOT)
    written = (ROOT / FOLDER / f"{kind}.json").read_text(encoding="utf-8")

    assert written == schema_text(kind), "`make golden` (or `headway schema --write .`) does it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_draft_7_and_describes_every_field(kind: str) -> None:
    schema = editor_schema(kind)

    jsonschema.Draft7Validator.check_schema(schema)
    assert "$defs" not in json.dumps(schema)
    top = {path for path in field_paths(KINDS[kind]) if "." not in path}
    assert set(schema["properties"]) == top | {"defaults"}


def test_every_sample_passes_in_an_editor() -> None:
    validators = {
        kind: jsonschema.Draft7Validator(editor_schema(kind.lower()))
        for kind in ("Job", "Reservation")
    }
    for path, data in sample_files().items():
        if path.startswith("jobs/"):
            document = read_yaml(data, path).value
            assert document is not None
            assert not list(validators[document["kind"]].iter_errors(document)), path


@pytest.mark.parametrize(
    "document",
    [
        {"api_version": "headway/v1", "kind": "Job", "gpus": 4},
        {"api_version": "headway/v1", "kind": "Job", "resources": {"gpus": 0}},
        {"api_version": "headway/v1", "kind": "Job", "train": {"save_steps": 3}},
        {"api_version": "headway/v1", "kind": "Job", "priority": "urgent"},
        {"kind": "Job"},
    ],
)
def test_what_the_validator_refuses_an_editor_underlines(document: dict[str, object]) -> None:
    assert list(jsonschema.Draft7Validator(editor_schema("job")).iter_errors(document))
