"""Which mistakes can a document hold?  A closed table: code, and a title of a few words.

A code never changes its meaning and is never given again (HW064 meant that no
reservations were held).  ``docs/problems.md`` has prose for
each, which a test compares with this table.
"""

from enum import StrEnum


class Code(StrEnum):
    """``HW0xx`` by stage: text, paths, composition, shape, meaning, platform."""

    # Text
    NOT_UTF8 = "HW001"
    TOO_LARGE = "HW002"
    SYNTAX = "HW003"
    TAB = "HW004"
    WIDE_SPACE = "HW005"
    FULL_WIDTH = "HW006"
    INVISIBLE = "HW007"
    ANCHOR = "HW008"
    TAG = "HW009"
    MANY_DOCUMENTS = "HW010"
    NOT_A_MAPPING = "HW011"
    TOO_DEEP = "HW012"
    DUPLICATE_KEY = "HW013"
    BAD_KEY = "HW014"
    AMBIGUOUS = "HW015"
    BAD_NUMBER = "HW016"
    # Paths
    BAD_PATH = "HW020"
    NOT_A_FILE = "HW021"
    SAME_NAME = "HW022"
    # Composition
    BAD_DEFAULTS = "HW030"
    NO_SUCH_OPTION = "HW031"
    FORBIDDEN_KEY = "HW032"
    INTERPOLATION = "HW033"
    SWEEP = "HW034"
    BAD_OVERRIDE = "HW035"
    UNRESOLVED = "HW036"
    UNBOUNDED = "HW037"
    BAD_GROUP_FILE = "HW038"
    # Shape
    UNKNOWN_KEY = "HW040"
    MISSING_KEY = "HW041"
    BAD_VALUE = "HW042"
    BAD_GPUS = "HW043"
    BAD_DURATION = "HW044"
    BAD_MEMORY = "HW045"
    BAD_INSTANT = "HW046"
    TRAIN_OR_RUN = "HW047"
    OWNED_KEY = "HW048"
    ABSENT_KEY = "HW049"
    # Meaning
    NO_TEAM = "HW050"
    OVER_QUOTA = "HW051"
    OVER_ROLE_LIMIT = "HW052"
    P0_REFUSED = "HW053"
    COMMAND_REFUSED = "HW054"
    AFTER_UNKNOWN = "HW055"
    AFTER_CYCLE = "HW056"
    NEVER_FITS = "HW057"
    PARALLEL_SIZES = "HW058"
    NEEDS_CHECKPOINTS = "HW059"
    TRAIN_RULE = "HW060"
    NO_LEGAL_SIZE = "HW061"
    BAD_BUDGET = "HW062"
    NO_SINK = "HW063"
    RESERVATION_TOO_LONG = "HW065"
    CLOCK_CHANGE = "HW066"
    TIMES_DISAGREE = "HW067"
    RESERVED_FOR = "HW068"
    WILDCARD = "HW069"
    UNKNOWN_MODEL = "HW070"
    DOES_NOT_FIT = "HW071"
    TIGHT_MEMORY = "HW072"
    # Platform
    NO_PLATFORM_FILE = "HW080"
    BAD_PLATFORM = "HW081"


TITLES: dict[Code, str] = {
    Code.NOT_UTF8: "not UTF-8",
    Code.TOO_LARGE: "file too large",
    Code.SYNTAX: "not YAML",
    Code.TAB: "tab character",
    Code.WIDE_SPACE: "no-break or wide space",
    Code.FULL_WIDTH: "full-width punctuation",
    Code.INVISIBLE: "control or invisible character",
    Code.ANCHOR: "anchor, alias or merge key",
    Code.TAG: "YAML tag",
    Code.MANY_DOCUMENTS: "more than one document",
    Code.NOT_A_MAPPING: "not a mapping",
    Code.TOO_DEEP: "too deep or too many values",
    Code.DUPLICATE_KEY: "key given twice",
    Code.BAD_KEY: "key not allowed",
    Code.AMBIGUOUS: "read differently by two YAML versions",
    Code.BAD_NUMBER: "number not allowed",
    Code.BAD_PATH: "file name not allowed",
    Code.NOT_A_FILE: "not a plain file",
    Code.SAME_NAME: "names differ only in case",
    Code.BAD_DEFAULTS: "defaults list not allowed",
    Code.NO_SUCH_OPTION: "no such group or option",
    Code.FORBIDDEN_KEY: "key that could run code",
    Code.INTERPOLATION: "interpolation not allowed",
    Code.SWEEP: "sweep outside submit",
    Code.BAD_OVERRIDE: "override refused",
    Code.UNRESOLVED: "value cannot be resolved",
    Code.UNBOUNDED: "composition takes too much",
    Code.BAD_GROUP_FILE: "group file not usable",
    Code.UNKNOWN_KEY: "unknown key",
    Code.MISSING_KEY: "missing key",
    Code.BAD_VALUE: "value not allowed",
    Code.BAD_GPUS: "gpus is not a whole number",
    Code.BAD_DURATION: "not a duration",
    Code.BAD_MEMORY: "not an amount of memory",
    Code.BAD_INSTANT: "not an instant",
    Code.TRAIN_OR_RUN: "one of train and run",
    Code.OWNED_KEY: "key that headway owns",
    Code.ABSENT_KEY: "key this trainer does not have",
    Code.NO_TEAM: "no such team",
    Code.OVER_QUOTA: "more than the quota",
    Code.OVER_ROLE_LIMIT: "more than the role may ask for",
    Code.P0_REFUSED: "P0 not allowed",
    Code.COMMAND_REFUSED: "run not allowed",
    Code.AFTER_UNKNOWN: "dependency does not exist",
    Code.AFTER_CYCLE: "dependencies form a cycle",
    Code.NEVER_FITS: "fits nowhere",
    Code.PARALLEL_SIZES: "parallel sizes do not divide the gang",
    Code.NEEDS_CHECKPOINTS: "preemptible without checkpoints",
    Code.TRAIN_RULE: "train keys that exclude each other",
    Code.NO_LEGAL_SIZE: "no legal gang size",
    Code.BAD_BUDGET: "budget group not usable",
    Code.NO_SINK: "no such sink",
    Code.RESERVATION_TOO_LONG: "reservation over seven days",
    Code.CLOCK_CHANGE: "local time twice or never",
    Code.TIMES_DISAGREE: "times that exclude each other",
    Code.RESERVED_FOR: "reservation for a job it cannot serve",
    Code.WILDCARD: "wildcard, negative or absurd request",
    Code.UNKNOWN_MODEL: "no such model",
    Code.DOES_NOT_FIT: "runs out of memory",
    Code.TIGHT_MEMORY: "may run out of memory",
    Code.NO_PLATFORM_FILE: "platform file missing",
    Code.BAD_PLATFORM: "platform setting not usable",
}
