"""A bar with the loss, the metric and the time left; plain lines where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Show = Callable[[int, int, str], None]
"""Told how much is done, of how much, and what to say of it."""


@contextmanager
def shown(console: Console, title: str) -> Iterator[Show]:
    """Show the progress of one run."""
    if not console.is_terminal:
        last = [-1]

        def line(done: int, total: int, text: str) -> None:
            tenth = 10 * done // max(total, 1)
            if tenth > last[0]:
                last[0] = tenth
                console.print(f"{title}  {done}/{total}  {text}", highlight=False, soft_wrap=True)

        yield line
        return
    columns = (
        TextColumn("{task.fields[title]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", title=title, total=None)

        def bar(done: int, total: int, text: str) -> None:
            progress.update(task, completed=done, total=total, description=text)

        yield bar


def spoken(row: dict[str, float]) -> str:
    """The numbers of an epoch in a few words."""
    parts = [f"loss {row['train_loss']:.4f}"]
    parts += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in row.items() if name.startswith("valid_")]
    return "  ".join(parts)
