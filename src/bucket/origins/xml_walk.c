// SPDX-License-Identifier: Apache-2.0
#include "bucket/origins/xml_walk_i.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

#define TEXT_MAX 16384 /* longer than any field: a key has at most 1024 bytes, each sent as %XX */

static const char *local_name(const char *name)
{
    const char *colon = strchr(name, ':');

    return colon != NULL ? colon + 1 : name;
}

void walk_refuse(struct walk *w)
{
    w->bad = true;
    XML_StopParser(w->parser, XML_FALSE);
}

bool walk_at(const struct walk *w, unsigned depth, const char *name)
{
    return depth <= DLC_MIN(w->depth, WALK_DEEP) && strcmp(w->names[depth], name) == 0;
}

static void on_start(void *priv, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = priv;

    name = local_name(name);
    w->depth++;
    buf_clear(&w->text);
    if (w->depth <= WALK_DEEP)
        snprintf(w->names[w->depth], sizeof(w->names[0]), "%s", name);
    if (w->depth == 1 && strcmp(name, w->root) != 0)
        walk_refuse(w);
    if (w->depth == w->entry_depth)
        w->now = (struct walk_entry){0, 0, UINT64_MAX};
    if (w->begin != NULL)
        w->begin(w, attributes);
}

static void on_end(void *priv, const XML_Char *name)
{
    struct walk *w = priv;

    (void)name;
    if (w->depth >= 2 && w->depth <= WALK_DEEP)
        w->field(w);
    buf_clear(&w->text);
    w->depth--;
}

static void on_text(void *priv, const XML_Char *s, int len)
{
    struct walk *w = priv;

    if (w->text.len + (size_t)len > TEXT_MAX)
        walk_refuse(w);
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
    walk_refuse(priv);
}

bool walk_run(struct walk *w, const char *data, size_t len)
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

void walk_release(struct walk *w)
{
    buf_release(&w->text);
    buf_release(&w->strings);
    mem_free(&w->entries);
    mem_free(&w->folders);
}

/* -------- a listing -------- */

size_t walk_keep(struct walk *w)
{
    size_t at = w->strings.len;

    buf_add(&w->strings, buf_str(&w->text), w->text.len);
    buf_addc(&w->strings, '\0');
    return at + 1;
}

void walk_add_entry(struct walk *w)
{
    if (w->now.key == 0 || w->now.size == UINT64_MAX) {
        walk_refuse(w);
        return;
    }
    mem_reserve(w->entries, w->n_entries, w->cap_entries);
    w->entries[w->n_entries++] = w->now;
}

void walk_add_folder(struct walk *w, size_t kept)
{
    mem_reserve(w->folders, w->n_folders, w->cap_folders);
    w->folders[w->n_folders++] = kept;
}

bool walk_decode(struct walk *w, size_t kept, bool plus)
{
    char *s = w->strings.data + kept - 1, *out = s;

    for (; *s != '\0'; s++) {
        char c = plus && *s == '+' ? ' ' : *s;

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

void walk_deliver(struct walk *w, bool more, struct attempt *a)
{
    for (size_t i = 0; i < w->n_entries; i++) {
        const struct walk_entry *e = &w->entries[i];
        const char *key = w->strings.data + e->key - 1;

        attempt_add_object(a, key, strlen(key), e->size,
                           e->etag != 0 ? plain_etag(w->strings.data + e->etag - 1) : "");
    }
    for (size_t i = 0; i < w->n_folders; i++) {
        const char *prefix = w->strings.data + w->folders[i] - 1;

        attempt_add_folder(a, prefix, strlen(prefix));
    }
    a->next = more ? mem_str(w->strings.data + w->token - 1) : NULL;
}
