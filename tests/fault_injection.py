"""Faults while files are written: a kill before any call that changes the disk, a full disk or a kill at any byte.

A kill is an exception after which no call changes the disk any more, so that clean-up does nothing, as in a process
that is gone. A full disk is a limit on the size of files, which writers in C++ and Rust meet too.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

CALLS = ("mkdir", "fsync", "link", "rename", "replace", "unlink")


class Killed(BaseException):
    """What no code of ours catches."""


class Count:
    """How many calls have been made."""

    calls = 0


@contextmanager
def killed_before(number: float) -> Iterator[Count]:
    """Die before the call of that number, counted from 0; at infinity, just count."""
    count = Count()

    def faulty(usual: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if count.calls >= number:
                raise Killed
            count.calls += 1
            return usual(*args, **options)

        return call

    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(mock.patch.object(os, name, faulty(getattr(os, name))))
        yield count


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def killed_at(size: int) -> Iterator[None]:
    """Die at that byte of a file, and in any case before what was written is synced."""
    with full_at(size), killed_before(0):
        yield
