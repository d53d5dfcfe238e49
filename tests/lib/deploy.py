# SPDX-License-Identifier: Apache-2.0
"""What deploy/ becomes: lists of objects.

    deploy.kustomize("base")                 of a directory below deploy
    deploy.helm("-f", values)                of the chart, CRDs too; skips the test where helm cannot be had
    deploy.pick(objects, "Deployment", "dlcache-manager")
"""
import os
import subprocess

import yaml

import dl
import k8s

ROOT = os.path.join(os.environ["TEST_ROOT"], "deploy")
CHART = os.path.join(ROOT, "helm/dlcache")
NAMESPACE = "dlcache-system"


def path(*names):
    return os.path.join(ROOT, *names)


def said(argv, status=0):
    """Standard output, or standard error when it is to fail."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=dict(os.environ, HOME=dl.path("home")))
    if (done.returncode == 0) != (status == 0):
        raise AssertionError("%s: exit status %d\n%s" % (" ".join(argv), done.returncode, done.stderr[-3000:]))
    return done.stdout if status == 0 else done.stderr


def load(text):
    return [o for o in yaml.safe_load_all(text) if o is not None]


def kustomize(name):
    """The ConfigMap of settings has the hash of its content in its name: here it goes by the name that people write."""
    objects = load(said([k8s.program("kubectl"), "kustomize", path(name)]))
    settings = next(o for o in objects if o["kind"] == "ConfigMap")["metadata"]
    hashed, settings["name"] = settings["name"], "dlcache"
    for source in (s for _, spec in pods(objects) for c in spec["containers"] for s in c.get("envFrom", [])):
        if source["configMapRef"]["name"] == hashed:
            source["configMapRef"]["name"] = "dlcache"
    return objects


def helm(*args, status=0):
    out = said([k8s.program("helm"), "template", "dlcache", CHART, "--namespace", NAMESPACE, "--include-crds",
                "--kube-version", "1.31", *args], status)
    return load(out) if status == 0 else out


def key(o):
    return o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]


def keyed(objects):
    """{(kind, namespace, name): object}; each once."""
    found = {key(o): o for o in objects}
    assert len(found) == len(objects), sorted(map(key, objects))
    return found


def pick(objects, kind, name):
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def secrets_binding(ns):
    """What lets the operator read Secrets of a namespace (docs/kubernetes.md)."""
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "dlcache-secrets", "namespace": ns},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dlcache-secrets"},
            "subjects": [{"kind": "ServiceAccount", "name": "dlcache-operator", "namespace": NAMESPACE}]}


def pods(objects):
    """(name, pod spec) of everything that makes pods."""
    for o in objects:
        if o["kind"] in ("Deployment", "DaemonSet", "StatefulSet"):
            yield o["metadata"]["name"], o["spec"]["template"]["spec"]
