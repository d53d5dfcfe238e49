// SPDX-License-Identifier: Apache-2.0
#include "manager/manager.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "manager/api_server.h"
#include "manager/fingerprints.h"
#include "manager/routes/api.h"
#include "manager/routes/idempotency.h"
#include "manager/routes/tickets.h"
#include "manager/store/record_copy.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"
#include "manager/tables/node_revocation.h"
#include "manager/tables/node_token.h"
#include "manager/tables/tables.h"

#define TICK         DLC_MS(100)
#define PURGE_EVERY  DLC_SEC(3600)
#define RELOAD_EVERY DLC_SEC(1)
#define COPY_EVERY   DLC_MS(500)
#define COPY_ANYWAY  DLC_SEC(20)

struct manager {
    char *dir;
    struct store *store;
    struct seal *seal;
    struct fingerprints fingerprints;
    struct tables tables;
    struct api api;
    struct api_server server;
    pthread_t thread;
    bool has_thread;
    bool ending;                         /* G: tables.mtx */
    struct dlc_mono purge_at, reload_at; /* the thread's, as the rest */
    struct dlc_mono copy_at, copy_anyway_at;
    uint64_t copied; /* store_changes() that the copy has */
};

static struct dlc_dur or_default(struct dlc_dur d, struct dlc_dur otherwise)
{
    return d.ns > 0 ? d : otherwise;
}

const char *manager_address(const struct manager *m)
{
    return api_server_address(&m->server);
}

/* ---- the thread ---- */

static bool may_lead(void *ctx, struct dlc_err *err)
{
    return fingerprints_match(ctx, err);
}

static bool store_lost(void *ctx, struct dlc_err *err)
{
    return fingerprints_lost(ctx, err);
}

static const struct leader_hooks leader_hooks = {
    .may_lead = may_lead, .store_lost = store_lost, .begin = tables_load};

/* Keep the copy of the records: after a change, and, where another manager makes the changes, now
 * and then. */
static void copy_records(struct manager *m, struct dlc_mono now)
{
    uint64_t changes = store_changes(m->store);
    char *path;
    struct dlc_err err = DLC_ERR_INIT;

    if (now.ns < m->copy_at.ns || (changes == m->copied && now.ns < m->copy_anyway_at.ns))
        return;
    path = mem_fmt("%s/" RECORD_COPY, m->dir);
    if (record_copy_write(m->store, path, &err) == 0)
        m->copied = changes;
    else if (err.code != DLC_ECHANGED && err.code != DLC_EBUCKET)
        log_warn("the copy of the records was not written: %s", err.text);
    mem_free(&path);
    /* A large store is copied less often, so that the copies take a twentieth of the time. */
    m->copy_at = dlc_mono_add(
        dlc_mono_now(), (struct dlc_dur){DLC_MAX(COPY_EVERY.ns, 20 * dlc_mono_since(now).ns)});
    m->copy_anyway_at = dlc_mono_add(now, COPY_ANYWAY);
}

/* Keys, tokens and a certificate that were replaced in their files count without a restart; so do
 * nodes that another manager revoked. */
static void reload_access(struct manager *m)
{
    struct dlc_err err = DLC_ERR_INIT;
    int keys = seal_reload(m->seal, &err), tokens, certificate;

    if (keys > 0)
        log_info("%s was read again", seal_source(m->seal));
    else if (keys < 0)
        log_error("the keys stay as they were: %s", err.text);
    err = (struct dlc_err)DLC_ERR_INIT;
    if (revocations_read(&m->tables, &err) < 0)
        log_debug("revoked nodes: %s", err.text); /* the store says so elsewhere */
    err = (struct dlc_err)DLC_ERR_INIT;
    tokens = auth_reload(&m->api.auth, &err);
    if (tokens > 0 && fingerprints_agree(&m->fingerprints, &err) == 0)
        log_info("tokens in %s were read again", m->dir);
    else if (tokens != 0)
        log_error("tokens in %s: %s", m->dir, err.text);
    err = (struct dlc_err)DLC_ERR_INIT;
    certificate = api_server_reload(&m->server, &err);
    if (certificate > 0)
        log_info("the certificate was read again: new connections see it");
    else if (certificate < 0)
        log_error("the certificate stays as it was: %s", err.text);
}

static void tick(struct manager *m)
{
    struct dlc_mono now = dlc_mono_now();

    if (now.ns >= m->reload_at.ns) {
        reload_access(m);
        m->reload_at = dlc_mono_add(now, RELOAD_EVERY);
    }
    tables_tick(&m->tables);
    copy_records(m, now);
    if (now.ns >= m->purge_at.ns && leader_holds(&m->tables)) {
        idempotency_purge(&m->api);
        node_tokens_purge(&m->tables);
        m->purge_at = dlc_mono_add(now, PURGE_EVERY);
    }
}

static void *run(void *arg)
{
    struct manager *m = arg;
    bool ending = false;

    while (!ending) {
        tick(m);
        dlc_mtx_lock(&m->tables.mtx);
        if (!m->ending)
            dlc_cond_wait_for(&m->tables.wake, &m->tables.mtx, TICK);
        ending = m->ending;
        dlc_mtx_unlock(&m->tables.mtx);
    }
    return NULL;
}

static void end_thread(struct manager *m)
{
    if (!m->has_thread)
        return;
    dlc_mtx_lock(&m->tables.mtx);
    m->ending = true;
    dlc_cond_signal(&m->tables.wake);
    dlc_mtx_unlock(&m->tables.mtx);
    pthread_join(m->thread, NULL);
    m->has_thread = false;
}

/* ---- open and close ---- */

static int open_dir(struct manager *m, const char *dir, struct dlc_err *err)
{
    if (os_mkdirs(dir, 0700) < 0)
        return dlc_err_sys(err, "cannot make %s", dir);
    m->dir = os_realpath(dir);
    m->tables.leader.dir = m->dir;
    return m->dir != NULL ? 0 : dlc_err_sys(err, "%s", dir);
}

/* X. */
static void record_forged(const char *kind, const char *id, const char *why, void *arg)
{
    struct manager *m = arg;
    char *object = mem_fmt("%s/%s", kind, id);

    audit_log_write(m->api.audit, &(struct audit_event){.role = "store",
                                                        .action = "record.verify",
                                                        .object = object,
                                                        .outcome = AUDIT_REFUSED,
                                                        .reason = why});
    mem_free(&object);
}

static int open_store(struct manager *m, const char *url, struct dlc_err *err)
{
    char *own = mem_fmt("sqlite:%s/manager.db", m->dir);
    int rc = store_open(url != NULL ? url : own, &m->store, err);

    m->tables.store = m->store;
    if (rc == 0)
        store_authenticate(m->store, m->seal, record_forged, m);
    mem_free(&own);
    return rc;
}

static int agree(struct manager *m, struct dlc_err *err)
{
    m->fingerprints = (struct fingerprints){m->store, m->seal, &m->api.auth, m->dir};
    m->tables.leader.hooks = &leader_hooks;
    m->tables.leader.ctx = &m->fingerprints;
    return fingerprints_agree(&m->fingerprints, err);
}

/* 0.0.0.0 means every address of this host: others know it by name. */
static char *reachable(const char *address, bool tls)
{
    const char *port = strrchr(address, ':'), *scheme = tls ? "https" : "http";
    char host[256] = "";

    if ((str_starts(address, "0.0.0.0:") || str_starts(address, "[::]:")) && port != NULL &&
        gethostname(host, sizeof(host) - 1) == 0)
        return mem_fmt("%s://%s%s", scheme, host, port);
    return mem_fmt("%s://%s", scheme, address);
}

static int open_server(struct manager *m, const struct manager_config *config, struct dlc_err *err)
{
    struct leader *leader = &m->tables.leader;
    int rc = api_server_open(&m->server, &m->api, config, err);

    if (rc < 0)
        return rc;
    dlc_mtx_lock(&m->tables.mtx);
    if (config->advertise != NULL)
        leader->advertise = mem_str(config->advertise);
    else if (manager_address(m) != NULL)
        leader->advertise = reachable(manager_address(m), config->tls_cert != NULL);
    else
        leader->advertise = mem_fmt("unix:%s", config->unix_path);
    dlc_mtx_unlock(&m->tables.mtx);
    return 0;
}

static int open_all(struct manager *m, const struct manager_config *config, struct dlc_err *err)
{
    int rc = open_dir(m, config->dir, err);

    if (rc == 0)
        rc = leader_lock_dir(&m->tables, err);
    if (rc == 0)
        rc = auth_open(&m->api.auth, m->dir, err);
    if (rc == 0)
        rc = seal_open(m->dir, &m->seal, err);
    m->api.seal = m->seal;
    if (rc == 0)
        rc = open_store(m, config->store, err);
    if (rc == 0)
        authority_trust_init(&m->api.trust, m->store, m->seal);
    if (rc == 0)
        rc = agree(m, err);
    if (rc == 0)
        rc = tickets_open(&m->api, or_default(config->ticket_life, TICKET_LIFE), err);
    if (rc == 0)
        rc = leader_open(&m->tables, err);
    if (rc == 0)
        rc = open_server(m, config, err);
    if (rc < 0)
        return rc;
    leader_tick(&m->tables, dlc_mono_now()); /* who is alone leads before anybody can ask */
    if (os_thread(&m->thread, run, m) != 0)
        return dlc_err_set(err, DLC_ENOMEM, "cannot start the manager's thread");
    m->has_thread = true;
    return 0;
}

int manager_open(const struct manager_config *config, struct manager **out, struct dlc_err *err)
{
    struct manager *m = mem_new(struct manager);
    int rc = 0;

    dlc_check(config->dir != NULL && (config->listen != NULL || config->unix_path != NULL));
    tables_init(&m->tables, NULL);
    m->tables.spreads.interval = config->rebalance_interval;
    m->tables.node_ttl = or_default(config->node_ttl, DLC_SEC(10));
    m->tables.job_ttl = or_default(config->job_ttl, DLC_SEC(60));
    m->tables.keep_ended = or_default(config->keep_ended, DLC_SEC(7 * 86400));
    m->tables.keep_accounting = or_default(config->keep_accounting, DLC_SEC(400 * 86400));
    m->tables.leader.ttl = or_default(config->lock_ttl, DLC_SEC(10));
    m->api = (struct api){.tag = API_TAG, .tables = &m->tables, .started = dlc_mono_now()};
    m->api.no_shared_node_token = config->no_shared_node_token;
    m->api.reviewer = config->reviewer;
    m->api.certificate_life = or_default(config->certificate_life, DLC_SEC(48 * 3600));
    event_streams_init(&m->api.streams);
    if (config->tenant_networks != NULL)
        rc = address_rules_parse(&m->api.tenant_networks, config->tenant_networks, err);
    if (rc == 0 && config->audit_log != NULL)
        rc = audit_log_open(config->audit_log, &m->api.audit, err);
    if (rc == 0)
        rc = open_all(m, config, err);
    if (rc < 0)
        manager_close(&m);
    *out = m;
    return rc;
}

void manager_close(struct manager **mp)
{
    struct manager *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    end_thread(m);
    api_server_close(&m->server);
    tickets_close(&m->api);
    event_streams_release(&m->api.streams);
    address_rules_release(&m->api.tenant_networks);
    tables_release(&m->tables);
    audit_log_close(&m->api.audit);
    auth_release(&m->api.auth);
    authority_trust_release(&m->api.trust);
    seal_close(&m->seal);
    store_close(&m->store);
    free(m->dir);
    m->api.tag = 0;
    mem_free(&m);
}
