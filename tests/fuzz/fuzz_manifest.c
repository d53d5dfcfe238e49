// SPDX-License-Identifier: Apache-2.0
/*
 * Reads arbitrary bytes as a manifest and makes samples of them. The first byte chooses CSV, tabs
 * or JSON lines.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *bytes;
static size_t n_bytes;

static int open_it(struct layout *l, uint64_t j, struct source *out, struct dlc_err *err)
{
    struct catalog_object o;

    (void)err;
    catalog_builder_object(l->builder, j, &o);
    *out = source_of_memory(bytes, n_bytes, o.key);
    return 0;
}

static void close_it(struct layout *l, struct source *s)
{
    (void)l, (void)s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"m.csv", "m.tsv", "m.jsonl"};
    static const char *const keys[] = {"a", "b", "c.jpg", "d/e.jpg"};
    struct layout l = {.kind = LAYOUT_MANIFEST, .root = "", .open = open_it, .close = close_it};
    struct dlc_err err = DLC_ERR_INIT;
    char name[16];
    int rc;

    if (size < 1)
        return 0;
    bytes = data + 1;
    n_bytes = size - 1;
    snprintf(name, sizeof(name), "%s", names[data[0] % DLC_COUNT(names)]);
    l.select = &(struct layout_select){SELECT_MANIFEST, "", name, name, false};
    l.n_select = 1;
    l.builder = catalog_builder_new();
    for (unsigned i = 0; i < DLC_COUNT(keys); i++)
        catalog_builder_add(l.builder, keys[i], strlen(keys[i]), 1, "", NULL);
    catalog_builder_add(l.builder, name, strlen(name), n_bytes, "", NULL);
    rc = layout_apply(&l, &err);
    dlc_check(rc == 0 || (rc == DLC_EINVAL && err.text[0] != '\0'));
    dlc_check(catalog_builder_samples(l.builder) <= DLC_COUNT(keys));
    catalog_builder_free(&l.builder);
    return 0;
}
