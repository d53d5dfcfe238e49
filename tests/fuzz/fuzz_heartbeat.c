// SPDX-License-Identifier: Apache-2.0
/*
 * Heartbeats of nodes, as a manager takes them, with a store behind it: each is answered with a view,
 * or refused with the name of a field. What a node reports of chunks is kept as it was said, within
 * the numbers of the table.
 */
#include "fuzz_numbers.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "manager/routes/api.h"
#include "manager/routes/auth.h"
#include "manager/routes/heartbeat.h"
#include "manager/routes/tickets.h"
#include "manager/tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/dlcache-fuzz-XXXXXX";
static struct tables tables;
static struct api api = {.tag = API_TAG, .tables = &tables};

static void put(enum store_kind kind, const char *id, json_t *body)
{
    struct store_doc d = {(char *)(uintptr_t)id, (char *)(uintptr_t) "", body, 0};

    dlc_check(store_put(tables.store, kind, &d, STORE_NEW, NULL) == 0);
    if (kind == STORE_NODE)
        nodes_remember(&tables, &d, true);
    else
        dataset_written(&tables, 0, &d);
    json_decref(body);
}

static void clean(void)
{
    tickets_close(&api);
    seal_close(&api.seal);
    tables_release(&tables);
    store_close(&tables.store);
    os_rmtree(dir);
}

/* A manager that leads, with a node "a" and a dataset "d". */
static void set_up(void)
{
    static const struct leader_hooks hooks = {.begin = tables_load};
    char *url;

    dlc_check(mkdtemp(dir) != NULL);
    url = mem_fmt("sqlite:%s/db", dir);
    tables_init(&tables, NULL);
    tables.node_ttl = DLC_SEC(3600);
    tables.job_ttl = DLC_SEC(3600);
    tables.leader.hooks = &hooks;
    tables.leader.ttl = DLC_SEC(3600);
    tables.leader.dir = dir;
    tables.leader.advertise = mem_str("http://a");
    dlc_check(store_open(url, &tables.store, NULL) == 0 && leader_lock_dir(&tables, NULL) == 0 &&
              leader_open(&tables, NULL) == 0);
    leader_tick(&tables, dlc_mono_now());
    dlc_check(leader_leads(&tables));
    dlc_check(seal_open(dir, &api.seal, NULL) == 0 && tickets_open(&api, TICKET_LIFE, NULL) == 0);
    put(STORE_NODE, "a",
        json_pack("{s:s, s:s, s:i}", "address", "", "state", "live", "capacity", 1000));
    put(STORE_DATASET, "d", json_pack("{s:s}", "url", "s3://bucket/d/"));
    mem_free(&url);
    atexit(clean);
}

static void release(struct http_reply *reply)
{
    json_decref(reply->body);
    mem_free(&reply->location);
    mem_free(&reply->etag);
    mem_free(&reply->retry_after);
    if (reply->done != NULL)
        reply->done(reply->arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = BUF_INIT;
    struct http_reply reply = {0};
    struct http_request r = {.method = "POST", .params = {"a"}};
    const struct http_route anybody = {0};
    json_t *body;

    if (tables.store == NULL)
        set_up();
    fuzz_expand(data, size, &text);
    body = json_loadb(buf_str(&text), text.len, JSON_ALLOW_NUL, NULL);
    r.body = body;
    if (json_is_object(body)) {
        dlc_check(auth_check(&r, &anybody, &reply, &api));
        route_nodes_heartbeat(&r, &reply, &api);
        dlc_check(reply.status == 0 || reply.status == 200 || reply.status == 400 ||
                  reply.status == 409);
    }
    release(&reply);
    json_decref(body);
    buf_release(&text);
    return 0;
}
