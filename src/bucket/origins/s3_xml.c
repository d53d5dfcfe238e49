// SPDX-License-Identifier: Apache-2.0
/*
 * Parsers of S3's XML documents (s3_xml_i.h). Keys are sent percent-encoded when <EncodingType> says
 * so, and that may come after the keys: so they are decoded at the end.
 */
#include "bucket/origins/s3_xml_i.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "bucket/origins/xml_walk_i.h"

/* -------- listing -------- */

struct page {
    bool truncated, encoded;
};

static void contents_field(struct walk *w)
{
    if (w->depth == 2)
        walk_add_entry(w);
    else if (walk_at(w, 3, "Key"))
        w->now.key = walk_keep(w);
    else if (walk_at(w, 3, "ETag"))
        w->now.etag = walk_keep(w);
    else if (walk_at(w, 3, "Size") && !str_parse_u64(buf_str(&w->text), &w->now.size))
        walk_refuse(w);
}

static void list_field(struct walk *w)
{
    struct page *p = w->priv;
    const char *text = buf_str(&w->text);

    if (w->depth > 3)
        return;
    if (walk_at(w, 2, "Contents"))
        contents_field(w);
    else if (w->depth == 3 && walk_at(w, 2, "CommonPrefixes") && walk_at(w, 3, "Prefix"))
        walk_add_folder(w, walk_keep(w));
    else if (w->depth != 2)
        ;
    else if (walk_at(w, 2, "IsTruncated"))
        p->truncated = strcmp(text, "true") == 0;
    else if (walk_at(w, 2, "NextContinuationToken"))
        w->token = walk_keep(w);
    else if (walk_at(w, 2, "EncodingType"))
        p->encoded = strcmp(text, "url") == 0;
}

static bool decode_all(struct walk *w)
{
    for (size_t i = 0; i < w->n_entries; i++) {
        if (!walk_decode(w, w->entries[i].key, true))
            return false;
    }
    for (size_t i = 0; i < w->n_folders; i++) {
        if (!walk_decode(w, w->folders[i], true))
            return false;
    }
    return true;
}

int s3_xml_list(const char *data, size_t len, struct attempt *a, struct dlc_err *err)
{
    struct page p = {false, false};
    struct walk w = {.root = "ListBucketResult", .entry_depth = 2, .field = list_field, .priv = &p};
    int rc = 0;

    if (!walk_run(&w, data, len))
        rc = dlc_err_set(err, DLC_EPROTO, "the response is not a complete XML listing");
    else if (p.truncated && w.token == 0)
        rc = dlc_err_set(err, DLC_EPROTO, "the listing goes on, but the server does not say where");
    else if (p.encoded && !decode_all(&w))
        rc = dlc_err_set(err, DLC_EPROTO, "the listing holds a malformed key");
    else
        walk_deliver(&w, p.truncated, a);
    walk_release(&w);
    return rc;
}

/* -------- error -------- */

static void copy_field(struct walk *w, char *out, size_t size)
{
    const char *text = buf_str(&w->text);
    const char *id = strstr(text, "\nRequestId:"); /* Azure's words end there */
    struct buf printable = BUF_INIT;

    str_printable(text, id != NULL ? (size_t)(id - text) : w->text.len, &printable);
    snprintf(out, size, "%s", buf_str(&printable));
    buf_release(&printable);
}

static void error_field(struct walk *w)
{
    struct s3_error *e = w->priv;

    if (w->depth != 2)
        return;
    if (walk_at(w, 2, "Code"))
        copy_field(w, e->code, sizeof(e->code));
    else if (walk_at(w, 2, "Message"))
        copy_field(w, e->message, sizeof(e->message));
    else if (walk_at(w, 2, "Region"))
        copy_field(w, e->region, sizeof(e->region));
}

bool s3_xml_error(const char *data, size_t len, struct s3_error *out)
{
    struct walk w = {.root = "Error", .field = error_field, .priv = out};
    bool ok;

    *out = (struct s3_error){.code = ""};
    ok = walk_run(&w, data, len);
    walk_release(&w);
    if (!ok)
        *out = (struct s3_error){.code = ""};
    return ok;
}
