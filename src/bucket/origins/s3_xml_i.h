// SPDX-License-Identifier: Apache-2.0
/* The two XML documents that S3 and its relatives send: a page of a listing, and an error. */
#ifndef DLC_BUCKET_ORIGINS_S3_XML_I_H
#define DLC_BUCKET_ORIGINS_S3_XML_I_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "bucket/origins/origin.h"

struct s3_error {
    char code[64];     /* "NoSuchKey"; "": the document gave none */
    char message[200]; /* the server's words, printable, one line */
    char region[32];   /* where the bucket is, when the error says so */
};

/*
 * A ListObjectsV2 answer: adds objects and folders to a, sets a->next. DLC_EPROTO: the document is
 * malformed, cut short or not a listing; then nothing is added.
 */
int s3_xml_list(const char *data, size_t len, struct attempt *a, struct dlc_err *err);

/* An error document. False: it is not one; *out is then empty. */
bool s3_xml_error(const char *data, size_t len, struct s3_error *out);

#endif
