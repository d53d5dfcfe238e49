# SPDX-License-Identifier: Apache-2.0
"""A manager for scenarios, and a Redis to keep its records.

    with manager.Manager() as m:
        tenant = m.ok("POST", "/v1/tenants", {"name": "ann"}).json      fails the test unless 2xx
        m.refused(404, "GET", "/v1/tenants/bob")                        ... unless 404, as problem+json
        m.call("GET", "/v1/status", token=tenant["token"])              as it comes

Requests go as admin unless `token` says otherwise (None: without one). Every answer and log is searched
for the secrets of the test; a token that an answer gives once is not among them until it was given.
"""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys

import dl
from hosts_local import HERE


class Reply:
    def __init__(self, status, headers, raw):
        self.status, self.headers, self.raw = status, headers, raw
        kind = headers.get("Content-Type", "")
        self.json = json.loads(raw) if raw and "json" in kind and "jsonl" not in kind else None

    def __repr__(self):
        return "%d %s" % (self.status, self.raw[:600])


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Manager:
    """certificate: the path of a certificate for TLS, whose key lies beside it (httpd.make_tls())."""

    def __init__(self, *flags, name="m", store=None, env=None, dir=None, listen=None, host=HERE, certificate=None):
        self.name, self.dir, self.host = name, dir or dl.path(name), host
        self.flags = ["--dir", self.dir, "--listen", listen or host.address + ":0", "--log-level", "info",
                      *map(str, flags)]
        if store:
            self.flags += ["--store", store]
        self.certificate = certificate
        if certificate:
            self.flags += ["--tls-cert", certificate, "--tls-key", certificate.replace(".pem", ".key")]
        self.env = dict(os.environ, **(env or {}))
        self.log_path, self.process, self.address = dl.path(name + ".log"), None, None

    def start(self, answers=True):
        before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.host.command([dl.PROGRAM, "manager", *self.flags]), env=self.env,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if answers:
            dl.wait_for(lambda: self.process.poll() is not None or self.find(before), what="a manager that answers")
            if self.process.poll() is not None:
                raise AssertionError("the manager ended with status %d:\n%s" % (self.process.returncode, self.log()))
        return self

    def find(self, since):
        """Its address, as it said itself."""
        with open(self.log_path, errors="replace") as f:
            f.seek(since)
            for line in f:
                if line.startswith("manager at ") and line.endswith("\n"):
                    self.address = line.split()[2].split("://")[1]
                    return True
        return False

    def token(self, who):
        with open(os.path.join(self.dir, who + ".token")) as f:
            return f.read().strip()

    def stop(self, status=0):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(20 * dl.SLOW)
        self.process = None
        if got != status:
            raise AssertionError("the manager ended with status %d:\n%s" % (got, self.log()))
        self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *rest):
        if kind is None:
            self.stop()
        elif self.process is not None:
            self.kill()
            sys.stderr.write("-- log of the manager %s:\n%s" % (self.name, self.log()[-4000:]))

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return dl.hide_nothing(f.read())

    # ---- requests ----

    def raw(self, method, path, body=None, headers=None, unix=False, identity=None):
        host, _, port = self.address.rpartition(":")
        limit = 20 * dl.SLOW
        if unix:
            conn = Unix(os.path.join(self.dir, "manager.sock"), limit)
        elif self.certificate:
            context = ssl.create_default_context(cafile=self.certificate)
            if identity:
                context.load_cert_chain(*identity)
            conn = http.client.HTTPSConnection(host, int(port), timeout=limit, context=context)
        else:
            conn = http.client.HTTPConnection(host, int(port), timeout=limit)
        try:
            with self.host.inside():
                conn.connect()
            try:
                conn.request(method, path, body, headers or {})
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered before it had read all
            answer = conn.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            conn.close()

    def call(self, method, path, body=None, token="admin", headers=None, unix=False, secret=False,
             identity=None):
        """secret: the answer may hold one (a new token, credentials for a node). identity: (certificate, key) to show."""
        head = dict(headers or {})
        if token in ("admin", "node"):
            token = self.token(token)
        if token is not None and not unix:
            head["Authorization"] = "Bearer " + token
        if body is not None:
            head["Content-Type"] = "application/json"
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        reply = self.raw(method, path, body, head, unix, identity)
        if not secret:
            dl.hide_nothing(reply.raw.decode(errors="replace"))
        return reply

    def ok(self, method, path, body=None, **how):
        reply = self.call(method, path, body, **how)
        if not 200 <= reply.status < 300:
            raise AssertionError("%s %s: %r" % (method, path, reply))
        return reply

    def refused(self, status, method, path, body=None, field=None, **how):
        """A problem of this status, which names the field where there is one."""
        reply = self.call(method, path, body, **how)
        what = "%s %s %s: %r" % (method, path, str(body)[:200], reply)
        if reply.status != status:
            raise AssertionError("not %d: %s" % (status, what))
        if reply.headers.get("Content-Type", "").split(";")[0] != "application/problem+json":
            raise AssertionError("no problem+json: " + what)
        if reply.json["status"] != status or not reply.json["title"] or not reply.json["detail"]:
            raise AssertionError("no problem as RFC 9457 has it: " + what)
        if field is not None and reply.json.get("field") != field:
            raise AssertionError("it should name %s: %s" % (field, what))
        return reply

    def tenant(self, name):
        """A new tenant; its token, a secret from now on."""
        token = self.ok("POST", "/v1/tenants", {"name": name}, secret=True).json["token"]
        dl.SECRETS.add(token)
        return token

    def leads(self):
        return self.call("GET", "/v1/status").json["leads"]

    def beat(self, node, view=0, **more):
        return self.ok("POST", "/v1/nodes/%s/heartbeat" % node, dict({"view": view}, **more), token="node").json


class Redis:
    """One redis-server on a port of its own, with its dump below TEST_DIR."""

    def __init__(self, name="redis"):
        if not shutil.which("redis-server"):
            raise dl.Skip("redis-server is absent")
        self.dir, self.process = dl.path(name), None
        os.makedirs(self.dir, exist_ok=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = "redis://127.0.0.1:%d/t" % self.port

    def start(self):
        with open(self.dir + "/log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.dir, "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        dl.wait_for(lambda: self.command("PING").startswith(b"+PONG"), what="a Redis that answers")
        return self

    def command(self, *words):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as s:
                s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
                return s.recv(65536)
        except OSError:
            return b""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
