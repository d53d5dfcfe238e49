// SPDX-License-Identifier: Apache-2.0
/*
 * Orders as clients announce them, and their substitutions: the input is a spec and then operations
 * with positions near the edges. A position has a sample of the dataset or none; what is read at a
 * position is found there by its next use; swaps that are saved load again.
 */
#include "fuzz_numbers.h"

#include "base/check.h"
#include "base/mem.h"
#include "order/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIST_MAX 64

struct run {
    struct fuzz_bytes b;
    struct order_spec spec;
    uint64_t epoch, epochs;
    struct schedule *s;
};

static struct schedule_list *take_list(struct run *r)
{
    uint64_t n = fuzz_byte(&r->b) % LIST_MAX, *list = mem_zero((n + 1) * sizeof(*list));
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule_list *l;
    bool within = true;

    for (uint64_t i = 0; i < n; i++) {
        list[i] = fuzz_take(&r->b);
        within = within && list[i] < r->spec.n;
    }
    l = schedule_list_new(list, n, r->spec.n, &err);
    dlc_check(l == NULL ? err.text[0] != '\0' : within);
    return l;
}

static struct schedule *begin(struct run *r)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint8_t kind = fuzz_byte(&r->b) % 3;
    struct schedule_list *l;

    r->spec = (struct order_spec){.kind = (enum order_kind)kind,
                                  .n = fuzz_take(&r->b),
                                  .first = kind == ORDER_EXPLICIT ? 0 : fuzz_take(&r->b),
                                  .seed = fuzz_take(&r->b),
                                  .rank = (uint32_t)fuzz_take(&r->b),
                                  .world = (uint32_t)fuzz_take(&r->b),
                                  .drop_last = fuzz_byte(&r->b) & 1};
    r->epoch = fuzz_take(&r->b);
    r->epochs = fuzz_take(&r->b);
    if (kind != ORDER_EXPLICIT)
        return schedule_new(&r->spec, r->epoch, r->epochs, &err);
    r->spec.n = 1 + r->spec.n % 1000; /* the index of a list is as large as that */
    l = take_list(r);
    return l != NULL ? schedule_new_list(&l, r->epoch, r->epochs, fuzz_take(&r->b)) : NULL;
}

/* What is said of a position. */
static void look(const struct run *r, uint64_t a)
{
    const struct cursor *c = &r->s->cursor;
    uint64_t sample = cursor_at(c, a), epoch, k;

    if (sample < CURSOR_LATER) {
        dlc_check(sample >= r->spec.first && sample - r->spec.first < r->spec.n);
        dlc_check(cursor_left(c, a) > 0);
        dlc_check(cursor_next_in_epoch(c, sample, a) == a ||
                  cursor_next_in_epoch(c, sample, a) == CURSOR_NEVER ||
                  cursor_next_in_epoch(c, sample, a) > a);
    }
    if (cursor_state(c, a, &epoch, &k) && sample < CURSOR_LATER)
        dlc_check(cursor_absolute(c, epoch, k) == a);
    (void)cursor_is_start(c, a);
    (void)cursor_oldest(c);
}

/* A client that resumes: the swaps it had are taken over into an order without any. */
static void save_and_load(const struct run *r)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct swap_pair *pairs = NULL;
    size_t n = r->spec.kind != ORDER_EXPLICIT ? schedule_swaps(r->s, &pairs) : 0;
    struct schedule *again;

    dlc_check((n == 0) == (pairs == NULL));
    if (n == 0)
        return;
    again = schedule_new(&r->spec, r->epoch, r->epochs, &err);
    dlc_check(again != NULL);
    schedule_move(again, r->s->at);
    dlc_check(schedule_set_swaps(again, pairs, n, &err) == 0);
    for (size_t i = 0; i < n; i++)
        dlc_check(cursor_at(&again->cursor, pairs[i].position) ==
                  cursor_at(&r->s->cursor, pairs[i].position));
    schedule_free(&again);
    mem_free(&pairs);
}

/* Pairs as a client sends them with a new order. */
static void load(struct run *r)
{
    struct run other = {.spec = r->spec};
    struct dlc_err err = DLC_ERR_INIT;
    struct swap_pair pairs[8];
    size_t n = fuzz_byte(&r->b) % 8;

    for (size_t i = 0; i < n; i++)
        pairs[i] = (struct swap_pair){fuzz_take(&r->b), fuzz_take(&r->b)};
    if (r->spec.kind == ORDER_EXPLICIT)
        return;
    other.s = schedule_new(&r->spec, r->epoch, r->epochs, &err);
    dlc_check(other.s != NULL);
    schedule_move(other.s, r->s->at);
    if (schedule_set_swaps(other.s, pairs, n, &err) < 0)
        dlc_check(err.text[0] != '\0');
    for (size_t i = 0; i < n; i++)
        look(&other, pairs[i].position);
    schedule_free(&other.s);
}

static void step(struct run *r)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint8_t op = fuzz_byte(&r->b) % 7;
    uint64_t a = fuzz_take(&r->b);
    struct schedule_list *l;

    switch (op) {
    case 0: schedule_move(r->s, a); break;
    case 1: look(r, a); break;
    case 2: (void)cursor_next_use(&r->s->cursor, a, fuzz_take(&r->b)); break;
    case 3:
        if (r->spec.kind != ORDER_EXPLICIT)
            schedule_swap(r->s, a, fuzz_take(&r->b));
        break;
    case 4:
        l = r->spec.kind == ORDER_EXPLICIT ? take_list(r) : NULL;
        if (l != NULL && schedule_give(r->s, &l, &err) < 0)
            schedule_list_free(&l);
        break;
    case 5: schedule_drop(r->s); break;
    default: save_and_load(r); load(r);
    }
    look(r, a);
    look(r, r->s->at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r = {.b = {data, size}};

    r.s = begin(&r);
    for (int i = 0; r.s != NULL && r.b.left > 0 && i < 200; i++)
        step(&r);
    if (r.s != NULL)
        schedule_free(&r.s);
    return 0;
}
