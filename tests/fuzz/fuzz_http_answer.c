// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of an answer's head, as a bucket or a peer sends them, to a request for a range: the first
 * bytes are the request. Texts stay within their fields; an answer that is taken for the right one
 * begins where it was asked to, and is as long.
 */
#include "fuzz_numbers.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/async_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define check_text(field) dlc_check(memchr(field, '\0', sizeof(field)) != NULL)

static void check_answer(const struct engine_answer *a)
{
    dlc_check(a->status == 0 || (a->status >= 100 && a->status < 1000));
    check_text(a->date);
    check_text(a->etag);
    check_text(a->region);
    check_text(a->type);
    check_text(a->from);
    for (int i = 0; i < ENGINE_SUMS; i++)
        check_text(a->sums[i]);
    dlc_check(strchr(a->etag, '\n') == NULL && strchr(a->type, ';') == NULL);
}

/* Each line from memory of its own, so that a step beyond it is seen. */
static void take_lines(struct engine_answer *a, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end + 1 - text) : len;
        char *line = mem_alloc(n);

        memcpy(line, text, n);
        engine_answer_line(a, line, n);
        mem_free(&line);
        text += n;
        len -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    uint8_t how = fuzz_byte(&b);
    struct engine_request *r = mem_new(struct engine_request);
    struct buf text = BUF_INIT;

    r->ranged = how & 1;
    r->offset = fuzz_take(&b);
    r->dst_len = fuzz_take(&b);
    r->got = how & 2 ? r->dst_len : fuzz_take(&b);
    r->dst = how & 4 ? NULL : &how; /* engine_judge() only looks whether there is one */
    fuzz_expand(b.p, b.left, &text);
    engine_answer_clear(&r->answer);
    take_lines(&r->answer, buf_str(&text), text.len);
    check_answer(&r->answer);
    if (engine_expected(r)) {
        dlc_check(!r->ranged || (r->answer.status == 206 && r->answer.first == r->offset));
        dlc_check(r->answer.length == ENGINE_UNKNOWN || r->answer.length == r->dst_len);
    }
    r->unexpected = how & 8;
    engine_judge(r, how & 16 ? CURLE_PARTIAL_FILE : CURLE_OK);
    dlc_check(r->rc <= 0 && (r->rc == 0 || r->why[0] != '\0'));
    check_text(r->why);
    buf_release(&text);
    buf_release(&r->body);
    mem_free(&r);
    return 0;
}
