"""Progress of long work, on standard error.

It appears only on a terminal that can rewrite a line.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar while the block runs; it is told how much is done so far.

    Args:
        what: is being done.
        total: how much there is to do; None where nobody knows.
    """
    error = Console(stderr=True, highlight=False)
    if not error.is_terminal or error.is_dumb_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=error, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)
