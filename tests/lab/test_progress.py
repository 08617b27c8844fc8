"""Bars where somebody watches, ten lines where nobody does."""

from __future__ import annotations

import io

from rich.console import Console

from probsym.lab.progress import in_words, shown


def printed(terminal: bool, total: int) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120)
    with shown(console, "some/recipe seed 3") as show:
        for done in range(1, total + 1):
            show(done, total, f"loss {1 / done:.3f}")
    return file.getvalue()


def test_a_terminal_sees_a_bar_with_the_time_left() -> None:
    screen = printed(terminal=True, total=50)
    for text in ("some/recipe seed 3", "━", "50/50", "loss 0.020", "0:00:00", "\x1b["):
        assert text in screen


def test_a_bar_is_shown_before_anything_is_known() -> None:
    file = io.StringIO()
    with shown(Console(file=file, force_terminal=True, width=120), "title"):
        pass
    assert "title" in file.getvalue()


def test_others_get_about_ten_lines() -> None:
    lines = printed(terminal=False, total=2000).splitlines()
    assert 9 <= len(lines) <= 12
    assert lines[-1] == "some/recipe seed 3  2000/2000  loss 0.001"
    assert "\x1b" not in "".join(lines)
    assert len(printed(terminal=False, total=3).splitlines()) == 3


def test_nothing_to_do_is_no_failure() -> None:
    file = io.StringIO()
    with shown(Console(file=file), "title") as show:
        show(0, 0, "resumed")
    assert "title  0/0  resumed" in file.getvalue()


def test_an_epoch_in_words() -> None:
    row = {
        "epoch": 3.0,
        "train_loss": 0.51234,
        "train_total": 0.6,
        "valid_loss": 0.7,
        "valid_accuracy": 98.25,
        "seconds": 1,
    }
    assert in_words(row) == "loss 0.5123  valid loss 0.7  valid accuracy 98.25"
