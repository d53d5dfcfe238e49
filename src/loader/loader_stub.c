// SPDX-License-Identifier: Apache-2.0
/* Stubs of the loader's API for a library that was built without it (-Dloader=disabled). */
#include <stddef.h>

#include "client/last_error.h"
#include "dlcache/loader.h"

static int absent(void)
{
    return client_failf(DLC_EINVAL, "this library was built without the loader: build it with "
                                    "libjpeg-turbo, libpng and libsndfile");
}

int dlc_loader_open(struct dlc_dataset *ds, const struct dlc_loader_spec *spec,
                    struct dlc_loader **out)
{
    (void)ds;
    (void)spec;
    *out = NULL;
    return absent();
}

int64_t dlc_loader_bytes(const struct dlc_loader_spec *spec, uint32_t *count)
{
    (void)spec;
    (void)count;
    return absent();
}

int dlc_loader_next(struct dlc_loader *l, struct dlc_batch *out)
{
    (void)l;
    *out = (struct dlc_batch){0};
    return absent();
}

int dlc_loader_try_next(struct dlc_loader *l, struct dlc_batch *out)
{
    return dlc_loader_next(l, out);
}

void dlc_batch_put(struct dlc_batch *b)
{
    *b = (struct dlc_batch){0};
}

int dlc_loader_seek(struct dlc_loader *l, uint64_t epoch, uint64_t position)
{
    (void)l;
    (void)epoch;
    (void)position;
    return absent();
}

int dlc_loader_follow(struct dlc_loader *l, const uint64_t *list, uint64_t n, uint64_t epoch,
                      uint64_t position)
{
    (void)l;
    (void)list;
    (void)n;
    (void)epoch;
    (void)position;
    return absent();
}

int dlc_loader_follow_more(struct dlc_loader *l, const uint64_t *list, uint64_t n)
{
    (void)l;
    (void)list;
    (void)n;
    return absent();
}

void dlc_loader_tell(struct dlc_loader *l, uint64_t *epoch, uint64_t *position)
{
    (void)l;
    *epoch = *position = 0;
}

uint64_t dlc_loader_length(const struct dlc_loader *l)
{
    (void)l;
    return 0;
}

void dlc_loader_stats(struct dlc_loader *l, struct dlc_loader_stats *out)
{
    (void)l;
    *out = (struct dlc_loader_stats){0};
}

int dlc_loader_bad(struct dlc_loader *l, uint64_t k, uint64_t *sample, char *why, size_t cap)
{
    (void)l;
    (void)k;
    (void)sample;
    (void)why;
    (void)cap;
    return absent();
}

void dlc_loader_close(struct dlc_loader **l)
{
    *l = NULL;
}
