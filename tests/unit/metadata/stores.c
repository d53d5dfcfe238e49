// SPDX-License-Identifier: Apache-2.0
#include "metadata/stores.h"

#include "unit.h"

static unsigned serial; /* of stores made so far */

static void sqlite_url(char out[static 512])
{
    char name[64], path[256];

    snprintf(name, sizeof(name), "m%u/metadata.db", serial++);
    snprintf(out, 512, "sqlite:%s", unit_path(name, path));
}

const struct store stores[] = {
    {"sqlite", NULL, sqlite_url, NULL},
};
const size_t n_stores = unit_count(stores);
