# SPDX-License-Identifier: Apache-2.0
"""The network between two programs, with somebody who listens: a proxy that forwards TCP connections and records them.

    with wire.Wire() as w:
        w.target = ("127.0.0.1", port)      may be set later, before the first connection
        w.address                           "127.0.0.1:PORT", where to connect instead
        w.recorded()                        all bytes of both directions
"""
import socket
import threading


class Wire:
    def __init__(self):
        self.target, self.lock, self.parts, self.sockets, self.threads = None, threading.Lock(), [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self):
        self.start(self.accept)
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its other end was faster
        for t in self.threads:
            t.join()
        for s in self.sockets:
            s.close()

    def start(self, f, *args):
        t = threading.Thread(target=f, args=args)
        self.threads.append(t)
        t.start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, 20)
            except OSError:
                near.close()
                continue
            self.sockets += [near, far]
            self.start(self.pump, near, far)
            self.start(self.pump, far, near)

    def pump(self, a, b):
        try:
            while data := a.recv(65536):
                with self.lock:
                    self.parts.append(data)
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def recorded(self):
        with self.lock:
            return b"".join(self.parts)
