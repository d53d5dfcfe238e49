# SPDX-License-Identifier: Apache-2.0
"""A small S3 (or GCS) that checks every signature itself and fails on command. Read-only, like us.

    with faulty.S3() as s3:
        s3.put("a/b", b"text")                       into the bucket "data"
        s3.fault("cut", key="a/b", at=2, times=1)    see httpd.py for the kinds
        run(..., env=s3.env())                       AWS_* variables that reach it
        assert len(s3.seen(op="get", key="a/b")) == 2

Path style and virtual-host style, ListObjectsV2 (prefix, delimiter, continuation-token, start-after,
max-keys, encoding-type), HEAD, GET with Range and If-Match, ETags, CRC32C checksums; wrong regions,
session tokens, clocks that differ. A bucket may hold generated keys and objects of any size without
storing them.
"""
import base64
import bisect
import hashlib
import re
import time
import urllib.parse
import zlib
from email.utils import formatdate
from xml.sax.saxutils import escape

import sigv4
from httpd import Mute, Response, Server  # noqa: F401  (Mute: for those who import faulty)

XMLNS = "http://s3.amazonaws.com/doc/2006-03-01/"


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


CRC32C = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc32c_text(data):
    return base64.b64encode(crc32c(data).to_bytes(4, "big")).decode()


PLAIN = re.compile(r"[A-Za-z0-9/._-]*")


def url_name(key):
    """As encoding-type=url has it: a space is a plus."""
    return key if PLAIN.fullmatch(key) else urllib.parse.quote_plus(key, safe="/")


class Object:
    def __init__(self, data, checksum=False, etag=None, crc32=False):
        self.size = len(data)
        self.data = data
        self.etag = etag if etag is not None else hashlib.md5(data).hexdigest()
        self.crc32c = crc32c_text(data) if checksum else None  # seconds for megabytes; crc32 is fast
        self.crc32 = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode() if crc32 else None

    def slice(self, off, n):
        return self.data[off:off + n]


class Pattern:
    """An object of any size that is not stored: byte i is a function of i and the seed."""
    BLOCK = hashlib.shake_256(b"dlcache").digest(1 << 16)

    def __init__(self, size, seed=0):
        self.size, self.seed, self.crc32c, self.crc32 = size, seed, None, None
        self.etag = hashlib.md5(b"%d %d" % (size, seed)).hexdigest()

    def slice(self, off, n):
        out = bytearray()
        while len(out) < n:
            at = off + len(out)
            block, start = divmod(at, len(self.BLOCK))
            shift = (block * 7919 + self.seed) % len(self.BLOCK)  # each block begins elsewhere in BLOCK
            turned = self.BLOCK[shift:] + self.BLOCK[:shift]
            out += turned[start:start + n - len(out)]
        return bytes(out)


class Generated:
    """Keys that are computed, sorted: Generated(1000000, "g/%03d/%04d", 1000) has g/000/0000 to g/999/0999."""

    def __init__(self, count, form="g/%04d/%03d", per_folder=1000):
        self.count, self.form, self.per = count, form, per_folder

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if not 0 <= i < self.count:
            raise IndexError(i)
        return self.form % divmod(i, self.per)


class Bucket:
    def __init__(self, region, keys=None, make=None):
        """keys: any sorted sequence, with make(key) -> object; by default what put() stored."""
        self.region, self.make = region, make
        self.objects = {}
        self.generated = keys
        self.sorted = []
        self.wrong_region = "redirect"  # or "malformed": which of the two answers S3 gives

    def keys(self):
        return self.sorted if self.generated is None else self.generated

    def put(self, key, obj):
        if key not in self.objects:
            bisect.insort(self.sorted, key)
        self.objects[key] = obj

    def remove(self, key):
        del self.objects[key]
        self.sorted.remove(key)

    def get(self, key):
        if self.generated is None:
            return self.objects.get(key)
        keys = self.keys()
        i = bisect.bisect_left(keys, key)
        return self.make(key) if i < len(keys) and keys[i] == key else None

    def page(self, prefix, delimiter, after, limit):
        """(contents, common prefixes, last name or None when this was the last page)."""
        keys, contents, folders, last = self.keys(), [], [], None
        i = bisect.bisect_left(keys, prefix)
        if after and after >= prefix:
            i = bisect.bisect_left(keys, after + "\U0010ffff") if delimiter and after.endswith(delimiter) \
                else bisect.bisect_right(keys, after)
        while i < len(keys) and keys[i].startswith(prefix):
            if len(contents) + len(folders) == limit:
                return contents, folders, last
            cut = keys[i].find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                last = keys[i][:cut + len(delimiter)]
                folders.append(last)
                i = bisect.bisect_left(keys, last + "\U0010ffff")
            else:
                last = keys[i]
                contents.append(last)
                i += 1
        return contents, folders, None


class Plain:
    """An object without checksums, whatever it was stored with."""

    crc32 = crc32c = None

    def __init__(self, obj):
        self.etag, self.size, self.slice = obj.etag, obj.size, obj.slice


class S3(Server):
    KEY_ID, SECRET = "AKIDTESTONLY", "secret/for+tests=only"

    def __init__(self, region="us-east-1", port=0, tls=False, address="127.0.0.1", dialect="aws"):
        self.region = region
        self.keys = {self.KEY_ID: sigv4.Key(self.SECRET)}
        self.bearers = {}       # token -> Unix time at which it expires (GCS)
        self.public = False     # answer unsigned requests too
        self.buckets = {"data": Bucket(region)}
        self.page_limit = 1000
        self.dialect = dialect
        super().__init__(port, tls, address)

    def put(self, key, data, bucket="data", **how):
        obj = data if hasattr(data, "slice") and not isinstance(data, bytes) else Object(data, **how)
        with self.lock:
            self.buckets[bucket].put(key, obj)
        return obj

    def env(self, **more):
        return dict({"AWS_ACCESS_KEY_ID": self.KEY_ID, "AWS_SECRET_ACCESS_KEY": self.SECRET,
                     "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": self.region}, **more)

    def issue(self, ttl=3600):
        """Temporary credentials: (key id, secret, token, Unix time of expiry)."""
        n = len(self.keys)
        key_id, secret, token = "ASIATEMP%d" % n, "temporary/%d" % n, "session+token/%d==" % n
        self.keys[key_id] = sigv4.Key(secret, token, self.now() + ttl)
        return key_id, secret, token, self.now() + ttl

    def bearer(self, ttl=3600):
        token = "ya29.test-%d" % len(self.bearers)
        self.bearers[token] = self.now() + ttl
        return token

    # -- answering

    def classify(self, req):
        host = req.headers.get("host", "").rsplit(":", 1)[0]
        label, _, rest = host.partition(".")
        path = urllib.parse.unquote(req.path)
        req.virtual = rest != "" and label in self.buckets
        if req.virtual:
            req.bucket, req.key = label, path[1:]
        else:
            req.bucket, _, req.key = path[1:].partition("/")
        query = urllib.parse.parse_qs(req.query, keep_blank_values=True)
        req.params = {k: v[0] for k, v in query.items()}
        if req.key:
            req.op = req.method.lower()
        else:
            req.op = "list" if req.method == "GET" else "head_bucket"

    def authenticate(self, req):
        header = req.headers.get("authorization")
        if header is None:
            if self.public:
                return None
            raise sigv4.Refused(403, "AccessDenied", "Access Denied")
        if header.startswith("Bearer "):
            expires = self.bearers.get(header[7:])
            if expires is None or self.now() >= expires:
                raise sigv4.Refused(401, "AuthenticationRequired", "Invalid or expired token.")
            return None
        return sigv4.verify(req.method, req.path, req.query, req.headers, req.body, self.keys, self.now())

    def check_region(self, bucket, name, signed_for):
        if signed_for in (None, "auto", bucket.region):
            return
        if bucket.wrong_region == "malformed":
            raise sigv4.Refused(400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the "
                                "region '%s' is wrong; expecting '%s'" % (signed_for, bucket.region),
                                "<Region>%s</Region>" % bucket.region)
        raise sigv4.Refused(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed "
                            "using the specified endpoint.", "<Endpoint>%s.s3-%s.example</Endpoint><Bucket>%s</Bucket>"
                            % (name, bucket.region, name))

    def check_dialect(self, req, signed_for):
        """What Alibaba's OSS and Cloudflare's R2 refuse, unlike Amazon."""
        if self.dialect == "oss" and not req.virtual:
            raise sigv4.Refused(403, "SecondLevelDomainForbidden", "The bucket you are attempting to access must be "
                                "addressed using OSS third level domain.")
        if self.dialect == "r2" and signed_for not in (None, "auto"):
            raise sigv4.Refused(400, "InvalidRegionName", "The region name '%s' is not valid. Must be one of: wnam, "
                                "enam, weur, eeur, apac, auto" % signed_for)

    def answer(self, req):
        try:
            signed_for = self.authenticate(req)
            with self.lock:
                bucket = self.buckets.get(req.bucket)
            if bucket is None:
                return self.error(404, "NoSuchBucket", "The specified bucket does not exist")
            self.check_dialect(req, signed_for)
            self.check_region(bucket, req.bucket, signed_for)
        except sigv4.Refused as e:
            response = self.error(e.status, e.code, e.message, e.extra)
            if req.bucket in self.buckets:
                response.headers["x-amz-bucket-region"] = self.buckets[req.bucket].region
            return response
        if req.op == "list":
            return self.list(req, bucket)
        if req.op in ("get", "head"):
            with self.lock:
                obj = bucket.get(req.key)
            return self.object(req, obj)
        if req.op == "head_bucket":
            return Response(200, {"x-amz-bucket-region": bucket.region})
        return self.error(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")

    def error(self, status, code, message, extra=""):
        text = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message>%s' \
               "<RequestId>TEST%d</RequestId></Error>" % (code, escape(message), extra, len(self.requests))
        return Response(status, {"Content-Type": "application/xml", "x-amz-request-id": "TEST%d" % len(self.requests)},
                        text.encode(), code=code)

    def object(self, req, obj):
        if obj is None:
            return self.error(404, "NoSuchKey", "The specified key does not exist.")
        want = req.headers.get("if-match")
        if want is not None and want.strip('"') not in (obj.etag, "*"):
            return self.error(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold")
        headers = {"ETag": '"%s"' % obj.etag, "Accept-Ranges": "bytes", "Content-Type": "binary/octet-stream",
                   "Last-Modified": formatdate(self.now() - 3600, usegmt=True)}
        if self.dialect != "aws":
            obj = Plain(obj)
        if obj.crc32c and req.headers.get("x-amz-checksum-mode") == "ENABLED" and "range" not in req.headers:
            headers["x-amz-checksum-crc32c"] = obj.crc32c
        if obj.crc32 and req.headers.get("x-amz-checksum-mode") == "ENABLED" and "range" not in req.headers:
            headers["x-amz-checksum-crc32"] = obj.crc32
        if obj.crc32c and "range" not in req.headers:
            headers["x-goog-hash"] = "crc32c=" + obj.crc32c
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", req.headers.get("range", ""))
        if not m:
            return Response(200, headers, obj.slice, obj.size)
        first, last = int(m.group(1)), min(int(m.group(2) or obj.size - 1), obj.size - 1)
        if first >= obj.size or last < first:
            return self.error(416, "InvalidRange", "The requested range is not satisfiable")
        headers["Content-Range"] = "bytes %d-%d/%d" % (first, last, obj.size)
        return Response(206, headers, obj.slice, last - first + 1, first)

    def list(self, req, bucket):
        p = req.params
        if p.get("list-type") != "2":
            return self.error(400, "InvalidArgument", "only ListObjectsV2 is spoken here")
        after = p.get("start-after", "")
        if "continuation-token" in p:
            try:
                after = base64.urlsafe_b64decode(p["continuation-token"]).decode()
            except ValueError:
                return self.error(400, "InvalidArgument", "The continuation token provided is incorrect")
        limit = max(1, min(int(p.get("max-keys", 1000)), self.page_limit))
        with self.lock:
            keys, folders, more = bucket.page(p.get("prefix", ""), p.get("delimiter", ""), after, limit)
            objects = [(k, bucket.get(k)) for k in keys] if bucket.generated is None else \
                      [(k, bucket.make(k)) for k in keys]
        url = p.get("encoding-type") == "url"
        name = url_name if url else escape
        date = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.now() - 3600))
        rows = ['<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="%s">' % XMLNS,
                "<Name>%s</Name><Prefix>%s</Prefix><KeyCount>%d</KeyCount><MaxKeys>%d</MaxKeys><IsTruncated>%s"
                "</IsTruncated>" % (req.bucket, name(p.get("prefix", "")), len(keys) + len(folders), limit,
                                    "true" if more else "false")]
        if url:
            rows.append("<EncodingType>url</EncodingType>")
        if more:
            token = base64.urlsafe_b64encode(more.encode()).decode()
            rows.append("<NextContinuationToken>%s</NextContinuationToken>" % token)
        rows += ["<Contents><Key>%s</Key><LastModified>%s</LastModified><ETag>&quot;%s&quot;</ETag><Size>%d</Size>"
                 "<StorageClass>STANDARD</StorageClass></Contents>" % (name(k), date, o.etag, o.size)
                 for k, o in objects]
        rows += ["<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % name(f) for f in folders]
        return Response(200, {"Content-Type": "application/xml"}, ("".join(rows) + "</ListBucketResult>").encode())


class GCS(S3):
    """The same over the XML API of Google: HMAC keys (env) or bearer tokens (bearer)."""

    def env(self, **more):
        return dict({"GS_ACCESS_KEY_ID": self.KEY_ID, "GS_SECRET_ACCESS_KEY": self.SECRET,
                     "DLCACHE_ENDPOINT": self.endpoint}, **more)
