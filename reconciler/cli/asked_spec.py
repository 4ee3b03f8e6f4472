"""The composed document of one job that a command names, or its mistakes on stderr."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.cli.specs_options import print_problems, spec_source
from reconciler.errors import NotFoundError, UsageError
from reconciler.specs.entries import has_errors
from reconciler.specs.paths import job_at
from reconciler.specs.reading import read_specs


def document_of(
    file: str, overrides: Sequence[str], repo: str | None, at: str | None
) -> Mapping[str, Any]:
    """Return the composed document of ``file`` with ``overrides`` laid over it.

    Raises ``NotFoundError`` where there is no such file, ``UsageError`` where it is no job or
    cannot be used (its problems are printed).
    """
    source = spec_source(repo, at)
    path = source.path_of(file)
    job = job_at(path)
    if job is None:
        raise UsageError(f"{file}: only documents under jobs/<team>/<name>.yaml are estimated")
    reading = read_specs(source.tree, cache=source.cache(), paths=(path,), overrides=overrides)
    entry = reading.entries.get(job)
    if entry is None:
        raise NotFoundError(f"{file}: no such job")
    problems = sorted(set(entry.problems))
    if entry.document is None:
        print_problems(problems, "text", source, files=1, err=True)
        raise UsageError(f"{file} cannot be composed")
    if has_errors(problems):
        print_problems(problems, "text", source, files=1, err=True)
    return entry.document
