"""Plain tables: aligned, whole where nobody looks, cut with a mark where a screen ends."""

from reconciler.cli.tables import Cell, Column, fields, render
from reconciler.cli.terminal import Terminal, width_of

HEADS = [Column("JOB"), Column("GPUS", "right"), Column("REASON")]
ROWS = [
    ["recsys/qwen3-dpo", "4", "node-1 [0-3], ends ~21:40"],
    ["nlp/摘要", "16", "waits for free GPUs: 16 wanted in one rack, 3 free on node-1"],
]


def test_columns_line_up_also_under_wide_letters() -> None:
    lines = render(HEADS, ROWS, Terminal()).splitlines()
    starts = {width_of(line[: line.index(word)]) for line, word in zip(
        lines, ("REASON", "node-1 [", "waits"), strict=True
    )}  # fmt: skip
    assert len(starts) == 1


def test_nothing_is_cut_off_where_there_is_no_terminal() -> None:
    text = render(HEADS, ROWS, Terminal(width=None))
    assert "3 free on node-1" in text
    assert "…" not in text


def test_only_the_last_column_gives_way_on_a_terminal_and_says_so() -> None:
    lines = render(HEADS, ROWS, Terminal(width=60)).splitlines()
    assert all(width_of(line) <= 60 for line in lines)
    assert lines[2].endswith("…")
    assert "recsys/qwen3-dpo" in lines[1]


def test_a_screen_too_narrow_for_the_rest_gets_whole_cells() -> None:
    assert "3 free on node-1" in render(HEADS, ROWS, Terminal(width=32))


def test_a_column_that_repeats_another_goes_before_a_reason_is_cut_short() -> None:
    heads = [Column("JOB"), Column("TEAM", is_repeated=True), Column("REASON")]
    rows = [["recsys/dpo", "recsys", "waits for free GPUs: 16 wanted, 3 free"]]
    assert "TEAM" in render(heads, rows, Terminal(width=60))
    narrow = render(heads, rows, Terminal(width=54))
    assert "TEAM" not in narrow
    assert "3 free" in narrow
    assert "TEAM" in render(heads, rows, Terminal(width=None))


def test_an_empty_cell_is_a_dash_and_heads_can_be_left_out() -> None:
    assert render(HEADS, [["a", "", ""]], Terminal(), heads=False) == "a  -  -"


def test_no_rows_and_no_heads_is_no_text() -> None:
    assert render(HEADS, [], Terminal(), heads=False) == ""


def test_lines_have_no_blanks_at_their_end() -> None:
    lines = render(HEADS, ROWS, Terminal()).splitlines()
    assert all(line == line.rstrip() for line in lines)


def test_colour_does_not_move_a_column() -> None:
    rows = [["a/b", Cell("4", "good"), "x"], ["a/longer", Cell("16", "bad"), "y"]]
    plain = render(HEADS, rows, Terminal())
    painted = render(HEADS, rows, Terminal(color=True))
    for code in ("\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[0m"):
        painted = painted.replace(code, "")
    assert painted == plain


def test_fields_have_their_values_in_one_column() -> None:
    assert fields([("Job", "a/b"), ("Priority", "")]) == "Job:      a/b\nPriority: -"
