// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as the key of a Kubernetes object in the operator's queue: what is taken is the same key
 * again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "operator/kube/object_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size), *again;
    struct object_key k;

    if (object_key_parse(text, &k)) {
        again = object_key(k.kind, k.ns, k.name);
        dlc_check(strcmp(again, text) == 0);
        mem_free(&again);
    }
    mem_free(&text);
    return 0;
}
