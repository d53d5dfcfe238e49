# SPDX-License-Identifier: Apache-2.0
"""A small HTTP/1.1 server for tests: keep-alive, a thread per connection, a record of every request,
and faults that can be switched on for some requests.

    server.fault("status", status=503, code="SlowDown", times=3)      the next three requests
    server.fault("reset", op="get", key="a/*", skip=1, times=1)       the second GET below a/
    server.fault("slow", wait=2.0)                                    every request, for good
    server.fault("status", status=503, seconds=10)                    for ten seconds from the first

kinds: status (status, code, message, headers), reset (at=N: after N bytes of body), cut (at=N),
       stall (at=N: silent after N bytes of body), silence (no answer at all), slow (wait=S before the
       answer), trickle (rate=bytes/s), corrupt (one byte of the body changed), header (name, value),
       call (function(request), before the answer is made).
"""
import dataclasses
import fnmatch
import os
import select
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

CHUNK = 1 << 20


class Drop(Exception):
    """End the connection here."""


@dataclasses.dataclass
class Request:
    method: str
    path: str       # as sent, without the query
    query: str      # as sent
    headers: dict   # lower-case names
    body: bytes
    op: str = ""    # what it asked for: get, head, list, ...
    bucket: str = ""
    key: str = ""
    params: dict = None     # of the query, decoded
    virtual: bool = False   # the bucket was named by the host
    status: int = 0
    code: str = ""
    when: float = 0.0
    conn: int = 0   # number of the connection it came over


class Response:
    """body: bytes, or a function (offset, length) -> bytes with `size` bytes to take from `start`."""

    def __init__(self, status, headers=None, body=b"", size=None, start=0, code=""):
        self.status, self.headers, self.code = status, dict(headers or {}), code
        self.size = len(body) if size is None else size
        self.slice = body if callable(body) else lambda off, n: body[off:off + n]
        self.start = start


class Fault:
    def __init__(self, kind, op=None, key=None, times=None, skip=0, seconds=None, **args):
        self.kind, self.op, self.key, self.args = kind, op, key, args
        self.times, self.skip, self.seconds = times, skip, seconds
        self.began = None
        self.hits = 0

    def takes(self, req):
        """Is the fault for this request? Counts. The server's lock is held."""
        if (self.op and self.op != req.op) or (self.key and not fnmatch.fnmatchcase(req.key, self.key)):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.began = self.began or time.monotonic()
        if self.seconds is not None and time.monotonic() - self.began > self.seconds:
            return False
        self.hits += 1
        return True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except (Drop, ConnectionError, ssl.SSLError, TimeoutError, ValueError):
            self.close_connection = True

    def serve(self):
        owner = self.server.owner
        length = int(self.headers.get("content-length") or 0)
        target = self.path
        if target.startswith("http://"):  # we are the proxy, and the host that it names too
            target = "/" + target[7:].partition("/")[2]
        path, _, query = target.partition("?")
        headers = {k.lower(): v for k, v in self.headers.items()}
        req = Request(self.command, path, query, headers, self.rfile.read(length), when=time.monotonic(),
                      conn=self.server.number_of(self.request))
        owner.classify(req)
        faults = owner.faults_for(req)
        response = self.answer(owner, req, faults)
        req.status, req.code = response.status, response.code
        self.send(req, response, {f.kind: f.args for f in faults})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def answer(self, owner, req, faults):
        """The response with the faults that come before the first byte."""
        for f in faults:
            if f.kind == "call":
                f.args["function"](req)
            elif f.kind == "slow":
                self.idle(f.args["wait"])
            elif f.kind == "silence":
                self.idle(None)
            elif f.kind == "reset" and "at" not in f.args:
                self.reset()
        for f in faults:
            if f.kind == "status":
                a = f.args
                response = owner.error(a["status"], a.get("code", "InternalError"), a.get("message", "scripted"))
                response.headers.update(a.get("headers", {}))
                return response
        return owner.answer(req)

    def send(self, req, response, faults):
        if "header" in faults:
            response.headers[faults["header"]["name"]] = faults["header"]["value"]
        if "corrupt" in faults and response.size > 0:
            good = response.slice
            response.slice = lambda off, n: bytes([good(off, n)[0] ^ 1]) + good(off, n)[1:]
        owner = self.server.owner
        self.send_response_only(response.status)
        self.send_header("Date", self.date_time_string(owner.now()))
        for name, value in response.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in response.headers and response.status != 304:
            self.send_header("Content-Length", str(response.size))
        self.end_headers()
        if req.method != "HEAD":
            self.send_body(response, faults)
        self.wfile.flush()

    def send_body(self, response, faults):
        stops = {k: faults[k]["at"] for k in ("cut", "stall", "reset") if "at" in faults.get(k, {})}
        end = min([response.size, *stops.values()])
        rate = faults.get("trickle", {}).get("rate")
        step = max(1, rate // 20) if rate else CHUNK
        for off in range(0, end, step):
            self.wfile.write(response.slice(response.start + off, min(step, end - off)))
            if rate:
                self.wfile.flush()
                self.idle(step / rate)
        self.wfile.flush()
        if "stall" in stops:
            self.idle(None)
        elif "reset" in stops:
            self.reset()
        elif "cut" in stops:
            raise Drop

    def idle(self, seconds):
        """Wait that long, or for ever; end the connection when the client or the server goes away."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            left = 0.2 if end is None else max(0, min(0.2, end - time.monotonic()))
            if self.server.owner.stopping.wait(0):
                raise Drop
            readable, _, _ = select.select([self.request], [], [], left)
            if readable and not isinstance(self.request, ssl.SSLSocket):
                if self.request.recv(1, socket.MSG_PEEK) == b"":
                    raise Drop
                self.server.owner.stopping.wait(left)  # more requests in the pipe: not now

    def reset(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()
        raise Drop


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, owner, address, port):
        self.owner = owner
        self.open = {}
        self.opened = 0
        super().__init__((address, port), Handler)

    def get_request(self):
        sock, address = super().get_request()
        if self.owner.tls:
            sock = self.owner.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.opened += 1
        self.open[sock] = self.opened
        return sock, address

    def number_of(self, sock):
        return self.open.get(sock, 0)

    def shutdown_request(self, request):
        self.open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):  # a client that went away is no news
            super().handle_error(request, client_address)


class Server:
    """Subclasses define classify(request), which fills op and key, answer(request) and error(...)."""

    def __init__(self, port=0, tls=False, address="127.0.0.1"):
        self.lock = threading.Lock()
        self.requests = []
        self.faults = []
        self.stopping = threading.Event()
        self.clock_offset = 0.0  # seconds this server's clock is ahead
        self.tls = tls and make_tls()
        self.listener = Listener(self, address, port)
        self.port = self.listener.server_address[1]
        self.scheme = "https" if tls else "http"
        self.endpoint = "%s://%s:%d" % (self.scheme, address, self.port)
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def stop(self):
        self.stopping.set()
        self.listener.shutdown()
        self.listener.server_close()
        for sock in list(self.listener.open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def now(self):
        return time.time() + self.clock_offset

    def fault(self, kind, **how):
        f = Fault(kind, **how)
        with self.lock:
            self.faults.append(f)
        return f

    def heal(self):
        """Take all faults away."""
        with self.lock:
            self.faults.clear()

    def faults_for(self, req):
        with self.lock:
            self.requests.append(req)
            return [f for f in self.faults if f.takes(req)]

    def seen(self, **want):
        """The requests so far whose attributes are these: seen(op="get", key="a")."""
        with self.lock:
            return [r for r in self.requests if all(getattr(r, k) == v for k, v in want.items())]

    def error(self, status, code, message, extra=""):
        return Response(status, {"Content-Type": "text/plain"}, ("%s: %s\n" % (code, message)).encode(), code=code)


def make_tls():
    """A TLS context with a certificate of our own for localhost; its file is context.certificate."""
    base = os.path.join(os.environ.get("TEST_DIR", "/tmp"), "tls-%d" % os.getpid())
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", base + ".key", "-out", base + ".pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(base + ".pem", base + ".key")
    context.certificate = base + ".pem"
    return context


class Mute:
    """Accepts connections and never says a word."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.sock.getsockname()[1]
        self.endpoint = "http://127.0.0.1:%d" % self.port
        self.accepted = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while True:
                self.accepted.append(self.sock.accept()[0])
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        for s in self.accepted:
            s.close()
