"""What did the planner know that is in no other commit?  ``.headway/inputs.json``.

Every commit that records a decision holds the inputs it was made from: the instant, the
observations, node states and devices, what was learned while main was read, the planner's state
and the versions in use.  With the specs at ``desired`` and the statuses of the parent commit
they are the whole snapshot, so ``headway replay`` needs nothing but commits.

The file is canonical JSON, flat: one key a fact, ``observations/<attempt>`` and the like.
It is a delta to the decision before it, and whole every 256th decision, so that a busy fleet
does not write a thousand unchanged observations a minute and a reader never walks far.
A delta (or a whole) over 64 KiB is split into ``.headway/inputs/0001.json`` and so on.
``sequence`` counts the deltas since the last whole: a commit between two decisions (a lease
taken over) carries the file of the decision before it, which a reader knows by its sequence.

Version 1: sequence, parts, set, drop.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

from reconciler.domain.attempt import Observation
from reconciler.domain.cluster import Device, NodeState
from reconciler.domain.plan import PlannerState
from reconciler.domain.units import AttemptId, CommitId, Instant, NodeName
from reconciler.errors import GitError
from reconciler.snapshots.plain import canonical_text, plain, restore

VERSION = 1
WHOLE_EVERY = 256
PART_BYTES = 64 * 1024
INPUTS_FILE = ".headway/inputs.json"
PARTS_FOLDER = ".headway/inputs"

_MAPS = ("observations", "node_states", "devices", "versions")
_STATES = ("planner_state", "next_planner_state")
_STATE_MAPS = (("value", "shadow", "jobs"), ("value", "firm"))
"""What in a planner state grows with the fleet: one key an entry, so that a delta stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The part of a snapshot that no commit of main and no status file holds."""

    desired: CommitId
    """The main commit that was read."""
    now: Instant
    looked_at: Instant
    """When this read of main began; the next decision's ``previous_look_at``."""
    previous_look_at: Instant | None = None
    cursor: CommitId | None = None
    """The main commit acted on before; None: none was."""
    is_rewritten: bool = False
    allowed_prune: int = 0
    observations: Mapping[AttemptId, Observation] = field(default_factory=dict)
    node_states: Mapping[NodeName, NodeState] = field(default_factory=dict)
    """Only of nodes that were seen in another state than conf declares."""
    devices: Mapping[NodeName, tuple[Device, ...]] = field(default_factory=dict)
    """Only of nodes whose devices conf leaves to discovery."""
    planner_state: PlannerState = PlannerState()
    """What the planner remembered when it decided."""
    next_planner_state: PlannerState = PlannerState()
    """What it remembers from this decision on."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """``headway``, ``planner`` and ``tzdata``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One decision's inputs as they lie on the branch: what the next delta starts from."""

    sequence: int
    facts: Mapping[str, Any]
    parts: int

    def inputs(self) -> Inputs:
        """Return the inputs.  Raises ``ValueError`` where a fact is of the wrong shape."""
        return unflatten(self.facts)


def encode(inputs: Inputs, before: Recorded | None) -> tuple[Mapping[str, bytes | None], Recorded]:
    """Return the files to write over those of ``before``, and what was recorded.

    A file that maps to None is to be deleted.  ``before`` is the decision before this one on
    the same branch; None writes the whole.
    """
    facts = flatten(inputs)
    is_whole = before is None or before.sequence + 1 >= WHOLE_EVERY
    old = {} if before is None or is_whole else before.facts
    changed = {key: facts[key] for key in sorted(facts) if _differs(old, key, facts[key])}
    document: dict[str, Any] = {
        "version": VERSION,
        "sequence": 0 if before is None or is_whole else before.sequence + 1,
        "set": changed,
        "drop": sorted(set(old) - set(facts)),
    }
    parts = _split(changed) if len(_bytes(document)) > PART_BYTES else []
    if parts:
        document |= {"set": {}, "parts": len(parts)}
    files: dict[str, bytes | None] = {INPUTS_FILE: _bytes(document)}
    files |= {part_path(number): _bytes(part) for number, part in enumerate(parts, start=1)}
    for number in range(len(parts) + 1, (before.parts if before else 0) + 1):
        files[part_path(number)] = None
    recorded = Recorded(sequence=document["sequence"], facts=facts, parts=len(parts))
    return files, recorded


def decode(history: Iterable[Mapping[str, bytes]]) -> Recorded:
    """Return the inputs recorded at the first commit of ``history``.

    ``history`` gives the inputs files of successive first-parent commits, newest first; it is
    read as far as the last whole one and no further.  Raises ``GitError`` where the chain is
    broken, or written by a later version.
    """
    chain: list[dict[str, Any]] = []
    newest_parts = 0
    for files in history:
        document = _document(files)
        if chain and document["sequence"] == chain[-1]["sequence"]:
            continue
        if chain and document["sequence"] != chain[-1]["sequence"] - 1:
            break
        if not chain:
            newest_parts = document.get("parts", 0)
        chain.append(document)
        if document["sequence"] == 0:
            return Recorded(
                sequence=chain[0]["sequence"], facts=_applied(chain), parts=newest_parts
            )
    raise GitError(
        "the recorded inputs do not reach back to a whole one: the status branch is cut or "
        "rewritten; fetch its full history",
        retryable=False,
    )


def part_path(number: int) -> str:
    """Return the path of one part of a split file, counted from 1."""
    return f"{PARTS_FOLDER}/{number:04}.json"


def flatten(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs as one flat object: ``<field>`` or ``<field>/<key>`` to JSON."""
    facts: dict[str, Any] = {}
    for item in fields(inputs):
        value = plain(getattr(inputs, item.name))
        if item.name in _MAPS:
            facts |= {f"{item.name}/{key}": each for key, each in value.items()}
        elif item.name in _STATES:
            facts |= _state_entries(item.name, value)
        else:
            facts[item.name] = value
    return facts


def unflatten(facts: Mapping[str, Any]) -> Inputs:
    """Return what :func:`flatten` flattened.  Raises ``ValueError`` on a wrong shape."""
    data: dict[str, Any] = {name: {} for name in _MAPS}
    entries: list[tuple[str, str, Any]] = []
    for key, value in facts.items():
        name, slash, rest = key.partition("/")
        if slash and name in _STATES:
            entries.append((name, rest, value))
        elif slash:
            data[name][rest] = value
        else:
            data[name] = deepcopy(value) if name in _STATES else value
    for name, rest, value in entries:
        _put_state_entry(data[name], rest, value)
    return restore(Inputs, data)


def _state_entries(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a planner state, made plain, with its large maps taken apart entry by entry."""
    facts: dict[str, Any] = {name: value}
    for path in _STATE_MAPS:
        inner = value
        for step in path[:-1]:
            inner = inner[step]
        taken = inner.pop(path[-1])
        facts |= {f"{name}/{'.'.join(path)}/{key}": each for key, each in taken.items()}
    return facts


def _put_state_entry(state: dict[str, Any], rest: str, value: Any) -> None:
    where, _, key = rest.partition("/")
    *outer, last = where.split(".")
    for step in outer:
        state = state.setdefault(step, {})
    state.setdefault(last, {})[key] = value


def _differs(old: Mapping[str, Any], key: str, value: Any) -> bool:
    return key not in old or old[key] != value


def _split(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{}]
    size = 0
    for key, value in facts.items():
        length = len(canonical_text({key: value}).encode())
        if parts[-1] and size + length > PART_BYTES:
            parts.append({})
            size = 0
        parts[-1][key] = value
        size += length
    return parts


def _bytes(document: Mapping[str, Any]) -> bytes:
    return (canonical_text(document) + "\n").encode()


def _document(files: Mapping[str, bytes]) -> dict[str, Any]:
    if INPUTS_FILE not in files:
        raise GitError(f"no {INPUTS_FILE} in a status commit", retryable=False)
    document: dict[str, Any] = json.loads(files[INPUTS_FILE])
    if document.get("version") != VERSION:
        raise GitError(
            f"{INPUTS_FILE} has version {document.get('version')}, this headway reads {VERSION}",
            retryable=False,
        )
    for number in range(1, document.get("parts", 0) + 1):
        if part_path(number) not in files:
            raise GitError(f"{part_path(number)} is missing", retryable=False)
        document["set"] |= json.loads(files[part_path(number)])
    return document


def _applied(chain: list[dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for document in reversed(chain):
        for key in document["drop"]:
            facts.pop(key, None)
        facts |= document["set"]
    return facts
