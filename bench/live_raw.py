# SPDX-License-Identifier: Apache-2.0
"""A connection to a daemon that asks for figures and evictions (docs/format/protocol.md), thousands of times."""
import json
import os
import socket
import struct

from common import wait_for


class Control:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        wait_for(lambda: self.sock.connect_ex(path) == 0, "the daemon's socket")
        self.ask({"op": "hello", "version": 1, "pid": os.getpid()})

    def receive(self, n):
        data = b""
        while len(data) < n:
            data += self.sock.recv(n - len(data)) or self.gone()
        return data

    def gone(self):
        raise SystemExit("bench: the daemon has ended")

    def ask(self, body):
        text = json.dumps(body).encode()
        self.sock.sendall(struct.pack("=4sIII", b"dlc1", len(text), 0, 0) + text)
        while True:
            _, length, _, _ = struct.unpack("=4sIII", self.receive(16))
            answer = json.loads(self.receive(length))
            if "progress" not in answer:
                break
        if not answer.get("ok"):
            raise SystemExit(f"bench: the daemon refused {body}: {answer}")
        return answer

    def stat(self):
        return self.ask({"op": "stat"})

    def counters(self):
        return self.stat()["counters"]

    def jobs(self):
        """Sessions that read datasets."""
        return sum(d["sessions"] for d in self.stat()["datasets"])

    def forget_memory(self, url):
        self.ask({"op": "evict", "url": url, "tier": "memory"})
