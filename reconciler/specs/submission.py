"""May this job be submitted now?  The one judgement that depends on the clock, made once.

A P0 job needs a deadline under two hours away when it is submitted.  Later the same document
stays valid while its deadline comes nearer and passes.
"""

from collections.abc import Sequence

from reconciler.domain.job import JobSpec
from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import Instant
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import submission_findings


def submission_problems(spec: JobSpec, path: str, now: Instant, data: bytes) -> list[SpecProblem]:
    """Return why the job at ``path`` may not be submitted at ``now``; ``data`` is its file."""
    return placed(submission_findings(spec, now), path, data)


def placed(findings: Sequence[Finding], path: str, data: bytes) -> list[SpecProblem]:
    """Return findings about the file's own keys as problems at their places in ``data``."""
    if not findings:
        return []
    from reconciler.specs.origins import Origins
    from reconciler.specs.yaml_text import read_yaml

    origins = Origins(read_yaml(data, path))
    return [origins.problem(finding, {}) for finding in findings]
