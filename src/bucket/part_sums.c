// SPDX-License-Identifier: Apache-2.0
#include "bucket/part_sums_i.h"

#include "base/check.h"
#include "base/mem.h"

struct part_sum {
    uint64_t sum;
    bool came, summed;
};

static uint64_t n_parts(const struct part_sums *s)
{
    return (s->length + s->part - 1) / s->part;
}

static uint64_t length_of(const struct part_sums *s, uint64_t i)
{
    return DLC_MIN(s->part, s->length - i * s->part);
}

void part_sums_init(struct part_sums *s, const void *data, uint64_t length, uint64_t part)
{
    *s = (struct part_sums){.data = data, .length = length, .part = part};
    s->parts = mem_zero(n_parts(s) * sizeof(*s->parts));
}

void part_sums_release(struct part_sums *s)
{
    mem_free(&s->parts);
    s->data = NULL;
}

static void sum_part(struct part_sums *s, uint64_t i)
{
    s->parts[i].sum = checksum_add(s->want.kind, 0, s->data + i * s->part, length_of(s, i));
    s->parts[i].summed = true;
}

void part_sums_want(struct part_sums *s, const struct object_checksum *want)
{
    s->want = *want;
    for (uint64_t i = 0; want->kind != CHECKSUM_NONE && i < n_parts(s); i++)
        if (s->parts[i].came)
            sum_part(s, i);
}

void part_sums_came(struct part_sums *s, uint64_t offset)
{
    uint64_t i;

    if (s->data == NULL)
        return;
    i = offset / s->part;
    dlc_check(offset % s->part == 0 && i < n_parts(s));
    s->parts[i].came = true;
    if (s->want.kind != CHECKSUM_NONE)
        sum_part(s, i);
}

bool part_sums_right(const struct part_sums *s)
{
    uint64_t sum = 0;

    if (s->want.kind == CHECKSUM_NONE)
        return true;
    for (uint64_t i = 0; i < n_parts(s); i++) {
        dlc_check(s->parts[i].summed);
        sum = checksum_combine(s->want.kind, sum, s->parts[i].sum, length_of(s, i));
    }
    return sum == s->want.value;
}
