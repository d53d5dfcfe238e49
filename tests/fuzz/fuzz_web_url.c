// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as the URL of a metadata or token service: every part is there, or none and a reason. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/credentials/http_call_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size);
    struct dlc_err err = DLC_ERR_INIT;
    struct web_url u = WEB_URL_INIT;

    if (web_url_parse(&u, text, &err) == 0) {
        dlc_check(strcmp(u.scheme, "http") == 0 || strcmp(u.scheme, "https") == 0);
        dlc_check(u.host[0] != '\0' && strpbrk(u.host, "[]/@\r\n") == NULL);
        dlc_check(u.authority[0] != '\0' && strpbrk(u.authority, "/@\r\n") == NULL);
        dlc_check(u.path[0] == '/' && strpbrk(u.path, "\r\n") == NULL);
        web_host_is_near(u.host);
    } else {
        dlc_check(err.text[0] != '\0');
    }
    web_url_release(&u);
    mem_free(&text);
    return 0;
}
