// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a file with credentials: both keys are found, or none of it is said. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "cli/credential_input.h"
#include "cli/resource_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct keys k = KEYS_INIT;
    int rc = keys_parse((const char *)data, size, &k, &err);

    dlc_check(rc == 0 || (rc == DLC_EINVAL && err.text[0] != '\0'));
    dlc_check(rc != 0 || (k.access_key[0] != '\0' && k.secret_key[0] != '\0'));
    if (rc == 0) {
        char name[NAME_LEN + 1];

        name_of_url(k.access_key, name);
        dlc_check(name_is_ok(name));
    }
    keys_release(&k);
    return 0;
}
