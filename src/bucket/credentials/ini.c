// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/ini_i.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/secret.h"

#define VALUE_MAX 65536 /* over all its lines */

struct parser {
    struct ini *out;
    const char *file;
    unsigned line;
    char *section;   /* NULL before the first */
    size_t property; /* entry + 1 that an indented line continues; 0: none */
    size_t indent;   /* of that property's line */
};

/* Copy raw into e, and into value what is before a comment. */
static void entry_set(struct ini_entry *e, const char *raw)
{
    size_t cut = strlen(raw);

    for (const char *p = raw; *p != '\0'; p++) {
        if ((*p == '#' || *p == ';') && p > raw && isblank((unsigned char)p[-1])) {
            cut = (size_t)(p - raw);
            break;
        }
    }
    while (cut > 0 && isspace((unsigned char)raw[cut - 1]))
        cut--;
    secret_free(&e->value);
    secret_free(&e->raw);
    e->value = mem_strn(raw, cut);
    e->raw = mem_str(raw);
}

static void entry_add(struct ini *i, const char *section, const char *name, const char *nested,
                      const char *raw)
{
    struct ini_entry *e;

    mem_reserve(i->entries, i->n, i->cap);
    e = &i->entries[i->n++];
    *e = (struct ini_entry){mem_str(section), mem_str(name), mem_str(nested), NULL, NULL};
    for (char *p = e->name; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    entry_set(e, raw);
}

static void entry_release(struct ini_entry *e)
{
    secret_free(&e->section);
    secret_free(&e->name);
    secret_free(&e->nested);
    secret_free(&e->value);
    secret_free(&e->raw);
}

void ini_release(struct ini *i)
{
    for (size_t n = 0; n < i->n; n++)
        entry_release(&i->entries[n]);
    mem_free(&i->entries);
    *i = (struct ini)INI_INIT;
}

/* Quoting the line would put a misplaced secret into a message, so only its number is told. */
static int malformed(const struct parser *p, const char *what, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "%s, line %u: %s", p->file, p->line, what);
}

/* "[ profile  "a b" ]" -> "profile a b" */
static int parse_section(struct parser *p, char *s, struct dlc_err *err)
{
    char *end = strchr(s, ']');
    struct buf name = BUF_INIT;

    if (end == NULL)
        return malformed(p, "a section needs a closing ]", err);
    *end = '\0';
    for (s = str_trim(s + 1); *s != '\0'; s++) {
        if (*s == '"' || *s == '\'')
            continue;
        if (isblank((unsigned char)*s)) {
            if (!isblank((unsigned char)s[1]))
                buf_addc(&name, ' ');
        } else {
            buf_addc(&name, *s);
        }
    }
    mem_free(&p->section);
    p->section = buf_take(&name);
    p->property = 0;
    entry_add(p->out, p->section, "", "", "");
    return 0;
}

static int parse_nested(struct parser *p, char *s, struct dlc_err *err)
{
    char *eq = strchr(s, '='), *name;

    if (eq == NULL)
        return malformed(p, "expected nested name = value", err);
    *eq = '\0';
    name = mem_str(p->out->entries[p->property - 1].name);
    entry_add(p->out, p->section, name, str_trim(s), str_trim(eq + 1));
    mem_free(&name);
    return 0;
}

/* A line that belongs to the property before it. */
static int parse_continuation(struct parser *p, char *s, struct dlc_err *err)
{
    struct ini_entry *e = &p->out->entries[p->property - 1];
    struct buf whole = BUF_INIT;

    if (e->raw[0] == '\0')
        return parse_nested(p, s, err);
    if (strlen(e->raw) + 1 + strlen(s) > VALUE_MAX)
        return malformed(p, "the value is too long", err);
    buf_reserve(&whole, strlen(e->raw) + 1 + strlen(s));
    buf_addf(&whole, "%s\n%s", e->raw, s);
    entry_set(e, buf_str(&whole));
    secret_buf_release(&whole);
    return 0;
}

static int parse_line(struct parser *p, char *line, struct dlc_err *err)
{
    size_t indent = strspn(line, " \t");
    char *s = str_trim(line), *eq;

    if (*s == '\0' || *s == '#' || *s == ';')
        return 0;
    if (p->property != 0 && indent > p->indent)
        return parse_continuation(p, s, err);
    if (*s == '[')
        return parse_section(p, s, err);
    eq = strchr(s, '=');
    if (eq == NULL || eq == s)
        return malformed(p, "expected [section], name = value or a # comment", err);
    if (p->section == NULL)
        return malformed(p, "name = value before the first [section]", err);
    *eq = '\0';
    entry_add(p->out, p->section, str_trim(s), "", str_trim(eq + 1));
    p->property = p->out->n;
    p->indent = indent;
    return 0;
}

int ini_parse(struct ini *out, const char *file, const char *text, size_t len, struct dlc_err *err)
{
    struct parser p = {.out = out, .file = file};
    char *copy = mem_strn(text, len), *line = copy, *end;
    int rc = 0;

    *out = (struct ini)INI_INIT;
    if (memchr(text, '\0', len) != NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "%s is not a text file: it holds a NUL byte", file);
    if (str_starts(line, "\xef\xbb\xbf"))
        line += 3;
    for (; rc == 0 && line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        p.line++;
        rc = parse_line(&p, line, err);
    }
    if (rc < 0)
        ini_release(out);
    mem_free(&p.section);
    explicit_bzero(copy, len);
    mem_free(&copy);
    return rc;
}

bool ini_has_section(const struct ini *i, const char *section)
{
    for (size_t n = 0; n < i->n; n++) {
        if (strcmp(i->entries[n].section, section) == 0)
            return true;
    }
    return false;
}

static const struct ini_entry *entry_find(const struct ini *i, const char *section,
                                          const char *name, const char *nested)
{
    for (size_t n = i->n; n > 0; n--) {
        const struct ini_entry *e = &i->entries[n - 1];

        if (strcasecmp(e->name, name) == 0 && strcasecmp(e->nested, nested) == 0 &&
            strcmp(e->section, section) == 0)
            return e->value[0] == '\0' ? NULL : e;
    }
    return NULL;
}

const char *ini_get(const struct ini *i, const char *section, const char *name, const char *nested)
{
    const struct ini_entry *e = entry_find(i, section, name, nested == NULL ? "" : nested);

    return e == NULL ? NULL : e->value;
}

const char *ini_get_raw(const struct ini *i, const char *section, const char *name)
{
    const struct ini_entry *e = entry_find(i, section, name, "");

    return e == NULL ? NULL : e->raw;
}
