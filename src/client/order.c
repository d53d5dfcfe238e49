// SPDX-License-Identifier: Apache-2.0
/*
 * Reading in a known order. The order is told to the daemon once; from then on a number in shared
 * memory tells it how far we are, and it fetches ahead (src/node/prefetch.c).
 *
 * Positions are absolute: they run on from epoch 0 over the ends of epochs. In a relaxed order a
 * ready sample inside the window may be taken before a late one: `taken` has a bit for each
 * position from `pos` on, so each is still read exactly once, and an epoch ends only when all of it
 * was read.
 */
#include "client/client_i.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/os.h"

static const char *const kind_names[] = {"sequential", "shuffled", "explicit"};

/* ---- telling the daemon ---- */

static json_t *order_json(const struct reading *r, uint64_t pos)
{
    const struct order_spec *s = &r->spec;

    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I}", "op", "order",
                     "kind", kind_names[s->kind], "n", (json_int_t)s->n, "first",
                     (json_int_t)s->first, "seed", (json_int_t)s->seed, "rank", (json_int_t)s->rank,
                     "world", (json_int_t)s->world, "drop_last", (int)s->drop_last, "epoch",
                     (json_int_t)r->epoch, "epochs", (json_int_t)r->epochs, "position",
                     (json_int_t)pos);
}

/* A descriptor of the explicit list, or -1. */
static int list_fd(const struct reading *r)
{
    int fd = os_memfd("dlcache-order");

    if (fd >= 0 && os_write_all(fd, r->told->list, r->told->length * sizeof(uint64_t)) < 0)
        os_close(&fd);
    return fd;
}

int reading_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    struct reading *r = &ds->reading;
    struct msg m = MSG_INIT;
    /* relaxed: where to begin to fetch; the cursor follows */
    json_t *ask = order_json(r, atomic_load_explicit(&ds->at, memory_order_relaxed));
    int fd = -1, rc = 0;

    if (r->spec.kind == ORDER_EXPLICIT && (fd = list_fd(r)) < 0)
        rc = dlc_err_sys(err, "cannot hand over an order of %llu samples",
                         (unsigned long long)r->told->length);
    dlc_mtx_lock(&a->rpc);
    if (rc == 0)
        rc = msg_send(a->sock, ask, &fd, fd >= 0 ? 1 : 0, err);
    if (rc == 0)
        rc = msg_recv(a->sock, &m, ds->timeout, err);
    dlc_mtx_unlock(&a->rpc);
    if (rc == 0 && !json_is_true(json_object_get(m.body, "ok"))) {
        const char *text = json_string_value(json_object_get(m.body, "error"));

        rc = dlc_err_set(err, DLC_EINVAL, "%s", text != NULL ? text : "the order was refused");
    }
    json_decref(ask);
    msg_release(&m);
    os_close(&fd);
    return rc;
}

static uint32_t overtaken(const struct reading *r)
{
    uint32_t n = 0;

    for (unsigned w = 0; w < READING_WORDS; w++)
        n += (uint32_t)__builtin_popcountll(r->taken[w]);
    return n;
}

/* Write where we are to where the daemon looks. */
static void publish(struct dlc_dataset *ds)
{
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire); /* as dlc_get */
    const struct reading *r = &ds->reading;

    atomic_store_explicit(&ds->at, r->pos, memory_order_relaxed); /* as below */
    if (a == NULL)
        return;
    /* relaxed: numbers that decide how far to fetch; the daemon may see them late */
    if (r->relaxed)
        atomic_store_explicit(&a->session->overtaken, overtaken(r), memory_order_relaxed);
    atomic_store_explicit(&a->session->cursor, r->pos, memory_order_relaxed);
}

/* ---- setting it ---- */

static int spec_of(struct dlc_dataset *ds, const struct dlc_order *o, struct order_spec *spec,
                   struct dlc_err *err)
{
    uint64_t all = dlc_count(ds); /* without targets */
    uint64_t count = o->count != 0 ? o->count : all - DLC_MIN(o->first, all);

    if (o->kind > DLC_EXPLICIT)
        return dlc_err_set(err, DLC_EINVAL,
                           "order of kind %u: 0 sequential, 1 shuffled, 2 explicit", o->kind);
    if (o->first > ds->n || count > ds->n - o->first)
        return dlc_err_set(err, DLC_EINVAL, "samples %llu to %llu: the dataset has %llu",
                           (unsigned long long)o->first, (unsigned long long)(o->first + count),
                           (unsigned long long)ds->n);
    *spec = (struct order_spec){.kind = (enum order_kind)o->kind,
                                .n = count,
                                .first = o->first,
                                .seed = o->seed,
                                .rank = o->rank,
                                .world = DLC_MAX(o->world, 1u),
                                .drop_last = o->drop_last != 0};
    if (o->kind == DLC_EXPLICIT && (o->list == NULL || o->list_len == 0))
        return dlc_err_set(err, DLC_EINVAL, "an explicit order without a list: list %llu samples",
                           (unsigned long long)DLC_MAX(o->list_len, 1u));
    for (uint64_t i = 0; o->kind == DLC_EXPLICIT && i < o->list_len; i++) {
        if (o->list[i] >= ds->n)
            return dlc_err_set(err, DLC_EINVAL, "order[%llu] is sample %llu: the dataset has %llu",
                               (unsigned long long)i, (unsigned long long)o->list[i],
                               (unsigned long long)ds->n);
    }
    return 0;
}

void reading_release(struct reading *r)
{
    told_free(&r->told);
    *r = (struct reading){0};
}

/* The order as both sides keep it. NULL: *err. */
static struct told *make_told(struct dlc_dataset *ds, const struct dlc_order *o,
                              const struct reading *r, struct dlc_err *err)
{
    uint64_t *list;

    if (o->kind != DLC_EXPLICIT)
        return told_new(&r->spec, r->epoch, r->epochs, err);
    list = mem_try_alloc(o->list_len * sizeof(*list));
    if (list == NULL) {
        dlc_err_set(err, DLC_ENOMEM, "no memory for an order of %llu samples",
                    (unsigned long long)o->list_len);
        return NULL;
    }
    memcpy(list, o->list, o->list_len * sizeof(*list));
    return told_new_list(list, o->list_len, ds->n, r->epoch, err);
}

/* Another thread may be telling the one before to a daemon that it found again. Takes what r holds.
 */
static void replace(struct dlc_dataset *ds, const struct reading *r)
{
    struct reading before;

    dlc_mtx_lock(&ds->mtx);
    before = ds->reading;
    ds->reading = *r;
    atomic_store_explicit(&ds->at, r->pos, memory_order_relaxed); /* read under mtx */
    dlc_mtx_unlock(&ds->mtx);
    reading_release(&before);
}

static int set_order(struct dlc_dataset *ds, const struct dlc_order *o, uint64_t epoch,
                     uint64_t position, struct dlc_err *err)
{
    struct reading r = {.epoch = epoch, .relaxed = o->relaxed != 0};
    struct attachment *a;
    int rc = spec_of(ds, o, &r.spec, err);

    if (rc < 0)
        return rc;
    if (o->epochs != 0 && epoch >= o->epochs)
        return dlc_err_set(err, DLC_EINVAL, "epoch %llu: the order has %llu, numbered from 0",
                           (unsigned long long)epoch, (unsigned long long)o->epochs);
    r.epochs = o->epochs != 0 ? o->epochs - epoch : 0;
    r.told = make_told(ds, o, &r, err);
    if (r.told == NULL)
        return err->code;
    if (position > r.told->length) {
        rc = dlc_err_set(err, DLC_EINVAL, "position %llu: an epoch has %llu",
                         (unsigned long long)position, (unsigned long long)r.told->length);
        reading_release(&r);
        return rc;
    }
    r.pos = r.told_at = position;
    cursor_move(&r.told->cursor, r.pos);
    replace(ds, &r);
    a = dataset_attached(ds);
    if (a == NULL)
        return 0; /* told when there is a daemon again */
    rc = reading_tell(ds, a, err);
    if (rc < 0 && attachment_lost(a)) {
        dataset_lost(ds, a);
        rc = 0; /* as above */
    }
    dataset_detach(ds, a);
    return rc;
}

int dlc_follow(struct dlc_dataset *ds, const struct dlc_order *order, uint64_t epoch,
               uint64_t position)
{
    struct dlc_err err = DLC_ERR_INIT;

    return set_order(ds, order, epoch, position, &err) < 0 ? client_fail(&err) : 0;
}

/* ---- reading ---- */

static int none_set(void)
{
    return client_failf(DLC_EINVAL, "no order is set: call dlc_follow() first");
}

int64_t dlc_epoch_length(struct dlc_dataset *ds)
{
    return ds->reading.told != NULL ? (int64_t)ds->reading.told->length : none_set();
}

static bool is_taken(const struct reading *r, uint64_t k)
{
    return r->taken[k / 64] >> (k % 64) & 1;
}

/* Positions are read up to here without a gap: forget their bits. */
static void settle(struct reading *r)
{
    while (is_taken(r, 0)) {
        for (unsigned w = 0; w < READING_WORDS; w++) {
            uint64_t carry = w + 1 < READING_WORDS ? r->taken[w + 1] << 63 : 0;

            r->taken[w] = r->taken[w] >> 1 | carry;
        }
        r->pos++;
    }
    cursor_move(&r->told->cursor, r->pos);
}

/* The first position whose sample is resident, else the first that is not taken. */
static int take_relaxed(struct dlc_dataset *ds, uint64_t *k, uint64_t *sample, struct dlc_view *out)
{
    struct reading *r = &ds->reading;
    uint64_t end =
        DLC_MIN((uint64_t)READING_WORDS * 64, r->told->length - r->pos % r->told->length);
    uint64_t first = UINT64_MAX;

    for (uint64_t i = 0; i < end; i++) {
        if (is_taken(r, i))
            continue;
        *k = i;
        *sample = cursor_at(&r->told->cursor, r->pos + i);
        if (dlc_try_get(ds, *sample, out) == 0)
            return 0;
        first = first == UINT64_MAX ? i : first;
    }
    *k = first;
    *sample = cursor_at(&r->told->cursor, r->pos + first);
    return *sample >= CURSOR_LATER ? 0 : dlc_get(ds, *sample, out);
}

int dlc_next(struct dlc_dataset *ds, struct dlc_view *out, uint64_t *sample)
{
    struct reading *r = &ds->reading;
    uint64_t k = 0, s;
    int rc;

    *out = (struct dlc_view){0};
    if (r->told == NULL)
        return none_set();
    if (r->told->length == 0)
        return 0; /* fewer samples than ranks, and drop_last: every epoch is empty */
    if (r->pos % r->told->length == 0 && r->told_at != r->pos) {
        r->told_at = r->pos;
        return 0;
    }
    if (r->relaxed) {
        rc = take_relaxed(ds, &k, &s, out);
    } else {
        s = cursor_at(&r->told->cursor, r->pos);
        rc = s >= CURSOR_LATER ? 0 : dlc_get(ds, s, out);
    }
    if (s >= CURSOR_LATER)
        return 0; /* after the last epoch */
    r->taken[k / 64] |= 1ull << (k % 64);
    settle(r);
    publish(ds);
    if (sample != NULL)
        *sample = s;
    return rc < 0 ? rc : 1;
}

void dlc_tell(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position)
{
    const struct reading *r = &ds->reading;
    uint64_t length = r->told != NULL ? DLC_MAX(r->told->length, 1u) : 1;

    *epoch = r->epoch + r->pos / length;
    *position = r->pos % length;
}

int dlc_advance(struct dlc_dataset *ds, uint64_t epoch, uint64_t position)
{
    struct reading *r = &ds->reading;

    if (r->told == NULL)
        return none_set();
    if (epoch < r->epoch || epoch - r->epoch >= r->told->cursor.epochs ||
        position > r->told->length)
        return client_failf(DLC_EINVAL,
                            "position %llu of epoch %llu: the order has %llu epochs from %llu on "
                            "and an epoch has %llu samples",
                            (unsigned long long)position, (unsigned long long)epoch,
                            (unsigned long long)r->told->cursor.epochs,
                            (unsigned long long)r->epoch, (unsigned long long)r->told->length);
    memset(r->taken, 0, sizeof(r->taken));
    r->pos = r->told_at = (epoch - r->epoch) * r->told->length + position;
    cursor_move(&r->told->cursor, r->pos);
    publish(ds);
    return 0;
}
