# SPDX-License-Identifier: Apache-2.0
"""The API as openapi.json describes it: every answer that passes here is held against it.

    with api.Manager() as m:            as manager.Manager, and fails when an answer has a status, type or
        m.ok("GET", "/v1/status")       field that is not described
        m.seen                          {(method, path of the description, status)}
    n = api.Node(m, "a", capacity=1000) a node played by the test: joins, tells figures, carries out commands
"""
import json
import os
import re
import urllib.parse

import dl
import manager

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "src/manager/routes/openapi.json")) as f:
    DOC = json.load(f)

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def resolve(s):
    while "$ref" in s:
        at = DOC
        for part in s["$ref"].split("/")[1:]:
            at = at[part]
        s = dict(at, **{k: v for k, v in s.items() if k != "$ref"})
    return s


def is_type(v, t):
    if t == "integer":
        return isinstance(v, int) and not isinstance(v, bool)
    if t == "number":
        return isinstance(v, (int, float)) and not isinstance(v, bool)
    return isinstance(v, TYPES[t]) and not (t != "boolean" and isinstance(v, bool))


def fault(v, s, at="$"):
    """What is wrong with a value, or None. The words of JSON Schema that the description uses; others are an error."""
    s = resolve(s)
    known = {"type", "required", "properties", "additionalProperties", "items", "maxItems", "minItems", "uniqueItems",
             "pattern", "minLength", "maxLength", "minimum", "maximum", "enum", "const", "oneOf", "maxProperties",
             "propertyNames", "description", "default", "format"}
    if set(s) - known:
        raise AssertionError("the checker does not know %s at %s" % (set(s) - known, at))
    types = s.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(v, t) for t in types):
        return "%s: %r is no %s" % (at, v, " or ".join(types))
    if "const" in s and v != s["const"] or "enum" in s and v not in s["enum"]:
        return "%s: %r is none of those allowed" % (at, v)
    if "oneOf" in s and sum(fault(v, o if "type" in resolve(o) else dict(o, type="object"), at) is None
                            for o in s["oneOf"]) != 1:
        return "%s: not exactly one of oneOf fits %r" % (at, v)
    if isinstance(v, str):
        return fault_text(v, s, at)
    if is_type(v, "number"):
        if v < s.get("minimum", v) or v > s.get("maximum", v):
            return "%s: %r is out of range" % (at, v)
    if isinstance(v, list):
        return fault_array(v, s, at)
    return fault_object(v, s, at) if isinstance(v, dict) else None


def fault_text(v, s, at):
    if not s.get("minLength", 0) <= len(v.encode()) <= s.get("maxLength", 1 << 30):
        return "%s: %d bytes" % (at, len(v.encode()))
    if "pattern" in s and not re.search(s["pattern"], v):
        return "%s: %r does not fit %s" % (at, v, s["pattern"])
    if s.get("format") == "date-time" and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", v):
        return "%s: %r is no time" % (at, v)
    return None


def fault_array(v, s, at):
    if not s.get("minItems", 0) <= len(v) <= s.get("maxItems", 1 << 30):
        return "%s: %d items" % (at, len(v))
    if s.get("uniqueItems") and len({json.dumps(x) for x in v}) != len(v):
        return "%s: an item is there twice" % at
    for i, x in enumerate(v):
        wrong = fault(x, s["items"], "%s[%d]" % (at, i)) if "items" in s else None
        if wrong:
            return wrong
    return None


def fault_object(v, s, at):
    for name in s.get("required", []):
        if name not in v:
            return "%s.%s is missing" % (at, name)
    if len(v) > s.get("maxProperties", 1 << 30):
        return "%s: %d fields" % (at, len(v))
    for name, x in v.items():
        inner = s.get("properties", {}).get(name, s.get("additionalProperties", True))
        if inner is False:
            return "%s.%s is not described" % (at, name)
        if "propertyNames" in s and fault(name, s["propertyNames"], at):
            return "%s: the name %r" % (at, name)
        wrong = fault(x, inner, "%s.%s" % (at, name)) if inner is not True else None
        if wrong:
            return wrong
    return None


def operations():
    """(method, path, operation) of every route that is described."""
    for path, methods in DOC["paths"].items():
        for method, op in methods.items():
            yield method.upper(), path, op


def find(method, target):
    """The description's path and operation for a request; (None, None): there is none."""
    path = target.split("?")[0]
    for template, methods in DOC["paths"].items():
        if re.fullmatch(re.sub(r"\\{[a-z]+\\}", "[^/]*", re.escape(template)), path) and method.lower() in methods:
            return template, methods[method.lower()]
    return None, None


def check(method, target, reply):
    """Is this answer one that the description has? Returns its path, or None for what is not described."""
    template, op = find(method, target)
    if op is None:
        assert reply.status in (400, 404, 405, 503), "%s %s is not described: %r" % (method, target, reply)
        return None
    what = "%s %s: %r" % (method, target, reply)
    assert str(reply.status) in op["responses"], "status not described: " + what
    content = resolve(op["responses"][str(reply.status)]).get("content")
    kind = reply.headers.get("Content-Type", "").split(";")[0]
    if content is None:
        assert reply.raw == b"", "a body where none is described: " + what
        return template
    assert kind in content, "the type is not described: " + what
    if kind == "application/jsonl":
        values = [json.loads(line) for line in reply.raw.decode().splitlines()]
    else:
        values = [reply.json]
    for v in values:
        wrong = fault(v, content[kind]["schema"])
        assert wrong is None, "%s in %s" % (wrong, what)
    return template


class Manager(manager.Manager):
    def __init__(self, *flags, **how):
        super().__init__(*flags, **how)
        self.seen = set()

    def raw(self, method, path, body=None, headers=None, unix=False, identity=None):
        reply = super().raw(method, path, body, headers, unix, identity)
        if method != "HEAD":
            self.seen.add((method, check(method, path, reply), reply.status))
        return reply

    def lines(self, path, **how):
        """The answer's JSON lines."""
        return [json.loads(x) for x in self.ok("GET", path, **how).raw.decode().splitlines()]

    def pages(self, path, after=None, **how):
        """All items of a list, page by page."""
        items = []
        while True:
            joint = "&" if "?" in path else "?"
            page = self.ok("GET", path + (joint + "after=" + urllib.parse.quote(after) if after else ""), **how).json
            items += page["items"]
            after = page.get("next")
            if after is None:
                return items
            assert page["items"], "an empty page that is not the last"

    def dataset(self, name, bytes=1000, splits=None, nodes=(), **more):
        """Made by the admin and, when nodes are given, listed by one of them."""
        made = self.ok("POST", "/v1/datasets", dict({"name": name, "url": "s3://bucket/%s/" % name}, **more)).json
        if nodes:
            samples = max(1, bytes // 10)
            result = {"snapshot": "1a", "samples": samples, "objects": samples, "bytes": bytes,
                      "splits": {k: {"samples": v // 10, "bytes": v} for k, v in (splits or {}).items()}}
            done = sum(n.carry_out(lambda o: o["op"] == "snapshot" and o["dataset"] == made["name"], result) for n in nodes)
            assert done == 1, "%d nodes were told to list %s" % (done, name)
        return made


class Node:
    """What a node would say. Its answers are the manager's, checked as all are."""

    def __init__(self, m, name, capacity=1000, **more):
        self.m, self.name, self.view = m, name, 0
        self.figures = {"disk_used": 0, "memory_used": 0, "datasets": {}}
        m.ok("PUT", "/v1/nodes/" + name, dict({"address": "http://127.0.0.1:1", "capacity": capacity}, **more),
             token="node")
        self.beat()

    def beat(self, **more):
        got = self.m.beat(self.name, self.view, figures=self.figures, **more)
        if "view" in got:
            self.known, self.view = got["view"], got["view"]["version"]
        return got

    def has(self, dataset, bytes, **more):
        """It holds so much of a dataset from now on."""
        self.figures["datasets"][dataset] = dict({"bytes": bytes}, **more)
        self.figures["disk_used"] = sum(d["bytes"] for d in self.figures["datasets"].values())
        self.beat()

    def commands(self, op=None):
        return [o for o in self.beat()["commands"] if op in (None, o["op"])]

    def carry_out(self, which=lambda o: True, result=None, error=None):
        """Say that commands are done; how many."""
        mine = [o for o in self.beat()["commands"] if which(o)]
        if mine:
            done = [dict({"id": o["id"]}, **({"error": error} if error else {"result": result or {}})) for o in mine]
            self.beat(commands_done=done)
        return len(mine)

    def sees(self, dataset):
        """What the view says of a dataset; None: nothing."""
        self.beat()
        return next((d for d in self.known["datasets"] if d["id"] == dataset), None)


def leaders_view(node, want, what):
    """Until the node's view of a dataset is as `want` says."""
    return dl.wait_for(lambda: want(node), what=what)
