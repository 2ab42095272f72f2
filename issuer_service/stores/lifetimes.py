"""``sdcard.instants.Lifetime`` as SQL, for rows with a beginning and an end.

A clock may have been wrong when a row was written. A row that was made later than now does not count now, and does not
take the place of a row that does.
"""

from sqlalchemy import ColumnElement

from sdcard.instants import MAX_SKEW


def in_force(
    made_at: ColumnElement[int], ends_at: ColumnElement[int], at: int | ColumnElement[int]
) -> ColumnElement[bool]:
    """Condition that a row is in force at an instant.

    It was made by then, up to the skew of clocks, and has not ended.
    """
    return (ends_at > at) & is_made(made_at, at)


def in_force_for(seconds: int, ends_at: ColumnElement[int], at: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Say the same of a row that tells its end alone, and lives for this many seconds."""
    return (ends_at > at) & is_made(ends_at, at + seconds)


def is_made(made_at: ColumnElement[int], at: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Say that a row was made by an instant, up to the skew of clocks."""
    return made_at <= at + MAX_SKEW
