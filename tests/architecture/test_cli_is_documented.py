"""``docs/cli.md`` documents each verb, option and exit code, and none that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler import errors
from reconciler.cli import boundary
from reconciler.cli.main import VERBS
from reconciler.cli.main import headway as root

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = {
    heading.strip(): body
    for heading, body in re.findall(r"^#{2,3} (.+?)\n(.*?)(?=^#{2,3} |\Z)", TEXT, re.M | re.S)
}
SHARED = SECTIONS["Options of the read verbs"]


def command(verb: str) -> click.Command:
    found = root.get_command(click.Context(root), verb)
    assert found is not None
    return found


def options(verb: str) -> Iterator[click.Option]:
    for parameter in command(verb).params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield parameter


def spellings(text: str) -> set[str]:
    """Return every option that a text names inside backticks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {
        word
        for code in re.findall(r"`([^`]+)`", prose)
        for word in re.findall(r"(?:^|[\s|/])(--?[a-z][a-z-]*)", code)
    }


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_section(verb: str) -> None:
    assert f"headway {verb}" in SECTIONS


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_documented_in_its_verbs_section(verb: str) -> None:
    reads = "no_fetch" in {option.name for option in options(verb)}
    told = spellings(SECTIONS[f"headway {verb}"]) | (spellings(SHARED) if reads else set())
    missing = [
        name
        for option in options(verb)
        for name in (*option.opts, *option.secondary_opts)
        if name not in told
    ]
    assert not missing, f"docs/cli.md, `### headway {verb}`: {', '.join(missing)}"


@pytest.mark.parametrize("verb", VERBS)
def test_no_section_documents_an_option_that_does_not_exist(verb: str) -> None:
    known = {name for option in options(verb) for name in (*option.opts, *option.secondary_opts)}
    rows = re.findall(r"^\| (`-.*?) \|", SECTIONS[f"headway {verb}"], re.M)
    told = {name for row in rows for name in spellings(row.replace("\\|", "|"))}
    assert told <= known


def test_no_section_documents_a_verb_that_does_not_exist() -> None:
    told = {name.removeprefix("headway ") for name in SECTIONS if name.startswith("headway ")}
    assert told == set(VERBS)


def test_options_before_the_verb_are_documented() -> None:
    shared = spellings(SHARED)
    for option in root.params:
        assert set(option.opts) <= shared


def test_every_exit_code_is_in_the_table() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", SECTIONS["Exit codes"], re.M)}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HeadwayError)
    }
    ours = {value for name, value in vars(boundary).items() if name.startswith("EXIT_")}
    assert raised | ours | {0, 1} <= told
