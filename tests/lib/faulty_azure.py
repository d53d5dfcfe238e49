# SPDX-License-Identifier: Apache-2.0
"""A faulty.S3 that speaks Azure's Blob protocol instead: it checks every shared-key signature, SAS and bearer token,
and fails on command. What Azurite does not do: CRC-64 of ranges, tokens, clocks, throttling, endless listings.

    with faulty_azure.Azure() as az:
        az.put("t/1", b"...")              into the container "data" of the account "acct"
        run(..., env=az.env())
"""
import base64
import hashlib
import hmac
import urllib.parse
from email.utils import parsedate_to_datetime
from xml.sax.saxutils import escape

import faulty
import sigv4
from httpd import Response


def crc64(data, table=[]):
    if not table:
        for i in range(256):
            for _ in range(8):
                i = (i >> 1) ^ (0x9A6C9329AC4BC9B5 if i & 1 else 0)
            table.append(i)
    crc = 2 ** 64 - 1
    for b in data:
        crc = table[(crc ^ b) & 255] ^ (crc >> 8)
    return base64.b64encode((crc ^ (2 ** 64 - 1)).to_bytes(8, "little")).decode()


class Azure(faulty.S3):
    ACCOUNT, KEY = "acct", base64.b64encode(b"key of the account").decode()
    SAS = "sv=2023-11-03&sp=rl&sig=shared%2Bsecret%3D"

    def __init__(self, **how):
        super().__init__(**how)
        self.endpoint += "/" + self.ACCOUNT
        self.hostile = None  # sent instead of a listing

    def env(self, **more):
        return dict({"AZURE_STORAGE_KEY": self.KEY, "DLCACHE_ENDPOINT": self.endpoint}, **more)

    def classify(self, req):
        super().classify(req)
        _, _, path = urllib.parse.unquote(req.path)[1:].partition("/")
        req.bucket, _, req.key = path.partition("/")
        req.virtual = False
        req.op = req.method.lower() if req.key else "list"

    def string_to_sign(self, req):
        h = req.headers
        names = ["content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
                 "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"]
        lines = [req.method] + [h.get(n, "") for n in names] + ["%s:%s" % (n, h[n]) for n in sorted(h)
                                                                 if n.startswith("x-ms-")]
        return "\n".join(lines + ["/" + self.ACCOUNT + req.path] + ["%s:%s" % (n, req.params[n])
                                                                    for n in sorted(req.params)])

    def authenticate(self, req):
        failed = sigv4.Refused(403, "AuthenticationFailed", "Server failed to authenticate the request.\nRequestId:x")
        kind, _, rest = req.headers.get("authorization", "").partition(" ")
        if "x-ms-version" not in req.headers:
            raise sigv4.Refused(400, "InvalidHeaderValue", "x-ms-version is missing")
        if kind == "Bearer":
            if self.now() >= self.bearers.get(rest, 0):
                raise sigv4.Refused(401, "InvalidAuthenticationInfo", "Lifetime validation failed. The token is expired.")
        elif kind == "SharedKey":
            mac = hmac.new(base64.b64decode(self.KEY), self.string_to_sign(req).encode(), hashlib.sha256).digest()
            when = parsedate_to_datetime(req.headers["x-ms-date"]).timestamp()
            if rest != "%s:%s" % (self.ACCOUNT, base64.b64encode(mac).decode()) or abs(when - self.now()) > 900:
                raise failed
        elif not req.query.endswith(self.SAS) and not self.public:
            raise failed

    def check_region(self, *_):
        pass

    def error(self, status, code, message, extra=""):
        names = {"NoSuchKey": "BlobNotFound", "NoSuchBucket": "ContainerNotFound",
                 "PreconditionFailed": "ConditionNotMet"}
        response = super().error(status, names.get(code, code), message, extra)
        response.headers["x-ms-error-code"] = names.get(code, code)
        return response

    def object(self, req, obj):
        response = super().object(req, obj)
        if response.status == 206 and req.headers.get("x-ms-range-get-content-crc64") == "true":
            first, last = (int(n) for n in req.headers["range"][6:].split("-"))
            if last - first >= 4 << 20:
                return self.error(400, "OutOfRangeQueryParameterValue", "too long for a CRC-64")
            response.headers["x-ms-content-crc64"] = crc64(obj.slice(first, last + 1 - first))
        return response

    def list(self, req, bucket):
        p = req.params
        if self.hostile is not None:
            return Response(200, {"Content-Type": "application/xml"}, self.hostile)
        after = base64.urlsafe_b64decode(p["marker"]).decode() if "marker" in p else ""
        with self.lock:
            keys, folders, more = bucket.page(p.get("prefix", ""), p.get("delimiter", ""), after, self.page_limit)
            sizes = [(k, bucket.get(k) if bucket.generated is None else bucket.make(k)) for k in keys]
        rows = ['\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>']
        rows += ["<Blob><Name>%s</Name><Properties><Etag>%s</Etag><Content-Length>%d</Content-Length></Properties></Blob>"
                 % (escape(k), o.etag, o.size) for k, o in sizes]
        rows += ["<BlobPrefix><Name>%s</Name></BlobPrefix>" % escape(f) for f in folders]
        rows.append("</Blobs><NextMarker>%s</NextMarker></EnumerationResults>"
                    % (base64.urlsafe_b64encode(more.encode()).decode() if more else ""))
        return Response(200, {"Content-Type": "application/xml"}, "".join(rows).encode())
