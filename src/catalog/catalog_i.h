// SPDX-License-Identifier: Apache-2.0
/* An open catalog: catalog.c opens it and reads objects, read_samples.c reads the rest. */
#ifndef DLC_CATALOG_CATALOG_I_H
#define DLC_CATALOG_CATALOG_I_H

#include "base/check.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

#define CATALOG_TAG DLC_TAG4('c', 't', 'l', 'g')

struct blocks { /* two sections: blocks and their table */
    struct catalog_section data, table;
    uint64_t n_records, block_max;
};

struct catalog {
    uint32_t tag;
    int fd;
    const unsigned char *map;
    struct catalog_header h; /* copied: what was checked is what is used */
    struct blocks objects, samples, texts;
    struct catalog_section names, inlined, derived, labels, targets, small; /* id 0: absent */
    char *url;
    struct catalog_split *splits;
    unsigned n_splits;
    char (*columns)[CATALOG_NAME_MAX];
    unsigned n_columns;
};

static inline const struct catalog *catalog_of(const struct catalog *c)
{
    dlc_check(c != NULL && c->tag == CATALOG_TAG);
    return c;
}

int catalog_corrupt(struct dlc_err *err, const char *what);

/* Does the table have a row for each block of n records? */
bool catalog_blocks_fit(struct blocks *b, uint64_t n_records, uint64_t block_max);
/* A cursor over the verified bytes of block k. */
bool catalog_open_block(const struct catalog *c, const struct blocks *b, uint64_t k,
                        struct catalog_cursor *cur);

/* read_samples.c: the sections beyond objects and URL. They have been found to lie in the file. */
int catalog_load_samples(struct catalog *c, struct dlc_err *err);
int catalog_find_sample(const struct catalog *c, const char *name, uint64_t *i);
int catalog_get_sample(const struct catalog *c, uint64_t i, struct catalog_entry *out,
                       struct dlc_err *err);

#endif
