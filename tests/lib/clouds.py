# SPDX-License-Identifier: Apache-2.0
"""Where programs in a cloud get their credentials: one loopback server that plays EC2's IMDSv2, the ECS
container endpoint, STS AssumeRoleWithWebIdentity, Google's metadata server and token service, and
Microsoft Entra. The
credentials are issued by a faulty.S3, which knows when they expire.

    with faulty.S3() as s3, clouds.Clouds(s3) as c:
        run(..., env=c.imds_env()) / c.ecs_env() / c.web_identity_env(directory) / c.gce_env()
        run(..., env=c.google_env(directory, "service_account"))
"""
import base64
import json
import os
import subprocess
import time
import urllib.parse

from httpd import Response, Server


def stamp(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


class Clouds(Server):
    ROLE, IDENTITY, EMAIL = "test-role", "eyJ.web-identity.token", "train@lab.iam.gserviceaccount.com"

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

    def google_file(self, directory, kind):
        """The path of a credentials file of Google."""
        files = {
            "service_account": {"client_email": self.EMAIL, "private_key_id": "k1",
                                "token_uri": self.endpoint + "/google/token"},
            "authorized_user": {"client_id": "cid", "client_secret": "user-secret", "refresh_token": self.IDENTITY},
            "external_account": {"audience": "//iam.googleapis.com/pool", "token_url": self.endpoint + "/google/token",
                                 "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                                 "credential_source": {"file": os.path.join(directory, "subject")}},
        }
        doc = dict(files[kind], type=kind)
        if kind == "service_account":
            key = os.path.join(directory, "google-key.pem")
            subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key],
                           check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", key + ".pub"], check=True)
            self.public_key = key + ".pub"
            with open(key) as f:
                doc["private_key"] = f.read()
        with open(os.path.join(directory, "subject"), "w") as f:
            f.write(self.IDENTITY + "\n")
        path = os.path.join(directory, kind + ".json")
        with open(path, "w") as f:
            json.dump(doc, f, indent=2)
        return path

    def google_env(self, directory, kind):
        return {"GOOGLE_APPLICATION_CREDENTIALS": self.google_file(directory, kind),
                "CLOUDSDK_AUTH_TOKEN_HOST": self.endpoint + "/google/token", "DLCACHE_ENDPOINT": self.s3.endpoint}

    def entra_env(self, directory):
        """A workload identity of Azure, whose federated token is exchanged at Microsoft Entra."""
        path = os.path.join(directory, "federated-token")
        with open(path, "w") as f:
            f.write(self.IDENTITY + "\n")
        return {"AZURE_FEDERATED_TOKEN_FILE": path, "AZURE_CLIENT_ID": "cid", "AZURE_TENANT_ID": "tid",
                "AZURE_AUTHORITY_HOST": self.endpoint, "DLCACHE_ENDPOINT": self.s3.endpoint}

    # -- answering

    def classify(self, req):
        parts = {"/latest/api/token": "imds-token", "/ecs/credentials": "ecs"}
        if req.path in parts:
            req.op = parts[req.path]
        elif req.path.startswith("/latest/meta-data/"):
            req.op = "imds"
        elif req.path.startswith("/computeMetadata/"):
            req.op = "gce"
        elif req.path == "/google/token":
            req.op = "google"
        elif req.path == "/tid/oauth2/v2.0/token":
            req.op = "entra"
        else:
            req.op = "sts"

    def answer(self, req):
        return {"imds-token": self.imds_token, "imds": self.imds, "ecs": self.ecs, "gce": self.gce,
                "google": self.google, "entra": self.entra, "sts": self.sts}[req.op](req)

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

    def google(self, req):
        p = {k: v[0] for k, v in urllib.parse.parse_qs(req.body.decode()).items()}
        kind = p.get("grant_type", "").rsplit(":", 1)[-1]
        wrong = {"jwt-bearer": self.wrong_statement, "refresh_token": self.wrong_user,
                 "token-exchange": self.wrong_exchange}.get(kind, lambda p: "grant_type " + kind)(p)
        return self.token(wrong)

    def entra(self, req):
        p = {k: v[0] for k, v in urllib.parse.parse_qs(req.body.decode()).items()}
        ok = (p.get("client_assertion") == self.IDENTITY and p.get("client_id") == "cid"
              and p.get("scope") == "https://storage.azure.com/.default"
              and p.get("client_assertion_type", "").endswith(":jwt-bearer"))
        return self.token("" if ok else "AADSTS700016")

    def token(self, wrong=""):
        if wrong:
            body = {"error": "invalid_grant", "error_description": wrong}
            return Response(400, {"Content-Type": "application/json"}, json.dumps(body).encode(), code="invalid_grant")
        body = {"access_token": self.s3.bearer(self.ttl), "expires_in": int(self.ttl), "token_type": "Bearer"}
        return Response(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def wrong_statement(self, p):
        """What is wrong with the JWT of a service account; "": nothing."""
        def plain(part):
            return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        try:
            head, claims, signature = p["assertion"].split(".")
        except (KeyError, ValueError):
            return "no assertion"
        signed = self.public_key + ".signature"
        with open(signed, "wb") as f:
            f.write(plain(signature))
        done = subprocess.run(["openssl", "dgst", "-sha256", "-verify", self.public_key, "-signature", signed],
                              input=("%s.%s" % (head, claims)).encode(), stdout=subprocess.DEVNULL)
        if done.returncode != 0 or json.loads(plain(head)) != {"alg": "RS256", "typ": "JWT", "kid": "k1"}:
            return "Invalid JWT Signature."
        c, now = json.loads(plain(claims)), self.now()
        ok = (c["iss"] == self.EMAIL and c["aud"] == self.endpoint + "/google/token" and "devstorage" in c["scope"]
              and abs(c["iat"] - now) < 300 and now < c["exp"] <= c["iat"] + 3600)
        return "" if ok else "Invalid JWT: %r" % c

    def wrong_user(self, p):
        wanted = {"client_id": "cid", "client_secret": "user-secret", "refresh_token": self.IDENTITY}
        return "" if all(p.get(k) == v for k, v in wanted.items()) else "Bad Request"

    def wrong_exchange(self, p):
        return "" if p.get("subject_token") == self.IDENTITY and "pool" in p.get("audience", "") else "bad subject"
