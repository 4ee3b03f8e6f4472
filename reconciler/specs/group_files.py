"""Which groups can documents pick from, and what do the files under ``conf/`` say?

Read strictly like every document, from blobs, and only when somebody asks.  A group file on the
job's side starts with ``# @package train`` (or the section it fills).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.domain.problem import SpecProblem
from reconciler.ports import Tree
from reconciler.specs.codes import Code
from reconciler.specs.composed import GroupFile
from reconciler.specs.conf_files import ConfFiles
from reconciler.specs.defaults import defaults_problems
from reconciler.specs.fields import Shape
from reconciler.specs.platform_documents import platform_shape
from reconciler.specs.shape import base_document, document_shape
from reconciler.specs.text import Text
from reconciler.specs.yaml_text import read_yaml

HEADWAY = "headway.yaml"
PICKED = ("cluster", "policy", "launcher")
"""Groups ``conf/headway.yaml`` picks one option of."""
LISTED = ("teams", "budgets", "sinks")
"""Folders of which every file counts."""

_HEADER = re.compile(rb"[ \t]*#[ \t]*@package[ \t]+(\S+)[ \t\r]*\Z")


@dataclass(slots=True)
class GroupFiles:
    """The files under ``conf/`` of one tree, parsed on first use."""

    tree: Tree
    conf: ConfFiles
    _texts: dict[str, Text] = field(default_factory=dict)
    _packages: dict[str, str | None] = field(default_factory=dict)

    def text(self, name: str) -> Text:
        """Return one file, read; all are read together at the first call."""
        if not self._texts:
            blobs = self.tree.read(self.conf.oids.values())
            for each, oid in self.conf.oids.items():
                self._read(each, blobs[oid])
        return self._texts[name]

    def _read(self, name: str, data: bytes) -> None:
        package = _package_of(data)
        self._packages[name] = package
        file = f"conf/{name}"
        if is_platform_file(name):
            text = read_yaml(data, file, platform_shape(name))
        else:
            text = read_yaml(data, file, _shape_under(package))
            if text.value is not None:
                text.problems += _package_problems(package, file)
        if text.value is not None and not _is_listed(name):
            text.problems += defaults_problems(text, needs_self=True)
        self._texts[name] = text

    def for_jobs(self) -> dict[str, GroupFile]:
        """Return the groups that documents may pick from."""
        return {name: self._mounted(name) for name in self.conf.oids if not is_platform_file(name)}

    def for_platform(self) -> dict[str, GroupFile]:
        """Return the groups ``headway.yaml`` picks from."""
        return {
            name: self._mounted(name) for name in self.conf.oids if name.partition("/")[0] in PICKED
        }

    def _mounted(self, name: str) -> GroupFile:
        text = self.text(name)
        value: Mapping[str, Any] | None = None if text.problems else text.value
        return GroupFile(value, self._packages[name])

    def problems(self) -> list[SpecProblem]:
        """Return the problems of every file under ``conf/``."""
        return [problem for name in self.conf.oids for problem in self.text(name).problems]


def is_platform_file(name: str) -> bool:
    """Return whether a path relative to conf/ is the platform's, not a group of jobs."""
    return name.partition("/")[0] in (HEADWAY, *PICKED, *LISTED)


def _is_listed(name: str) -> bool:
    return name.partition("/")[0] in LISTED


def _package_of(data: bytes) -> str | None:
    """Return the package named in the comments before the first value."""
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:20]:
        if (match := _HEADER.match(line)) is not None:
            return match.group(1).decode("ascii", "replace")
        if line.strip() and not line.lstrip().startswith(b"#"):
            return None
    return None


def _shape_under(package: str | None) -> Shape:
    shape = document_shape("Job")
    if package is None or package == "_global_":
        return shape
    for part in package.split("."):
        shape = shape.at(part)
    return shape


def _package_problems(package: str | None, file: str) -> list[SpecProblem]:
    sections = [key for key, value in base_document("Job").items() if isinstance(value, Mapping)]
    if package == "_global_" or (package or "").split(".")[0] in sections:
        return []
    said = "the first line does not say which section the file fills"
    if package is not None:
        said = f"`# @package {package}`: a job has no section `{package}`"
    return [
        SpecProblem(
            file=file,
            line=1,
            column=1,
            code=Code.BAD_GROUP_FILE,
            message=said,
            hint="start the file with `# @package train`; sections are " + ", ".join(sections),
        )
    ]
