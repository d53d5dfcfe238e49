// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a profile file: what is found has a section, and malformed ones leave none. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "bucket/credentials/ini_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct ini i;
    int rc = ini_parse(&i, "file", (const char *)data, size, &err);

    dlc_check(rc == 0 || (rc == DLC_EINVAL && i.n == 0 && err.text[0] != '\0'));
    for (size_t n = 0; n < i.n; n++) {
        const struct ini_entry *e = &i.entries[n];
        const char *v = ini_get(&i, e->section, e->name, e->nested);

        dlc_check(ini_has_section(&i, e->section));
        dlc_check(v == NULL || v[0] != '\0');
        dlc_check(strlen(e->value) <= strlen(e->raw));
        ini_get_raw(&i, e->section, e->name);
    }
    ini_release(&i);
    return 0;
}
