// SPDX-License-Identifier: Apache-2.0
/* Text: sizes and times as people write them; hex, base64 and percent-encoding for protocols. */
#ifndef DLC_BASE_STR_H
#define DLC_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"

/* "1500", "200MB", "1.5GiB", "4k": decimal for kB/MB/GB/TB and k/M/G/T, binary for KiB/MiB/GiB/TiB.
 */
bool str_parse_size(const char *s, uint64_t *bytes);

/* "30ms", "1.5s", "2m", "1h", "250us"; a bare number is seconds. */
bool str_parse_dur(const char *s, struct dlc_dur *d);

bool str_parse_u64(const char *s, uint64_t *v);
bool str_parse_double(const char *s, double *v);
bool str_parse_bool(const char *s, bool *v); /* true/false, yes/no, on/off, 1/0 */

/* "1.5 GB", "90.0 kB", "512 B" */
const char *str_size(uint64_t bytes, char out[static 24]);
/* "1.5 s", "30 ms", "2m05s", "1h02m" */
const char *str_dur(struct dlc_dur d, char out[static 24]);

void str_hex(const void *data, size_t len, char *out); /* 2*len characters and NUL, lower case */
bool str_unhex(const char *s, size_t len, void *out);  /* len is even; false on other characters */
bool str_parse_hex64(const char *s, uint64_t *out);    /* exactly 16 hexadecimal digits */
void str_base64(const void *data, size_t len, struct buf *out);
bool str_unbase64(const char *s, struct buf *out);

/* RFC 3986 as SigV4 wants it: all but A-Za-z0-9-._~ become %XX; '/' too unless keep_slash. */
void str_uri_encode(const char *s, size_t len, bool keep_slash, struct buf *out);
bool str_uri_decode(const char *s, size_t len, struct buf *out);

/* What a job may be called, and all else that a manager knows by name. */
#define STR_NAME_RULE "1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"
bool str_is_name(const char *s);

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
char *str_trim(char *s); /* in place; returns the first character that is no white space */

/* Does s hold valid UTF-8 (no overlong forms, no surrogates)? */
bool str_is_utf8(const char *s, size_t len);

/* s as a string of JSON, with its quotes. Control characters are escaped, bytes that are not UTF-8
 * replaced. One that is longer than `most` bytes is cut, and ends with "...". */
void str_json(const char *s, size_t most, struct buf *out);

/* s with every byte that is not valid UTF-8 or is a control character shown as '?'. For people. */
void str_printable(const char *s, size_t len, struct buf *out);

#endif
