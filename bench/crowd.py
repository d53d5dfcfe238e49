# SPDX-License-Identifier: Apache-2.0
"""Many objects of Kubernetes at once: made and deleted over several connections, and timed as a watch tells of them.

    crowd.each(cluster, [("POST", path, body), ...])      seconds that it took
    with crowd.Watch(cluster, path, note) as w: ...       note(type, object, time.monotonic()) of each event, in a thread

A watch tells without asking: a client that lists a thousand objects again and again would be what is measured.
"""
import contextlib
import http.client
import json
import threading
import time

CONNECTIONS = 8


def connect(cluster):
    return http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.tls, timeout=120)


def each(cluster, requests, connections=CONNECTIONS):
    """All of them as fast as that many connections can; ends the benchmark when one is refused. Seconds."""
    left, taking, wrong = iter(requests), threading.Lock(), []
    ready = threading.Barrier(connections + 1)

    def work():
        conn = connect(cluster)
        conn.connect()
        ready.wait()
        while not wrong:
            with taking:
                request = next(left, None)
            if request is None:
                break
            method, path, body = request
            conn.request(method, path, json.dumps(body) if body is not None else None,
                         {"Content-Type": "application/json"})
            answer = conn.getresponse()
            said = answer.read()
            if answer.status >= 400:
                wrong.append(f"{method} {path}: {answer.status} {said[:1000].decode(errors='replace')}")
        conn.close()

    def safely():
        try:
            work()
        except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as e:
            wrong.append(f"a connection to the API server: {e!r}")
            ready.abort()

    threads = [threading.Thread(target=safely) for _ in range(connections)]
    for t in threads:
        t.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        ready.wait()
    start = time.monotonic()
    for t in threads:
        t.join()
    if wrong:
        raise SystemExit("bench: " + wrong[0])
    return time.monotonic() - start


class Watch:
    """What happens below a path from now on."""

    def __init__(self, cluster, path, note):
        self.cluster, self.path, self.note = cluster, path, note
        self.why = None  # it ended though nobody had ended it

    def __enter__(self):
        version = self.cluster.call("GET", self.path + "?limit=1")["metadata"]["resourceVersion"]
        self.conn = connect(self.cluster)
        self.conn.request("GET", f"{self.path}?watch=1&resourceVersion={version}&timeoutSeconds=3600")
        self.answer = self.conn.getresponse()
        if self.answer.status != 200:
            raise SystemExit(f"bench: a watch of {self.path}: {self.answer.status} {self.answer.read()[:1000]!r}")
        self.sock, self.ending = self.conn.sock, False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()
        return self

    def follow(self):
        try:
            for line in self.answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ValueError(event["object"])
                self.note(event["type"], event["object"], time.monotonic())
            raise ValueError("the API server ended it")
        except (OSError, ValueError, http.client.HTTPException) as e:
            if not self.ending:
                self.why = f"a watch of {self.path}: {e}"

    def __exit__(self, *_):
        self.ending = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(2)
        self.thread.join()
        self.conn.close()
