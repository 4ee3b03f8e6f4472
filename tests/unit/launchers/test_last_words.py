"""One line of a log for people, with nothing in it that should not be published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.launchers.last_words import LONGEST, last_error, one_line

ELASTIC = """Traceback (most recent call last):
  File "run.py", line 3, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
E1130 09:00:00 api.py:869] failed (exitcode: 1) local_rank: 0
============================================================
  time      : 2026-11-30_09:00:00
============================================================
"""


def test_the_line_that_names_an_error_wins_over_what_a_launcher_prints_after_it() -> None:
    assert last_error(ELASTIC.encode()) == (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", ""),
        ("\n===\n   \n", ""),
        ("bash: trian: command not found\n----\n", "bash: trian: command not found"),
        ("[rank1]: ValueError: bad\nlater words", "[rank1]: ValueError: bad"),
        ("KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("10%|\r20%|\rValueError: x", "ValueError: x"),
    ],
)
def test_the_last_line_with_words_in_it_is_taken(log: str, line: str) -> None:
    assert last_error(log.encode()) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnop", "HF_TOKEN=***"),
        ("401 for hf_abcdefghijklmnop", "401 for ***"),
        ("Authorization: Bearer abcdef123456", "Authorization: ***"),
        ("sent Bearer abcdef123456 twice", "sent Bearer *** twice"),
        ("https://me:pw@host/repo failed", "https://***@host/repo failed"),
        ("api_key: 'abc', next", "api_key: ***, next"),
        ("AKIAIOSFODNN7EXAMPLE denied", "*** denied"),
        ("AssertionError: tokens per step 512", "AssertionError: tokens per step 512"),
        ("\x1b[31mred\x1b[0m\x07 text\u202e", "red text"),
    ],
)
def test_secrets_and_control_characters_are_taken_out(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(max_size=600))
def test_any_text_becomes_one_short_line(text: str) -> None:
    line = one_line(text)

    assert len(line) <= LONGEST
    assert line.isprintable()
