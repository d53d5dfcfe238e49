// SPDX-License-Identifier: Apache-2.0
#include "bucket/origins/http_i.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "bucket/bucket.h"

static bool line_parse(char *line, struct web_line *out)
{
    char *size, *etag, *end;

    out->key = line;
    out->etag = "";
    out->size = UINT64_MAX;
    size = strchr(line, '\t');
    if (size == NULL)
        return true;
    *size++ = '\0';
    etag = strchr(size, '\t');
    if (etag != NULL) {
        *etag++ = '\0';
        end = strchr(etag, '\t');
        if (end != NULL)
            *end = '\0'; /* columns after those are somebody else's */
        out->etag = etag;
    }
    if (*size != '\0' && !str_parse_u64(size, &out->size))
        return false;
    return *line != '\0' && strlen(out->etag) < ETAG_MAX;
}

int web_list_parse(char *text, struct web_line **out, size_t *n, struct dlc_err *err)
{
    struct web_line *lines = NULL;
    size_t cap = 0, count = 0, number = 0;
    char *line;

    while ((line = strsep(&text, "\n")) != NULL) {
        size_t len = strlen(line);

        number++;
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        mem_reserve(lines, count, cap);
        if (!line_parse(line, &lines[count++])) {
            mem_free(&lines);
            return dlc_err_set(err, DLC_EINVAL,
                               "line %zu is not URL, or URL, size and ETag separated by tabs",
                               number);
        }
    }
    *out = lines;
    *n = count;
    return 0;
}

/* Where the path begins: after "scheme://host". */
static size_t path_at(const char *url)
{
    const char *host = strstr(url, "://");

    if (host == NULL)
        return 0;
    host += 3;
    return (size_t)(host - url) + strcspn(host, "/?#");
}

static void add_safe(const char *s, struct buf *out)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c > ' ' && c < 0x7f && strchr("\"<>\\^`{|}", c) == NULL) {
            buf_addc(out, *s);
        } else {
            buf_addc(out, '%');
            buf_addc(out, digits[c >> 4]);
            buf_addc(out, digits[c & 15]);
        }
    }
}

void web_resolve(const char *base, const char *key, struct buf *out)
{
    size_t keep = path_at(base), end;

    if (str_starts(key, "http://") || str_starts(key, "https://")) {
        keep = 0;
    } else if (str_starts(key, "//")) {
        keep = (size_t)(strstr(base, "://") + 1 - base);
    } else if (*key == '\0') {
        keep = strlen(base);
    } else if (*key != '/') {
        end = keep + strcspn(base + keep, "?#");
        while (end > keep && base[end - 1] != '/')
            end--;
        keep = end;
    }
    buf_add(out, base, keep);
    if (keep > 0 && keep == path_at(base) && *key != '/' && *key != '\0')
        buf_addc(out, '/');
    add_safe(key, out);
}

void web_show(const char *url, struct buf *out)
{
    size_t path = path_at(url), len = strcspn(url, "?#");
    const char *host = strstr(url, "://");
    const char *at = host != NULL ? memrchr(host, '@', path - (size_t)(host - url)) : NULL;

    if (at != NULL) {
        buf_add(out, url, (size_t)(host + 3 - url));
        len -= (size_t)(at + 1 - url);
        url = at + 1;
    }
    str_printable(url, DLC_MIN(len, 200), out);
    if (len > 200 || url[len] == '?')
        buf_adds(out, "...");
}

bool web_is_list(const char *url)
{
    size_t len = strcspn(url, "?#");

    return len >= 5 && memcmp(url + len - 5, ".list", 5) == 0;
}
