// SPDX-License-Identifier: Apache-2.0
#include "cluster/certificate.h"

#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "net/curl_tls.h"
#include "net/manager_client.h"

#define CERTIFICATE_TAG DLC_TAG4('c', 'e', 'r', 't')

struct certificate {
    uint32_t tag;
    bool peers;               /* peers speak TLS */
    char *key;                /* the agent's thread: of the request that was made last */
    struct dlc_mono renew_at; /* the agent's thread */

    struct dlc_mtx mtx;           /* rank LCK_certificate: leaf */
    struct tls_identity *current; /* G: mtx; NULL: none yet */
    uint64_t taken;               /* G: mtx: how many there were */
};

/* All of the managers, since each may be asked. */
static bool is_https(const char *addresses)
{
    const char *s = addresses;

    while (s != NULL && str_starts(s, "https://")) {
        s = strchr(s, ',');
        if (s == NULL)
            return true;
        s++;
    }
    return false;
}

static int decide(const struct config *c, const struct node_cluster *m, bool *tls,
                  struct dlc_err *err)
{
    bool https = !m->inside && is_https(m->manager);

    if (strcmp(c->peer_tls, "on") != 0 && strcmp(c->peer_tls, "off") != 0 &&
        strcmp(c->peer_tls, "auto") != 0)
        return dlc_err_set(err, DLC_EINVAL, "--peer-tls %s: write on, off or auto", c->peer_tls);
    *tls = !m->inside && m->listen != NULL &&
           (strcmp(c->peer_tls, "on") == 0 || (https && strcmp(c->peer_tls, "auto") == 0));
    if (*tls && !https)
        return dlc_err_set(err, DLC_EINVAL,
                           "--peer-tls on needs a manager at https://, since certificates come "
                           "from there: %s is not",
                           m->manager);
    if (*tls && m->advertise != NULL && !str_starts(m->advertise, "https://"))
        return dlc_err_set(err, DLC_EINVAL,
                           "--advertise %s: nodes of this cluster speak TLS, so write "
                           "https://HOST:PORT",
                           m->advertise);
    if (!*tls && m->listen != NULL && !m->inside)
        log_warn("peers are not encrypted: samples and tokens cross the network in clear; %s",
                 https ? "remove --peer-tls off"
                       : "give the manager a certificate (--tls-cert) and name it by https:// "
                         "(--manager)");
    return https ? curl_tls_check(err) : 0;
}

int certificate_new(const struct config *c, const struct node_cluster *m, struct certificate **out,
                    struct dlc_err *err)
{
    bool tls = false;
    int rc = decide(c, m, &tls, err);

    *out = NULL;
    if (rc == 0 && !m->inside && is_https(m->manager)) {
        *out = mem_new(struct certificate);
        (*out)->peers = tls;
        (*out)->tag = CERTIFICATE_TAG;
        dlc_mtx_init(&(*out)->mtx, LCK_certificate);
    }
    return rc;
}

bool certificate_for_peers(const struct certificate *c)
{
    return c != NULL && c->peers;
}

void certificate_free(struct certificate **cp)
{
    struct certificate *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    dlc_check(c->tag == CERTIFICATE_TAG);
    tls_identity_put(&c->current);
    secret_free(&c->key);
    dlc_mtx_release(&c->mtx);
    c->tag = 0;
    mem_free(&c);
}

int certificate_ask(struct certificate *c, const char *name, json_t *body, struct dlc_err *err)
{
    char *text = NULL;
    int rc;

    secret_free(&c->key);
    rc = tls_request_new(name, &c->key, &text, err);
    if (rc == 0)
        json_object_set_new(body, "certificate_request", json_string(text));
    mem_free(&text);
    return rc;
}

int certificate_take(struct certificate *c, const char *name, const json_t *joined,
                     struct tls_identity **out, struct dlc_err *err)
{
    const json_t *answer = json_object_get(joined, "certificate");
    const char *chain = json_string_value(json_object_get(answer, "chain"));
    const char *authorities = json_string_value(json_object_get(answer, "authorities"));
    json_int_t life = json_integer_value(json_object_get(answer, "life_s"));
    struct tls_identity *id = NULL, *old;
    int rc;

    if (chain == NULL || authorities == NULL || life <= 0 || life > INT32_MAX || c->key == NULL)
        return dlc_err_set(err, DLC_EPROTO,
                           "the manager gives no certificate for node %s: it is older than this "
                           "node; update it, or use --peer-tls off in a network that you trust",
                           name);
    rc = tls_identity_new(name, chain, c->key, authorities, &id, err);
    secret_free(&c->key);
    if (rc < 0)
        return rc;
    c->renew_at = dlc_mono_add(dlc_mono_now(), (struct dlc_dur){DLC_SEC(life).ns / 2});
    *out = tls_identity_get(id);
    dlc_mtx_lock(&c->mtx);
    old = c->current;
    c->current = id;
    c->taken++;
    dlc_mtx_unlock(&c->mtx);
    tls_identity_put(&old);
    return 0;
}

int certificate_renew(struct certificate *c, struct manager_client *client, const char *name,
                      const char *path, const char *instance, struct tls_identity **out,
                      struct dlc_err *err)
{
    char *where = mem_fmt("%s/certificate", path);
    json_t *body = json_pack("{s:s}", "instance", instance), *answer = NULL;
    int rc = certificate_ask(c, name, body, err);

    if (rc == 0)
        rc = manager_client_call(client, "POST", where, body, &answer, err);
    if (rc == 0)
        rc = certificate_take(c, name, answer, out, err);
    if (rc == 0)
        log_info("node %s has a new certificate", name);
    json_decref(answer);
    json_decref(body);
    mem_free(&where);
    return rc;
}

bool certificate_is_due(const struct certificate *c, struct dlc_mono now)
{
    return c != NULL && dlc_mono_passed(c->renew_at, now);
}

struct tls_identity *certificate_get(struct certificate *c)
{
    struct tls_identity *id = NULL;

    if (c != NULL) {
        dlc_mtx_lock(&c->mtx);
        id = tls_identity_get(c->current);
        dlc_mtx_unlock(&c->mtx);
    }
    return id;
}

json_t *certificate_json(struct certificate *c)
{
    struct tls_identity *id = certificate_get(c);
    char text[40] = "";
    uint64_t taken;
    struct tm tm;
    json_t *o;

    dlc_mtx_lock(&c->mtx);
    taken = c->taken;
    dlc_mtx_unlock(&c->mtx);
    if (id == NULL)
        return json_pack("{s:I}", "issued", (json_int_t)0);
    gmtime_r(&(time_t){(time_t)id->not_after}, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    o = json_pack("{s:I, s:s, s:I}", "issued", (json_int_t)taken, "expires", text, "expires_in_s",
                  (json_int_t)(id->not_after - dlc_wall_seconds()));
    tls_identity_put(&id);
    return o;
}
