// SPDX-License-Identifier: Apache-2.0
/* Heads of requests from strangers: refused, or texts that lie in the head and hold no surprise. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "net/request_head_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NULL, or one line of the text. */
static void check_text(const char *s, const char *text, size_t len)
{
    if (s == NULL)
        return;
    dlc_check(s >= text && s + strlen(s) < text + len);
    dlc_check(strpbrk(s, "\r\n") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *raw = (const char *)data, *why;
    size_t len = request_head_length(raw, size, 0);
    struct request_head h;
    char *text;

    if (len == 0)
        return 0;
    text = mem_strn(raw, len);
    if (request_head_parse(&h, text, len, &why) == 0) {
        dlc_check(request_head_begins(raw, len)); /* or it would have been refused before */
        dlc_check(h.method != NULL && *h.method != '\0' && h.target != NULL && *h.target != '\0');
        check_text(h.method, text, len);
        check_text(h.target, text, len);
        check_text(h.token, text, len);
        check_text(h.range, text, len);
    }
    mem_free(&text);
    return 0;
}
