// SPDX-License-Identifier: Apache-2.0
/*
 * Attaching to a daemon: say hello, open the dataset, receive six descriptors, map and check them,
 * and map the extents of samples that there are: extents.h.
 */
#include "client/attach.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/attachment.h"
#include "client/daemon.h"
#include "client/dataset.h"
#include "client/extents.h"
#include "client/heartbeat.h"
#include "client/pins.h"
#include "client/watch.h"
#include "ipc/frame.h"
#include "ipc/shm.h"

#define CALLS 4
#define TRIES 6          /* at a daemon that has no descriptor left at the moment: 1.5 s in all */
#define PAUSE DLC_MS(50) /* before the second of them, and doubling */

/* ---- talking ---- */

/* What an answer says that is not "ok": its code and text. */
static int attach_refused(const struct msg *m, struct dlc_err *err)
{
    const char *text = json_string_value(json_object_get(m->body, "error"));
    json_int_t code = json_integer_value(json_object_get(m->body, "code"));

    if (code >= 0 || code < INT_MIN)
        code = DLC_EPROTO;
    return dlc_err_set(err, (int)code, "%s", text != NULL ? text : "refused");
}

/* Send, then receive until the final answer, until nothing came for so long, or until the deadline.
 * Takes question. DLC_ENODAEMON: it hung up. */
static int ask(struct dlc_dataset *ds, int sock, json_t *question, struct dlc_dur silence,
               struct dlc_mono deadline, struct msg *answer, struct dlc_err *err)
{
    int rc = msg_send(sock, question, NULL, 0, err);

    json_decref(question);
    if (rc == DLC_EPROTO) /* it hung up, but may have said why */
        rc = 0;
    while (rc == 0) {
        int64_t left = DLC_MAX(dlc_mono_sub(deadline, dlc_mono_now()).ns, 0);

        msg_release(answer);
        rc = msg_recv(sock, answer, (struct dlc_dur){DLC_MIN(silence.ns, left)}, err);
        if (rc == 0 && json_object_get(answer->body, "progress") == NULL)
            break;
    }
    if (rc == DLC_EPROTO)
        rc = dlc_err_set(err, DLC_ENODAEMON, "the daemon at %s went away", ds->config.socket);
    else if (rc == 0 && !json_is_true(json_object_get(answer->body, "ok")))
        rc = attach_refused(answer, err);
    return rc;
}

/* Until the answer begins to come, or it is seen that it will not. */
static int await_answer(struct attachment *a, struct dlc_mono deadline, struct dlc_err *err)
{
    struct hang_watch w = {0};

    for (;;) {
        struct pollfd p = {.fd = a->sock, .events = POLLIN};
        struct dlc_mono now = dlc_mono_now();
        int64_t left = DLC_CLAMP(deadline.ns - now.ns, 0, LOOK_EVERY.ns);
        int n = os_poll(&p, 1, (int)(left / 1000000));

        if (n > 0 || (n < 0 && errno != EINTR))
            return 0; /* who receives is told */
        if (interrupted())
            return interrupt_err(err);
        if (dlc_mono_passed(deadline, now))
            return dlc_err_set(err, DLC_ETIMEDOUT, "the daemon did not answer in time");
        if (hang_watch_look(&w, a, now))
            return dlc_err_set(err, DLC_ETIMEDOUT, "the daemon hangs");
    }
}

/* After DLC_EBUSY the same can be asked again. */
static int call_once(struct attachment *a, const json_t *ask, int fd, struct dlc_mono deadline,
                     struct msg *m, struct dlc_err *err)
{
    struct dlc_dur left;
    int rc;

    dlc_mtx_lock(&a->rpc);
    left = dlc_mono_sub(deadline, dlc_mono_now()); /* after the wait for the others */
    left.ns = DLC_MAX(left.ns, 0);
    rc = msg_send(a->sock, ask, &fd, fd >= 0 ? 1 : 0, err);
    if (rc == 0)
        rc = await_answer(a, deadline, err);
    if (rc == 0)
        rc = msg_recv(a->sock, m, left, err);
    dlc_mtx_unlock(&a->rpc);
    if (rc < 0 && rc != DLC_ETIMEDOUT && rc != DLC_EBUSY)
        rc = dlc_err_set(err, DLC_ENODAEMON, "the daemon was lost");
    else if (rc == 0 && !json_is_true(json_object_get(m->body, "ok")))
        rc = attach_refused(m, err);
    return rc;
}

/* Before another try at what was busy. False: it was the last, or there is no time. */
static bool pause_before(int try, struct dlc_dur first, struct dlc_mono deadline)
{
    struct dlc_dur d = backoff_after((unsigned)try, first, (struct dlc_dur){INT64_MAX});

    if (try >= TRIES || dlc_mono_passed(deadline, dlc_mono_add(dlc_mono_now(), d)) || interrupted())
        return false;
    dlc_sleep(d);
    return true;
}

int attach_call(struct attachment *a, const json_t *ask, int fd, struct dlc_mono deadline,
                struct msg *m, struct dlc_err *err)
{
    int rc, try = 0;

    do {
        msg_release(m);
        rc = call_once(a, ask, fd, deadline, m, err);
    } while (rc == DLC_EBUSY && pause_before(++try, DLC_MS(2), deadline));
    return rc;
}

static int greet(struct dlc_dataset *ds, int sock, struct dlc_dur greeting,
                 struct dlc_mono deadline, struct dlc_err *err)
{
    struct msg m = MSG_INIT;
    int rc = ask(ds, sock,
                 json_pack("{s:s, s:i, s:i}", "op", "hello", "version", 1, "pid", (int)getpid()),
                 greeting, deadline, &m, err);

    msg_release(&m);
    return rc;
}

/* A connection to a daemon that greeted us. One that is just ending may answer the call and hang
 * up: then call again, and start another one if we may. */
static int call_daemon(struct dlc_dataset *ds, const struct attach_how *how, struct dlc_err *err)
{
    struct dlc_mono now = dlc_mono_now(), called = dlc_mono_add(now, how->greeting),
                    deadline = dlc_mono_add(now, DAEMON_PATIENCE); /* a listing may take longer */
    int sock = DLC_ENODAEMON, rc;

    deadline.ns = DLC_MIN(deadline.ns, how->deadline.ns);
    called.ns = DLC_MIN(called.ns, deadline.ns);
    for (int call = 0; call < CALLS && sock == DLC_ENODAEMON; call++) {
        sock = daemon_connect(&ds->config, called, err);
        if (sock == DLC_ENODAEMON && how->may_spawn &&
            (rc = daemon_spawn(&ds->config, deadline, err)) < 0)
            return rc;
        if (sock >= 0 && how->reached != NULL)
            *how->reached = true;
        if (sock >= 0 && (rc = greet(ds, sock, how->greeting, deadline, err)) < 0) {
            os_close(&sock);
            sock = rc;
        }
    }
    return sock;
}

/* The one that numbers belong to already, or that was asked for; 0: any. */
static uint64_t snapshot_of(const struct dlc_dataset *ds)
{
    return ds->catalog != NULL ? catalog_snapshot(ds->catalog) : ds->opt.snapshot;
}

static int open_remote(struct dlc_dataset *ds, int sock, const struct attach_how *how,
                       struct msg *m, struct dlc_err *err)
{
    const char *job = getenv("DLCACHE_JOB"), *runs = getenv("DLCACHE_RUNS");
    uint64_t snapshot = snapshot_of(ds);
    char hex[17];
    json_t *q = json_pack("{s:s, s:o, s:b, s:b}", "op", "open", "url", msg_string(ds->url),
                          "anonymous", (int)ds->opt.anonymous, "refresh", (int)how->refresh);

    if (ds->endpoint != NULL)
        json_object_set_new(q, "endpoint", msg_string(ds->endpoint));
    if (ds->token != NULL)
        json_object_set_new(q, "token", msg_string(ds->token));
    if (job != NULL && job[0] != '\0')
        json_object_set_new(q, "job", msg_string(job));
    if (runs != NULL && runs[0] != '\0')
        json_object_set_new(q, "runs", msg_string(runs));
    if (ds->decoded != NULL)
        json_object_set_new(q, "decoded", msg_string(ds->decoded));
    if (snapshot != 0) {
        snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)snapshot);
        json_object_set_new(q, "snapshot", json_string(hex));
    }
    return ask(ds, sock, q, how->silence, how->deadline, m, err);
}

/* Where a named dataset lies: for reading past the daemon. */
static void take_place(struct attachment *a, const struct msg *m)
{
    const char *url = json_string_value(json_object_get(m->body, "url"));
    const char *endpoint = json_string_value(json_object_get(m->body, "endpoint"));

    a->place = mem_str(url);
    a->place_endpoint = mem_str(endpoint);
}

/* ---- mapping ---- */

/* NULL: *err. */
static void *map_fd(struct msg *m, unsigned i, uint64_t size, bool writable, struct dlc_err *err)
{
    int fd = msg_take_fd(m, i);
    void *p = NULL;
    struct stat st;

    if (os_fstat(fd, &st) < 0)
        dlc_err_sys(err, "cannot look at the daemon's shared memory");
    else if ((uint64_t)st.st_size != size)
        dlc_err_set(err, DLC_EPROTO, "the daemon's shared memory does not have the size it says");
    else if ((p = os_map(fd, 0, size, writable)) == NULL)
        dlc_err_sys(err, "cannot map the daemon's shared memory (is ulimit -v too small?)");
    os_close(&fd);
    return p;
}

static int check_maps(struct attachment *a, struct dlc_err *err)
{
    const struct shm_segment_hdr *seg = a->header;
    const struct shm_index_hdr *idx = a->index_map;

    if (seg->magic != SHM_SEGMENT_MAGIC || idx->magic != SHM_INDEX_MAGIC ||
        a->session->magic != SHM_SESSION_MAGIC || seg->version != SHM_VERSION ||
        idx->version != SHM_VERSION || a->session->version != SHM_VERSION)
        return dlc_err_set(err, DLC_EPROTO,
                           "the daemon's shared memory is of another version: restart it");
    a->n = idx->n_slots;
    a->snapshot = idx->snapshot;
    if (a->n > (a->index_size - SHM_HDR_SIZE) / sizeof(struct shm_slot) ||
        idx->slots_off != SHM_HDR_SIZE)
        return dlc_err_set(err, DLC_EPROTO, "the daemon's index does not fit its size");
    a->slots = (const struct shm_slot *)((const char *)a->index_map + SHM_HDR_SIZE);
    return extents_attach(a, err);
}

static int map_uploads(struct attachment *a, struct msg *m, struct dlc_err *err)
{
    if (m->n_fds != 7) /* it does not know the decoded cache, and gave us the samples */
        return dlc_err_set(err, DLC_EPROTO, "the daemon is too old to keep decoded samples");
    a->uploads = map_fd(m, 6, SHM_UPLOADS_SIZE, true, err);
    return a->uploads != NULL ? 0 : err->code;
}

static int map_all(struct attachment *a, struct msg *m, uint64_t snapshot, struct dlc_err *err)
{
    int fd, rc;

    a->header_size = (uint64_t)json_integer_value(json_object_get(m->body, "segment_size"));
    a->index_size = (uint64_t)json_integer_value(json_object_get(m->body, "index_size"));
    if (m->n_fds < 5 || a->header_size < SHM_HDR_SIZE || a->index_size < SHM_HDR_SIZE)
        return dlc_err_set(err, DLC_EPROTO, "the daemon's answer lacks descriptors");
    a->doorbell = msg_take_fd(m, 3);
    a->channel =
        m->n_fds > 5 ? msg_take_fd(m, 5) : -1; /* of an older version: check_maps() tells */
    if ((a->header = map_fd(m, 0, a->header_size, false, err)) == NULL ||
        (a->index_map = map_fd(m, 1, a->index_size, false, err)) == NULL ||
        (a->session = map_fd(m, 2, SHM_SESSION_SIZE, true, err)) == NULL)
        return err->code;
    a->ring = (_Atomic uint32_t *)((char *)a->session + SHM_RING_OFF);
    a->cells = (struct shm_cell *)((char *)a->session + SHM_CELLS_OFF);
    a->blocks = (struct shm_pin_block *)((char *)a->session + SHM_BLOCKS_OFF);
    rc = check_maps(a, err);
    if (rc < 0)
        return rc;
    if (snapshot != 0 && a->snapshot != snapshot) /* a daemon that does not know of them */
        return dlc_err_set(
            err, DLC_ECHANGED,
            "the daemon has snapshot %016llx of the dataset, not %016llx, and is too "
            "old to keep more than one: restart it",
            (unsigned long long)a->snapshot, (unsigned long long)snapshot);
    fd = msg_take_fd(m, 4);
    rc = catalog_open_fd(fd, &a->catalog, err);
    os_close(&fd);
    if (rc == 0 && catalog_count(a->catalog) != a->n)
        rc = dlc_err_set(err, DLC_EPROTO, "the daemon's index and catalog do not match");
    return rc;
}

/* ---- life ---- */

static _Atomic uint64_t generations; /* relaxed: only uniqueness matters */

static int attach_once(struct dlc_dataset *ds, const struct attach_how *how,
                       struct attachment **out, struct dlc_err *err)
{
    struct attachment *a = mem_new(struct attachment);
    struct msg m = MSG_INIT;
    int rc;

    a->doorbell = a->channel = -1;
    a->overflow = UINT32_MAX;
    a->generation = 1 + atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed);
    dlc_mtx_init(&a->mtx, LCK_session);
    dlc_mtx_init(&a->rpc, LCK_rpc);
    dlc_list_init(&a->link);
    rc = call_daemon(ds, how, err);
    a->sock = rc < 0 ? -1 : rc;
    if (rc >= 0)
        rc = open_remote(ds, a->sock, how, &m, err);
    if (rc == 0)
        rc = map_all(a, &m, snapshot_of(ds), err);
    if (rc == 0 && ds->decoded != NULL)
        rc = map_uploads(a, &m, err);
    if (rc == 0)
        take_place(a, &m);
    msg_release(&m);
    if (rc == 0)
        rc = extents_map_ahead(a, how->deadline, err);
    if (rc < 0)
        attachment_free(&a);
    *out = a;
    return rc;
}

int attachment_new(struct dlc_dataset *ds, const struct attach_how *how, struct attachment **out,
                   struct dlc_err *err)
{
    int rc, try = 0;

    do
        rc = attach_once(ds, how, out, err);
    while (rc == DLC_EBUSY && ds->catalog == NULL && pause_before(++try, PAUSE, how->deadline));
    return rc; /* within a read the bucket does as well */
}

uint64_t attachment_held(const struct attachment *a)
{
    uint32_t high = DLC_MIN(atomic_load(&a->session->blocks_high), SHM_BLOCKS);
    uint64_t n = 0;

    for (uint32_t b = 0; b < high; b++) {
        for (unsigned p = 0; p < SHM_PINS; p++)
            n += atomic_load(&a->blocks[b].pins[p]) != 0;
    }
    return n;
}

void attachment_unmap(struct attachment *a)
{
    if (a->unmapped)
        return;
    a->unmapped = true;
    os_unmap(a->header, a->header_size);
    os_unmap(a->segment, a->segment_size);
    extents_unmapped(a);
    os_unmap(a->index_map, a->index_size);
    os_unmap(a->uploads, SHM_UPLOADS_SIZE);
    a->uploads = NULL;
    a->header = NULL;
    a->segment = NULL;
    a->slots = NULL;
    if (a->watched)
        watch_remove(a->channel);
    os_close(&a->sock);
    os_close(&a->doorbell);
    os_close(&a->channel);
    a->watched = false;
}

void attachment_free(struct attachment **ap)
{
    struct attachment *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    pins_attachment_gone(a);
    attachment_unmap(a);
    os_unmap(a->session, SHM_SESSION_SIZE);
    catalog_close(&a->catalog);
    mem_free(&a->place);
    mem_free(&a->place_endpoint);
    mem_free(&a->mapped);
    dlc_mtx_release(&a->mtx);
    dlc_mtx_release(&a->rpc);
    mem_free(&a);
}
