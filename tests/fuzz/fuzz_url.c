// SPDX-License-Identifier: Apache-2.0
/* Arbitrary text as a URL: an error with a text, or a canonical form that parses to itself. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT, again = URL_INIT;
    char *text = mem_strn((const char *)data, size);
    int rc = url_parse(&u, text, &err);

    if (rc < 0) {
        dlc_check(rc == DLC_EINVAL && err.code == rc && err.text[0] != '\0');
        dlc_check(u.bucket == NULL && u.prefix == NULL && u.text == NULL);
    } else {
        dlc_check(u.bucket != NULL && u.prefix != NULL);
        dlc_check(u.shape.errors >= 0 && u.shape.errors <= 1 && u.shape.latency.ns >= 0);
        dlc_check(url_parse(&again, u.text, &err) == 0);
        dlc_check(strcmp(again.text, u.text) == 0 && strcmp(again.prefix, u.prefix) == 0);
        dlc_check(strcmp(again.bucket, u.bucket) == 0 && !again.shape.active);
        url_release(&again);
    }
    url_release(&u);
    mem_free(&text);
    return 0;
}
