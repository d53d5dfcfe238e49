// SPDX-License-Identifier: Apache-2.0
/* The settings in force as text: value and source. Passwords in URLs are hidden. */
#include "base/config_i.h"

#include <string.h>

#include "base/check.h"
#include "base/str.h"

void config_place(const struct config *c, unsigned i, struct buf *out)
{
    const struct config_origin *from = &c->origin[i];
    const struct config_option *o = &config_options[i];

    switch (from->source) {
    case SOURCE_DEFAULT: buf_adds(out, "default"); break;
    case SOURCE_FLAG: buf_addf(out, "--%s", o->flag); break;
    case SOURCE_ENV: buf_addf(out, "$%s", o->env); break;
    case SOURCE_FILE: buf_addf(out, "%.200s:%u", c->file != NULL ? c->file : "", from->line); break;
    }
}

/* "redis://user:***@host" for "redis://user:secret@host"; also of the second URL of a list. */
static void add_without_password(const char *value, struct buf *out)
{
    const char *start = strstr(value, "://"), *colon, *at;
    size_t n;

    if (start == NULL) {
        buf_adds(out, value);
        return;
    }
    start += 3;
    n = strcspn(start, "/?");
    at = memrchr(start, '@', n);
    colon = at != NULL ? memchr(start, ':', (size_t)(at - start)) : NULL;
    if (colon == NULL) {
        buf_adds(out, value);
        return;
    }
    buf_add(out, value, (size_t)(colon + 1 - value));
    buf_addf(out, "***%s", at);
}

bool config_show(const struct config *c, unsigned i, unsigned roles, struct config_shown *out)
{
    const struct config_option *o = &config_options[i];

    if ((o->roles & roles) == 0)
        return false;
    out->flag = o->flag;
    out->changed = c->origin[i].source != SOURCE_DEFAULT;
    buf_clear(&out->value);
    buf_clear(&out->source);
    if (o->type == TYPE_text)
        add_without_password(*(char *const *)(const void *)((const char *)c + o->offset),
                             &out->value);
    else
        buf_adds(&out->value, out->changed ? c->origin[i].text : o->def);
    config_place(c, i, &out->source);
    return true;
}

void config_shown_release(struct config_shown *s)
{
    buf_release(&s->value);
    buf_release(&s->source);
}
