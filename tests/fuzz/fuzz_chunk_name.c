// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as the name of a file in the disk tier: what is taken is written the same way again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "cache/disk/chunk_name_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size), again[NAME_MAX_LEN];
    struct chunk_name n;

    if (chunk_name_parse(text, &n)) {
        chunk_name_format(&n, again);
        dlc_check(strcmp(again, text) == 0 && shard_of(n.id) < DISK_SHARDS);
    }
    mem_free(&text);
    return 0;
}
