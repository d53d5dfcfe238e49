# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions.

Each is an Error, with the `code` and `text` of the C API (include/dlcache.h), and, where Python has
one that means the same, that one too: a missing object is a FileNotFoundError. An index out of range
is a plain IndexError, and any use of a closed dataset a plain ValueError.
"""
from __future__ import annotations

import errno
from typing import Any, Type

__all__ = ["Error", "InvalidError", "NoMemoryError", "LocalError", "NotFoundError", "DeniedError",
           "ChangedError", "CorruptError", "BucketError", "TimedOutError", "NoDaemonError",
           "ProtocolError", "BusyError", "NoSpaceError", "CancelledError"]


class Error(Exception):
    """Something failed; the text says what, where and what to do.

    Attributes:
        code (int): The code of the C API, negative.
        text (str): One line.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.text)

    def __str__(self) -> str:
        return self.text


class InvalidError(Error, ValueError):
    """An argument, option, URL or file is malformed."""


class NoMemoryError(Error, MemoryError):
    """There is no memory for the data."""


class LocalError(Error, OSError):
    """A local file or device failed."""


class NotFoundError(Error, FileNotFoundError):
    """A bucket, object, sample or column does not exist."""


class DeniedError(Error, PermissionError):
    """Credentials are missing, wrong, expired, or not allowed to."""


class ChangedError(Error):
    """An object, or the list of them, is no longer the one that sample numbers belong to."""


class CorruptError(Error):
    """A length or checksum does not match."""


class BucketError(Error, OSError):
    """The bucket failed, and trying again did not help."""


class TimedOutError(Error, TimeoutError):
    """The time for it passed."""


class NoDaemonError(Error, ConnectionError):
    """No daemon answers, and none could be started."""


class ProtocolError(Error, OSError):
    """The daemon speaks another version, or nonsense."""


class BusyError(Error):
    """Somebody else holds it."""


class NoSpaceError(Error, OSError):
    """A limit of disk or memory is reached."""


class CancelledError(Error):
    """Given up, because of a close or a shutdown."""


_CLASSES: dict[int, Type[Error]] = {
    -1: InvalidError, -2: NoMemoryError, -3: LocalError, -4: NotFoundError, -5: DeniedError,
    -6: ChangedError, -7: CorruptError, -8: BucketError, -9: TimedOutError, -11: NoDaemonError,
    -12: ProtocolError, -13: BusyError, -14: NoSpaceError, -15: CancelledError,
}
_ERRNO = {-3: errno.EIO, -4: errno.ENOENT, -5: errno.EACCES, -8: errno.EIO, -9: errno.ETIMEDOUT,
          -11: errno.ECONNREFUSED, -12: errno.EPROTO, -14: errno.ENOSPC}


def of(code: int, text: str) -> Error:
    """The exception that a code of the C API means. Called by the extension."""
    error = _CLASSES.get(code, Error)(code, text)
    if isinstance(error, OSError):
        error.errno = _ERRNO.get(code, errno.EIO)
    return error


def other_snapshot(what: str, url: str, theirs: str, ours: str) -> Error:
    """`what` was made with another list of the bucket than the one that is open."""
    return of(-6, f"{what} is of snapshot {theirs} of {url}, and snapshot {ours} is open: its numbers "
                  f"mean other samples. Open the dataset with snapshot={theirs!r}, or begin without "
                  f"{what}")
