// SPDX-License-Identifier: Apache-2.0
/*
 * URLs and listing files of the web origin (http.c). Pure.
 *
 * A listing file is text, one object per line: its URL, absolute or relative to the listing, and
 * optionally its size in bytes and its ETag, separated by tabs. Empty lines and lines that begin
 * with '#' say nothing. The URL as written is the object's key.
 */
#ifndef DLC_BUCKET_ORIGINS_HTTP_I_H
#define DLC_BUCKET_ORIGINS_HTTP_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct web_line {
    const char *key, *etag; /* in the text that was parsed; etag is "" when none is given */
    uint64_t size;          /* UINT64_MAX: not given */
};

/* Cut the text (which is changed) into lines. Gives *out. DLC_EINVAL names the line. */
int web_list_parse(char *text, struct web_line **out, size_t *n, struct dlc_err *err);

/* The absolute URL of a key, where base is the absolute URL of the dataset. Characters that may not
 * stand in a URL are percent-encoded; what is encoded already stays. */
void web_resolve(const char *base, const char *key, struct buf *out);

/* A URL as messages show it: without user name, password and query, which may hold secrets. */
void web_show(const char *url, struct buf *out);

/* Does the path of this URL name a listing file? */
bool web_is_list(const char *url);

#endif
