// SPDX-License-Identifier: Apache-2.0
/*
 * Members of JSON values, by type. A value may be NULL or of another type than expected: then it
 * is as if the member was absent.
 *
 * A path is names joined by dots: "snapshot.bytes". For a name that may itself have a dot (a label,
 * the name of a dataset), use json_object_get().
 */
#ifndef DLC_BASE_JSON_H
#define DLC_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

json_t *json_at(const json_t *o, const char *path);          /* borrowed; NULL: absent */
const char *json_text_at(const json_t *o, const char *path); /* borrowed; "" otherwise */
int64_t json_int_at(const json_t *o, const char *path);      /* 0 otherwise */
uint64_t json_u64_at(const json_t *o, const char *path);     /* 0 otherwise, or when negative */
double json_number_at(const json_t *o, const char *path);    /* 0 otherwise */
bool json_true_at(const json_t *o, const char *path);        /* false otherwise */

/* The first element of an array whose member at `path` is this text; NULL: none, or no text. */
json_t *json_find(const json_t *array, const char *path, const char *text);
/* Is the text an element of the array? NULL is not. */
bool json_has_text(const json_t *array, const char *text);

/* Add to the integer that a member is; an absent one is 0. */
void json_add_int(json_t *o, const char *name, json_int_t more);

/* How many values and names of members a text has, before it is parsed: each takes up to 60 bytes
 * of memory then, so that a megabyte of "0,0," becomes thirty. Punctuation in strings does not
 * count. */
size_t json_count_values(const char *text, size_t len);

#endif
