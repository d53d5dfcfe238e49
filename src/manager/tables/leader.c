// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "manager/store/store.h"
#include "manager/store/wall_time.h"
#include "manager/tables/event_log.h"
#include "manager/tables/tables.h"

#define LOCK_NAME "manager"

static bool leads_locked(const struct tables *t)
{
    return t->leader.leads && dlc_mono_now().ns < t->leader.lease_until.ns;
}

bool leader_leads(struct tables *t)
{
    bool leads;

    dlc_mtx_lock(&t->mtx);
    leads = leads_locked(t);
    dlc_mtx_unlock(&t->mtx);
    return leads;
}

bool leader_is_settled(struct tables *t)
{
    bool settled;

    dlc_mtx_lock(&t->mtx);
    settled = leads_locked(t) && dlc_mono_since(t->leader.since).ns > t->node_ttl.ns;
    dlc_mtx_unlock(&t->mtx);
    return settled;
}

char *leader_store_lost(struct tables *t)
{
    char *why;

    dlc_mtx_lock(&t->mtx);
    why = mem_str(t->leader.store_lost);
    dlc_mtx_unlock(&t->mtx);
    return why;
}

char *leader_elsewhere(struct tables *t)
{
    char *other = NULL;

    dlc_mtx_lock(&t->mtx);
    if (t->leader.address != NULL && strcmp(t->leader.address, t->leader.advertise) != 0)
        other = mem_str(t->leader.address);
    dlc_mtx_unlock(&t->mtx);
    return other;
}

static int publish(struct tables *t, uint64_t fence, struct dlc_err *err)
{
    struct store_doc d = {(char *)"leader", (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:s, s:I, s:I}", "address", t->leader.advertise, "fence",
                       (json_int_t)fence, "since_ms", (json_int_t)wall_ms());
    rc = store_put(t->store, STORE_MANAGER, &d, STORE_ANY, err);
    json_decref(d.body);
    return rc;
}

static void note_leader(struct tables *t, const char *address)
{
    dlc_mtx_lock(&t->mtx);
    if (t->leader.address == NULL || address == NULL || strcmp(t->leader.address, address) != 0) {
        mem_free(&t->leader.address);
        t->leader.address = mem_str(address);
    }
    dlc_mtx_unlock(&t->mtx);
}

/* The lock is ours: learn what there is, and only then answer writes. */
static int begin(struct tables *t, uint64_t fence, struct dlc_mono until, struct dlc_err *err)
{
    int rc;

    store_set_fence(t->store, fence);
    rc = publish(t, fence, err);
    if (rc == 0 && t->leader.hooks != NULL)
        rc = t->leader.hooks->begin(t, fence, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&t->mtx);
    t->leader.leads = true;
    t->leader.fence = fence;
    t->leader.lease_until = until;
    t->leader.since = dlc_mono_now();
    dlc_mtx_unlock(&t->mtx);
    note_leader(t, t->leader.advertise);
    log_info("this manager leads from now on (fence %llu)", (unsigned long long)fence);
    event_log(t->store, "", "manager.leads",
              json_pack("{s:s, s:I}", "address", t->leader.advertise, "fence", (json_int_t)fence));
    return 0;
}

static void lose(struct tables *t, const char *why)
{
    bool had;

    dlc_mtx_lock(&t->mtx);
    had = t->leader.leads;
    t->leader.leads = false;
    dlc_mtx_unlock(&t->mtx);
    if (had && why != NULL)
        log_warn("this manager does not lead any more: %s", why);
}

static void ask_who_leads(struct tables *t)
{
    struct store_doc d = STORE_DOC_INIT;

    if (store_get(t->store, STORE_MANAGER, "leader", &d, NULL) == 0)
        note_leader(t, json_string_value(json_object_get(d.body, "address")));
    store_doc_release(&d);
}

static void renewed(struct tables *t, uint64_t fence, struct dlc_mono until)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool going_on;

    dlc_mtx_lock(&t->mtx);
    going_on = leads_locked(t) && t->leader.fence == fence;
    if (going_on)
        t->leader.lease_until = until;
    dlc_mtx_unlock(&t->mtx);
    if (!going_on && begin(t, fence, until, &err) < 0)
        log_warn("cannot begin to lead: %s", err.text);
}

/* Another manager's start has replaced the tokens: nodes would be refused if we led. */
static bool is_refused(struct tables *t)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool was = t->leader.refused;

    if (leader_leads(t) || t->leader.hooks == NULL || t->leader.hooks->may_lead == NULL)
        return false;
    t->leader.refused = !t->leader.hooks->may_lead(t->leader.ctx, &err);
    if (t->leader.refused && !was)
        log_error("this manager will not lead: %s", err.text);
    return t->leader.refused;
}

/* A store that was emptied below us: whatever we wrote there would look like all that there is. */
static bool store_is_lost(struct tables *t)
{
    const struct leader *l = &t->leader;
    struct dlc_err err = DLC_ERR_INIT;
    bool lost =
             l->hooks != NULL && l->hooks->store_lost != NULL && l->hooks->store_lost(l->ctx, &err),
         was;

    dlc_mtx_lock(&t->mtx);
    was = l->store_lost != NULL;
    if (lost != was) {
        mem_free(&t->leader.store_lost);
        t->leader.store_lost = lost ? mem_str(err.text) : NULL;
    }
    dlc_mtx_unlock(&t->mtx);
    if (lost && !was)
        log_error("%s", err.text);
    if (lost)
        lose(t, "the store has lost its records");
    return lost;
}

void leader_tick(struct tables *t, struct dlc_mono now)
{
    const struct dlc_dur often = {DLC_MIN(t->leader.ttl.ns / 10, DLC_SEC(1).ns)};
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t fence = 0;
    int rc;

    if (now.ns < t->leader.renew_at.ns)
        return;
    if (store_is_lost(t) || is_refused(t)) {
        t->leader.renew_at = dlc_mono_add(now, often);
        return;
    }
    rc = store_lock(t->store, LOCK_NAME, t->leader.holder, t->leader.ttl, &fence, &err);
    if (rc == 0) {
        renewed(t, fence, dlc_mono_add(now, t->leader.ttl));
    } else if (rc == DLC_EBUSY) {
        lose(t, "another one has the lock");
        ask_who_leads(t);
    } else if (!leader_leads(t)) {
        lose(t, err.text);
    }
    t->leader.renew_at = dlc_mono_add(
        now, rc == 0 && leader_leads(t) ? (struct dlc_dur){t->leader.ttl.ns / 3} : often);
}

int leader_take_fence(struct tables *t, struct dlc_err *err)
{
    uint64_t fence = 0;
    int rc = store_lock(t->store, LOCK_NAME, t->leader.holder, t->leader.ttl, &fence, err);

    if (rc == 0)
        store_set_fence(t->store, fence);
    return rc;
}

bool leader_holds(struct tables *t)
{
    leader_tick(t, dlc_mono_now());
    return leader_leads(t);
}

int leader_lock_dir(struct tables *t, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.lock", t->leader.dir);
    int rc = 0;

    t->leader.dir_lock = os_open(path, O_RDWR | O_CREAT, 0600);
    if (t->leader.dir_lock < 0)
        rc = dlc_err_sys(err, "cannot open %s", path);
    else if (os_flock(t->leader.dir_lock, LOCK_EX | LOCK_NB) < 0)
        rc = dlc_err_set(err, DLC_EBUSY,
                         "another manager runs in %s: end it, or give this one another --dir",
                         t->leader.dir);
    else
        os_remove_unfinished(t->leader.dir); /* who wrote them is dead */
    mem_free(&path);
    return rc;
}

/* Give up the lock of our former life, and write down our name in this one. */
int leader_open(struct tables *t, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.holder", t->leader.dir);
    unsigned char random[16];
    char hex[2 * sizeof(random) + 1];
    struct buf old = BUF_INIT;
    int rc;

    if (os_read_file(path, 256, &old, NULL) == 0 && old.len > 0 &&
        store_unlock(t->store, LOCK_NAME, str_trim(old.data), NULL) == 0)
        log_debug("the lock of a former start is given up");
    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), hex);
    t->leader.holder = mem_str(hex);
    rc = os_write_file(path, hex, strlen(hex), 0600, err);
    buf_release(&old);
    mem_free(&path);
    return rc;
}

void leader_close(struct tables *t)
{
    if (t->leader.holder != NULL && t->store != NULL && leader_leads(t))
        store_unlock(t->store, LOCK_NAME, t->leader.holder, NULL);
    lose(t, NULL);
    mem_free(&t->leader.holder);
    mem_free(&t->leader.address);
    mem_free(&t->leader.store_lost);
    mem_free(&t->leader.advertise);
    os_close(&t->leader.dir_lock);
}
