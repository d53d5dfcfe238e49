// SPDX-License-Identifier: Apache-2.0
/*
 * gs:// over the XML API, which is S3's protocol with its own authentication:
 *
 *     anonymous   on request
 *     HMAC        GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, or the AWS_ variables if they hold an
 *                 HMAC key of Google (GOOG...) or an endpoint was given: SigV4, region "auto"
 *     bearer      the token in GOOGLE_OAUTH_ACCESS_TOKEN
 *     metadata    a token from the metadata server of the machine, renewed before it expires
 *
 * The first that applies is taken. A token is asked for on each lane by itself, with the lane's own
 * HTTP engine, so nothing is shared and nothing blocks.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/str.h"
#include "bucket/origins/s3_i.h"
#include "base/secret.h"

#define GS_TAG      DLC_TAG4('g', 's', ' ', ' ')
#define TOKEN_EARLY 60         /* seconds before its end that a token is renewed */
#define TOKEN_PAUSE DLC_SEC(5) /* after a failure to get one */

enum gs_mode { GS_ANONYMOUS, GS_HMAC, GS_BEARER, GS_METADATA };

struct gs_lane {
    struct buf header;            /* "authorization: Bearer ..."; empty: none yet */
    int64_t expires;              /* Unix time */
    unsigned generation;          /* counts the tokens */
    struct engine_request *fetch; /* a token is being asked for */
    struct dlc_err err;           /* why there is none */
    struct dlc_mono pause;        /* until when err holds */
};

struct gs {
    uint32_t tag;
    enum gs_mode mode;
    struct credentials hmac;
    char *bearer;   /* header line */
    char *metadata; /* URL */
    struct gs_lane lanes[];
};

static struct gs *gs_of(const struct s3 *s)
{
    struct gs *g = s->auth;

    dlc_check(g != NULL && g->tag == GS_TAG);
    return g;
}

static struct gs_lane *gs_lane_of(const struct s3_lane *lane)
{
    return &gs_of(lane->s3)->lanes[lane - lane->s3->lanes];
}

/* -------- tokens of the metadata server -------- */

/* {"access_token": "...", "expires_in": 3599, "token_type": "Bearer"} */
static bool token_parse(const struct buf *body, struct gs_lane *l)
{
    json_t *doc = json_loadb(buf_str(body), body->len, 0, NULL);
    const char *token = json_string_value(json_object_get(doc, "access_token"));
    json_int_t seconds = json_integer_value(json_object_get(doc, "expires_in"));
    bool ok = token != NULL && *token != '\0' && strpbrk(token, "\r\n") == NULL;

    if (ok) {
        buf_clear(&l->header);
        buf_addf(&l->header, "authorization: Bearer %s", token);
        l->expires = dlc_wall_seconds() + seconds;
        l->generation++;
    }
    json_decref(doc);
    return ok;
}

static void on_token(struct engine_request *r)
{
    struct s3_lane *lane = r->owner;
    struct gs_lane *l = gs_lane_of(lane);
    char why[64];

    if (r->rc == 0 && engine_success(r->answer.status) && token_parse(&r->body, l)) {
        l->pause = (struct dlc_mono){0};
    } else {
        snprintf(why, sizeof(why), "HTTP %d without a token", r->answer.status);
        dlc_err_set(&l->err, DLC_EDENIED,
                    "no credentials for gs://%s: GS_ACCESS_KEY_ID and GOOGLE_OAUTH_ACCESS_TOKEN "
                    "are not set, and %s gave no token: %.120s; a public bucket can be read with "
                    "--anonymous",
                    lane->s3->bucket, gs_of(lane->s3)->metadata, r->rc < 0 ? r->why : why);
        l->pause = dlc_mono_add(loop_now(lane->loop), TOKEN_PAUSE);
    }
    if (r->body.len > 0)
        explicit_bzero(r->body.data, r->body.len);
    engine_put(&l->fetch);
    s3_resume(lane);
}

static void token_ask(struct s3_lane *lane, struct gs_lane *l)
{
    struct engine_request *r = engine_get(lane->http);

    buf_adds(&r->url, gs_of(lane->s3)->metadata);
    engine_header(r, "Metadata-Flavor: Google");
    r->inward = true;
    r->body_max = ENGINE_ERROR_BODY;
    r->done = on_token;
    r->owner = lane;
    l->fetch = r;
    engine_send(r);
}

static int token_authorise(struct s3_call *c, struct dlc_err *err)
{
    struct s3_lane *lane = c->lane;
    struct gs_lane *l = gs_lane_of(lane);

    if (l->header.len > 0 && dlc_wall_seconds() < l->expires - TOKEN_EARLY) {
        c->generation = l->generation;
        c->known_expired = false; /* a refused token is dropped at once */
        engine_header_lines(c->request, l->header.data, l->header.len);
        return 0;
    }
    if (l->fetch == NULL && l->pause.ns != 0 && !dlc_mono_passed(l->pause, loop_now(lane->loop))) {
        *err = l->err;
        return l->err.code;
    }
    if (l->fetch == NULL)
        token_ask(lane, l);
    return DLC_EBUSY;
}

/* -------- the kind -------- */

static int gs_authorise(struct s3_call *c, const char *method, const struct sigv4_header *extra,
                        size_t n_extra, struct dlc_err *err)
{
    const struct gs *g = gs_of(c->lane->s3);

    switch (g->mode) {
    case GS_HMAC: s3_sign(c, &g->hmac, method, extra, n_extra); break;
    case GS_BEARER: engine_header_lines(c->request, g->bearer, strlen(g->bearer)); break;
    case GS_METADATA: return token_authorise(c, err);
    case GS_ANONYMOUS: break;
    }
    return 0;
}

/* Drop the token, unless a newer one has come since. Keys and given tokens do not change. */
static void gs_expired(struct s3_call *c)
{
    struct gs_lane *l = gs_lane_of(c->lane);

    if (c->generation == l->generation)
        l->expires = 0;
}

static void gs_auth_close(struct s3_lane *lane)
{
    engine_put(&gs_lane_of(lane)->fetch);
}

static void gs_auth_free(struct s3 *s)
{
    struct gs *g = s->auth;

    if (g == NULL)
        return;
    for (unsigned i = 0; i < s->origin.lanes; i++)
        secret_buf_release(&g->lanes[i].header);
    credentials_release(&g->hmac);
    secret_free(&g->bearer);
    mem_free(&g->metadata);
    mem_free(&g);
}

/*
 * Prices: Standard storage in the United States, transfer to the Internet. Accept-Encoding: else
 * objects stored with Content-Encoding gzip are unpacked on the way, and neither size nor checksum
 * is that of the listing.
 */
static const struct s3_kind kind = {
    .ops = S3_OPS("gs"),
    .scheme = "gs",
    .cloud = "https://storage.googleapis.com",
    .price_get = 0.0004,
    .price_list = 0.005,
    .price_gb = 0.12,
    .extra = "Accept-Encoding: gzip",
    .authorise = gs_authorise,
    .expired = gs_expired,
    .lane_close = gs_auth_close,
    .free = gs_auth_free,
};

static const char *env(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && *v != '\0' ? v : NULL;
}

static bool take_hmac(struct gs *g, const char *id, const char *secret)
{
    if (id == NULL || secret == NULL)
        return false;
    g->mode = GS_HMAC;
    g->hmac.access_key = mem_str(id);
    g->hmac.secret_key = mem_str(secret);
    return true;
}

static bool take_aws_hmac(struct gs *g, bool own_endpoint)
{
    const char *id = env("AWS_ACCESS_KEY_ID");

    return id != NULL && (own_endpoint || str_starts(id, "GOOG")) &&
           take_hmac(g, id, env("AWS_SECRET_ACCESS_KEY"));
}

static bool take_bearer(struct gs *g, const char *token)
{
    if (token == NULL)
        return false;
    g->mode = GS_BEARER;
    g->bearer = mem_fmt("authorization: Bearer %s", token);
    return true;
}

/* Those of a tenant are HMAC keys. */
static bool take_given(struct gs *g, struct bucket_keys *k)
{
    if (k == NULL)
        return false;
    g->mode = GS_HMAC;
    bucket_keys_read(k, &g->hmac);
    return true;
}

static struct gs *gs_new(const struct bucket_config *c, unsigned lanes)
{
    struct gs *g = mem_zero(sizeof(*g) + lanes * sizeof(g->lanes[0]));
    const char *host = env("GCE_METADATA_HOST");

    g->tag = GS_TAG;
    if (!c->anonymous && !take_given(g, c->keys) &&
        !take_hmac(g, env("GS_ACCESS_KEY_ID"), env("GS_SECRET_ACCESS_KEY")) &&
        !take_bearer(g, env("GOOGLE_OAUTH_ACCESS_TOKEN")) && !take_aws_hmac(g, c->endpoint != NULL))
        g->mode = GS_METADATA;
    g->metadata = mem_fmt("http://%s/computeMetadata/v1/instance/service-accounts/default/token",
                          host != NULL ? host : "metadata.google.internal");
    for (unsigned i = 0; i < lanes; i++)
        buf_reserve(&g->lanes[i].header, 4096);
    return g;
}

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
           memchr(endpoint, '@', strlen(endpoint)) == NULL;
}

/* The token of the machine's metadata service is the machine's own. */
static int check_machine_role(const struct gs *g, const struct bucket_config *c,
                              const struct url *u, struct dlc_err *err)
{
    if (!c->no_machine_role || g->mode != GS_METADATA)
        return 0;
    return dlc_err_set(err, DLC_EDENIED,
                       "no credentials for gs://%s: GS_ACCESS_KEY_ID and "
                       "GOOGLE_OAUTH_ACCESS_TOKEN are not set, and the role of this machine is "
                       "not used for a dataset of a cluster; a public bucket can be read with "
                       "--anonymous",
                       u->bucket);
}

/* A token can do whatever its owner can: who names the endpoint must not get it. */
static int check_endpoint(const struct gs *g, const struct bucket_config *c, struct dlc_err *err)
{
    if (!c->foreign_endpoint || c->endpoint == NULL || is_google(c->endpoint) ||
        (g->mode != GS_BEARER && g->mode != GS_METADATA))
        return 0;
    return dlc_err_set(
        err, DLC_EDENIED,
        "%s is no endpoint of Google, and the daemon sends its Google token to no "
        "other that a client or a tenant names: use HMAC keys, open it as anonymous, "
        "or start the daemon with --endpoint",
        c->endpoint);
}

int origin_gs_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err)
{
    struct bucket_config in_path = *c;
    struct s3 *s;
    int rc;

    if (c->path_style < 0)
        in_path.path_style = 1; /* works for every bucket name */
    rc = s3_new(&kind, u, &in_path, c->endpoint, "auto", lanes, &s, err);
    if (rc < 0)
        return rc;
    s->auth = gs_new(c, lanes);
    rc = check_endpoint(s->auth, c, err);
    if (rc == 0)
        rc = check_machine_role(s->auth, c, u, err);
    if (rc < 0)
        s3_free(&s->origin);
    else
        *out = &s->origin;
    return rc;
}
