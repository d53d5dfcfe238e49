// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary JSON as an AdmissionReview: the pod is always allowed. What is patched can be: every
 * path of the patch is there when its turn comes, nothing that was there is replaced, and the
 * patched pod needs no second patch.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/webhook/webhook.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Our patches only add: an element at the end of an array, or a member that is not there. */
static void add(json_t *doc, const char *path, json_t *value)
{
    char *copy = mem_str(path + 1), *rest = copy, *last = strrchr(copy, '/');
    json_t *at = doc;

    dlc_check(path[0] == '/' && last != NULL);
    *last++ = '\0';
    for (const char *word = strsep(&rest, "/"); word != NULL; word = strsep(&rest, "/"))
        at = json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10))
                               : json_object_get(at, word);
    dlc_check(json_is_array(at) || json_is_object(at));
    if (json_is_array(at)) {
        dlc_check(strcmp(last, "-") == 0);
        json_array_append(at, value);
    } else {
        const json_t *there = json_object_get(at, last);

        dlc_check(there == NULL || json_is_null(there));
        json_object_set(at, last, value);
    }
    mem_free(&copy);
}

static void apply(json_t *pod, const char *base64)
{
    struct buf b = BUF_INIT;
    json_t *ops, *op;
    size_t i;

    dlc_check(base64 != NULL && str_unbase64(base64, &b));
    ops = json_loadb(b.data, b.len, 0, NULL);
    dlc_check(json_array_size(ops) > 0);
    json_array_foreach(ops, i, op)
        add(pod, json_string_value(json_object_get(op, "path")), json_object_get(op, "value"));
    json_decref(ops);
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *review = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    enum webhook_outcome first, second;
    json_t *out = webhook_review(review, &first), *again;
    const json_t *response = json_object_get(out, "response");
    const json_t *patch = json_object_get(response, "patch");

    dlc_check(json_is_true(json_object_get(response, "allowed")));
    dlc_check((first == WEBHOOK_PATCHED) == (patch != NULL));
    if (patch != NULL) {
        apply(json_object_get(json_object_get(review, "request"), "object"),
              json_string_value(patch));
        again = webhook_review(review, &second);
        dlc_check(second == WEBHOOK_ALONE);
        json_decref(again);
    }
    json_decref(out);
    json_decref(review);
    return 0;
}
