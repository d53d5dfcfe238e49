# SPDX-License-Identifier: Apache-2.0
"""Where programs in a cloud get their credentials: one loopback server that plays EC2's IMDSv2, the ECS
container endpoint, STS AssumeRoleWithWebIdentity and Google's metadata server. The credentials are
issued by a faulty.S3, which knows when they expire.

    with faulty.S3() as s3, clouds.Clouds(s3) as c:
        run(..., env=c.imds_env()) / c.ecs_env() / c.web_identity_env(directory) / c.gce_env()
"""
import json
import os
import time
import urllib.parse

from httpd import Response, Server


def stamp(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


class Clouds(Server):
    ROLE, IDENTITY = "test-role", "eyJ.web-identity.token"

    def __init__(self, s3, ttl=3600):
        self.s3, self.ttl = s3, ttl
        self.imds_tokens = {}
        self.authorization = "container-secret"
        super().__init__()

    # -- environments that lead here

    def base_env(self):
        return {"AWS_ENDPOINT_URL_S3": self.s3.endpoint, "AWS_REGION": self.s3.region}

    def imds_env(self):
        return dict(self.base_env(), AWS_EC2_METADATA_SERVICE_ENDPOINT=self.endpoint,
                    AWS_EC2_METADATA_DISABLED="false")

    def ecs_env(self):
        return dict(self.base_env(), AWS_CONTAINER_CREDENTIALS_FULL_URI=self.endpoint + "/ecs/credentials",
                    AWS_CONTAINER_AUTHORIZATION_TOKEN=self.authorization)

    def web_identity_env(self, directory):
        path = os.path.join(directory, "web-identity-token")
        with open(path, "w") as f:
            f.write(self.IDENTITY + "\n")
        return dict(self.base_env(), AWS_ROLE_ARN="arn:aws:iam::123456789012:role/" + self.ROLE,
                    AWS_WEB_IDENTITY_TOKEN_FILE=path, AWS_ENDPOINT_URL_STS=self.endpoint)

    def gce_env(self):
        return {"GCE_METADATA_HOST": "127.0.0.1:%d" % self.port, "DLCACHE_ENDPOINT": self.s3.endpoint}

    # -- answering

    def classify(self, req):
        parts = {"/latest/api/token": "imds-token", "/ecs/credentials": "ecs"}
        if req.path in parts:
            req.op = parts[req.path]
        elif req.path.startswith("/latest/meta-data/"):
            req.op = "imds"
        elif req.path.startswith("/computeMetadata/"):
            req.op = "gce"
        else:
            req.op = "sts"

    def answer(self, req):
        return {"imds-token": self.imds_token, "imds": self.imds, "ecs": self.ecs, "gce": self.gce,
                "sts": self.sts}[req.op](req)

    def imds_token(self, req):
        ttl = req.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if req.method != "PUT" or not ttl.isdigit() or "x-forwarded-for" in req.headers:
            return self.error(400, "BadRequest", "PUT with a time to live, please")
        token = "imds-token-%d" % len(self.imds_tokens)
        self.imds_tokens[token] = self.now() + int(ttl)
        return Response(200, {"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": ttl}, token.encode())

    def imds(self, req):
        if self.imds_tokens.get(req.headers.get("x-aws-ec2-metadata-token"), 0) <= self.now():
            return self.error(401, "Unauthorized", "IMDSv2 wants a session token")
        path = req.path[len("/latest/meta-data/"):]
        if path.rstrip("/") == "iam/security-credentials":
            return Response(200, {}, self.ROLE.encode())
        if path == "iam/security-credentials/" + self.ROLE:
            return self.credentials({"Code": "Success", "Type": "AWS-HMAC"})
        if path == "placement/region":
            return Response(200, {}, self.s3.region.encode())
        return self.error(404, "NotFound", path)

    def ecs(self, req):
        if req.headers.get("authorization") != self.authorization:
            return self.error(401, "Unauthorized", "the authorization token is wrong")
        return self.credentials({"RoleArn": self.ROLE})

    def credentials(self, more):
        key_id, secret, token, expires = self.s3.issue(self.ttl)
        body = dict(more, AccessKeyId=key_id, SecretAccessKey=secret, Token=token, Expiration=stamp(expires))
        return Response(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def sts(self, req):
        text = req.query or req.body.decode()
        p = {k: v[0] for k, v in urllib.parse.parse_qs(text).items()}
        if p.get("Action") != "AssumeRoleWithWebIdentity" or not p.get("RoleSessionName"):
            return self.sts_error(400, "InvalidAction", "Could not find operation")
        if p.get("WebIdentityToken") != self.IDENTITY or not p.get("RoleArn", "").endswith("/" + self.ROLE):
            return self.sts_error(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
        key_id, secret, token, expires = self.s3.issue(self.ttl)
        xml = ('<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
               "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s"
               "</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials>"
               "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
               % (key_id, secret, token, stamp(expires)))
        return Response(200, {"Content-Type": "text/xml"}, xml.encode())

    def sts_error(self, status, code, message):
        xml = "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>"
        return Response(status, {"Content-Type": "text/xml"}, (xml % (code, message)).encode(), code=code)

    def gce(self, req):
        if req.headers.get("metadata-flavor") != "Google":
            return self.error(403, "Forbidden", "Missing Metadata-Flavor:Google header.")
        if not req.path.endswith("/service-accounts/default/token"):
            return self.error(404, "NotFound", req.path)
        body = {"access_token": self.s3.bearer(self.ttl), "expires_in": int(self.ttl), "token_type": "Bearer"}
        return Response(200, {"Content-Type": "application/json", "Metadata-Flavor": "Google"},
                        json.dumps(body).encode())
