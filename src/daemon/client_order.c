// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_order.h"

#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "daemon/background_command.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/order_limits.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "daemon/work.h"
#include "ipc/frame.h"
#include "order/order.h"
#include "order/schedule.h"
#include "order/substitution.h"

/* How many numbers a file has; 0: it is none of numbers. DLC_E*: it cannot be seen. */
static int64_t numbers_in(int fd, struct dlc_err *err)
{
    struct stat st;

    if (os_fstat(fd, &st) < 0)
        return dlc_err_sys(err, "order: cannot look at the list");
    return st.st_size % 8 == 0 ? st.st_size / 8 : 0;
}

/* Copied: the client could change or cut the memory it handed over. NULL: *err. */
static uint64_t *read_numbers(int fd, uint64_t n, struct dlc_err *err)
{
    uint64_t *list = mem_try_alloc(n * sizeof(*list));

    if (list == NULL)
        dlc_err_set(err, DLC_ENOMEM, "order: no memory for %llu numbers", (unsigned long long)n);
    else if (os_pread_all(fd, list, n * sizeof(*list), 0) < 0) {
        dlc_err_sys(err, "order: cannot read the list");
        mem_free(&list);
    }
    return list;
}

/* ---- an explicit order: its list, or one list more ---- */

struct list_command {
    struct background_command base;
    bool more;
    uint64_t position, epoch, epochs, begin;
    uint64_t length, bytes; /* of the list, and with its index in memory */
    struct schedule_list *list;
    int fd;
};

/* A list, its copy and its index are long: up to 1.2 GB. So all that is done away from the loop. */
static void list_work(struct work *w)
{
    struct list_command *e = dlc_container(w, struct list_command, base.work);
    uint64_t *list = read_numbers(e->fd, e->length, &e->base.err);

    if (list != NULL)
        e->list =
            schedule_list_new(list, e->length, catalog_count(e->base.ds->catalog), &e->base.err);
    os_close(&e->fd); /* here: to free that memory takes a while, too */
    loop_post(e->base.node->loop, &e->base.task);
}

/* The session follows it, or has one list more. 0 or DLC_E*. */
static int follow_list(struct session *s, struct list_command *e)
{
    if (e->list == NULL)
        return e->base.err.code;
    if (e->more)
        return prefetch_append_list(s, &e->list, &e->base.err);
    /* A cursor never gets that far: positions of all lists that may come can be counted on. */
    prefetch_start(
        s, schedule_new_list(&e->list, e->epoch, e->epochs, DLC_MIN(e->begin, (uint64_t)1 << 62)),
        e->position, false);
    return 0;
}

static void list_back(struct task *t)
{
    struct list_command *e = dlc_container(t, struct list_command, base.task);
    struct conn *c = conn_by_id(e->base.node, e->base.conn);

    if (c != NULL)
        c->lists -= e->bytes;
    if (c != NULL && c->session == NULL)
        c = NULL; /* it is on its way out */
    if (c != NULL && e->more && !prefetch_reads_lists(c->session))
        conn_fail(c, DLC_EINVAL, "order: one list more needs an explicit order before it");
    else if (c != NULL && follow_list(c->session, e) < 0)
        conn_fail_err(c, &e->base.err);
    else if (c != NULL)
        conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
    schedule_list_free(&e->list);
    background_end(&e->base);
}

static void order_list(struct conn *c, struct msg *m, bool more)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t samples = catalog_count(c->session->ds->catalog), bytes;
    int64_t length = m->n_fds > 0 ? numbers_in(m->fds[0], &err) : 0; /* sealed: does not wait */
    struct list_command *e;

    bytes = schedule_list_bytes((uint64_t)DLC_MAX(length, 0), samples);
    if (length < 0 || order_length_check((uint64_t)length, samples, &err) < 0 ||
        order_budget_check(c, more, bytes, &err) < 0) {
        conn_fail_err(c, &err);
        return;
    }
    e = background_new(c, c->session->ds, sizeof(*e));
    if (e == NULL)
        return;
    c->lists += bytes;
    e->bytes = bytes;
    e->length = (uint64_t)length;
    e->more = more;
    e->position = json_u64_at(m->body, "position");
    e->epoch = json_u64_at(m->body, "epoch");
    e->epochs = json_u64_at(m->body, "epochs");
    e->begin = json_u64_at(m->body, "begin");
    e->fd = msg_take_fd(m, 0);
    background_run(&e->base, WORK_COPY, list_work, list_back);
}

/* ---- a computed order ---- */

static struct schedule *computed_order(struct session *s, const json_t *body, const char *kind,
                                       struct dlc_err *err)
{
    uint64_t samples = catalog_count(s->ds->catalog);
    struct order_spec spec = {
        .kind = strcmp(kind, "shuffled") == 0 ? ORDER_SHUFFLED : ORDER_SEQUENTIAL,
        .n = json_u64_at(body, "n"),
        .first = json_u64_at(body, "first"),
        .seed = (uint64_t)json_integer_value(json_object_get(body, "seed")),
        .rank = (uint32_t)json_u64_at(body, "rank"),
        .world = (uint32_t)json_u64_at(body, "world"),
        .drop_last = json_is_true(json_object_get(body, "drop_last")),
    };

    if (spec.first > samples || spec.n > samples - spec.first) {
        dlc_err_set(err, DLC_EINVAL, "order: samples beyond the dataset's %llu",
                    (unsigned long long)samples);
        return NULL;
    }
    return schedule_new(&spec, json_u64_at(body, "epoch"), json_u64_at(body, "epochs"), err);
}

/* ---- a computed order with swaps: the client announces it again ---- */

struct swaps_command {
    struct background_command base;
    struct schedule *computed;
    uint64_t position;
    int fd;
};

/* Set the swaps from `pos` on: in two epochs at most, so more than they have is not even read. */
static int take_swaps(struct schedule *t, int fd, uint64_t pos, struct dlc_err *err)
{
    uint64_t most = 2 * DLC_MIN(t->length, (uint64_t)SWAPS_MAX), len, *pairs;
    int64_t numbers = numbers_in(fd, err);
    int rc;

    if (numbers < 0)
        return err->code;
    len = (uint64_t)numbers;
    if (len == 0 || len % 2 != 0 || len / 2 > most)
        return dlc_err_set(err, DLC_EINVAL,
                           "order: swaps are a list of 1 to %llu pairs of numbers of 8 bytes",
                           (unsigned long long)most);
    pairs = read_numbers(fd, len, err);
    if (pairs == NULL)
        return err->code;
    schedule_move(t, pos);
    rc = schedule_set_swaps(t, (const struct swap_pair *)pairs, len / 2, err);
    mem_free(&pairs);
    return rc;
}

/* Up to 128 MB of them. Nobody else has the schedule yet. */
static void swaps_work(struct work *w)
{
    struct swaps_command *e = dlc_container(w, struct swaps_command, base.work);

    e->base.rc = take_swaps(e->computed, e->fd, e->position, &e->base.err);
    os_close(&e->fd);
    loop_post(e->base.node->loop, &e->base.task);
}

static void swaps_back(struct task *t)
{
    struct swaps_command *e = dlc_container(t, struct swaps_command, base.task);
    struct conn *c = conn_by_id(e->base.node, e->base.conn);

    if (c != NULL && c->session != NULL && e->base.rc < 0) {
        conn_fail_err(c, &e->base.err);
    } else if (c != NULL && c->session != NULL) {
        prefetch_start(c->session, e->computed, e->position, true);
        e->computed = NULL;
        conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
    }
    schedule_free(&e->computed);
    background_end(&e->base);
}

/* Takes t. */
static void order_swaps(struct conn *c, struct msg *m, struct schedule *t, uint64_t pos)
{
    struct swaps_command *e = background_new(c, c->session->ds, sizeof(*e));

    if (e == NULL) {
        schedule_free(&t);
        return;
    }
    e->computed = t;
    e->position = pos;
    e->fd = msg_take_fd(m, 0);
    background_run(&e->base, WORK_COPY, swaps_work, swaps_back);
}

static bool is_order_kind(const char *kind)
{
    return kind != NULL && (strcmp(kind, "sequential") == 0 || strcmp(kind, "shuffled") == 0 ||
                            strcmp(kind, "explicit") == 0);
}

void client_order(struct conn *c, struct msg *m)
{
    const char *kind = json_string_value(json_object_get(m->body, "kind"));
    uint64_t pos = json_u64_at(m->body, "position");
    bool swaps = json_is_true(json_object_get(m->body, "swaps"));
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule *t;

    if (json_is_true(json_object_get(m->body, "more"))) {
        if (session_reads_samples(c->session) && prefetch_reads_lists(c->session))
            order_list(c, m, true);
        else
            conn_fail(c, DLC_EINVAL, "order: one list more needs an explicit order before it");
        return;
    }
    if (!session_reads_samples(c->session) || !is_order_kind(kind)) {
        conn_fail(c, DLC_EINVAL,
                  "order: needs an open dataset and a kind: sequential, shuffled or explicit");
        return;
    }
    c->session->reader.asked = json_u64_at(m->body, "window");
    if (strcmp(kind, "explicit") == 0) {
        order_list(c, m, false);
        return;
    }
    if (m->n_fds > 0 && !swaps) {
        conn_fail(c, DLC_EINVAL, "order: a computed order without swaps takes no descriptor");
        return;
    }
    t = computed_order(c->session, m->body, kind, &err);
    if (t == NULL) {
        conn_fail_err(c, &err);
        return;
    }
    if (m->n_fds > 0) {
        order_swaps(c, m, t, pos);
        return;
    }
    prefetch_start(c->session, t, pos, swaps);
    conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
}
