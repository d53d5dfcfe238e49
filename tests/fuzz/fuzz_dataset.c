// SPDX-License-Identifier: Apache-2.0
/*
 * What tenants and nodes say of datasets: input is a URL, or {"result", "figures", "body"} as nodes
 * and the store give them. Nothing crashes; numbers stay within what was said; a tenant's URL that
 * is good never names a file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "base/address_rules.h"
#include "base/check.h"
#include "base/mem.h"
#include "manager/routes/auth.h"
#include "manager/routes/dataset_fields.h"
#include "manager/tables/capacity.h"
#include "manager/tables/dataset_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void url(const char *text)
{
    const struct caller tenant = {.role = ROLE_TENANT, .tenant = "a"};
    const struct address_rules none = ADDRESS_RULES_INIT;
    struct http_reply reply = {0};

    if (dataset_url_ok(&tenant, &none, text, NULL, &reply))
        dlc_check(strncasecmp(text, "file:", 5) != 0 && reply.status == 0);
    else
        dlc_check(reply.status == 400 || reply.status == 403);
    json_decref(reply.body);
    reply = (struct http_reply){0};
    dlc_check(dataset_url_ok(&tenant, &none, "s3://bucket/x", text, &reply) == (reply.status == 0));
    json_decref(reply.body);
}

static void listed(const json_t *o)
{
    json_t *s = snapshot_of_result(json_object_get(o, "result"));
    uint64_t bytes = 0;

    if (s == NULL)
        return;
    dlc_check(snapshot_bytes(s, NULL, &bytes) && bytes <= UINT64_C(1) << 53);
    json_decref(s);
}

static void room(const json_t *o)
{
    struct node_info node = {.name = "a", .state = NODE_LIVE, .capacity = 1000};
    struct store_doc d = {(char *)"j-1", (char *)"a", json_object_get(o, "body"), 0};
    struct place_ask ask = {.bytes = 500};
    struct job j;
    struct admission a;
    bool known;

    node.figures = json_object_get(o, "figures");
    if (d.body == NULL || !job_of_doc(&j, &d))
        return;
    j.snapshot = json_deep_copy(json_object_get(o, "snapshot"));
    capacity_admit(&node, 1, &j, 1, &j, &a, &known);
    dlc_check(a.free <= 1000 && a.promised == 0);
    json_decref(capacity_place(&node, 1, &j, 1, "d", NULL, &ask));
    job_release(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size);
    json_t *o = json_loads(text, 0, NULL);

    url(text);
    if (json_is_object(o)) {
        listed(o);
        room(o);
    }
    json_decref(o);
    mem_free(&text);
    return 0;
}
