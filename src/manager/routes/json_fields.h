// SPDX-License-Identifier: Apache-2.0
/*
 * Reads JSON bodies by tables of fields. Strict: a field that is not in the table is refused, so
 * that a misspelt option is an error and not a silent default; null does not count as absent.
 * Except where nodes speak: they may be of the next release, and say more than this one knows.
 * Functions that return bool have filled the reply when it is false.
 */
#ifndef DLC_MANAGER_ROUTES_JSON_FIELDS_H
#define DLC_MANAGER_ROUTES_JSON_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "net/server.h"

enum field_type {
    FIELD_NAME, /* const char **: as str_is_name() */
    FIELD_TEXT, /* const char **: at most `max` bytes (0: 1024), no control characters, not empty */
    FIELD_TEXT0, /* the same, but "" is allowed */
    FIELD_U64,   /* uint64_t *: at most `max` (0: 2^53) */
    FIELD_INT,   /* int64_t *: between -max and max */
    FIELD_BOOL,  /* bool * */
    FIELD_NAMES, /* const json_t **: array of at most `max` (0: 1000) different names */
    FIELD_TEXTS, /* const json_t **: array of at most `max` (0: 1000) texts of at most 1024 bytes */
    FIELD_OBJECT, /* const json_t **: look inside with read_object() */
    FIELD_ARRAY,  /* const json_t **: of at most `max` (0: 1000) elements of any kind */
};

struct field {
    const char *name;
    enum field_type type;
    bool required;
    uint64_t max;
    void *out; /* untouched when the field is absent */
};

/*
 * Read the body's fields; the list ends with a NULL name. A field that is missing, not in the list,
 * of the wrong type, or too long is answered with 400 and "field" naming it. No body counts as {}.
 * Texts are borrowed from the body. `where` is put before names in messages: "qos.".
 */
bool read_body(const struct http_request *r, const struct field *fields, struct http_reply *reply);
bool read_object(const json_t *o, const char *where, const struct field *fields,
                 struct http_reply *reply);
/* The same for requests of nodes: fields that are not in the list are passed over. */
bool read_node_body(const struct http_request *r, const struct field *fields,
                    struct http_reply *reply);
bool read_node_object(const json_t *o, const char *where, const struct field *fields,
                      struct http_reply *reply);
void refuse_field(struct http_reply *reply, const char *where, const char *field, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

#endif
