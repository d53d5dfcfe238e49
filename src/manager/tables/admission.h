// SPDX-License-Identifier: Apache-2.0
/* Admission: may a job run now? Pure: returns a verdict with its numbers. */
#ifndef DLC_MANAGER_TABLES_ADMISSION_H
#define DLC_MANAGER_TABLES_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_PARTITION (UINT64_C(1) << 30) /* of a partitioned job that gives no limit */

enum qos_mode { QOS_LAZY, QOS_PARTITIONED };

struct qos {
    bool use_cache;
    enum qos_mode mode;
    uint64_t memory_limit; /* of one partition at a time; 0: the default. Of all nodes together */
    int priority;          /* larger values start first */
    uint64_t epochs;       /* 0: not said */
};

struct admission {
    uint64_t need;      /* bytes this job must have room for */
    uint64_t free;      /* on the nodes it may use */
    uint64_t evictable; /* of datasets that no job needs */
    uint64_t promised;  /* to jobs admitted earlier, not yet filled */
    bool admitted;
};

/* bytes: of the splits; cached: those of them that are cached already, not part of `evictable`. */
void admit(struct admission *a, const struct qos *q, uint64_t bytes, uint64_t cached, uint64_t free,
           uint64_t evictable, uint64_t promised);

#endif
