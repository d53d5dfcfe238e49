// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/admission.h"

#include "base/check.h"

/* Bytes still to be fetched: all that are missing, or the partition that a job holds at a time. */
static uint64_t needed(const struct qos *q, uint64_t bytes, uint64_t cached)
{
    uint64_t missing = bytes > cached ? bytes - cached : 0;
    uint64_t partition = q->memory_limit > 0 ? q->memory_limit : ADMISSION_PARTITION;

    if (!q->use_cache)
        return 0;
    return q->mode == QOS_PARTITIONED ? DLC_MIN(missing, partition) : missing;
}

void admit(struct admission *a, const struct qos *q, uint64_t bytes, uint64_t cached, uint64_t free,
           uint64_t evictable, uint64_t promised)
{
    uint64_t room = free > UINT64_MAX - evictable ? UINT64_MAX : free + evictable;

    *a = (struct admission){.need = needed(q, bytes, cached),
                            .free = free,
                            .evictable = evictable,
                            .promised = promised};
    a->admitted = a->need == 0 || (room >= promised && room - promised >= a->need);
}
