// SPDX-License-Identifier: Apache-2.0
/* Request targets of any origin: refused, or decoded into what a handler may use as a name. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/router_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_segment(const char *s)
{
    dlc_check(str_is_utf8(s, strlen(s)));
    dlc_check(strcmp(s, ".") != 0 && strcmp(s, "..") != 0);
    for (; *s != '\0'; s++)
        dlc_check(*s != '/' && (unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void check_target(const struct target *t)
{
    static const char *const patterns[] = {"/v1/datasets/{name}", "/{a}/{b}/{c}/{d}", "/{a}", "/",
                                           "/v1/peer/{d}/{s}/samples/{i}"};
    const char *params[HTTP_PARAMS];

    dlc_check(t->n_segments >= 1 && t->n_segments <= TARGET_SEGMENTS);
    for (size_t i = 0; i < t->n_segments; i++)
        check_segment(t->segments[i]);
    for (size_t i = 0; i < t->n_pairs; i++) {
        dlc_check(str_is_utf8(t->pairs[i].value, strlen(t->pairs[i].value)));
        dlc_check(target_query(t, t->pairs[i].name) == t->pairs[i].value); /* T2 */
    }
    for (size_t i = 0; i < DLC_COUNT(patterns); i++) {
        if (!target_fits(t, patterns[i], params))
            continue;
        for (size_t j = 0; j < HTTP_PARAMS && params[j] != NULL; j++)
            dlc_check(*params[j] != '\0');
    }
}

/* What was decoded and is encoded again says the same. */
static void check_round_trip(const struct target *t)
{
    struct buf b = BUF_INIT;
    struct target again;

    for (size_t i = 0; i < t->n_segments; i++) {
        buf_addc(&b, '/');
        str_uri_encode(t->segments[i], strlen(t->segments[i]), false, &b);
    }
    dlc_check(target_parse(&again, buf_str(&b)) == NULL);
    dlc_check(again.n_segments == t->n_segments);
    for (size_t i = 0; i < t->n_segments; i++)
        dlc_check(strcmp(again.segments[i], t->segments[i]) == 0);
    target_release(&again);
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *uri = mem_strn((const char *)data, size);
    struct target t;

    if (target_parse(&t, uri) == NULL) {
        check_target(&t);
        check_round_trip(&t);
    }
    target_release(&t);
    mem_free(&uri);
    return 0;
}
