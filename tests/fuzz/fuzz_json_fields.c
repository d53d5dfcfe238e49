// SPDX-License-Identifier: Apache-2.0
/* Arbitrary JSON as the body of a request: each is taken or refused with the name of a field, and
 * what is taken is as the table says. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/json_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_text(const char *s, size_t max)
{
    dlc_check(s == NULL ||
              (strlen(s) >= 1 && strlen(s) <= max && strpbrk(s, "\r\n\t\x7f") == NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *name = NULL, *text = NULL, *maybe = NULL;
    const json_t *names = NULL, *texts = NULL, *object = NULL, *array = NULL;
    uint64_t n = 0;
    int64_t i = 0;
    bool b = false;
    const struct field fields[] = {
        {"name", FIELD_NAME, true, 0, &name},
        {"text", FIELD_TEXT, false, 8, &text},
        {"maybe", FIELD_TEXT0, false, 8, &maybe},
        {"n", FIELD_U64, false, 100, &n},
        {"i", FIELD_INT, false, 100, &i},
        {"b", FIELD_BOOL, false, 0, &b},
        {"names", FIELD_NAMES, false, 4, &names},
        {"texts", FIELD_TEXTS, false, 4, &texts},
        {"o", FIELD_OBJECT, false, 0, &object},
        {"a", FIELD_ARRAY, false, 4, &array},
        {NULL},
    };
    json_t *body = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    struct http_request r = {.body = body};
    struct http_reply reply = {0};

    if (json_is_object(body) && read_body(&r, fields, &reply)) {
        dlc_check(reply.status == 0 && reply.body == NULL);
        dlc_check(name != NULL && str_is_name(name) && n <= 100 && i >= -100 && i <= 100);
        is_text(text, 8);
        dlc_check(maybe == NULL || strlen(maybe) <= 8);
        dlc_check(json_array_size(names) <= 4 && json_array_size(array) <= 4);
        for (size_t k = 0; k < json_array_size(names); k++)
            dlc_check(str_is_name(json_string_value(json_array_get(names, k))));
        for (size_t k = 0; k < json_array_size(texts); k++)
            is_text(json_string_value(json_array_get(texts, k)), 1024);
    } else if (json_is_object(body)) {
        dlc_check(reply.status == 400);
        dlc_check(reply.body == NULL || json_is_string(json_object_get(reply.body, "field")));
    }
    json_decref(reply.body);
    json_decref(body);
    return 0;
}
