"""Ctrl-C that waits for the step under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Request:
    """Whether somebody asked to stop."""

    asked = False


@contextmanager
def graceful() -> Iterator[Request]:
    """Note the first Ctrl-C, and the first SIGTERM, instead of raising it; a second of the same kind acts as ever.

    A SIGTERM to a whole group of processes comes with a SIGINT, which those get whose parent has ended.
    """
    request = Request()
    if threading.current_thread() is not threading.main_thread():  # only there can signals be caught
        yield request
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {caught: signal.getsignal(caught) for caught in signals}

    def note(number: int, frame: FrameType | None) -> None:
        request.asked = True
        signal.signal(number, before[signal.Signals(number)])

    for caught in signals:
        signal.signal(caught, note)
    try:
        yield request
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
