// SPDX-License-Identifier: Apache-2.0
/* Parts of a daemon for tests of one module: datasets with real catalogs, without the rest. */
#ifndef DLC_TESTS_UNIT_DAEMON_PARTS_H
#define DLC_TESTS_UNIT_DAEMON_PARTS_H

#include "unit.h"

#include "base/dataset_name.h"
#include "base/mem.h"
#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/dataset_table.h"
#include "daemon/state.h"

#define PARTS_SIZE 1000u /* bytes of a sample */

/* Of n objects whose keys begin with `prefix`, so that another prefix is another snapshot. */
static inline struct catalog *parts_catalog(const char *prefix, unsigned n)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256], key[64];

    unit_path("catalog", path);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s%06u", prefix, i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), PARTS_SIZE, "e", &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "s3://data/p/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static inline void parts_node(struct node *n)
{
    memset(n, 0, sizeof(*n));
    dlc_list_init(&n->datasets);
    dlc_list_init(&n->idle);
    dlc_list_init(&n->decoded);
    dlc_list_init(&n->backlogs);
    dlc_list_init(&n->following);
    dlc_list_init(&n->conns);
    dlc_list_init(&n->zombies);
}

/* Takes c, which may be NULL. In no table yet. */
static inline struct dataset *parts_dataset(struct node *n, const char *name, struct catalog *c)
{
    struct dataset *ds = mem_new(struct dataset);

    ds->tag = DLC_TAG4('d', 's', 'e', 't');
    ds->node = n;
    ds->id = ++n->next_id;
    ds->state = c != NULL ? DATASET_READY : DATASET_LISTING;
    ds->asked.name = mem_str(name);
    ds->catalog = c;
    assert_int_equal(url_parse(&ds->url, "s3://data/p/", NULL), 0);
    dlc_list_init(&ds->sessions);
    dlc_list_init(&ds->job_weights);
    dlc_list_init(&ds->decoded_caches);
    dlc_list_init(&ds->backlog.link);
    dataset_table_add(ds);
    return ds;
}

static inline void parts_free(struct dataset *ds)
{
    dataset_table_remove(ds);
    catalog_close(&ds->catalog);
    url_release(&ds->url);
    mem_free(&ds->asked.name);
    mem_free(&ds->cid);
    mem_free(&ds->tenant);
    mem_free(&ds->name);
    mem_free(&ds->shared_as);
    mem_free(&ds->catalog_path);
    dataset_ticket_release(&ds->ticket);
    mem_free(&ds);
}

static inline void parts_free_all(struct node *n)
{
    while (!dlc_list_empty(&n->datasets))
        parts_free(dlc_container(n->datasets.next, struct dataset, link));
}

/* It is not the cluster's any more. */
static inline void parts_leaves(struct dataset *ds)
{
    dataset_table_remove(ds);
    mem_free(&ds->cid);
    dataset_table_add(ds);
}

/* It is the cluster's. */
static inline void parts_belongs(struct dataset *ds, const char *cid, const char *tenant)
{
    dataset_table_remove(ds);
    ds->cid = mem_str(cid);
    dataset_table_add(ds);
    ds->tenant = mem_str(tenant);
    ds->name = mem_str(dataset_short_name(cid, tenant));
    ds->shared_as = mem_fmt("%s/%s", tenant, cid);
    ds->ticket.text = mem_str("dlt1.of-the-test");
}

#endif
