// SPDX-License-Identifier: Apache-2.0
/*
 * Who leads: whoever holds the lock "manager" of the store.
 *
 *     WAITING --lock taken--> LEADING --renewed at a third of its time--> LEADING
 *                             LEADING --refused, or its time is over--> WAITING
 *
 * (L1) We lead only until the time that we asked for has passed on our own clock, counted from
 * before we asked: the store's count began later, so nobody else led in it. (L2) Our name in the
 * lock differs with each start, so that the fence grows with each. (L3) A manager that was killed
 * and starts again in its directory (locked by flock) gives up the lock of its former life: it need
 * not wait for it. A copied directory does that to a manager that lives; it then loses the lock as
 * it would by time.
 */
#include "manager/manager_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define LOCK_NAME "manager"

static bool leads_locked(const struct control *c)
{
    return c->leads && dlc_mono_now().ns < c->lease_until.ns;
}

bool control_leads(struct control *c)
{
    bool leads;

    dlc_mtx_lock(&c->mtx);
    leads = leads_locked(c);
    dlc_mtx_unlock(&c->mtx);
    return leads;
}

void reply_not_leading(struct control *c, struct http_reply *reply)
{
    char *leader;

    dlc_mtx_lock(&c->mtx);
    leader = c->leader != NULL && strcmp(c->leader, c->advertise) != 0 ? mem_str(c->leader) : NULL;
    dlc_mtx_unlock(&c->mtx);
    if (leader != NULL)
        http_problem(reply, 503, "Not leading", "this manager does not lead: ask %s", leader);
    else
        http_problem(reply, 503, "Not leading",
                     "no manager leads at the moment; try again in a second");
    if (reply->body != NULL && leader != NULL)
        json_object_set_new(reply->body, "leader", json_string(leader));
    reply->retry_after = mem_str("1");
    mem_free(&leader);
}

/* ---- taking and losing it ---- */

static int publish(struct control *c, uint64_t fence, struct dlc_err *err)
{
    struct store_doc d = {(char *)"leader", (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:s, s:I, s:I}", "address", c->advertise, "fence", (json_int_t)fence,
                       "since_ms", (json_int_t)control_wall_ms());
    rc = store_put(c->store, STORE_MANAGER, &d, STORE_ANY, err);
    json_decref(d.body);
    return rc;
}

static void note_leader(struct control *c, const char *address)
{
    dlc_mtx_lock(&c->mtx);
    if (c->leader == NULL || address == NULL || strcmp(c->leader, address) != 0) {
        mem_free(&c->leader);
        c->leader = mem_str(address);
    }
    dlc_mtx_unlock(&c->mtx);
}

/* The lock is ours: learn what there is, and only then answer writes. */
static int begin(struct control *c, uint64_t fence, struct dlc_mono until, struct dlc_err *err)
{
    int rc;

    store_set_fence(c->store, fence);
    rc = publish(c, fence, err);
    if (rc == 0)
        rc = nodes_load(c, err);
    if (rc == 0)
        rc = view_load(c, fence, err);
    if (rc == 0)
        rc = jobs_load(c, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&c->mtx);
    c->leads = true;
    c->fence = fence;
    c->lease_until = until;
    dlc_mtx_unlock(&c->mtx);
    note_leader(c, c->advertise);
    log_info("this manager leads from now on (fence %llu)", (unsigned long long)fence);
    control_event(c, "", "manager.leads",
                  json_pack("{s:s, s:I}", "address", c->advertise, "fence", (json_int_t)fence));
    return 0;
}

static void lose(struct control *c, const char *why)
{
    bool had;

    dlc_mtx_lock(&c->mtx);
    had = c->leads;
    c->leads = false;
    dlc_mtx_unlock(&c->mtx);
    if (had && why != NULL)
        log_warn("this manager does not lead any more: %s", why);
}

static void ask_who_leads(struct control *c)
{
    struct store_doc d = STORE_DOC_INIT;

    if (store_get(c->store, STORE_MANAGER, "leader", &d, NULL) == 0)
        note_leader(c, json_string_value(json_object_get(d.body, "address")));
    store_doc_release(&d);
}

static void renewed(struct control *c, uint64_t fence, struct dlc_mono until)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool going_on;

    dlc_mtx_lock(&c->mtx);
    going_on = leads_locked(c) && c->fence == fence;
    if (going_on)
        c->lease_until = until;
    dlc_mtx_unlock(&c->mtx);
    if (!going_on && begin(c, fence, until, &err) < 0)
        log_warn("cannot begin to lead: %s", err.text);
}

/* Another manager's start has replaced the tokens: nodes would be refused if we led. */
static bool is_estranged(struct control *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool was = c->estranged;

    if (control_leads(c))
        return false;
    c->estranged = !fingerprints_match(c, &err);
    if (c->estranged && !was)
        log_error("this manager will not lead: %s", err.text);
    return c->estranged;
}

void leader_tick(struct control *c, struct dlc_mono now)
{
    const struct dlc_dur often = {DLC_MIN(c->lock_ttl.ns / 10, DLC_SEC(1).ns)};
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t fence = 0;
    int rc;

    if (now.ns < c->renew_at.ns)
        return;
    if (is_estranged(c)) {
        c->renew_at = dlc_mono_add(now, often);
        return;
    }
    rc = store_lock(c->store, LOCK_NAME, c->holder, c->lock_ttl, &fence, &err);
    if (rc == 0) {
        renewed(c, fence, dlc_mono_add(now, c->lock_ttl));
    } else if (rc == DLC_EBUSY) {
        lose(c, "another one has the lock");
        ask_who_leads(c);
    } else if (!control_leads(c)) {
        lose(c, err.text);
    }
    c->renew_at = dlc_mono_add(
        now, rc == 0 && control_leads(c) ? (struct dlc_dur){c->lock_ttl.ns / 3} : often);
}

bool leader_holds(struct control *c)
{
    leader_tick(c, dlc_mono_now());
    return control_leads(c);
}

/* ---- beginning and end ---- */

int leader_lock_dir(struct control *c, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.lock", c->dir);
    int rc = 0;

    c->dir_lock = os_open(path, O_RDWR | O_CREAT, 0600);
    if (c->dir_lock < 0)
        rc = dlc_err_sys(err, "cannot open %s", path);
    else if (os_flock(c->dir_lock, LOCK_EX | LOCK_NB) < 0)
        rc = dlc_err_set(err, DLC_EBUSY,
                         "another manager runs in %s: end it, or give this one another --dir",
                         c->dir);
    else
        os_remove_unfinished(c->dir); /* who wrote them is dead */
    mem_free(&path);
    return rc;
}

/* Give up the lock of our former life, and write down our name in this one. */
int leader_open(struct control *c, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.holder", c->dir);
    unsigned char random[16];
    char hex[2 * sizeof(random) + 1];
    struct buf old = BUF_INIT;
    int rc;

    if (os_read_file(path, 256, &old, NULL) == 0 && old.len > 0 &&
        store_unlock(c->store, LOCK_NAME, str_trim(old.data), NULL) == 0)
        log_debug("the lock of a former start is given up");
    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), hex);
    c->holder = mem_str(hex);
    rc = os_write_file(path, hex, strlen(hex), 0600, err);
    buf_release(&old);
    mem_free(&path);
    return rc;
}

void leader_close(struct control *c)
{
    if (c->holder != NULL && c->store != NULL && control_leads(c))
        store_unlock(c->store, LOCK_NAME, c->holder, NULL);
    lose(c, NULL);
    mem_free(&c->holder);
    mem_free(&c->leader);
    os_close(&c->dir_lock);
}
