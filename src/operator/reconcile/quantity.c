// SPDX-License-Identifier: Apache-2.0
/* Quantities, durations and times as users write them, and names generated from them. */
#include "operator/reconcile/spec.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/short_name.h"
#include "base/str.h"

/* Digits with at most one point; gives what follows. No sign, no hexadecimal, no "inf". */
static bool decimal(const char *s, double *v, const char **rest)
{
    size_t n = strspn(s, "0123456789."), digits = strspn(s, "0123456789");
    char copy[40];

    if (n == 0 || n >= sizeof(copy) || strcspn(s, "0123456789") >= n ||
        (digits < n && memchr(s + digits + 1, '.', n - digits - 1) != NULL))
        return false;
    memcpy(copy, s, n);
    copy[n] = '\0';
    *v = strtod(copy, NULL);
    *rest = s + n;
    return true;
}

/* "1e3", not "1E" (exa). */
static bool exponent(const char *s, double *factor)
{
    char *end;
    long e;

    if ((s[0] != 'e' && s[0] != 'E') || s[1] == '\0')
        return false;
    e = strtol(s + 1, &end, 10);
    if (*end != '\0' || isspace((unsigned char)s[1]) || e < -30 || e > 30)
        return false;
    *factor = pow(10, (double)e);
    return true;
}

bool spec_quantity(const json_t *v, uint64_t *bytes)
{
    static const struct {
        const char *suffix;
        double factor;
    } suffixes[] = {{"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},
                    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},
                    {"P", 1e15},    {"E", 1e18},    {"Ki", 0x1p10}, {"Mi", 0x1p20},
                    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
    const char *s = json_string_value(v), *rest;
    double x, factor = 0;

    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        *bytes = (uint64_t)json_integer_value(v);
        return true;
    }
    if (s == NULL || !decimal(s + (s[0] == '+'), &x, &rest))
        return false;
    for (size_t i = 0; i < DLC_COUNT(suffixes); i++)
        if (strcmp(rest, suffixes[i].suffix) == 0)
            factor = suffixes[i].factor;
    if (factor <= 0 && !exponent(rest, &factor))
        return false;
    x = ceil(x * factor);
    if (x > 0x1p53) /* what the control plane can say */
        return false;
    *bytes = (uint64_t)x;
    return true;
}

bool spec_duration(const char *s, int64_t *seconds)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"ms", 1e-3}, {"h", 3600}, {"m", 60}, {"s", 1}};
    double sum = 0;

    if (strcmp(s, "forever") == 0 || strcmp(s, "0") == 0) {
        *seconds = s[0] == 'f' ? SPEC_FOREVER : 0;
        return true;
    }
    if (s[0] == '\0')
        return false;
    while (s[0] != '\0') {
        const char *rest;
        double x;
        size_t i = 0;

        if (!decimal(s, &x, &rest))
            return false;
        while (i < DLC_COUNT(units) && !str_starts(rest, units[i].unit))
            i++;
        if (i == DLC_COUNT(units))
            return false;
        sum += x * units[i].factor;
        s = rest + strlen(units[i].unit);
    }
    *seconds = sum < 0x1p62 ? (int64_t)(sum + 1e-9) : SPEC_FOREVER;
    return true;
}

bool spec_time_parse(const char *s, int64_t *unix_s)
{
    struct tm tm = {0};
    int n = 0, hours = 0, minutes = 0;
    char sign = 'Z';

    if (s == NULL || sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                            &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 6)
        return false;
    s += n;
    if (s[0] == '.')
        s += 1 + strspn(s + 1, "0123456789");
    if (strcmp(s, "Z") != 0 && (sscanf(s, "%c%2d:%2d%n", &sign, &hours, &minutes, &n) != 3 ||
                                s[n] != '\0' || (sign != '+' && sign != '-')))
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *unix_s = (int64_t)timegm(&tm) + (sign == '-' ? 60 : -60) * (hours * 60 + minutes);
    return true;
}

const char *spec_time(int64_t unix_s, char out[static SPEC_TIME_LEN])
{
    time_t t = (time_t)unix_s;
    struct tm tm;

    dlc_check(gmtime_r(&t, &tm) != NULL);
    dlc_check(strftime(out, SPEC_TIME_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
    return out;
}

/* ---- names ---- */

const char *spec_join(const char *a, char sep, const char *b, char out[static SPEC_NAME_LEN])
{
    char *whole = mem_fmt("%s%c%s", a, sep, b);

    short_name(whole, SPEC_NAME_MAX, '-', out);
    mem_free(&whole);
    return out;
}

const char *spec_dataset(const char *ns, const char *name, char out[static SPEC_NAME_LEN])
{
    char space[SPEC_NAME_LEN];

    if (strlen(ns) + 1 + strlen(name) <= SPEC_NAME_MAX)
        return spec_join(ns, '.', name, out);
    /* No namespace has the '_' of a short one. */
    return spec_join(short_tenant(ns, space), '.', name, out);
}

const char *spec_data_name(const char *dltpod, const struct spec_job *j,
                           char out[static SPEC_NAME_LEN])
{
    if (j->data.name == NULL)
        return spec_join(dltpod, '-', j->name, out);
    snprintf(out, SPEC_NAME_LEN, "%s", j->data.name);
    return out;
}

const char *spec_service(const char *dltpod, const char *job, char out[static SPEC_NAME_LEN])
{
    return spec_join(dltpod, '-', job, out);
}

const char *spec_pod(const char *dltpod, const char *job, int rank, char out[static SPEC_NAME_LEN])
{
    char *tail = mem_fmt("%s-%d", job, rank);

    spec_join(dltpod, '-', tail, out);
    mem_free(&tail);
    return out;
}

/* ---- where the data is ---- */

/* One option of the URL for each prefix: bucket/url_parts.h. */
static void add_parts(struct buf *b, const char *kind, const char *split, const json_t *list)
{
    const char *web = str_starts(buf_str(b), "http") ? "dlcache-" : "";
    size_t n = json_is_array(list) ? json_array_size(list) : list != NULL;

    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(list) ? json_array_get(list, i) : list;

        buf_addc(b, strchr(buf_str(b), '?') != NULL ? '&' : '?');
        buf_addf(b, "%s%s-%s=%s", web, kind, split, json_string_value(one));
    }
}

char *spec_url(const struct spec_data *d)
{
    bool bare = strstr(d->bucket, "://") == NULL;
    struct buf b = BUF_INIT;

    buf_addf(&b, "%s%s", bare ? "s3://" : "", d->bucket);
    if (bare ||
        (d->keys_json != NULL && strchr(d->bucket, '?') == NULL && !str_ends(d->bucket, "/")))
        buf_addc(&b, '/');
    for (unsigned i = 0; i < SPEC_SPLITS; i++) {
        add_parts(&b, "samples", spec_splits[i], d->keys[i].samples);
        add_parts(&b, "targets", spec_splits[i], d->keys[i].targets);
        add_parts(&b, "manifest", spec_splits[i], d->keys[i].manifests);
    }
    return buf_take(&b);
}

unsigned spec_url_splits(const struct spec_data *d)
{
    unsigned found = 0;

    for (unsigned i = 0; i < SPEC_SPLITS; i++)
        found |= d->has_keys[i] ? 1u << i : 0;
    return found;
}
