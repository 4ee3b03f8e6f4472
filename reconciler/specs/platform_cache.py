"""Keeps the platform's documents between runs: a warm read composes no ``conf/`` either."""

import json
from dataclasses import asdict, replace

from reconciler.specs.cache import SpecCache
from reconciler.specs.platform import PlatformDocuments, build_platform
from reconciler.specs.rows import STRANGE, problem_of, problem_row
from reconciler.specs.verdict import text_digest


def keep_platform(cache: SpecCache, key: str, documents: PlatformDocuments) -> None:
    """Keep the documents and their problems under a digest of every file of ``conf/``."""
    row = asdict(replace(documents, problems=[]))
    row["problems"] = [problem_row(problem) for problem in documents.problems]
    cache.add_shared("platforms", key, row)


def kept_platform(cache: SpecCache, key: str) -> PlatformDocuments | None:
    """Return what was kept under ``key``, None where there is nothing usable."""
    try:
        row = cache.shared("platforms", key)
        if row is None:
            return None
        problems = [problem_of(each) for each in row["problems"]]
        documents = PlatformDocuments(**{**row, "problems": problems})
        build_platform(documents)
        return documents
    except STRANGE:
        return None


def platform_digest(documents: PlatformDocuments) -> str:
    """Return a digest of what the platform says, whichever files say it."""
    said = asdict(replace(documents, problems=[]))
    return text_digest(json.dumps(said, sort_keys=True))[:20]
