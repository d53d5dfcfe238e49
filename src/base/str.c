// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit size_units[] = {
    {"", 1},        {"b", 1},        {"k", 1e3},      {"kb", 1e3},    {"m", 1e6},
    {"mb", 1e6},    {"g", 1e9},      {"gb", 1e9},     {"t", 1e12},    {"tb", 1e12},
    {"kib", 1024},  {"ki", 1024},    {"mib", 0x1p20}, {"mi", 0x1p20}, {"gib", 0x1p30},
    {"gi", 0x1p30}, {"tib", 0x1p40}, {"ti", 0x1p40},  {NULL, 0},
};

static const struct unit dur_units[] = {
    {"", 1},   {"s", 1},    {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
    {"m", 60}, {"min", 60}, {"h", 3600},  {"d", 86400}, {NULL, 0},
};

static bool parse_with_unit(const char *s, const struct unit *units, double limit, double *out)
{
    char *end;
    double v;

    if ((!isdigit((unsigned char)s[0]) && s[0] != '.') || strncasecmp(s, "0x", 2) == 0)
        return false;
    errno = 0;
    v = strtod(s, &end);
    if (errno != 0 || end == s || !isfinite(v))
        return false;
    while (*end == ' ')
        end++;
    for (const struct unit *u = units; u->name != NULL; u++) {
        if (strcasecmp(end, u->name) == 0) {
            *out = v * u->factor;
            return *out <= limit;
        }
    }
    return false;
}

bool str_parse_size(const char *s, uint64_t *bytes)
{
    double v;

    if (!parse_with_unit(s, size_units, 0x1p62, &v))
        return false;
    *bytes = (uint64_t)v;
    return true;
}

bool str_parse_dur(const char *s, struct dlc_dur *d)
{
    double v;

    if (!parse_with_unit(s, dur_units, 1e9, &v))
        return false;
    *d = dlc_dur_of_seconds(v);
    return true;
}

bool str_parse_u64(const char *s, uint64_t *v)
{
    char *end;

    if (!isdigit((unsigned char)s[0]))
        return false;
    errno = 0;
    *v = strtoull(s, &end, 10);
    return errno == 0 && *end == '\0';
}

bool str_parse_double(const char *s, double *v)
{
    char *end;

    errno = 0;
    *v = strtod(s, &end);
    return errno == 0 && end != s && *end == '\0' && isfinite(*v);
}

bool str_parse_bool(const char *s, bool *v)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};

    for (int i = 0; i < 4; i++) {
        *v = strcasecmp(s, yes[i]) == 0;
        if (*v || strcasecmp(s, no[i]) == 0)
            return true;
    }
    return false;
}

const char *str_size(uint64_t bytes, char out[static 24])
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double v = (double)bytes;
    int u = 0;

    while (v >= 999.5 && u < 5) {
        v /= 1000;
        u++;
    }
    snprintf(out, 24, u == 0 ? "%.0f %s" : "%.1f %s", v, names[u]);
    return out;
}

const char *str_dur(struct dlc_dur d, char out[static 24])
{
    double s = dlc_dur_seconds(d);
    unsigned whole = (unsigned)lround(s);

    /* Each limit is where the text would round up to the next unit. */
    if (s < 999.5e-9)
        snprintf(out, 24, "%.0f ns", s * 1e9);
    else if (s < 999.5e-6)
        snprintf(out, 24, "%.0f us", s * 1e6);
    else if (s < 0.9995)
        snprintf(out, 24, "%.0f ms", s * 1e3);
    else if (s < 59.95)
        snprintf(out, 24, "%.1f s", s);
    else if (whole < 3600)
        snprintf(out, 24, "%um%02us", whole / 60, whole % 60);
    else
        snprintf(out, 24, "%uh%02um", whole / 3600, whole % 3600 / 60);
    return out;
}

void str_hex(const void *data, size_t len, char *out)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = "0123456789abcdef"[p[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[p[i] & 15];
    }
    out[2 * len] = '\0';
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool str_unhex(const char *s, size_t len, void *out)
{
    unsigned char *p = out;

    for (size_t i = 0; i + 1 < len; i += 2) {
        int hi = nibble(s[i]), lo = nibble(s[i + 1]);

        if (hi < 0 || lo < 0)
            return false;
        *p++ = (unsigned char)(hi << 4 | lo);
    }
    return len % 2 == 0;
}

bool str_parse_hex64(const char *s, uint64_t *out)
{
    unsigned char raw[8];

    if (s == NULL || strlen(s) != 2 * sizeof(raw) || !str_unhex(s, 2 * sizeof(raw), raw))
        return false;
    *out = 0;
    for (unsigned i = 0; i < sizeof(raw); i++)
        *out = *out << 8 | raw[i];
    return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void str_base64(const void *data, size_t len, struct buf *out)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t v = (uint32_t)p[i] << 16;

        v |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        v |= left > 2 ? p[i + 2] : 0;
        buf_addc(out, base64_digits[v >> 18]);
        buf_addc(out, base64_digits[v >> 12 & 63]);
        buf_addc(out, left > 1 ? base64_digits[v >> 6 & 63] : '=');
        buf_addc(out, left > 2 ? base64_digits[v & 63] : '=');
    }
}

bool str_unbase64(const char *s, struct buf *out)
{
    uint32_t v = 0;
    int bits = 0;

    for (; *s != '\0' && *s != '='; s++) {
        const char *d = strchr(base64_digits, *s);

        if (d == NULL)
            return false;
        v = v << 6 | (uint32_t)(d - base64_digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_addc(out, (char)(v >> bits & 255));
        }
    }
    return bits < 6 && strspn(s, "=") == strlen(s); /* a lone last character is less than a byte */
}

void str_uri_encode(const char *s, size_t len, bool keep_slash, struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash))
            buf_addc(out, (char)c);
        else
            buf_addf(out, "%%%02X", c);
    }
}

bool str_uri_decode(const char *s, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (c == '%') {
            if (i + 2 >= len || !str_unhex(s + i + 1, 2, &c))
                return false;
            i += 2;
        }
        buf_addc(out, c);
    }
    return true;
}

bool str_is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n <= 63 && s[n] == '\0' && strchr("._-", s[0]) == NULL;
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

char *str_trim(char *s)
{
    size_t n;

    while (isspace((unsigned char)*s))
        s++;
    for (n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

/* Length of the valid UTF-8 sequence at s, or 0. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    uint32_t min, v;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] < 0xe0)
        n = 2, min = 0x80, v = s[0] & 0x1f;
    else if (s[0] >= 0xe0 && s[0] < 0xf0)
        n = 3, min = 0x800, v = s[0] & 0x0f;
    else if (s[0] >= 0xf0 && s[0] < 0xf5)
        n = 4, min = 0x10000, v = s[0] & 0x07;
    else
        return 0;
    if (left < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (s[i] & 0x3f);
    }
    return v < min || v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? 0 : n;
}

bool str_is_utf8(const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_len((const unsigned char *)s + i, len - i);
        if (n == 0)
            return false;
    }
    return true;
}

void str_printable(const char *s, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_len((const unsigned char *)s + i, len - i);

        if (n == 0 || (n == 1 && ((unsigned char)s[i] < ' ' || s[i] == 0x7f))) {
            buf_addc(out, '?');
            i++;
        } else {
            buf_add(out, s + i, n);
            i += n;
        }
    }
}

/* ---- JSON ---- */

/* Bytes of the character at s: 0: it is not UTF-8. */
static size_t utf8_length(const char *s, size_t left)
{
    for (size_t n = 1; n <= 4 && n <= left; n++)
        if (str_is_utf8(s, n))
            return n;
    return 0;
}

/* C1 controls are two bytes: a terminal may obey them. */
static bool is_c1(const char *s, size_t n)
{
    return n == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0;
}

void str_json(const char *s, size_t most, struct buf *out)
{
    size_t len = strlen(s), at = 0;

    buf_addc(out, '"');
    while (at < len && at < most) {
        size_t n = utf8_length(s + at, len - at);
        unsigned char c = (unsigned char)s[at];

        if (n == 0)
            buf_adds(out, "\\ufffd");
        else if (n == 1 && (c == '"' || c == '\\'))
            buf_addf(out, "\\%c", c);
        else if (n == 1 && (c < 0x20 || c == 0x7f))
            buf_addf(out, "\\u%04x", c);
        else if (is_c1(s + at, n))
            buf_addf(out, "\\u%04x", (unsigned char)s[at + 1]);
        else
            buf_add(out, s + at, n);
        at += n > 0 ? n : 1;
    }
    buf_adds(out, at < len ? "...\"" : "\"");
}
