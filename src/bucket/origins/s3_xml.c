// SPDX-License-Identifier: Apache-2.0
/*
 * Parsers of S3's XML documents (s3_xml_i.h). Both documents are flat: a root, its children, and
 * for a listing their children. A field is known by the path of its names, so a walk needs only the
 * depth, the name of the element at depth 2, and the text since the last start tag.
 *
 * Keys are sent percent-encoded when <EncodingType> says so, and that may come after the keys. So
 * keys are kept as sent until the end, and nothing reaches the attempt from a broken document.
 *
 * A document type declaration stops the parser: these documents have none, and without one there
 * are no entities to explode.
 */
#include "bucket/origins/s3_xml_i.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define TEXT_MAX 16384 /* longer than any field: a key has at most 1024 bytes, each sent as %XX */

struct entry {
    size_t key, etag; /* offsets in strings */
    uint64_t size;
};

struct walk {
    XML_Parser parser;
    const char *root; /* the name that the document must have */
    void (*field)(struct walk *w, const char *parent, const char *name); /* an element ended */
    unsigned depth;
    char parent[32]; /* name at depth 2 */
    struct buf text;

    /* a listing */
    struct buf strings;
    struct entry now, *entries;
    size_t n_entries, cap_entries;
    size_t *folders;
    size_t n_folders, cap_folders;
    size_t token; /* NextContinuationToken, offset + 1 in strings; 0: none */
    bool truncated, encoded, bad;

    struct s3_error *error;
};

static const char *local_name(const char *name)
{
    const char *colon = strchr(name, ':');

    return colon != NULL ? colon + 1 : name;
}

static void refuse(struct walk *w)
{
    w->bad = true;
    XML_StopParser(w->parser, XML_FALSE);
}

static void on_start(void *priv, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = priv;

    (void)attributes;
    name = local_name(name);
    w->depth++;
    buf_clear(&w->text);
    if (w->depth == 1 && strcmp(name, w->root) != 0)
        refuse(w);
    if (w->depth == 2) {
        snprintf(w->parent, sizeof(w->parent), "%s", name);
        w->now = (struct entry){0, 0, UINT64_MAX};
    }
}

static void on_end(void *priv, const XML_Char *name)
{
    struct walk *w = priv;

    if (w->depth == 2 || w->depth == 3)
        w->field(w, w->depth == 3 ? w->parent : "", local_name(name));
    buf_clear(&w->text);
    w->depth--;
}

static void on_text(void *priv, const XML_Char *s, int len)
{
    struct walk *w = priv;

    if (w->text.len + (size_t)len > TEXT_MAX)
        refuse(w);
    else
        buf_add(&w->text, s, (size_t)len);
}

static void on_doctype(void *priv, const XML_Char *name, const XML_Char *sys, const XML_Char *pub,
                       int internal)
{
    (void)name;
    (void)sys;
    (void)pub;
    (void)internal;
    refuse(priv);
}

/* Was the document whole and the one we know? */
static bool walk_run(struct walk *w, const char *data, size_t len)
{
    bool ok;

    if (len > INT32_MAX)
        return false;
    w->parser = XML_ParserCreate(NULL);
    if (w->parser == NULL)
        return false;
    XML_SetUserData(w->parser, w);
    XML_SetElementHandler(w->parser, on_start, on_end);
    XML_SetCharacterDataHandler(w->parser, on_text);
    XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
    ok = XML_Parse(w->parser, data, (int)len, 1) == XML_STATUS_OK && !w->bad;
    XML_ParserFree(w->parser);
    return ok;
}

static void walk_release(struct walk *w)
{
    buf_release(&w->text);
    buf_release(&w->strings);
    mem_free(&w->entries);
    mem_free(&w->folders);
}

/* -------- listing -------- */

/* Keep the current text; returns its offset + 1, so that 0 means none. */
static size_t keep(struct walk *w)
{
    size_t at = w->strings.len;

    buf_add(&w->strings, buf_str(&w->text), w->text.len);
    buf_addc(&w->strings, '\0');
    return at + 1;
}

static void end_object(struct walk *w)
{
    if (w->now.key == 0 || w->now.size == UINT64_MAX) {
        refuse(w);
        return;
    }
    mem_reserve(w->entries, w->n_entries, w->cap_entries);
    w->entries[w->n_entries++] = w->now;
}

static void add_folder(struct walk *w)
{
    mem_reserve(w->folders, w->n_folders, w->cap_folders);
    w->folders[w->n_folders++] = keep(w);
}

static void list_field(struct walk *w, const char *parent, const char *name)
{
    const char *text = buf_str(&w->text);

    if (*parent == '\0') {
        if (strcmp(name, "Contents") == 0)
            end_object(w);
        else if (strcmp(name, "IsTruncated") == 0)
            w->truncated = strcmp(text, "true") == 0;
        else if (strcmp(name, "NextContinuationToken") == 0)
            w->token = keep(w);
        else if (strcmp(name, "EncodingType") == 0)
            w->encoded = strcmp(text, "url") == 0;
    } else if (strcmp(parent, "Contents") == 0) {
        if (strcmp(name, "Key") == 0)
            w->now.key = keep(w);
        else if (strcmp(name, "ETag") == 0)
            w->now.etag = keep(w);
        else if (strcmp(name, "Size") == 0 && !str_parse_u64(text, &w->now.size))
            refuse(w);
    } else if (strcmp(parent, "CommonPrefixes") == 0 && strcmp(name, "Prefix") == 0) {
        add_folder(w);
    }
}

/* Keys in an encoded listing: %XX, and '+' for a space. In place. False: malformed, or a NUL. */
static bool decode(char *s)
{
    char *out = s;

    for (; *s != '\0'; s++) {
        char c = *s == '+' ? ' ' : *s;

        if (c == '%') {
            if (s[1] == '\0' || !str_unhex(s + 1, 2, &c) || c == '\0')
                return false;
            s += 2;
        }
        *out++ = c;
    }
    *out = '\0';
    return true;
}

static bool decode_all(struct walk *w)
{
    for (size_t i = 0; i < w->n_entries; i++) {
        if (!decode(w->strings.data + w->entries[i].key - 1))
            return false;
    }
    for (size_t i = 0; i < w->n_folders; i++) {
        if (!decode(w->strings.data + w->folders[i] - 1))
            return false;
    }
    return true;
}

/* Without quotes and W/, or "" when it is too long to be kept. */
static const char *plain_etag(char *s)
{
    size_t n;

    if (str_starts(s, "W/"))
        s += 2;
    n = strlen(s);
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s[n - 1] = '\0';
        s++;
        n -= 2;
    }
    return n < ETAG_MAX ? s : "";
}

static void deliver(struct walk *w, struct attempt *a)
{
    for (size_t i = 0; i < w->n_entries; i++) {
        const struct entry *e = &w->entries[i];
        const char *key = w->strings.data + e->key - 1;

        attempt_add_object(a, key, strlen(key), e->size,
                           e->etag != 0 ? plain_etag(w->strings.data + e->etag - 1) : "");
    }
    for (size_t i = 0; i < w->n_folders; i++) {
        const char *prefix = w->strings.data + w->folders[i] - 1;

        attempt_add_folder(a, prefix, strlen(prefix));
    }
    a->next = w->truncated ? mem_str(w->strings.data + w->token - 1) : NULL;
}

int s3_xml_list(const char *data, size_t len, struct attempt *a, struct dlc_err *err)
{
    struct walk w = {.root = "ListBucketResult", .field = list_field};
    int rc = 0;

    if (!walk_run(&w, data, len))
        rc = dlc_err_set(err, DLC_EPROTO, "the response is not a complete XML listing");
    else if (w.truncated && w.token == 0)
        rc = dlc_err_set(err, DLC_EPROTO, "the listing goes on, but the server does not say where");
    else if (w.encoded && !decode_all(&w))
        rc = dlc_err_set(err, DLC_EPROTO, "the listing holds a malformed key");
    else
        deliver(&w, a);
    walk_release(&w);
    return rc;
}

/* -------- error -------- */

static void copy_field(struct walk *w, char *out, size_t size)
{
    struct buf printable = BUF_INIT;

    str_printable(buf_str(&w->text), w->text.len, &printable);
    snprintf(out, size, "%s", buf_str(&printable));
    buf_release(&printable);
}

static void error_field(struct walk *w, const char *parent, const char *name)
{
    if (*parent != '\0')
        return;
    if (strcmp(name, "Code") == 0)
        copy_field(w, w->error->code, sizeof(w->error->code));
    else if (strcmp(name, "Message") == 0)
        copy_field(w, w->error->message, sizeof(w->error->message));
    else if (strcmp(name, "Region") == 0)
        copy_field(w, w->error->region, sizeof(w->error->region));
}

bool s3_xml_error(const char *data, size_t len, struct s3_error *out)
{
    struct walk w = {.root = "Error", .field = error_field, .error = out};
    bool ok;

    *out = (struct s3_error){.code = ""};
    ok = walk_run(&w, data, len);
    walk_release(&w);
    if (!ok)
        *out = (struct s3_error){.code = ""};
    return ok;
}
