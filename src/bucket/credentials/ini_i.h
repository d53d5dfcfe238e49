// SPDX-License-Identifier: Apache-2.0
/*
 * The files in ~/.aws: sections of name = value lines, and one level of nesting below a name that
 * has an empty value.
 *
 *     [profile train]        # section "profile train"; blanks around and quotes are dropped
 *     region = eu-west-1     ; a comment needs a blank before its # or ;
 *     s3 =
 *       endpoint_url = http://127.0.0.1:9000
 *
 * A line indented deeper than the property before it belongs to that property: as a nested one when
 * its value is empty, otherwise as one more line of the value. Later lines win over earlier ones,
 * and a section may appear several times. Names are not case-sensitive, sections are.
 */
#ifndef DLC_BUCKET_CREDENTIALS_INI_I_H
#define DLC_BUCKET_CREDENTIALS_INI_I_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ini_entry {
    char *section, *name, *nested; /* name "": only says that the section exists; nested "": none */
    char *value, *raw;             /* raw: with what looks like a comment */
};

struct ini {
    struct ini_entry *entries;
    size_t n, cap;
};

#define INI_INIT                                                                                   \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Borrows text; file is for messages. On failure *out is empty. */
int ini_parse(struct ini *out, const char *file, const char *text, size_t len, struct dlc_err *err);
void ini_release(struct ini *i); /* wipes */

bool ini_has_section(const struct ini *i, const char *section);

/* NULL when it is not there or empty. nested may be NULL. Valid as long as i. */
const char *ini_get(const struct ini *i, const char *section, const char *name, const char *nested);

/* The same without cutting comments off, for shell commands. */
const char *ini_get_raw(const struct ini *i, const char *section, const char *name);

#endif
