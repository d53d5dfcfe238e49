// SPDX-License-Identifier: Apache-2.0
/*
 * A .list file: its first line is the URL of the listing, the rest its lines. What is taken has a
 * key and a short ETag; the URL of a key has no character that ends a line of a request; messages
 * show neither passwords nor queries.
 */
#include "fuzz_numbers.h"

#include "base/check.h"
#include "base/mem.h"
#include "bucket/bucket.h"
#include "bucket/origins/http_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_url(const char *base, const char *key)
{
    struct buf url = BUF_INIT, shown = BUF_INIT;

    web_resolve(base, key, &url);
    for (size_t i = 0; i < url.len; i++)
        dlc_check((unsigned char)url.data[i] > ' ' && url.data[i] != 0x7f);
    web_show(buf_str(&url), &shown);
    dlc_check(strchr(buf_str(&shown), '?') == NULL);
    (void)web_is_list(buf_str(&url));
    buf_release(&url);
    buf_release(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf text = BUF_INIT;
    struct web_line *lines = NULL;
    char *whole, *rest, *base;
    size_t n = 0;

    fuzz_expand(data, size, &text);
    rest = whole = mem_strn(buf_str(&text), strlen(buf_str(&text)));
    base = mem_fmt("https://host/%.*s", (int)strcspn(whole, "\n"), whole);
    for (char *p = base; *p != '\0'; p++) /* it was parsed as a URL before */
        *p = *p > ' ' && *p < 0x7f ? *p : '_';
    rest += strcspn(rest, "\n");
    if (web_list_parse(rest, &lines, &n, &err) < 0)
        dlc_check(err.text[0] != '\0' && lines == NULL);
    for (size_t i = 0; i < n; i++) {
        dlc_check(lines[i].key[0] != '\0' && strlen(lines[i].etag) < ETAG_MAX);
        dlc_check(strpbrk(lines[i].key, "\n\t") == NULL);
        check_url(base, lines[i].key);
    }
    mem_free(&lines);
    mem_free(&base);
    mem_free(&whole);
    buf_release(&text);
    return 0;
}
