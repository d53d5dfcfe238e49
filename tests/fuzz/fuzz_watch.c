// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as lines of a watch, into a cache: it stays whole. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "operator/kube/kube_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply(struct objects *o, struct watch_event *e)
{
    if (e->type == WATCH_DELETED)
        objects_gone(o, KUBE_POD, &e->object);
    else if (e->type == WATCH_BOOKMARK)
        objects_upto(o, KUBE_POD, kube_version(e->object));
    else if (e->type != WATCH_ERROR)
        objects_seen(o, KUBE_POD, &e->object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct objects *o = objects_new(NULL);
    const char *at = (const char *)data, *end = at + size;
    json_t *all, *one;
    size_t i;

    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((eol != NULL ? eol : end) - at);
        struct dlc_err err = DLC_ERR_INIT;
        struct watch_event e;

        if (watch_event_parse(at, len, &e, &err) == 0)
            apply(o, &e);
        watch_event_release(&e);
        at += len + 1;
    }
    all = objects_all(o, KUBE_POD, NULL);
    dlc_check(json_array_size(all) == objects_count(o, KUBE_POD));
    json_array_foreach(all, i, one) dlc_check(*kube_name(one) != '\0');
    objects_put(o, &all);
    objects_free(&o);
    return 0;
}
