// SPDX-License-Identifier: Apache-2.0
/*
 * Read outcomes: for each sample that a cursor passes, was it reused (in memory since an earlier
 * use), prefetched, or late (its reader had to wait)? Counted by epoch and by dataset; readers
 * without an announced order are not counted here.
 *
 * Two bits per sample: USED, a cursor has passed it since it became resident; LATE, a reader asked
 * for it and had to wait, and its cursor has not passed it yet.
 *
 *     resident: USED is cleared     asked for: LATE is set     passed: counted, USED set, LATE not
 */
#include "daemon/prefetch/read_outcomes.h"

#include <string.h>

#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/prefetch/reader_state.h"
#include "daemon/session.h"
#include "catalog/catalog.h"
#include "order/cursor.h"
#include "order/schedule.h"

#define USED 1u
#define LATE 2u

static uint8_t *byte_of(const struct dataset *ds, uint64_t sample)
{
    return ds->outcomes.bits != NULL && sample < catalog_count(ds->catalog)
               ? &ds->outcomes.bits[sample / 4]
               : NULL;
}

static unsigned shift_of(uint64_t sample)
{
    return (unsigned)(sample % 4) * 2;
}

static void outcomes_sample_resident(struct dataset *ds, uint64_t sample, bool bypass)
{
    uint8_t *b = byte_of(ds, sample);

    (void)bypass;
    if (b != NULL)
        *b &= (uint8_t) ~(USED << shift_of(sample));
}

void outcomes_mark_late(struct session *s, uint64_t sample)
{
    uint8_t *b = byte_of(s->ds, sample);

    if (b != NULL && reader_state_of(s) != NULL)
        *b |= (uint8_t)(LATE << shift_of(sample));
}

/* ---- epochs ---- */

static uint64_t outcomes_total(const struct outcomes_sum *sum)
{
    return sum->reuse + sum->ahead + sum->waited;
}

static struct outcomes_epoch *add_epoch(struct session *s, uint64_t epoch)
{
    memmove(&s->reads[1], &s->reads[0], sizeof(s->reads) - sizeof(s->reads[0]));
    s->n_reads = DLC_MIN(s->n_reads + 1, OUTCOMES_EPOCHS);
    s->reads[0] = (struct outcomes_epoch){.epoch = epoch};
    return &s->reads[0];
}

void outcomes_begin(struct session *s)
{
    if (s->ds->outcomes.bits == NULL)
        s->ds->outcomes.bits = mem_zero(catalog_count(s->ds->catalog) / 4 + 1);
    if (s->n_reads == 0 || outcomes_total(&s->reads[0].sum) > 0)
        add_epoch(s, 0);
}

static struct outcomes_epoch *epoch_of(struct session *s, uint64_t a)
{
    struct outcomes_epoch *e = &s->reads[0];
    uint64_t epoch = 0, k;

    cursor_state(&s->reader.schedule->cursor, a, &epoch, &k);
    if (outcomes_total(&e->sum) == 0)
        e->epoch = epoch;
    return e->epoch == epoch ? e : add_epoch(s, epoch);
}

static void outcomes_add(struct outcomes_sum *sum, unsigned bits)
{
    if (bits & LATE)
        sum->waited++;
    else if (bits & USED)
        sum->reuse++;
    else
        sum->ahead++;
}

static void outcomes_count(struct session *s, uint64_t a, uint64_t sample)
{
    uint8_t *b = byte_of(s->ds, sample);
    unsigned bits;

    if (b == NULL)
        return;
    bits = *b >> shift_of(sample) & (USED | LATE);
    *b = (uint8_t)((*b | USED << shift_of(sample)) & ~(LATE << shift_of(sample)));
    outcomes_add(&epoch_of(s, a)->sum, bits);
    outcomes_add(&s->ds->outcomes.reads, bits);
}

/* ---- in words ---- */

json_t *outcomes_json(const struct outcomes_sum *sum)
{
    return json_pack("{s:I, s:I, s:I}", "reuse", (json_int_t)sum->reuse, "prefetch",
                     (json_int_t)sum->ahead, "waited", (json_int_t)sum->waited);
}

json_t *outcomes_epochs(const struct session *s)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < s->n_reads; i++) {
        const struct outcomes_epoch *e = &s->reads[i];
        json_t *o = outcomes_total(&e->sum) > 0 ? outcomes_json(&e->sum) : NULL;

        if (o != NULL) {
            json_object_set_new(o, "epoch", json_integer((json_int_t)e->epoch));
            json_array_append_new(list, o);
        }
    }
    return list;
}

static void outcomes_free(struct dataset *ds)
{
    mem_free(&ds->outcomes.bits);
}

const struct node_events outcomes_events = {
    .dataset_freed = outcomes_free,
    .sample_resident = outcomes_sample_resident,
    .sample_passed = outcomes_count,
};
