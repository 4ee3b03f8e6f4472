"""What did the person mean?  The nearest known key, and the names other tools use for ours."""

from collections.abc import Iterable

_WITHIN = "did you mean `within`? A gang is whole; `within: node` keeps it on one node"
_PATH = "team and name come from the path jobs/<team>/<name>.yaml; remove it"

OTHER_NAMES: dict[str, str] = {
    "gpu_count": "resources.gpus",
    "num_gpus": "resources.gpus",
    "n_gpus": "resources.gpus",
    "required_gpus": "resources.gpus",
    "gpus": "resources.gpus",
    "gpu": "resources.gpus",
    "accelerators": "resources.gpus",
    "slots": "resources.gpus",
    "gpu_types": "resources.gpu_type",
    "gpu_model": "resources.gpu_type",
    "gpu_memory": "resources.min_gpu_memory",
    "memory_per_gpu": "resources.min_gpu_memory",
    "min_free_memory_gb": "resources.min_gpu_memory",
    "same_node": "resources.within",
    "priority_level": "priority",
    "priority_class": "priority",
    "qos": "priority",
    "depends_on": "after",
    "dependencies": "after",
    "dependency": "after",
    "schedule_after": "after",
    "needs": "after",
    "preemptible": "preemption.allowed",
    "grace_period": "preemption.grace",
    "may_shrink_to": "elastic.min_gpus",
    "estimated_duration": "time.estimate",
    "estimated_duration_hours": "time.estimate",
    "time_limit": "time.limit",
    "walltime": "time.limit",
    "timeout": "time.limit",
    "max_runtime": "time.limit",
    "save_steps": "checkpoint.every_steps",
    "save_total_limit": "checkpoint.keep",
    "callbacks": "notify",
    "command": "run.command",
    "budget": "budget_group",
    "online": "serves_online",
    "paused": "suspend",
    "apiVersion": "api_version",
    "reservation_duration_hours": "duration",
    "tz": "timezone",
}

ADVICE: dict[str, str] = {
    "nodes": _WITHIN,
    "num_nodes": _WITHIN,
    "nnodes": _WITHIN,
    "gpus_per_node": _WITHIN,
    "team": _PATH,
    "name": _PATH,
    "job_name": _PATH,
    "metadata": _PATH,
    "spec": "documents are flat: move its keys to the top level",
    "resource_reservation": "write a document of its own with `kind: Reservation`",
    "submitted_at": "headway sets it from the commit; remove it",
    "created_at": "headway sets it from the commit; remove it",
}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` is most likely a slip of, or None."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def advice_for_key(key: str, section: str, known: Iterable[str], everywhere: Iterable[str]) -> str:
    """Return what to write instead of an unknown key of ``section`` (dotted; empty: the top).

    ``known`` are the keys of this section, ``everywhere`` the dotted paths of all fields.
    """
    if key in ADVICE:
        return ADVICE[key]
    known = list(known)
    paths = sorted(everywhere)
    if (other := OTHER_NAMES.get(key)) is not None:
        inside, _, last = other.rpartition(".")
        if last in known and last != key:
            return f"did you mean `{last}`?"
        if other in paths and (inside, last) != (section, key):
            return f"did you mean `{other}`?"
    if (same := nearest(key, known)) is not None:
        return f"did you mean `{same}`?"
    for path in paths:
        if path.rpartition(".")[2] == key:
            return f"did you mean `{path}`?"
    return "keys here are " + ", ".join(sorted(known))
