// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as a credentials file of Google that a tenant sent: never credentials, because none has
 * a key that can sign, and no file of this machine is named (only a service account will do). Each is
 * refused with a reason, before anybody is asked.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "bucket/credentials/env_i.h"
#include "bucket/credentials/google_i.h"
#include "bucket/credentials/lookup_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cloud_env env = {0};
    struct lookup l = {.env = &env, .now = 1700000000, .stop_fd = -1};
    struct credentials c = {0};
    struct dlc_err err = DLC_ERR_INIT;

    dlc_check(google_json(&l, (const char *)data, size, false, &c, &err) < 0);
    dlc_check(err.text[0] != '\0' && c.bearer == NULL);
    return 0;
}
