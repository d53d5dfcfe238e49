// SPDX-License-Identifier: Apache-2.0
/* Every route is described, and nothing else is. */
#include "unit.h"

#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/routes/auth.h"
#include "manager/routes/openapi.h"
#include "manager/routes/route_table.h"

static void lower(char *s)
{
    for (; *s != '\0'; s++)
        *s = (char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s);
}

static json_t *load(void)
{
    json_t *doc =
        json_loadb((const char *)openapi_json, openapi_json_len, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(doc);
    return doc;
}

static const json_t *operation(const json_t *doc, const struct http_route *r)
{
    char *method = mem_str(r->method);
    const json_t *op;

    lower(method);
    op = json_object_get(json_object_get(json_object_get(doc, "paths"), r->pattern), method);
    mem_free(&method);
    return op;
}

static bool has_role(const json_t *roles, const char *name)
{
    for (size_t i = 0; i < json_array_size(roles); i++)
        if (strcmp(json_string_value(json_array_get(roles, i)), name) == 0)
            return true;
    return false;
}

static void test_every_route_is_described(void **state)
{
    json_t *doc = load();
    size_t routes = 0, described = 0;
    const char *path;
    json_t *methods;

    (void)state;
    for (const struct http_route *r = route_table; r->method != NULL; r++) {
        const json_t *op = operation(doc, r), *roles = json_object_get(op, "x-roles");

        if (op == NULL)
            fail_msg("%s %s is not in openapi.json", r->method, r->pattern);
        if (has_role(roles, "admin") != ((r->roles & ROLE_ADMIN) != 0) ||
            has_role(roles, "tenant") != ((r->roles & ROLE_TENANT) != 0) ||
            has_role(roles, "node") != ((r->roles & ROLE_NODE) != 0))
            fail_msg("%s %s: other roles than in openapi.json", r->method, r->pattern);
        assert_int_equal(json_object_get(op, "security") != NULL, (r->roles & ROLE_ANY) == 0);
        routes++;
    }
    json_object_foreach(json_object_get(doc, "paths"), path, methods)
    {
        described += json_object_size(methods);
    }
    assert_int_equal(described, routes);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
