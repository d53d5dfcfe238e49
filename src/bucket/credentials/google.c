// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/google_i.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "bucket/credentials/chain_i.h"
#include "bucket/credentials/kind_i.h"
#include "bucket/credentials/token_i.h"

#define METADATA_HOST "metadata.google.internal"
#define METADATA_PATH "/computeMetadata/v1/instance/service-accounts/default/token"

/* Fixed after new. */
struct google {
    char *endpoint; /* given, or NULL: Google's own */
    bool token_ok;  /* (GOOGLE-1) */
};

bool google_is_own(const char *endpoint)
{
    static const char scheme[] = "https://", cloud[] = ".googleapis.com";
    size_t n;

    if (!str_starts(endpoint, scheme))
        return false;
    endpoint += strlen(scheme);
    n = strcspn(endpoint, "/:");
    return n > strlen(cloud) &&
           strncasecmp(endpoint + n - strlen(cloud), cloud, strlen(cloud)) == 0 &&
           strchr(endpoint, '@') == NULL;
}

/* A token can do whatever its owner can: who names the endpoint must not get it. */
static int check_token_ok(const struct lookup *l, struct dlc_err *err)
{
    if (l->google->token_ok)
        return 0;
    return dlc_err_set(err, DLC_EDENIED,
                       "%.200s is no endpoint of Google, and the daemon sends its Google token to "
                       "no other that a client or a tenant names: use HMAC keys, open it as "
                       "anonymous, or start the daemon with --endpoint",
                       l->google->endpoint);
}

static int take_hmac(const char *id, const char *secret, struct credentials *out)
{
    *out = (struct credentials){.access_key = mem_str(id), .secret_key = mem_str(secret)};
    return 0;
}

static int find_hmac(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *id = cloud_env_get(l->env, VAR_GS_ACCESS_KEY_ID);
    const char *secret = cloud_env_get(l->env, VAR_GS_SECRET_ACCESS_KEY);

    (void)err;
    if (id == NULL || secret == NULL)
        return lookup_elsewhere(l, "GS_ACCESS_KEY_ID not set");
    return take_hmac(id, secret, out);
}

static int find_token(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *token = cloud_env_get(l->env, VAR_GOOGLE_OAUTH_ACCESS_TOKEN);
    int rc;

    if (token == NULL)
        return lookup_elsewhere(l, "GOOGLE_OAUTH_ACCESS_TOKEN not set");
    rc = check_token_ok(l, err);
    if (rc == 0)
        *out = (struct credentials){.bearer = mem_str(token)};
    return rc;
}

static int find_aws_hmac(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *id = cloud_env_get(l->env, VAR_AWS_ACCESS_KEY_ID);
    const char *secret = cloud_env_get(l->env, VAR_AWS_SECRET_ACCESS_KEY);

    (void)err;
    if (id == NULL || secret == NULL)
        return lookup_elsewhere(l, "AWS_ACCESS_KEY_ID not set");
    if (l->google->endpoint == NULL && !str_starts(id, "GOOG"))
        return lookup_elsewhere(l, "no key of Google");
    return take_hmac(id, secret, out);
}

static int find_file(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *path = cloud_env_get(l->env, VAR_GOOGLE_APPLICATION_CREDENTIALS);
    int rc;

    if (path == NULL)
        return lookup_elsewhere(l, "GOOGLE_APPLICATION_CREDENTIALS not set");
    rc = check_token_ok(l, err);
    return rc < 0 ? rc : google_file(l, path, out, err);
}

/* Where gcloud keeps it. */
static int find_gcloud(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    static const char name[] = "application_default_credentials.json";
    const char *dir = cloud_env_get(l->env, VAR_CLOUDSDK_CONFIG);
    const char *home = cloud_env_get(l->env, VAR_HOME);
    struct stat st;
    char *path;
    int rc;

    if (dir == NULL && home == NULL)
        return lookup_elsewhere(l, "no home directory");
    path = dir != NULL ? mem_fmt("%s/%s", dir, name) : mem_fmt("%s/.config/gcloud/%s", home, name);
    if (os_stat(path, &st) < 0)
        rc = lookup_elsewhere(l, "no %.80s", path);
    else
        rc = check_token_ok(l, err);
    if (rc == 0)
        rc = google_file(l, path, out, err);
    mem_free(&path);
    return rc;
}

/* The token of the machine's metadata service is the machine's own: not for guests on it. */
static int find_metadata(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *host = cloud_env_get(l->env, VAR_GCE_METADATA_HOST);
    char *url;
    int rc;

    if (l->no_machine_role)
        return lookup_elsewhere(l, "not asked for a dataset of a cluster");
    rc = check_token_ok(l, err);
    if (rc < 0)
        return rc;
    url = mem_fmt("http://%s" METADATA_PATH, host != NULL ? host : METADATA_HOST);
    rc = token_of_machine(l, url, "Metadata-Flavor: Google\n", out, err);
    mem_free(&url);
    return rc;
}

static const struct chain_step steps[] = {
    {"HMAC key", find_hmac, true},          {"token", find_token, true},
    {"AWS variables", find_aws_hmac, true}, {"file", find_file, true},
    {"gcloud", find_gcloud, true},          {"metadata server", find_metadata, false},
};

static const struct chain chain = {
    "no Google credentials found: ",
    ". Set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`; "
    "--anonymous for a public bucket",
    steps,
    DLC_COUNT(steps),
};

static int google_find(void *state, struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    l->google = state;
    if (l->given != NULL)
        return google_json(l, l->given->secret_key, strlen(l->given->secret_key), false, out, err);
    return chain_run(&chain, l, out, err);
}

/* A tenant's: an HMAC key, or a service account's file as the secret of its address. */
static int google_given(void *state, struct lookup *l, struct credentials *given,
                        struct credentials *out, struct dlc_err *err)
{
    int rc;

    l->google = state;
    if (given->secret_key == NULL || given->secret_key[0] != '{') {
        *out = *given;
        *given = (struct credentials)CREDENTIALS_INIT;
        return 0;
    }
    rc = check_token_ok(l, err);
    return rc < 0 ? rc : LOOKUP_ELSEWHERE;
}

static void google_free(void *state)
{
    struct google *s = state;

    if (s == NULL)
        return;
    mem_free(&s->endpoint);
    mem_free(&s);
}

static const struct credential_kind kind = {google_find, google_given, google_free};

int google_source_new(const struct bucket_config *c, struct credential_source **out,
                      struct dlc_err *err)
{
    struct google *s;
    int rc = credential_source_make(&kind, c, out, err);

    if (rc < 0)
        return rc;
    s = mem_new(struct google);
    s->endpoint = mem_str(c->endpoint);
    s->token_ok = c->endpoint == NULL || !c->foreign_endpoint || google_is_own(c->endpoint);
    credential_source_take_state(*out, s);
    return 0;
}
