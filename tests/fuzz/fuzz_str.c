// SPDX-License-Identifier: Apache-2.0
/* Text of any origin: parsers refuse or accept but never overrun; encodings come back as they were.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct buf *b, const char *data, size_t size)
{
    dlc_check(b->len == size && (size == 0 || memcmp(b->data, data, size) == 0));
}

static void fuzz_encodings(const char *data, size_t size)
{
    struct buf there = BUF_INIT, back = BUF_INIT;

    str_uri_encode(data, size, size % 2 == 0, &there);
    dlc_check(str_uri_decode(buf_str(&there), there.len, &back));
    same(&back, data, size);
    buf_clear(&there);
    buf_clear(&back);
    str_base64(data, size, &there);
    dlc_check(str_unbase64(buf_str(&there), &back));
    same(&back, data, size);
    buf_clear(&there);
    str_printable(data, size, &there);
    dlc_check(str_is_utf8(buf_str(&there), there.len));
    buf_clear(&there);
    (void)str_uri_decode(data, size, &there);
    dlc_check(there.len <= size);
    buf_release(&there);
    buf_release(&back);
}

static void fuzz_parsers(const char *data, size_t size)
{
    char *s = mem_strn(data, size), *hex = mem_alloc(size + 1), text[24];
    struct buf out = BUF_INIT;
    struct dlc_dur d;
    uint64_t u;
    double v;
    bool b;

    if (str_parse_size(s, &u)) {
        dlc_check(u <= (uint64_t)1 << 62);
        str_size(u, text);
    }
    if (str_parse_dur(s, &d)) {
        dlc_check(d.ns >= 0);
        str_dur(d, text);
    }
    (void)str_parse_u64(s, &u);
    (void)str_parse_double(s, &v);
    (void)str_parse_bool(s, &b);
    (void)str_unbase64(s, &out);
    (void)str_unhex(s, strlen(s), hex);
    dlc_check(strlen(str_trim(s)) <= size);
    buf_release(&out);
    mem_free(&hex);
    mem_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_encodings((const char *)data, size);
    fuzz_parsers((const char *)data, size);
    return 0;
}
