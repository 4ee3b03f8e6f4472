"""A setting without prose is a failing test: every field of every document is in docs/specs.md."""

import re

import pytest

from reconciler.specs.cluster_documents import Caches, ClusterConf, Node, NodeType
from reconciler.specs.documents import Job, ReservationDocument
from reconciler.specs.fields import nulls_of
from reconciler.specs.platform_documents import MODELS, MemberConf
from tests.unit.specs.fleet_files import ROOT

DOCUMENTS = {
    "job": Job,
    "reservation": ReservationDocument,
    "cluster": ClusterConf,
    "node": Node,
    "caches": Caches,
    "node type": NodeType,
    "member": MemberConf,
    **MODELS,
}


def names(node: object) -> set[str]:
    """Return the name of every field, at any depth."""
    if not isinstance(node, dict):
        return set()
    return set(node) | {name for below in node.values() for name in names(below)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_field_is_in_the_docs(document: str) -> None:
    prose = (ROOT / "docs" / "specs.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z_0-9]+", prose))

    fields = names(nulls_of(DOCUMENTS[document].model_json_schema(by_alias=True)))

    assert fields
    assert not fields - words
