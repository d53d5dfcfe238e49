// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/google_i.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
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

static bool is_google(const char *endpoint)
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
    {"HMAC key", find_hmac, true},
    {"token", find_token, true},
    {"AWS variables", find_aws_hmac, true},
    {"metadata server", find_metadata, false},
};

static const struct chain chain = {
    "no Google credentials found: ",
    ". Set GOOGLE_OAUTH_ACCESS_TOKEN, or GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY; --anonymous "
    "for a public bucket",
    steps,
    DLC_COUNT(steps),
};

static int google_find(void *state, struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    l->google = state;
    return chain_run(&chain, l, out, err);
}

static void google_free(void *state)
{
    struct google *s = state;

    if (s == NULL)
        return;
    mem_free(&s->endpoint);
    mem_free(&s);
}

static const struct credential_kind kind = {google_find, NULL, google_free};

int google_source_new(const struct bucket_config *c, struct credential_source **out,
                      struct dlc_err *err)
{
    struct google *s;
    int rc = credential_source_make(&kind, c, out, err);

    if (rc < 0)
        return rc;
    s = mem_new(struct google);
    s->endpoint = mem_str(c->endpoint);
    s->token_ok = c->endpoint == NULL || !c->foreign_endpoint || is_google(c->endpoint);
    credential_source_take_state(*out, s);
    return 0;
}
