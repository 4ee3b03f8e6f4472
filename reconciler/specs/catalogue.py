"""Reads what the platform decided out of ``conf/``: ``headway.yaml``, which picks one cluster,
one policy and one launcher, and every team, budget and sink.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.domain.problem import SpecProblem
from reconciler.specs.bounded import BoundedComposer
from reconciler.specs.codes import Code
from reconciler.specs.composed import ComposeError
from reconciler.specs.findings import Finding, KeyPath
from reconciler.specs.group_files import HEADWAY, PICKED, GroupFiles
from reconciler.specs.names import nearest
from reconciler.specs.origins import COMMAND_LINE, Origins
from reconciler.specs.pipeline import without_nulls
from reconciler.specs.platform import PlatformDocuments
from reconciler.specs.platform_documents import platform_findings
from reconciler.specs.text import Text


def read_platform(
    groups: GroupFiles, composer: BoundedComposer, cluster: str | None = None
) -> PlatformDocuments:
    """Return the platform's documents; ``cluster`` picks another option of ``conf/cluster/``."""
    found = PlatformDocuments(problems=groups.problems())
    if HEADWAY not in groups.conf.oids:
        found.problems.append(
            SpecProblem(
                file=f"conf/{HEADWAY}",
                code=Code.NO_PLATFORM_FILE,
                message="the file is missing: it names the cluster, the policy and the launcher",
                hint="`headway init` makes one",
            )
        )
        return found
    headway = groups.text(HEADWAY)
    overrides = () if cluster is None else (f"cluster={cluster}",)
    found.headway = _composed(headway, groups, composer, overrides, found.problems)
    for folder, into in (
        ("teams", found.teams),
        ("budgets", found.budgets),
        ("sinks", found.sinks),
    ):
        for name, text in _files_in(folder, groups):
            document = text.value or {}
            problems = text.problems or _problems_of(folder, document, Origins(text))
            if not problems:
                into[name] = without_nulls(document)
                continue
            if not text.problems:
                found.problems += problems
            if folder == "teams":
                found.unusable_teams.append(name)
    clusters = _check_options(found, groups, composer)
    if cluster is None:  # else everybody is judged by that one
        _add_sample_clusters(found, groups, clusters)
    return found


def _files_in(folder: str, groups: GroupFiles) -> list[tuple[str, Text]]:
    return [
        (name.removeprefix(f"{folder}/").removesuffix(".yaml"), groups.text(name))
        for name in groups.conf.oids
        if name.startswith(f"{folder}/") and name.count("/") == 1
    ]


def _composed(
    headway: Text,
    groups: GroupFiles,
    composer: BoundedComposer,
    overrides: Sequence[str],
    problems: list[SpecProblem],
) -> Mapping[str, Any] | None:
    """Return the composed ``headway.yaml``, or None after adding its problems."""
    if headway.value is None or headway.problems:
        return None
    try:
        composed = composer.compose("platform", {}, headway.value, overrides)
    except ComposeError as error:
        if overrides and error.about:
            problems.append(
                SpecProblem(
                    file=COMMAND_LINE, code=error.code, message=error.message, hint=error.hint
                )
            )
        elif error.code is not Code.BAD_GROUP_FILE:  # which has problems of its own already
            problems.append(
                Origins(headway).at(error.code, error.message, error.hint, ("defaults",))
            )
        return None
    texts: list[tuple[Text, KeyPath]] = [
        (groups.text(f"{name}.yaml"), tuple(package.split(".")) if package else ())
        for name, package in composed.sections
    ]
    found = _problems_of("headway", composed.document, Origins(headway, lambda: texts))
    problems += found
    return None if found else without_nulls(composed.document)


def _problems_of(kind: str, document: Mapping[str, Any], origins: Origins) -> list[SpecProblem]:
    return [origins.problem(finding, document) for finding in platform_findings(kind, document)]


def _check_options(
    found: PlatformDocuments, groups: GroupFiles, composer: BoundedComposer
) -> dict[str, Mapping[str, Any]]:
    """Add the problems of options nobody picks now; return the sound clusters by option."""
    headway = groups.text(HEADWAY)
    clusters = {}
    for group in PICKED:
        for option, text in _files_in(group, groups):
            problems: list[SpecProblem] = []
            document = _composed(headway, groups, composer, (f"{group}={option}",), problems)
            found.problems += [each for each in problems if each.file == text.file]
            if group == "cluster" and document is not None:
                clusters[option] = document["cluster"]
                found.problems += _cache_warnings(text, groups)
    return clusters


def _cache_warnings(text: Text, groups: GroupFiles) -> list[SpecProblem]:
    """Return where a cluster's file names a cache by a group: no job's model is called that."""
    found = []
    for path, name in _cache_names(text.value or {}):
        group, key = ("model", "model") if path[-2] == "models" else ("data", "dataset")
        file = f"{group}/{name}.yaml"
        said = (groups.text(file).value or {}).get(key) if file in groups.conf.oids else name
        if said in (name, [name]):
            continue
        message = f"`{name}` is a group of conf/{group}/; a cache is named as its `{key}:` is"
        hint = f"write {' and '.join([said] if isinstance(said, str) else said)}" if said else ""
        warning = Finding(path, Code.BAD_PLATFORM, message, hint, is_warning=True)
        found.append(Origins(text).problem(warning, {}))
    return found


def _cache_names(cluster: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield where each name of a cache stands, and the name."""
    for node, row in cluster.get("nodes", {}).items():
        for kind, names in (row.get("caches") or {}).items():
            for index, name in enumerate(names):
                yield ("nodes", node, "caches", kind, index), name


def _add_sample_clusters(
    found: PlatformDocuments, groups: GroupFiles, clusters: Mapping[str, Mapping[str, Any]]
) -> None:
    for name, team in found.teams.items():
        wanted = team.get("sample_cluster")
        if wanted is None:
            continue
        if wanted in clusters:
            found.sample_clusters[wanted] = clusters[wanted]
        elif f"cluster/{wanted}.yaml" not in groups.conf.oids:
            options = [option for option, _ in _files_in("cluster", groups)]
            close = nearest(wanted, options)
            found.problems.append(
                Origins(groups.text(f"teams/{name}.yaml")).at(
                    Code.BAD_PLATFORM,
                    f"there is no cluster `{wanted}` in conf/cluster/",
                    f"did you mean `{close}`?" if close else "there are " + ", ".join(options),
                    ("sample_cluster",),
                )
            )
