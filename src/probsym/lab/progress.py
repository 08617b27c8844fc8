"""A bar with the loss, the metric and the time left; plain lines where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from probsym._internal.progress import Show


@contextmanager
def shown(console: Console, title: str) -> Iterator[Show]:
    """Show the progress of one run."""
    if not console.is_terminal:
        last = [-1]

        def line(done: int, total: int, note: str | Mapping[str, float]) -> None:
            tenth = 10 * done // max(total, 1)
            if tenth > last[0]:
                last[0] = tenth
                console.print(f"{title}  {done}/{total}  {in_words(note)}", highlight=False, soft_wrap=True)

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

        def bar(done: int, total: int, note: str | Mapping[str, float]) -> None:
            progress.update(task, completed=done, total=total, description=in_words(note))

        yield bar


def in_words(note: str | Mapping[str, float]) -> str:
    """What was said, or the numbers of an epoch in a few words."""
    if isinstance(note, str):
        return note
    parts = [f"loss {note['train_loss']:.4f}"]
    parts += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in note.items() if name.startswith("valid_")]
    return "  ".join(parts)
