// SPDX-License-Identifier: Apache-2.0
/* Bad samples of a loader: all are counted, the first BAD_KEPT are recorded with the reason. */
#ifndef DLC_LOADER_BAD_SAMPLES_I_H
#define DLC_LOADER_BAD_SAMPLES_I_H

#include <stdint.h>

#define BAD_KEPT 1000u

struct bad_one {
    uint64_t sample;
    char *why;
};

struct bad_list {
    struct bad_one *v;
    uint32_t n, cap;
    uint64_t seen; /* a sample that is bad in every epoch counts in every epoch */
};

void bad_add(struct bad_list *b, uint64_t sample, const char *why);
void bad_release(struct bad_list *b);

#endif
