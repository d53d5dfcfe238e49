// SPDX-License-Identifier: Apache-2.0
#include "base/openmetrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"

bool openmetrics_accepted(const char *accept)
{
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}

void openmetrics_begin(struct openmetrics *w, struct buf *out, bool old)
{
    *w = (struct openmetrics){.out = out, .old = old};
}

void openmetrics_end(struct openmetrics *w)
{
    if (!w->old)
        buf_adds(w->out, "# EOF\n");
}

void openmetrics_family(struct openmetrics *w, const char *name, enum openmetrics_kind kind,
                        const char *unit, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    const char *total = w->old && kind == OPENMETRICS_COUNTER ? "_total" : "";

    dlc_check(strlen(name) < sizeof(w->family) && strpbrk(help, "\\\"\n") == NULL);
    memcpy(w->family, name, strlen(name) + 1);
    w->kind = kind;
    buf_addf(w->out, "# TYPE %s%s %s\n", name, total, types[kind]);
    if (unit != NULL && !w->old) {
        dlc_check(str_ends(name, unit));
        buf_addf(w->out, "# UNIT %s %s\n", name, unit);
    }
    buf_addf(w->out, "# HELP %s%s %s\n", name, total, help);
}

/* -------- label values -------- */

/* Bytes of the character at s, of at most `left`; 0: it is not UTF-8. */
static size_t character_len(const char *s, size_t left)
{
    for (size_t n = 1; n <= 4 && n <= left; n++)
        if (str_is_utf8(s, n))
            return n;
    return 0;
}

static void add_escaped(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = character_len(s + i, len - i);
        if (n == 0)
            buf_adds(out, "\xef\xbf\xbd");
        else if (s[i] == '\n')
            buf_adds(out, "\\n");
        else if (s[i] == '"' || s[i] == '\\')
            buf_addf(out, "\\%c", s[i]);
        else
            buf_add(out, s + i, n);
        n = DLC_MAX(n, (size_t)1);
    }
}

static void add_value(struct buf *out, const char *s)
{
    size_t len = strlen(s), cut;

    if (len <= OPENMETRICS_VALUE_MAX) {
        add_escaped(out, s, len);
        return;
    }
    cut = OPENMETRICS_VALUE_MAX - 18;
    while (cut > 0 && ((unsigned char)s[cut] & 0xC0) == 0x80)
        cut--; /* not within a character */
    add_escaped(out, s, cut);
    buf_addf(out, "~%016" PRIx64, hash64(s, len));
}

static bool add_pairs(struct buf *out, va_list pairs)
{
    const char *label, *value;
    bool any = false;

    while ((label = va_arg(pairs, const char *)) != NULL) {
        value = va_arg(pairs, const char *);
        buf_addf(out, "%s%s=\"", any ? "," : "{", label);
        add_value(out, value != NULL ? value : "");
        buf_addc(out, '"');
        any = true;
    }
    return any;
}

/* -------- samples -------- */

static void add_double(struct buf *out, double v)
{
    if (isnan(v))
        buf_adds(out, " NaN\n");
    else if (isinf(v))
        buf_adds(out, v > 0 ? " +Inf\n" : " -Inf\n");
    else
        buf_addf(out, " %.15g\n", v);
}

static void add_series(struct openmetrics *w, const char *suffix, va_list pairs)
{
    buf_addf(w->out, "%s%s", w->family, suffix);
    if (add_pairs(w->out, pairs))
        buf_addc(w->out, '}');
}

static const char *suffix_of(const struct openmetrics *w)
{
    dlc_check(w->family[0] != '\0' && w->kind != OPENMETRICS_HISTOGRAM);
    return w->kind == OPENMETRICS_COUNTER ? "_total" : "";
}

void openmetrics_u64(struct openmetrics *w, uint64_t value, ...)
{
    va_list pairs;

    va_start(pairs, value);
    add_series(w, suffix_of(w), pairs);
    va_end(pairs);
    buf_addf(w->out, " %" PRIu64 "\n", value);
}

void openmetrics_double(struct openmetrics *w, double value, ...)
{
    va_list pairs;

    va_start(pairs, value);
    add_series(w, suffix_of(w), pairs);
    va_end(pairs);
    add_double(w->out, value);
}

/* Buckets are cumulative; the count is that of the last, so that one scrape fits together. */
void openmetrics_histogram(struct openmetrics *w, const char *const *bounds, size_t n,
                           const uint64_t *counts, double sum, ...)
{
    uint64_t so_far = 0;
    va_list pairs, copy;

    dlc_check(w->kind == OPENMETRICS_HISTOGRAM);
    va_start(pairs, sum);
    for (size_t i = 0; i <= n; i++) {
        so_far += counts[i];
        buf_addf(w->out, "%s_bucket", w->family);
        va_copy(copy, pairs);
        buf_addf(w->out, "%sle=\"%s\"} %" PRIu64 "\n", add_pairs(w->out, copy) ? "," : "{",
                 i < n ? bounds[i] : "+Inf", so_far);
        va_end(copy);
    }
    va_copy(copy, pairs);
    add_series(w, "_sum", copy);
    va_end(copy);
    add_double(w->out, sum);
    add_series(w, "_count", pairs);
    va_end(pairs);
    buf_addf(w->out, " %" PRIu64 "\n", so_far);
}
