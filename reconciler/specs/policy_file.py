"""Reads one policy document by itself, outside any repository: what if these were the rules?

The file has the keys of ``conf/policy/*.yaml``.  A ``defaults:`` list names groups of a repository
and is left aside: what the file does not say has headway's own default.
"""

from pydantic import ValidationError

from reconciler.domain.policy import Policy
from reconciler.errors import UsageError
from reconciler.specs.platform import build_policy
from reconciler.specs.platform_documents import PolicyConf, platform_shape
from reconciler.specs.shape import said_of
from reconciler.specs.yaml_text import read_yaml


def read_policy(data: bytes, file: str) -> Policy:
    """Return the policy that ``data`` says.  Raises ``UsageError`` that names file and key."""
    text = read_yaml(data, file, platform_shape("policy/default.yaml"))
    if text.problems:
        first = min(text.problems)
        raise UsageError(f"{file}:{first.line}:{first.column}: {first.message}; {first.hint}")
    said = {key: value for key, value in (text.value or {}).items() if key != "defaults"}
    try:
        PolicyConf.model_validate(said)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        message, hint = said_of(details)
        where = ".".join(str(part) for part in details["loc"])
        advice = hint or "keys are " + ", ".join(PolicyConf.model_fields)
        raise UsageError(f"{file}: {where} {message}; {advice}") from None
    try:
        return build_policy(said)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None
