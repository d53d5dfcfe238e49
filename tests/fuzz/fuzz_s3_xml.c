// SPDX-License-Identifier: Apache-2.0
/* What a server sends as a page of a listing or as an error: whole answers or none at all. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "bucket/origins/s3_xml_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_list(const char *data, size_t size)
{
    struct attempt a = {.op = ATTEMPT_LIST};
    struct dlc_err err = DLC_ERR_INIT;
    int rc = s3_xml_list(data, size, &a, &err);

    if (rc < 0) {
        dlc_check(err.code == rc && err.text[0] != '\0');
        dlc_check(a.n_objects == 0 && a.n_folders == 0 && a.next == NULL);
    }
    for (size_t i = 0; i < a.n_objects; i++)
        dlc_check(a.objects[i].key != NULL && strlen(a.objects[i].etag) < ETAG_MAX);
    for (size_t i = 0; i < a.n_folders; i++)
        dlc_check(a.folders[i] != NULL);
    attempt_clear(&a);
}

static void fuzz_error(const char *data, size_t size)
{
    struct s3_error e;

    if (!s3_xml_error(data, size, &e))
        dlc_check(e.code[0] == '\0' && e.message[0] == '\0' && e.region[0] == '\0');
    dlc_check(memchr(e.code, '\0', sizeof(e.code)) != NULL);
    dlc_check(memchr(e.message, '\0', sizeof(e.message)) != NULL);
    dlc_check(memchr(e.region, '\0', sizeof(e.region)) != NULL);
    dlc_check(strpbrk(e.message, "\n\r\x1b") == NULL); /* goes to people and logs */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_list((const char *)data, size);
    fuzz_error((const char *)data, size);
    return 0;
}
