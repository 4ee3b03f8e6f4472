"""What reaches a terminal: widths, cuts, colours, and nothing that steers it."""

import io

import pytest

from reconciler.cli.terminal import Terminal, clean, clean_log, cut, find_terminal, width_of, wrap


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("摘要", 4),
        ("é", 1),
        ("e\N{COMBINING ACUTE ACCENT}", 1),
        ("\N{FULLWIDTH LATIN SMALL LETTER W}", 2),
    ],
)
def test_width_counts_columns_and_not_letters(text: str, columns: int) -> None:
    assert width_of(text) == columns


def test_a_cut_is_marked_and_never_wider_than_asked() -> None:
    assert cut("waits for free GPUs", 12) == "waits for f…"
    assert width_of(cut("摘要摘要摘要", 6)) <= 6
    assert cut("short", 12) == "short"


@pytest.mark.parametrize(
    ("option", "environment", "stream", "expected"),
    [
        ("auto", {}, Screen(), True),
        ("auto", {}, io.StringIO(), False),
        ("auto", {"NO_COLOR": "1"}, Screen(), False),
        ("auto", {"NO_COLOR": ""}, Screen(), True),
        ("auto", {"FORCE_COLOR": "1"}, io.StringIO(), True),
        ("auto", {"FORCE_COLOR": "0"}, Screen(), False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, Screen(), False),
        ("auto", {"TERM": "dumb"}, Screen(), False),
        ("always", {"NO_COLOR": "1"}, io.StringIO(), True),
        ("never", {"FORCE_COLOR": "1"}, Screen(), False),
    ],
)
def test_the_option_wins_over_the_environment_and_that_over_the_stream(
    option: str,
    environment: dict[str, str],
    stream: io.StringIO,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_terminal(option, stream).color is expected


def test_nothing_is_cut_where_the_stream_is_no_terminal() -> None:
    assert find_terminal("auto", io.StringIO()).width is None
    assert find_terminal("auto", Screen()).width is not None


def test_colour_is_added_around_a_word_and_changes_no_letter() -> None:
    assert Terminal(color=True).paint("held", "bad") == "\x1b[31mheld\x1b[0m"
    assert Terminal(color=False).paint("held", "bad") == "held"


@pytest.mark.parametrize(
    "hostile",
    [
        "Add job\x1b[2J\x1b[1;1H",
        "Add job\x1b]0;owned\x07",
        "Add \u202ejob",
        "Add\rjob",
        "Add\njob",
        "Add job\x9b31m",
        "Add job\x00",
        "Add\u2028job",
    ],
)
def test_text_that_people_wrote_cannot_steer_the_terminal(hostile: str) -> None:
    shown = clean(hostile)
    assert shown.isprintable()
    assert shown.startswith("Add")
    assert "\n" not in shown


def test_a_log_keeps_its_colours_and_lines_and_loses_its_orders() -> None:
    log = "\x1b[32mok\x1b[0m\tstep 1\rstep 2\n\x1b[2J\x1b]52;c;aGk=\x07\x07done\x1b[?25l\n"
    assert clean_log(log) == "\x1b[32mok\x1b[0m\tstep 1\rstep 2\ndone\n"


def test_long_text_is_broken_between_words_with_its_indent() -> None:
    text = "one two three four five six seven"
    assert wrap(text, None, "  ") == text
    assert wrap(text, 20, "  ") == "one two three four\n  five six seven"
    assert wrap(text, 20, "  ", first=6) == "one two three\n  four five six\n  seven"


def test_breaking_keeps_the_blanks_that_a_line_begins_with_and_counts_no_colour() -> None:
    painted = Terminal(color=True).paint("x", "bad")
    assert wrap(f"  {painted}  aa bb cc", 10, "     ") == f"  {painted}  aa bb\n     cc"


def test_a_word_longer_than_a_line_stays_whole() -> None:
    assert wrap("a https://example.org/long", 10, " ") == "a\n https://example.org/long"
