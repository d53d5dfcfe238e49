// SPDX-License-Identifier: Apache-2.0
/* Reads arbitrary bytes as a listing of Azure. Broken ones must leave nothing. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "bucket/origins/azure_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct attempt a = {.op = ATTEMPT_LIST};
    struct dlc_err err = DLC_ERR_INIT;

    if (azure_xml_list((const char *)data, size, &a, &err) < 0)
        dlc_check(a.n_objects == 0 && a.n_folders == 0 && a.next == NULL && err.text[0] != '\0');
    for (size_t i = 0; i < a.n_objects; i++)
        dlc_check(strlen(a.objects[i].etag) < ETAG_MAX && a.objects[i].key != NULL);
    attempt_clear(&a);
    return 0;
}
