// SPDX-License-Identifier: Apache-2.0
/* Each place where credentials may be, against services on loopback. Every secret holds "hush". */
#include "bucket/credentials/chain_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bucket/aws_home.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/tiny_http.h"

#define CREDENTIALS_JSON                                                                           \
    "{\"Code\": \"Success\", \"AccessKeyId\": \"AKMETA\", \"SecretAccessKey\": \"hush-meta\","     \
    " \"Token\": \"hush-tk\", \"Expiration\": \"2099-01-01T00:00:00Z\"}"
#define CREDENTIALS_XML                                                                            \
    "<R xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Credentials>"                         \
    "<AccessKeyId>AKSTS</AccessKeyId><SecretAccessKey>hush-sts</SecretAccessKey>"                  \
    "<SessionToken>hush-st</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"            \
    "</Credentials></R>"

/* ---- services ---- */

struct service {
    struct tiny_http http;
    int status;       /* of the last step */
    const char *body; /* of the last step; NULL: that of success */
    char seen[4096];  /* the last request: head and body */
    _Atomic unsigned requests;
};

static struct service service;

static void remember(const struct tiny_request *r)
{
    service.requests++;
    snprintf(service.seen, sizeof(service.seen), "%s%s", r->head, r->body);
}

static void answer_sts_call(void *priv, const struct tiny_request *r, struct buf *out)
{
    (void)priv;
    remember(r);
    tiny_reply(out, service.status, service.body != NULL ? service.body : CREDENTIALS_XML);
}

static void answer_container(void *priv, const struct tiny_request *r, struct buf *out)
{
    (void)priv;
    remember(r);
    tiny_reply(out, service.status, service.body != NULL ? service.body : CREDENTIALS_JSON);
}

/* IMDSv2: nothing without the token. */
static void answer_instance(void *priv, const struct tiny_request *r, struct buf *out)
{
    char *token = tiny_header(r, "x-aws-ec2-metadata-token");
    char *ttl = tiny_header(r, "x-aws-ec2-metadata-token-ttl-seconds");

    (void)priv;
    remember(r);
    if (strcmp(r->target, "/latest/api/token") == 0)
        tiny_reply(out, strcmp(r->method, "PUT") == 0 && ttl != NULL ? 200 : 400, "hush-imds");
    else if (token == NULL || strcmp(token, "hush-imds") != 0)
        tiny_reply(out, 401, "");
    else if (strcmp(r->target, "/latest/meta-data/iam/security-credentials/") == 0)
        tiny_reply(out, service.status == 404 ? 404 : 200, "my role\n");
    else if (strcmp(r->target, "/latest/meta-data/iam/security-credentials/my%20role") == 0)
        tiny_reply(out, service.status, service.body != NULL ? service.body : CREDENTIALS_JSON);
    else
        tiny_reply(out, 404, "");
    mem_free(&token);
    mem_free(&ttl);
}

static void answer_nothing(void *priv, const struct tiny_request *r, struct buf *out)
{
    (void)priv;
    (void)out;
    remember(r);
}

static void serve(void (*answer)(void *, const struct tiny_request *, struct buf *))
{
    service.http.answer = answer;
    tiny_http_start(&service.http);
}

static int set_up(void **state)
{
    memset(&service, 0, sizeof(service));
    service.http.fd = -1;
    service.status = 200;
    return aws_home_set_up(state);
}

static int tear_down(void **state)
{
    if (service.http.fd >= 0)
        tiny_http_stop(&service.http);
    return aws_home_tear_down(state);
}

/* The last request must have held this. */
static void assert_seen(const char *words)
{
    if (strstr(service.seen, words) == NULL)
        fail_msg("the request lacks \"%s\":\n%s", words, service.seen);
}

/* ---- environment ---- */

static void test_environment(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    aws_home_expect_error(DLC_EINVAL, "AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY is not");
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env", 1);
    aws_home_expect("AKENV", "hush-env", NULL);
    setenv("AWS_SESSION_TOKEN", "hush-token", 1);
    aws_home_expect("AKENV", "hush-env", "hush-token");
    setenv("AWS_ACCESS_KEY_ID", "", 1);
    aws_home_expect_error(DLC_EINVAL, "AWS_SECRET_ACCESS_KEY is set but AWS_ACCESS_KEY_ID is not");
}

static void test_stray_line_end(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env\n", 1);
    aws_home_expect_error(DLC_EINVAL, "line end");
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env", 1);
    setenv("AWS_SESSION_TOKEN", "hush\r\nx-evil: 1", 1);
    aws_home_expect_error(DLC_EINVAL, "line end");
}

/* ---- profiles ---- */

static void test_profiles(void **state)
{
    (void)state;
    aws_home_file(".aws/credentials", "[default]\n"
                                      "aws_access_key_id = AKDEF\n"
                                      "aws_secret_access_key = hush-def\n"
                                      "[two]\n"
                                      "aws_access_key_id = AKTWO\n"
                                      "aws_secret_access_key = hush-two\n"
                                      "aws_session_token = hush-token\n"
                                      "[half]\n"
                                      "aws_access_key_id = AKHALF\n");
    aws_home_file(".aws/config", "[profile two]\n"
                                 "aws_access_key_id = AKNOT\n"
                                 "aws_secret_access_key = hush-not\n"
                                 "[profile three]\n"
                                 "aws_access_key_id = AKTHREE\n"
                                 "aws_secret_access_key = hush-three\n"
                                 "[profile only-region]\n"
                                 "region = eu-west-1\n");
    aws_home_expect("AKDEF", "hush-def", NULL);
    setenv("AWS_PROFILE", "two", 1);
    aws_home_expect("AKTWO", "hush-two", "hush-token");
    setenv("AWS_PROFILE", "three", 1);
    aws_home_expect("AKTHREE", "hush-three", NULL);
    setenv("AWS_PROFILE", "half", 1);
    aws_home_expect_error(DLC_EINVAL, "profile \"half\" has no aws_secret_access_key");
    setenv("AWS_PROFILE", "only-region", 1);
    aws_home_expect_error(DLC_EDENIED, "profile (\"only-region\" has no credentials)");
    setenv("AWS_PROFILE", "absent", 1);
    aws_home_expect_error(DLC_EINVAL, "AWS_PROFILE names \"absent\", which is neither in");
}

static void test_named_files(void **state)
{
    (void)state;
    aws_home_file("elsewhere/keys", "[default]\n"
                                    "aws_access_key_id = AKELSE\n"
                                    "aws_secret_access_key = hush-else\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "~/elsewhere/keys", 1);
    aws_home_expect("AKELSE", "hush-else", NULL);
    aws_home_file("elsewhere/keys", "[default]\nhush\n");
    aws_home_expect_error(DLC_EINVAL, "elsewhere/keys, line 2: expected");
}

/* The environment comes before a profile, unless that was named for this bucket. */
static void test_named_profile_wins(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;

    (void)state;
    aws_home_file(".aws/credentials", "[two]\n"
                                      "aws_access_key_id = AKTWO\n"
                                      "aws_secret_access_key = hush-two\n");
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env", 1);
    setenv("AWS_PROFILE", "two", 1);
    aws_home_expect("AKENV", "hush-env", NULL);
    c.profile = "two";
    assert_int_equal(aws_home_find(&c, &r, &err), 0);
    assert_string_equal(credentials_of(r)->access_key, "AKTWO");
    credentials_put(&r);
    c.profile = "absent";
    assert_int_equal(aws_home_find(&c, &r, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "--profile names \"absent\""));
}

static void test_sso_and_mfa(void **state)
{
    (void)state;
    aws_home_file(".aws/config", "[default]\nsso_session = corp\nsso_account_id = 1\n"
                                 "[profile mfa]\nrole_arn = arn:r\nsource_profile = default\n"
                                 "mfa_serial = arn:mfa\n");
    aws_home_expect_error(DLC_EINVAL, "single sign-on");
    aws_home_expect_error(DLC_EINVAL, "aws configure export-credentials --profile default");
    setenv("AWS_PROFILE", "mfa", 1);
    aws_home_expect_error(DLC_EINVAL, "mfa_serial");
}

/* ---- credential_process ---- */

static void test_process(void **state)
{
    (void)state;
    aws_home_file("keys.json",
                  "{\"Version\": 1, \"AccessKeyId\": \"AKPROC\", "
                  "\"SecretAccessKey\": \"hush-proc\", \"SessionToken\": \"hush-st\"}");
    aws_home_file(".aws/config",
                  "[default]\ncredential_process = true ; cat \"$HOME/keys.json\"\n"
                  "[profile fails]\ncredential_process = echo hush; exit 3\n"
                  "[profile dies]\ncredential_process = kill -9 $$\n"
                  "[profile talks]\ncredential_process = echo hush\n"
                  "[profile floods]\ncredential_process = yes hush\n"
                  "[profile stdin]\ncredential_process = cat && cat $HOME/keys.json\n");
    aws_home_expect("AKPROC", "hush-proc", "hush-st");
    setenv("AWS_PROFILE", "stdin", 1);
    aws_home_expect("AKPROC", "hush-proc", "hush-st");
    setenv("AWS_PROFILE", "fails", 1);
    aws_home_expect_error(DLC_EDENIED, "credential_process of profile \"fails\": it ended with "
                                       "status 3");
    setenv("AWS_PROFILE", "dies", 1);
    aws_home_expect_error(DLC_EDENIED, "it ended with signal 9");
    setenv("AWS_PROFILE", "talks", 1);
    aws_home_expect_error(DLC_EPROTO, "not a JSON object");
    setenv("AWS_PROFILE", "floods", 1);
    aws_home_expect_error(DLC_EPROTO, "prints too much");
}

static void test_expired_already(void **state)
{
    (void)state;
    aws_home_file(".aws/config",
                  "[default]\ncredential_process = echo '{\"AccessKeyId\": \"A\", "
                  "\"SecretAccessKey\": \"hush\", \"Expiration\": \"2001-01-01T00:00:00Z\"}'\n");
    aws_home_expect_error(DLC_EDENIED, "the credentials expired");
}

/* ---- roles ---- */

#define ROLE_CONFIG                                                                                \
    "[default]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/train\n"                        \
    "source_profile = base\nrole_session_name = me\nexternal_id = ex/1\nduration_seconds = 900\n"  \
    "[profile base]\naws_access_key_id = AKBASE\naws_secret_access_key = hush-base\n"

static void test_assume_role(void **state)
{
    (void)state;
    serve(answer_sts_call);
    setenv("AWS_ENDPOINT_URL_STS", service.http.url, 1);
    aws_home_file(".aws/config", ROLE_CONFIG);
    aws_home_expect("AKSTS", "hush-sts", "hush-st");
    assert_seen("POST / HTTP/1.1\r\n");
    assert_seen("authorization: AWS4-HMAC-SHA256 Credential=AKBASE/");
    assert_seen("/eu-west-1/sts/aws4_request, SignedHeaders=content-type;host;");
    assert_seen("\r\n\r\nAction=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole"
                "%2Ftrain&RoleSessionName=me&DurationSeconds=900&ExternalId=ex%2F1");
    assert_null(strstr(service.seen, "hush"));

    service.status = 403;
    service.body = "<E><Error><Code>AccessDenied</Code><Message>not yours</Message></Error></E>";
    aws_home_expect_error(DLC_EDENIED, "credentials from profile: no role "
                                       "arn:aws:iam::1:role/train from STS at http://127.0.0.1:");
    aws_home_expect_error(DLC_EDENIED, "AccessDenied: not yours");
    service.body = "<html>";
    aws_home_expect_error(DLC_EPROTO, "HTTP status 403");
    service.body = CREDENTIALS_XML;
    aws_home_expect_error(DLC_EPROTO, "HTTP status 403");
}

static void test_role_sources(void **state)
{
    (void)state;
    serve(answer_sts_call);
    setenv("AWS_ENDPOINT_URL_STS", service.http.url, 1);
    aws_home_file(".aws/config",
                  "[profile itself]\nrole_arn = arn:r\nsource_profile = itself\n"
                  "aws_access_key_id = AKSELF\naws_secret_access_key = hush-self\n"
                  "[profile chain]\nrole_arn = arn:r2\nsource_profile = itself2\n"
                  "[profile itself2]\nrole_arn = arn:r1\nsource_profile = itself\n"
                  "[profile circle]\nrole_arn = arn:r\nsource_profile = elcric\n"
                  "[profile elcric]\nrole_arn = arn:r\nsource_profile = circle\n"
                  "[profile env]\nrole_arn = arn:r\ncredential_source = Environment\n"
                  "[profile odd]\nrole_arn = arn:r\ncredential_source = Sky\n"
                  "[profile none]\nrole_arn = arn:r\n"
                  "[profile lost]\nrole_arn = arn:r\nsource_profile = nowhere\n");
    setenv("AWS_PROFILE", "itself", 1);
    aws_home_expect("AKSTS", "hush-sts", "hush-st");
    assert_seen("Credential=AKSELF/");
    assert_seen("/us-east-1/sts/");
    setenv("AWS_PROFILE", "chain", 1);
    service.requests = 0;
    aws_home_expect("AKSTS", "hush-sts", "hush-st");
    assert_int_equal(service.requests, 2);
    assert_seen("Credential=AKSTS/");
    assert_seen("x-amz-security-token: hush-st");
    setenv("AWS_PROFILE", "circle", 1);
    aws_home_expect_error(DLC_EINVAL, "leads in a circle");
    setenv("AWS_PROFILE", "env", 1);
    aws_home_expect_error(DLC_EDENIED, "its source Environment has no credentials: "
                                       "AWS_ACCESS_KEY_ID not set");
    setenv("AWS_PROFILE", "odd", 1);
    aws_home_expect_error(DLC_EINVAL, "credential_source is \"Sky\"; allowed are");
    setenv("AWS_PROFILE", "none", 1);
    aws_home_expect_error(DLC_EINVAL, "add one");
    setenv("AWS_PROFILE", "lost", 1);
    aws_home_expect_error(DLC_EINVAL, "\"nowhere\", which does not exist");
}

static void test_web_identity(void **state)
{
    (void)state;
    serve(answer_sts_call);
    setenv("AWS_ENDPOINT_URL_STS", service.http.url, 1);
    aws_home_file("token", "hush.jwt-token\n");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", aws_home_path("token"), 1);
    aws_home_expect_error(DLC_EINVAL, "AWS_ROLE_ARN is not");
    setenv("AWS_ROLE_ARN", "arn:web", 1);
    setenv("AWS_ROLE_SESSION_NAME", "pod", 1);
    aws_home_expect("AKSTS", "hush-sts", "hush-st");
    assert_seen("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aweb"
                "&RoleSessionName=pod&WebIdentityToken=hush.jwt-token");
    assert_null(strcasestr(service.seen, "authorization:"));
    service.status = 400;
    service.body = "<E><Error><Code>ExpiredTokenException</Code></Error></E>";
    aws_home_expect_error(DLC_EDENIED, "ExpiredTokenException");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", aws_home_path("absent"), 1);
    aws_home_expect_error(DLC_ENOTFOUND, "web identity token: cannot open");
}

static void test_web_identity_of_profile(void **state)
{
    char *config;

    (void)state;
    serve(answer_sts_call);
    aws_home_file("token", "hush.jwt");
    config = mem_fmt("[default]\nrole_arn = arn:p\nweb_identity_token_file = %s\n"
                     "services = local\n[services local]\nsts =\n  endpoint_url = %s/sts/\n",
                     aws_home_path("token"), service.http.url);
    aws_home_file(".aws/config", config);
    mem_free(&config);
    aws_home_expect("AKSTS", "hush-sts", "hush-st");
    assert_seen("POST /sts/ HTTP/1.1");
    assert_seen("RoleArn=arn%3Ap&RoleSessionName=dlcache-");
}

/* ---- container ---- */

static void container_uri(const char *path)
{
    char *uri = mem_fmt("%s%s", service.http.url, path);

    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri, 1);
    mem_free(&uri);
}

static void test_container(void **state)
{
    (void)state;
    serve(answer_container);
    container_uri("/v2/credentials?id=1");
    aws_home_expect("AKMETA", "hush-meta", "hush-tk");
    assert_seen("GET /v2/credentials?id=1 ");
    assert_null(strcasestr(service.seen, "authorization:"));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hush-var", 1);
    aws_home_expect("AKMETA", "hush-meta", "hush-tk");
    assert_seen("authorization: hush-var\r\n");
    aws_home_file("token", "hush-file\n");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", aws_home_path("token"), 1);
    aws_home_expect("AKMETA", "hush-meta", "hush-tk");
    assert_seen("authorization: hush-file\r\n");
    aws_home_file("token", "hush\nx-evil: 1\n");
    aws_home_expect_error(DLC_EINVAL, "holds a line end");
    aws_home_file("token", "hush-file");
    service.status = 400;
    service.body = "{\"code\": \"InvalidToken\", \"message\": \"no such task\"}";
    aws_home_expect_error(DLC_EDENIED, "credentials from container: InvalidToken: no such task");
    service.body = "oops";
    aws_home_expect_error(DLC_EPROTO, "HTTP status 400");
}

static void test_container_uris(void **state)
{
    static const char *const bad[] = {
        "http://example.com/",
        "http://169.254.170.3/",
        "http://10.0.0.1/",
        "http://127.0.0.1.evil/",
        "http://127.0.0.1@evil.example/x",
        "http://[2001:db8::1]/",
        "ftp://127.0.0.1/",
        "nonsense",
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(bad); i++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", bad[i], 1);
        aws_home_expect_error(DLC_EINVAL, "AWS_CONTAINER_CREDENTIALS_FULL_URI: ");
    }
}

/* ---- instance ---- */

static void test_instance(void **state)
{
    (void)state;
    serve(answer_instance);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.http.url, 1);
    aws_home_expect_error(DLC_EDENIED, "instance metadata (AWS_EC2_METADATA_DISABLED is set)");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    aws_home_expect("AKMETA", "hush-meta", "hush-tk");
    assert_int_equal(service.requests, 3);
    service.body = "{\"Code\": \"AssumeRoleUnauthorizedAccess\", \"Message\": \"no trust\"}";
    aws_home_expect_error(DLC_EDENIED, "credentials from instance metadata: role my%20role: "
                                       "AssumeRoleUnauthorizedAccess: no trust");
    service.status = 404;
    aws_home_expect_error(DLC_EDENIED, "instance metadata (no role is attached");
}

/* A guest on the machine does not read with the machine's role. */
static void test_no_machine_role(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r = NULL;

    (void)state;
    serve(answer_instance);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.http.url, 1);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    c.no_machine_role = true;
    assert_int_equal(aws_home_find(&c, &r, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, "instance metadata (not asked for a dataset of a cluster)"));
    assert_int_equal(service.requests, 0);
}

static void test_no_instance(void **state)
{
    (void)state;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1/", 1);
    aws_home_expect_error(DLC_EDENIED, "instance metadata (no answer from http://127.0.0.1:1)");
}

static void test_silent_instance(void **state)
{
    struct dlc_mono start = dlc_mono_now();

    (void)state;
    serve(answer_nothing);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.http.url, 1);
    aws_home_expect_error(DLC_EDENIED, "instance metadata (no answer from http://127.0.0.1:");
    assert_int_equal(service.requests, 2);
    assert_true(dlc_mono_since(start).ns >= DLC_SEC(2).ns);
}

/* ---- order and the list of places ---- */

static void test_order(void **state)
{
    (void)state;
    serve(answer_instance);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.http.url, 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/", 1);
    aws_home_expect_error(DLC_EBUCKET, "credentials from container"); /* before the instance */
    aws_home_file(".aws/credentials",
                  "[default]\naws_access_key_id = AKDEF\naws_secret_access_key = hush-def\n");
    aws_home_expect("AKDEF", "hush-def", NULL); /* before the container */
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", aws_home_path("absent"), 1);
    setenv("AWS_ROLE_ARN", "arn:r", 1);
    aws_home_expect_error(DLC_ENOTFOUND, "web identity"); /* before the profile */
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env", 1);
    aws_home_expect("AKENV", "hush-env", NULL); /* before all others */
    assert_int_equal(service.requests, 0);
}

static void test_nothing_found(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;
    char *want;

    (void)state;
    assert_int_equal(aws_home_find(&c, &r, &err), DLC_EDENIED);
    want = mem_fmt("no AWS credentials found: environment (AWS_ACCESS_KEY_ID not set), "
                   "web identity (AWS_WEB_IDENTITY_TOKEN_FILE not set), "
                   "profile (no \"default\" in %s), "
                   "container (AWS_CONTAINER_CREDENTIALS_*_URI not set), "
                   "instance metadata (AWS_EC2_METADATA_DISABLED is set). "
                   "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
                   "--anonymous for a public bucket",
                   aws_home_path(".aws/credentials"));
    assert_string_equal(err.text, want);
    mem_free(&want);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_environment),     T(test_stray_line_end),     T(test_profiles),
        T(test_named_files),     T(test_named_profile_wins), T(test_sso_and_mfa),
        T(test_process),         T(test_expired_already),    T(test_assume_role),
        T(test_role_sources),    T(test_web_identity),       T(test_web_identity_of_profile),
        T(test_container),       T(test_container_uris),     T(test_instance),
        T(test_no_machine_role), T(test_no_instance),        T(test_silent_instance),
        T(test_order),           T(test_nothing_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
