// SPDX-License-Identifier: Apache-2.0
/* What is Azure's own in az:// (azure.c, azure_xml.c). */
#ifndef DLC_BUCKET_ORIGINS_AZURE_I_H
#define DLC_BUCKET_ORIGINS_AZURE_I_H

#include <stddef.h>

#include "base/err.h"
#include "bucket/origins/origin.h"

/* A List Blobs answer: as s3_xml_list(). */
int azure_xml_list(const char *data, size_t len, struct attempt *a, struct dlc_err *err);

#endif
