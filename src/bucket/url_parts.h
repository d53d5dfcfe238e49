// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a dataset that a URL selects: samples=PREFIX, targets=PREFIX and manifest=KEY, each
 * also of one split (samples-train=PREFIX), each any number of times. Prefixes and keys are seen
 * from the folder of the URL.
 *
 * A prefix names one object, or a folder ("a" and "a/" are what lies below a/); a star at its end
 * makes it a plain prefix ("part-*").
 */
#ifndef DLC_BUCKET_URL_PARTS_H
#define DLC_BUCKET_URL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

enum url_part_kind { URL_SAMPLES, URL_TARGETS, URL_MANIFEST };

#define URL_SPLIT_LEN 16
#define URL_PARTS_MAX 256

struct url_part {
    enum url_part_kind kind;
    char split[URL_SPLIT_LEN]; /* "train", "validation", "test"; "": not said */
    char *prefix;
};

struct url_parts { /* in the order of the URL: samples are numbered so */
    struct url_part *v;
    size_t n, cap;
};

/* Does an option of this name select a part, and which? */
bool url_part_named(const char *name, struct url_part *out);
/* The name of its option; static. */
const char *url_part_name(const struct url_part *p);
void url_parts_add(struct url_parts *parts, struct url_part part, const char *prefix);
void url_parts_release(struct url_parts *parts);

/* Is the object of this key, seen from the folder of the URL, in the part? */
bool url_part_has(const struct url_part *p, const char *key);
/* Bytes of p->prefix that the keys of the part begin with: without the star. */
size_t url_part_len(const struct url_part *p);
bool url_parts_have(const struct url_parts *parts, enum url_part_kind kind);

#endif
