# SPDX-License-Identifier: Apache-2.0
"""Where a process of a test runs and listens: here, at loopback, or on a host of its own (hosts.Host)."""
import contextlib


class Here:
    address = "127.0.0.1"

    def command(self, argv):
        """What starts a program there."""
        return [str(a) for a in argv]

    def inside(self):
        """Sockets that are made within are of that host."""
        return contextlib.nullcontext()


HERE = Here()
