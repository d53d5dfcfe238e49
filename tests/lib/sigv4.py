# SPDX-License-Identifier: Apache-2.0
"""The server's side of Signature Version 4 (AWS4 and GOOG4): is this request signed as it should be?

Written from the public description of the algorithm and independent of the C code it tests.
"""
import calendar
import hashlib
import hmac
import re
import time
import urllib.parse

FAMILIES = {
    "AWS4-HMAC-SHA256": ("AWS4", "aws4_request", "x-amz-"),
    "GOOG4-HMAC-SHA256": ("GOOG4", "goog4_request", "x-goog-"),
}
SKEW_S = 15 * 60
EMPTY = hashlib.sha256(b"").hexdigest()


class Refused(Exception):
    """An answer of the kind 403 SignatureDoesNotMatch."""

    def __init__(self, status, code, message, extra=""):
        super().__init__(code)
        self.status, self.code, self.message, self.extra = status, code, message, extra


class Key:
    def __init__(self, secret, token=None, expires=None):
        self.secret, self.token, self.expires = secret, token, expires


def encode(text):
    return urllib.parse.quote(text, safe="-._~")


def canonical_path(raw):
    return "/".join(encode(urllib.parse.unquote_to_bytes(part)) for part in raw.split("/"))


def canonical_query(raw):
    pairs = []
    for item in filter(None, raw.split("&")):
        name, _, value = item.partition("=")
        pairs.append((encode(urllib.parse.unquote_to_bytes(name)), encode(urllib.parse.unquote_to_bytes(value))))
    return "&".join("%s=%s" % p for p in sorted(pairs))


def canonical_request(method, path, query, headers, signed, payload):
    lines = [method, canonical_path(path), canonical_query(query)]
    lines += ["%s:%s" % (name, re.sub(" +", " ", headers.get(name, "").strip())) for name in signed]
    return "\n".join(lines + ["", ";".join(signed), payload])


def signature(algorithm, secret, scope, when, canonical):
    prefix = FAMILIES[algorithm][0]
    key = (prefix + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([algorithm, when, scope, digest])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def parse(header):
    m = re.fullmatch(r"(\S+) Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/([^/,]+), ?"
                     r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", header)
    if not m or m.group(1) not in FAMILIES:
        raise Refused(400, "AuthorizationHeaderMalformed", "the authorization header is malformed")
    return m.groups()


def check_headers(headers, signed, family):
    unsigned = [h for h in headers if h.startswith(family) and h not in signed]
    if "host" not in signed or unsigned:
        raise Refused(403, "AccessDenied", "headers present in the request were not signed: %s" % unsigned)
    if signed != sorted(signed):
        raise Refused(403, "SignatureDoesNotMatch", "SignedHeaders is not sorted")


def check_payload(headers, family, body):
    payload = headers.get(family + "content-sha256")
    if payload is None:
        raise Refused(400, "InvalidRequest", "missing required header: %scontent-sha256" % family)
    if payload != "UNSIGNED-PAYLOAD" and payload != (hashlib.sha256(body).hexdigest() if body else EMPTY):
        raise Refused(400, "XAmzContentSHA256Mismatch", "the payload hash does not match the payload")
    return payload


def check_time(headers, family, day, now):
    when = headers.get(family + "date", "")
    try:
        sent = calendar.timegm(time.strptime(when, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise Refused(403, "AccessDenied", "%sdate is missing or malformed" % family) from None
    if not when.startswith(day):
        raise Refused(403, "SignatureDoesNotMatch", "the scope's day is not that of the request")
    if abs(sent - now) > SKEW_S:
        raise Refused(403, "RequestTimeTooSkewed",
                      "The difference between the request time and the current time is too large.")
    return when


def check_key(keys, key_id, token, now):
    key = keys.get(key_id)
    if key is None:
        raise Refused(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    if key.expires is not None and now >= key.expires:
        raise Refused(400, "ExpiredToken", "The provided token has expired.")
    if key.token != token:
        raise Refused(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    return key


def verify(method, path, query, headers, body, keys, now, service="s3"):
    """Returns the region of the signature; raises Refused. headers: lower-case names."""
    algorithm, key_id, day, region, got_service, end, signed, got = parse(headers["authorization"])
    _, want_end, family = FAMILIES[algorithm]
    signed = signed.split(";")
    if end != want_end or got_service not in (service, "storage"):
        raise Refused(400, "AuthorizationHeaderMalformed", "the credential scope is wrong")
    check_headers(headers, signed, family)
    when = check_time(headers, family, day, now)
    key = check_key(keys, key_id, headers.get(family + "security-token"), now)
    payload = check_payload(headers, family, body)
    canonical = canonical_request(method, path, query, headers, signed, payload)
    scope = "/".join([day, region, got_service, end])
    if not hmac.compare_digest(signature(algorithm, key.secret, scope, when, canonical), got):
        raise Refused(403, "SignatureDoesNotMatch", "The request signature we calculated does not match",
                      "<CanonicalRequest>%s</CanonicalRequest>" % canonical.replace("&", "&amp;"))
    return region
