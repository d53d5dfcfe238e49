// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a configuration file. What is accepted must be accepted again from its values.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c = CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    rc = config_load(&c, "/dev/null", &err);
    dlc_check(rc == 0);
    rc = config_parse(&c, "input", (const char *)data, size, &err);
    dlc_check(rc == 0 || (rc == DLC_EINVAL && err.text[0] != '\0'));
    dlc_check(c.lanes <= 64 && c.max_requests >= 1 && c.deadline.ns > 0); /* the rules hold */
    config_release(&c);
    return 0;
}
