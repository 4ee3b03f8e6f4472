"""The strict loader: what it accepts, what it refuses by name, and where it says it stands."""

import pytest

from reconciler.specs.fields import Shape
from reconciler.specs.scalars import Kind
from reconciler.specs.yaml_text import MAX_DEPTH, MAX_NODES, read_yaml
from tests.unit.specs.fleet_files import codes, said

TEXT = Shape(keys={"t": Shape(Kind.TEXT), "x": Shape(Kind.NUMBER), "b": Shape(Kind.FLAG)})


@pytest.mark.parametrize(
    ("data", "code", "place", "words"),
    [
        (b"a: &x [1]\nb: *x\n", "HW008", (1, 4), "anchor"),
        (b"b: *x\n", "HW008", (1, 4), "alias"),
        (b"a:\n  <<: {x: 1}\n", "HW008", (2, 3), "merge key"),
        (b"a: !!python/object/apply:os.system [id]\n", "HW009", (1, 4), "tag"),
        (b"a: !x 1\n", "HW009", (1, 4), "tag"),
        (b"a: 1\n---\nb: 1\n", "HW010", (2, 1), "second document"),
        (b"- 1\n", "HW011", (1, 1), "not a mapping"),
        (b"", "HW011", (1, 1), "not a mapping"),
        (b"a: " + b"[" * 100 + b"]" * 100, "HW012", (1, 27), "nested deeper"),
        (b"- " * 30_000 + b"a", "HW012", (1, 49), "nested deeper"),
        (b"a: [" + b"1," * 20_000 + b"1]", "HW012", (1, 9999), "more than 5000"),
        (b"a: 1\nb: 2\na: 3\n", "HW013", (3, 1), "first in line 1, again in line 3"),
        (b"? [a]\n: 1\n", "HW014", (1, 3), "key must be text"),
        (b"x:\n  _target_: os.system\n", "HW032", (2, 3), "_target_"),
        (b"hydra: {searchpath: ['file:///etc']}\n", "HW032", (1, 1), "hydra"),
        ("n\u0430me: x\n".encode(), "HW014", (1, 1), "U+0430 CYRILLIC SMALL LETTER A"),
        (b"a: ${oc.env:HOME}\n", "HW033", (1, 4), "resolvers"),
        (b"a: ${b${c}}\n", "HW033", (1, 4), "inside another"),
        (b"a: ${b}${b}${b}${b}${b}\n", "HW033", (1, 4), "at most 4"),
        (b'a: "\\\\${b}"\n', "HW033", (1, 4), "backslash"),
        (b"a: 1.0e999\n", "HW016", (1, 4), "too large"),
        (b"a: .nan\n", "HW016", (1, 4), "finite"),
        (b"a: -.inf\n", "HW016", (1, 4), "finite"),
        (b"a: " + b"9" * 21, "HW016", (1, 4), "21 characters"),
        (b"a:\n\tb: 1\n", "HW004", (2, 1), "line 2 starts with a tab"),
        (b"a:\tb\n", "HW004", (1, 3), "tab in line 1"),
        ("a:\n\u00a0\u00a0b: 1\n".encode(), "HW005", (2, 1), "NO-BREAK SPACE"),
        ("a: x\u3000y\n".encode(), "HW005", (1, 5), "IDEOGRAPHIC SPACE"),
        ("resources:\n  gpus\uff1a4\n".encode(), "HW006", (2, 3), "full-width colon"),
        ("resources:\n  gpus\uff1a4\n  x: 1\n".encode(), "HW006", (2, 3), "full-width colon"),
        ("a: \u201cx\u201d\n".encode(), "HW006", (1, 4), "U+201C"),
        ("a: x\u202ey\n".encode(), "HW007", (1, 5), "RIGHT-TO-LEFT OVERRIDE"),
        ("# \u202e hidden\na: 1\n".encode(), "HW007", (1, 3), "RIGHT-TO-LEFT OVERRIDE"),
        ("a: x\u2028b: 1\n".encode(), "HW007", (1, 5), "LINE SEPARATOR"),
        (b"a: x\x07\n", "HW007", (1, 5), "U+0007"),
        (b"a: 1\rb: 2\n", "HW007", (1, 5), "carriage return"),
        (b"a: \xff\n", "HW001", (1, 1), "0xff"),
        ("a: 1".encode("utf-16"), "HW001", (1, 1), "UTF-16"),
        (b"a: [1, 2\nb: 3\n", "HW003", (2, 2), "not YAML"),
        (b"r:\n  gpus: *\n", "HW069", (2, 9), "wildcard"),
    ],
)  # fmt: skip
def test_a_hostile_or_broken_file_is_refused_by_name_and_place(
    data: bytes, code: str, place: tuple[int, int], words: str
) -> None:
    text = read_yaml(data, "jobs/a/b.yaml")

    first = text.problems[0]
    assert (str(first.code), (first.line, first.column)) == (code, place), said(text.problems)
    assert words in f"{first.message} {first.hint}"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("no", "quote it: 'no'"),
        ("NO", "quote it: 'NO'"),
        ("off", "quote it"),
        ("On", "quote it"),
        ("y", "quote it"),
        ("True", "write `true` or quote it"),
        ("010", "quote it: '010' or write the number 10"),
        ("08", "octal"),
        ("00", "quote it"),
        ("0o10", "quote it"),
        ("0x1F", "quote it"),
        ("0b11", "quote it"),
        ("1:30", "reads as 90"),
        ("10:00", "reads as 600"),
        ("09:00", "reads as 540"),
        ("72:00:00", "reads as 259200"),
        ("1_000", "write the number 1000"),
    ],
)
def test_what_two_yaml_versions_read_differently_is_refused_with_quote_it(
    written: str, words: str
) -> None:
    text = read_yaml(f"a: {written}\n".encode(), "f")

    (problem,) = text.problems
    assert problem.code == "HW015"
    assert words in f"{problem.message} {problem.hint}"
    assert not read_yaml(f"a: '{written}'\n".encode(), "f").problems


def test_a_key_is_held_to_the_same_rule() -> None:
    assert codes(read_yaml(b"on: push\n", "f").problems) == ["HW015"]
    assert codes(read_yaml(b"010: x\n", "f").problems) == ["HW015"]
    assert codes(read_yaml(b"7: x\n", "f").problems) == ["HW014"]


@pytest.mark.parametrize("written", ["2e-5", "2E-5", "2.e-5", "2.0e-5", "0.00002"])
def test_every_spelling_of_a_float_gives_the_same_number(written: str) -> None:
    assert read_yaml(f"x: {written}\n".encode(), "f", TEXT).value == {"x": 0.00002}


@pytest.mark.parametrize("written", ["1.10", "1234567", "2026-11-01", "2026-11-01T08:00:00Z", "-5"])
def test_a_text_field_keeps_numbers_and_dates_as_written(written: str) -> None:
    text = read_yaml(f"t: {written}\n".encode(), "f", TEXT)

    assert text.value == {"t": written}
    assert not text.problems


def test_digits_e_digits_are_refused_where_text_is_wanted_and_a_number_elsewhere() -> None:
    assert codes(read_yaml(b"t: 12e4567\n", "f", TEXT).problems) == ["HW015"]
    assert read_yaml(b"x: 12e4\n", "f", TEXT).value == {"x": 120000.0}


def test_where_a_boolean_is_wanted_the_advice_is_the_boolean() -> None:
    (problem,) = read_yaml(b"b: no\n", "f", TEXT).problems

    assert problem.hint == "write `false`"


def test_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    plain = read_yaml(b"a: 1\nb:\n  c: x\n", "f")

    assert read_yaml(b"a: 1\r\nb:\r\n  c: x\r\n", "f").value == plain.value
    assert read_yaml(b"\xef\xbb\xbfa: 1\nb:\n  c: x\n", "f").value == plain.value
    assert not plain.problems


def test_full_width_punctuation_inside_text_is_left_alone() -> None:
    text = read_yaml("t: 你好\uff1a请讲\nu: '\u201ca\u201d\uff1ab'\n".encode(), "f", TEXT)

    assert text.value == {"t": "你好\uff1a请讲", "u": "\u201ca\u201d\uff1ab"}
    assert not text.problems


def test_invisible_characters_may_be_written_as_escapes() -> None:
    text = read_yaml(b'a: "x\\u00a0y\\tz"\n', "f")

    assert text.value == {"a": "x\u00a0y\tz"}
    assert not text.problems


def test_every_problem_of_a_file_is_reported_at_once() -> None:
    text = read_yaml(b"a: no\nb: 1:30\nc: &x 1\na: 2\nd: .nan\n", "f")

    assert [problem.line for problem in text.problems] == [1, 2, 3, 4, 5]


def test_every_value_and_key_has_its_place() -> None:
    text = read_yaml(b'a: 1\nb:\n  c: [x, "yy"]\n  d:\n', "f")

    assert text.place(("a",)) == (1, 4, 1)
    assert text.place(("b", "c", 1)) == (3, 10, 4)
    assert text.place(("b", "c")) == (3, 3, 1)
    assert text.place(("b", "d")) == (4, 3, 1)
    assert text.place(("a",), key=True) == (1, 1, 1)
    assert text.place(("b", "e")) is None
    assert text.written(("b", "c", 1)) == '"yy"'


def test_the_bounds_are_just_past_what_they_allow() -> None:
    deep = b"a: " + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    many = b"a: [" + b",".join([b"1"] * (MAX_NODES - 3)) + b"]"

    assert not read_yaml(deep, "f").problems
    assert not read_yaml(many, "f").problems
    assert codes(read_yaml(b"a: " + b"x" * 70_000, "f").problems) == ["HW002"]


def test_interpolations_and_missing_marks_are_noticed() -> None:
    assert read_yaml(b"a: x\n", "f").is_plain
    assert not read_yaml(b"a: ${b}\n", "f").is_plain
    assert not read_yaml(b'a: "\\x24{b}"\n', "f").is_plain
    assert not read_yaml(b"a: ???\n", "f").is_plain


def test_no_interpolation_in_a_defaults_list() -> None:
    assert codes(read_yaml(b"defaults: [{/model: '${x}'}]\n", "f").problems) == ["HW030"]
