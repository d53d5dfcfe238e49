# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes for tests: etcd and kube-apiserver on loopback, and what else is asked for.

    with k8s.Cluster() as c:                          skips the test (status 77) where they cannot be had
        c.kubectl("get", "nodes")                     fails the test unless the exit status is 0
        c.apply({"apiVersion": "v1", ...}, ...)       kubectl apply of objects or YAML texts
        pod = c.get("/api/v1/namespaces/default/pods/x")      None when there is none
        program --kubeconfig c.kubeconfig             a client certificate of system:masters

    k8s.Cluster(kwok=True)         nodes (c.node("n1")) are ready, pods on them run and end
    k8s.Cluster(scheduler=True)    pods are given nodes
    k8s.Cluster(controllers=True)  what has lost its owner goes, namespaces are emptied

Without controllers nobody collects garbage: objects whose owner is deleted stay, a deleted namespace stays
Terminating while something is in it, no service account is made by itself (c.account() makes one), and
Deployments, DaemonSets and Jobs make no pods. Without a scheduler only pods with a nodeName run.

The processes die with the test. tools/get-k8s puts the programs into BUILD/real.
"""
import base64
import contextlib
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from redisd import free_port
from s3server import BUILD, Skip

ISSUER = "https://kubernetes.default.svc"
LIMIT_S = 120
LONELY = "ServiceAccount,TaintNodesByCondition"  # they need a controller: one that makes accounts, one that takes taints away


def program(name):
    """Path of a program of tools/get-k8s, or raises Skip."""
    path = os.path.join(os.path.abspath(BUILD), "real", name)
    if os.access(path, os.X_OK):
        return path
    try:
        with open(path + ".why") as f:
            raise Skip(f.read().strip())
    except FileNotFoundError:
        raise Skip("%s is not there; run: tools/get-k8s %s" % (name, BUILD)) from None


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class Refused(Exception):
    """An answer of 400 and more; .status, .body."""

    def __init__(self, method, path, status, body):
        super().__init__("%s %s: %d %s" % (method, path, status, body[:1000]))
        self.status, self.body = status, body


class Relay:
    """A way to a port of loopback that can be cut: k8s.Relay(c.port); relay.port, .cut(), .mend()."""

    def __init__(self, to):
        self.to, self.port, self.conns, self.listener = to, free_port(), set(), None
        self.mend()

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                one = listener.accept()[0]
                try:
                    two = socket.create_connection(("127.0.0.1", self.to))
                except OSError:
                    one.close()
                    continue
                self.conns |= {one, two}
                for a, b in ((one, two), (two, one)):
                    threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
                self.passed(b)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def passed(self, to):
        """A piece of what somebody sent, to this socket. For those who count."""

    def cut(self):
        """Nobody is let in, and who is in is thrown out."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in list(self.conns):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        self.conns.clear()


class Certificates:
    """A CA in a directory, and what it signs: NAME.crt and NAME.key."""

    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        self.key("ca")
        self.openssl("req", "-x509", "-new", "-key", "ca.key", "-days", "3", "-subj", "/CN=test-ca", "-out", "ca.crt")

    def openssl(self, *args):
        done = subprocess.run(["openssl", *args], cwd=self.dir, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError("openssl %s: %s" % (args[0], done.stderr))

    def key(self, name):
        self.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", name + ".key")

    def sign(self, name, subject, san=None):
        self.key(name)
        more = ["-addext", "subjectAltName=" + san] if san else []
        self.openssl("req", "-new", "-key", name + ".key", "-subj", subject, *more, "-out", name + ".csr")
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                     "-days", "3", "-copy_extensions", "copy", "-out", name + ".crt")

    def path(self, name):
        return os.path.join(self.dir, name)

    def data(self, name):
        with open(self.path(name), "rb") as f:
            return base64.b64encode(f.read()).decode()


class Cluster:
    def __init__(self, kwok=False, scheduler=False, controllers=False, flags=(), directory=None, first=None):
        """flags: more of kube-apiserver; they are as given, so "--x=y". first: called when it answers and before others
        start; kinds that are made later the garbage collector learns of after half a minute."""
        self.paths = {n: program(n) for n in ("etcd", "kube-apiserver", "kubectl")}
        wanted = {"kwok": kwok, "kube-scheduler": scheduler, "kube-controller-manager": controllers}
        self.more = [n for n in wanted if wanted[n]]
        self.paths.update((n, program(n)) for n in self.more)
        self.own = directory is None and "TEST_DIR" not in os.environ
        self.dir = directory or tempfile.mkdtemp(prefix="k8s-", dir=os.environ.get("TEST_DIR", "/tmp"))
        self.flags, self.processes, self.conn, self.first = list(flags), {}, None, first
        self.kubeconfig = os.path.join(self.dir, "kubeconfig")

    # -------- processes --------

    def spawn(self, name, *args):
        with open(os.path.join(self.dir, name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen([self.paths[name], *args], cwd=self.dir, stdin=subprocess.DEVNULL,
                                                    stdout=log, stderr=log, preexec_fn=_die_with_parent)

    def wait(self, condition, name):
        end = time.monotonic() + LIMIT_S
        while not condition():
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise AssertionError("%s does not start:\n%s" % (name, self.log(name)[-3000:]))
            time.sleep(0.05)

    def log(self, name):
        with open(os.path.join(self.dir, name + ".log"), errors="replace") as f:
            return f.read()

    def send_signal(self, name, number):
        self.processes[name].send_signal(number)

    def kill(self, name, number=signal.SIGKILL):
        p = self.processes.pop(name, None)
        if p is None:
            return
        p.send_signal(number)
        if number != signal.SIGKILL:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(20)
            p.kill()
        p.wait()

    def start_etcd(self):
        url, peer = "http://127.0.0.1:%d" % self.etcd_port, "http://127.0.0.1:%d" % self.peer_port
        self.spawn("etcd", "--data-dir", "etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                   "default=" + peer, "--unsafe-no-fsync", "--log-level", "warn")
        self.wait(self.etcd_answers, "etcd")

    def etcd_call(self, path, body):
        """etcd's own API: c.etcd_call("/v3/kv/compaction", {"revision": 7, "physical": True})."""
        conn = http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=20)
        try:
            conn.request("POST", path, json.dumps(body))
            return json.loads(conn.getresponse().read())
        finally:
            conn.close()

    def etcd_answers(self):
        try:
            return "header" in self.etcd_call("/v3/maintenance/status", {})
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def compact(self):
        """Forget every version but the last."""
        revision = self.etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self.etcd_call("/v3/kv/compaction", {"revision": revision, "physical": True})

    def start_apiserver(self, *flags):
        certs = self.certs.path
        self.spawn("kube-apiserver", "--etcd-servers=http://127.0.0.1:%d" % self.etcd_port,
                   "--secure-port=%d" % self.port, "--bind-address=127.0.0.1", "--endpoint-reconciler-type=none",
                   "--tls-cert-file=" + certs("server.crt"), "--tls-private-key-file=" + certs("server.key"),
                   "--client-ca-file=" + certs("ca.crt"), "--service-account-issuer=" + ISSUER,
                   "--service-account-key-file=" + certs("accounts.pub"),
                   "--service-account-signing-key-file=" + certs("accounts.key"),
                   "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--profiling=false",
                   "--allow-privileged=true",  # as on real clusters, for CSI drivers
                   "--etcd-compaction-interval=0", "--cert-dir=" + self.dir,
                   *([] if "kube-controller-manager" in self.more else ["--disable-admission-plugins=" + LONELY]),
                   *self.flags, *flags)
        self.wait(self.is_ready, "kube-apiserver")

    def stop_apiserver(self):
        """At once, as a machine that fails."""
        self.close()
        self.kill("kube-apiserver")

    def is_ready(self):
        try:
            return self.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def start_more(self):
        config = "--kubeconfig=" + self.kubeconfig
        if "kwok" in self.more:
            self.spawn("kwok", config, "--manage-all-nodes=true", "--node-lease-duration-seconds=0",
                       "--server-address=127.0.0.1:%d" % free_port())
        if "kube-scheduler" in self.more:
            self.spawn("kube-scheduler", config, "--leader-elect=false", "--bind-address=127.0.0.1",
                       "--secure-port=%d" % free_port(), "--cert-dir=" + self.dir)
        if "kube-controller-manager" in self.more:
            self.start_controllers()

    def start_controllers(self):
        """Or start them again: they know at once of kinds that were made since, which takes half a minute otherwise."""
        self.kill("kube-controller-manager")
        self.spawn("kube-controller-manager", "--kubeconfig=" + self.kubeconfig, "--leader-elect=false",
                   "--bind-address=127.0.0.1", "--secure-port=%d" % free_port(), "--cert-dir=" + self.dir,
                   "--use-service-account-credentials=false", "--root-ca-file=" + self.certs.path("ca.crt"),
                   "--service-account-private-key-file=" + self.certs.path("accounts.key"))
        self.wait(lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"), "kube-controller-manager")

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def begin(self):
        self.certs = Certificates(os.path.join(self.dir, "certs"))
        self.certs.sign("server", "/CN=kube-apiserver",
                        "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:10.96.0.1")
        self.certs.sign("admin", "/O=system:masters/CN=admin")
        self.certs.key("accounts")
        self.certs.openssl("pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
        self.tls = ssl.create_default_context(cafile=self.certs.path("ca.crt"))
        self.tls.load_cert_chain(self.certs.path("admin.crt"), self.certs.path("admin.key"))
        self.etcd_port, self.peer_port, self.port = free_port(), free_port(), free_port()
        self.server = "https://127.0.0.1:%d" % self.port
        self.write_kubeconfig(self.kubeconfig)
        self.start_etcd()
        self.start_apiserver()
        if self.first is not None:
            self.first()
        self.start_more()
        print("Kubernetes %s at %s" % (self.get("/version")["gitVersion"], self.server))
        sys.stdout.flush()

    def stop(self):
        self.close()
        for name in [n for n in self.processes if n != "etcd"] + ["etcd"]:
            self.kill(name)
        if self.own:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __exit__(self, kind, *_):
        if kind is not None and os.path.exists(os.path.join(self.dir, "kube-apiserver.log")):
            sys.stderr.write("-- end of the API server's log:\n" + self.log("kube-apiserver")[-2000:])
        self.stop()

    def pids(self):
        return {name: p.pid for name, p in self.processes.items()}

    # -------- who asks --------

    def config(self, user, server=None):
        """A kubeconfig as an object."""
        cluster = {"server": server or self.server, "certificate-authority-data": self.certs.data("ca.crt")}
        return {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}], "users": [{"name": "test", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}

    def write_kubeconfig(self, path, server=None):
        user = {"client-certificate-data": self.certs.data("admin.crt"), "client-key-data": self.certs.data("admin.key")}
        with open(path, "w") as f:
            json.dump(self.config(user, server), f, indent=1)  # JSON is YAML
        return path

    def relayed(self, name="relayed"):
        """(Relay, kubeconfig of a client that goes through it)."""
        relay = Relay(self.port)
        return relay, self.write_kubeconfig(os.path.join(self.dir, name), "https://127.0.0.1:%d" % relay.port)

    def account(self, ns, name, role=None, seconds=3600):
        """Make a service account (bound to a cluster role) unless it is there; a token of it."""
        at = "/api/v1/namespaces/%s/serviceaccounts" % ns
        if self.get("%s/%s" % (at, name)) is None:
            self.call("POST", at, {"metadata": {"name": name}})
        if role is not None:
            subject = {"kind": "ServiceAccount", "namespace": ns, "name": name}
            self.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
                "metadata": {"generateName": "test-"}, "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        return self.call("POST", "%s/%s/token" % (at, name), body)["status"]["token"]

    def in_cluster(self, directory, ns, token):
        """What the kubelet would put into a pod; returns its environment."""
        os.makedirs(directory, exist_ok=True)
        shutil.copy(self.certs.path("ca.crt"), os.path.join(directory, "ca.crt"))
        for name, text in (("token.new", token), ("namespace", ns)):
            with open(os.path.join(directory, name), "w") as f:
                f.write(text)
        os.rename(os.path.join(directory, "token.new"), os.path.join(directory, "token"))
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    # -------- requests --------

    def close(self):
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def request(self, method, path, body=None, type="application/json"):
        """(status, bytes), over a connection that stays open."""
        for attempt in range(2):
            fresh = self.conn is None
            if fresh:
                self.conn = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=60)
            try:
                self.conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": type})
                answer = self.conn.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if fresh:
                    raise
        raise AssertionError("unreachable")

    def call(self, method, path, body=None, **how):
        status, raw = self.request(method, path, body, **how)
        if status >= 400:
            raise Refused(method, path, status, raw.decode(errors="replace"))
        return json.loads(raw)

    def get(self, path):
        """The object, or None when there is none."""
        try:
            return self.call("GET", path)
        except Refused as e:
            if e.status == 404:
                return None
            raise

    def items(self, path, labels=None):
        query = "?labelSelector=" + urllib.parse.quote(labels) if labels else ""
        return self.call("GET", path + query)["items"]

    def merge(self, path, body):
        return self.call("PATCH", path, body, type="application/merge-patch+json")

    def delete(self, path):
        return self.call("DELETE", path)

    def kubectl(self, *args, status=0, stdin=""):
        """kubectl's standard output; fails the test unless its exit status is `status` (None: any; then
        everything that it said)."""
        home = os.path.join(self.dir, "home")
        done = subprocess.run([self.paths["kubectl"], "--kubeconfig", self.kubeconfig, *map(str, args)], input=stdin,
                              capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, HOME=home))
        if status is None:
            return done.stdout + done.stderr
        if done.returncode != status:
            raise AssertionError("kubectl %s: exit status %d, not %d\n%s%s" % (
                " ".join(map(str, args)), done.returncode, status, done.stdout[-2000:], done.stderr[-2000:]))
        return done.stdout if status == 0 else done.stderr

    def apply(self, *objects, flags=("--server-side",), status=0):
        """Objects, or texts of YAML."""
        texts = [o if isinstance(o, str) else json.dumps(o) for o in objects]
        return self.kubectl("apply", *flags, "-f", "-", stdin="\n---\n".join(texts), status=status)

    def namespace(self, name):
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def node(self, name, labels=None, gpus=0, cpu="32", memory="256Gi", taints=()):
        """A node that KWOK keeps ready."""
        room = {"cpu": cpu, "memory": memory, "pods": "2000", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        self.call("POST", "/api/v1/nodes", {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                         "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": list(taints)}, "status": {"capacity": room, "allocatable": room}})
