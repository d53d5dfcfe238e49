// SPDX-License-Identifier: Apache-2.0
/*
 * Disk inventory: which datasets of the cluster have chunks on this node's disk, open or not.
 *
 * A file beside the catalogs records each dataset of the cluster that was open here: its catalog,
 * the number that names its chunks, and its owner. With it a restarted daemon finds the chunks of a
 * dataset that has not been opened since, to report them to the manager and to drop them; and
 * `dlcache rebuild` restores a dataset's name and tenant. Two tenants may have used one name in
 * turn: each has a file of its own.
 *
 *     DIR/catalogs/NAME@TENANT.owner   {"catalog": "ID.cat", "disk": "32 hexadecimal digits",
 *                                       "tenant": "TENANT"}
 *
 * The record is about the snapshot that was listed last: chunks of older ones are evicted when
 * space is needed.
 */
#include "cluster/disk_inventory.h"

#include <dirent.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cluster/access.h"
#include "cluster/dataset_records.h"
#include "cluster/member.h"
#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/dataset_open.h"
#include "daemon/events.h"
#include "daemon/dataset_chunks.h"
#include "daemon/state.h"
#include "base/config.h"
#include "base/thread_pool.h"
#include "cluster/peer/view.h"
#include "daemon/work.h"

#define OPEN_FIRST  32 /* datasets that are opened again when the daemon starts */
#define OPEN_MORE   16 /* and at a time after that: fewer than stay open without a user */
#define OVERLAP_MAX 32
#define RECORD_MAX  4096

/* ---- which one ---- */

/* Is `text`, in canonical form, where that URL leads? "" leads anywhere. */
static bool lies_at(const char *text, const char *url)
{
    struct url u = URL_INIT;
    bool same = url[0] == '\0' || (url_parse(&u, url, NULL) == 0 && strcmp(u.text, text) == 0);

    url_release(&u);
    return same;
}

struct dataset *inventory_still_open(struct node *n, const char *name, const char *tenant,
                                     const char *url)
{
    const struct dlc_list *same = datasets_of_cid(n, name);
    struct dataset *found = NULL;

    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_cid);

        if (ds->cid != NULL && ds->state == DATASET_READY && !ds->stale &&
            strcmp(ds->cid, name) == 0 && strcmp(ds->tenant, tenant) == 0 &&
            lies_at(ds->url.text, url))
            found = ds;
    }
    return found;
}

/* ---- records ---- */

/* Gives; NULL: that is not a name. */
static char *record_path(const struct node *n, const char *name, const char *tenant)
{
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
        strchr(tenant, '/') != NULL)
        return NULL;
    return mem_fmt("%s/catalogs/%s@%s" INVENTORY_SUFFIX, n->config->dir, name, tenant);
}

/* It is open: remember where its chunks are. X */
static void record_write(const struct dataset *ds)
{
    char *path = ds->cid != NULL && ds->node->disk != NULL
                     ? record_path(ds->node, ds->cid, ds->tenant)
                     : NULL;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf old = BUF_INIT;
    char *record;

    if (path == NULL)
        return;
    record = mem_fmt("{\"catalog\": \"%s\", \"disk\": \"%016llx%016llx\", \"tenant\": \"%s\"}\n",
                     strrchr(ds->catalog_path, '/') + 1, (unsigned long long)ds->disk.id.hi,
                     (unsigned long long)ds->disk.id.lo, ds->tenant);
    if ((os_read_file(path, RECORD_MAX, &old, NULL) < 0 || strcmp(buf_str(&old), record) != 0) &&
        os_write_file(path, record, strlen(record), 0600, &err) < 0)
        log_warn("%s is not remembered: %s", ds->cid, err.text);
    buf_release(&old);
    mem_free(&record);
    mem_free(&path);
}

/* Gives the catalog; NULL: there is no record, it makes no sense, or it names its chunks otherwise
 * than *only (NULL: any). */
static struct catalog *record_read(const struct node *n, const char *path,
                                   const struct name_hash *only, struct name_hash *disk_id)
{
    struct buf text = BUF_INIT;
    json_t *record = os_read_file(path, RECORD_MAX, &text, NULL) < 0
                         ? NULL
                         : json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
    const char *file = json_string_value(json_object_get(record, "catalog"));
    const char *disk = json_string_value(json_object_get(record, "disk"));
    struct catalog *c = NULL;
    uint64_t raw[2];
    char *where;

    buf_release(&text);
    if (file != NULL && strchr(file, '/') == NULL && disk != NULL && strlen(disk) == 32 &&
        str_unhex(disk, 32, (unsigned char *)raw)) {
        *disk_id = (struct name_hash){be64toh(raw[0]), be64toh(raw[1])};
        where = mem_fmt("%s/catalogs/%s", n->config->dir, file);
        if ((only != NULL && (only->hi != disk_id->hi || only->lo != disk_id->lo)) ||
            catalog_open(where, &c, NULL) < 0)
            c = NULL;
        mem_free(&where);
    }
    json_decref(record);
    return c;
}

/* ---- dropping ---- */

/* Catalogs of the datasets that have chunks in common with one. */
struct overlap {
    struct catalog *list[OVERLAP_MAX];
    size_t n;
    bool all; /* false: there are more */
};

static bool is_record(const char *file)
{
    const char *at = strchr(file, '@');

    return file[0] != '.' && at != NULL && str_ends(at, INVENTORY_SUFFIX);
}

/* Of all records but that at `own`, which name their chunks alike. */
static void overlap_open(const struct node *n, const char *own, struct name_hash disk_id,
                         struct overlap *o)
{
    char *dir_path = mem_fmt("%s/catalogs", n->config->dir);
    DIR *dir = os_opendir(dir_path);
    const struct dirent *e;

    *o = (struct overlap){.all = true};
    while (dir != NULL && (e = os_readdir(dir)) != NULL) {
        char *path = is_record(e->d_name) ? mem_fmt("%s/%s", dir_path, e->d_name) : NULL;
        struct name_hash id;
        struct catalog *c =
            path != NULL && strcmp(path, own) != 0 ? record_read(n, path, &disk_id, &id) : NULL;

        mem_free(&path);
        if (c != NULL && o->n < OVERLAP_MAX) {
            o->list[o->n++] = c;
        } else if (c != NULL) {
            o->all = false;
            catalog_close(&c);
        }
    }
    os_closedir(&dir);
    mem_free(&dir_path);
}

static void overlap_close(struct overlap *o)
{
    for (size_t i = 0; i < o->n; i++)
        catalog_close(&o->list[i]);
}

/* (INVENTORY-1) Copies belong to objects: those of another dataset stay, and all of them if there
 * are more datasets than are looked at; then they go when space is needed. */
static uint64_t drop_own(const struct node *n, const char *path, const struct catalog *c,
                         struct name_hash disk_id)
{
    struct overlap o;
    uint64_t bytes = 0;

    overlap_open(n, path, disk_id, &o);
    if (o.all)
        bytes = catalog_drop_chunks(n->disk, c, disk_id, o.list, o.n);
    overlap_close(&o);
    return bytes;
}

uint64_t inventory_drop(struct node *n, const char *name, const char *tenant, const char *url,
                        bool deleted)
{
    char *path = record_path(n, name, tenant);
    struct catalog *c = NULL;
    struct name_hash disk_id = {0, 0};
    uint64_t bytes = 0;

    if (path != NULL)
        c = record_read(n, path, NULL, &disk_id);
    if (c != NULL && lies_at(catalog_url(c), url)) {
        bytes = deleted ? drop_own(n, path, c, disk_id)
                        : catalog_drop_chunks(n->disk, c, disk_id, NULL, 0);
        os_unlink(path);
    }
    catalog_close(&c);
    mem_free(&path);
    return bytes;
}

uint64_t inventory_drop_open(const struct dataset *ds, bool deleted)
{
    char *path = deleted ? record_path(ds->node, ds->cid, ds->tenant) : NULL;
    uint64_t bytes;

    if (path == NULL)
        return dataset_drop_chunks(ds, NULL, 0);
    bytes = drop_own(ds->node, path, ds->catalog, ds->disk.id);
    os_unlink(path);
    mem_free(&path);
    return bytes;
}

/* ---- opening again ---- */

/* The files of records that have not been looked at. */
struct record_names {
    char **list;
    size_t n, cap;
};

/* A pass over some records: each dataset is looked up at the manager. */
struct inventory_scan {
    struct node *node;
    size_t most;               /* records to look at */
    unsigned asked;            /* answers to come, plus one until all are asked for */
    struct record_names names; /* as read */
    struct inventory_entry **deleted;
    size_t n_deleted, cap_deleted;
    struct work work;
    struct task task;
};

/* One record. */
struct inventory_entry {
    struct inventory_scan *scan;
    char *name, *tenant;
};

static void inventory_entry_free(struct inventory_entry *f)
{
    mem_free(&f->name);
    mem_free(&f->tenant);
    mem_free(&f);
}

static void inventory_scan_free(struct inventory_scan *scan)
{
    for (size_t i = 0; i < scan->n_deleted; i++)
        inventory_entry_free(scan->deleted[i]);
    mem_free(&scan->deleted);
    mem_free(&scan);
}

static void drop_deleted(struct work *w)
{
    struct inventory_scan *scan = dlc_container(w, struct inventory_scan, work);

    for (size_t i = 0; i < scan->n_deleted; i++) {
        inventory_drop(scan->node, scan->deleted[i]->name, scan->deleted[i]->tenant, "", true);
        dataset_record_delete(scan->node, scan->deleted[i]->name, scan->deleted[i]->tenant);
    }
    loop_post(scan->node->loop, &scan->task);
}

static void scan_dropped(struct task *t)
{
    struct inventory_scan *scan = dlc_container(t, struct inventory_scan, task);

    scan->node->pending--;
    inventory_scan_free(scan);
}

/* What was deleted while we were away nobody told us to evict. What the manager does not know at all
 * stays: its store may be lost, and what lies here all that is left of it. */
static void scan_answered(struct inventory_scan *scan)
{
    struct node *n = scan->node;

    if (--scan->asked > 0)
        return;
    n->member->inventory_read = true;
    for (size_t i = 0; i < scan->n_deleted; i++)
        log_info("%s is left here and was deleted: it goes", scan->deleted[i]->name);
    if (scan->n_deleted == 0 || n->stopping) {
        inventory_scan_free(scan);
        return;
    }
    scan->work.run = drop_deleted;
    scan->task.run = scan_dropped;
    n->pending++;
    work_run(n->work, WORK_BACKGROUND, &scan->work);
}

/* The manager cannot be asked, or will not say. */
static void inventory_not_seen(struct node *n, const char *name, const struct dlc_err *err)
{
    n->member->not_seen++;
    dlc_err_set(&n->member->why_not_seen, err->code, "dataset %s, which lies on the disk: %s", name,
                err->text);
}

static void scan_granted(struct node *n, const struct grant *g, const struct dlc_err *err,
                         void *arg)
{
    struct inventory_entry *f = arg;
    struct inventory_scan *scan = f->scan;
    bool known = g != NULL && strcmp(g->tenant, f->tenant) == 0; /* else its name is another's */

    if (known && !n->stopping)
        dataset_reopen(
            n, &(struct open_request){
                   .url = g->url, .endpoint = g->endpoint, .anonymous = g->anonymous, .grant = g});
    if (g == NULL && err->code == DLC_ENOTFOUND)
        log_info("%s is left here and not known to the manager: it stays", f->name);
    else if (g == NULL && err->code != DLC_ECHANGED)
        inventory_not_seen(n, f->name, err);
    if (!known && (g != NULL || err->code == DLC_ECHANGED)) {
        mem_reserve(scan->deleted, scan->n_deleted, scan->cap_deleted);
        scan->deleted[scan->n_deleted++] = f;
    } else {
        inventory_entry_free(f);
    }
    scan_answered(scan);
}

/* at: the '@' in the name of the file. */
static void scan_open(struct inventory_scan *scan, const char *file, const char *at)
{
    struct inventory_entry *f = mem_new(struct inventory_entry);
    char *url;

    f->scan = scan;
    f->name = mem_strn(file, (size_t)(at - file));
    f->tenant = mem_strn(at + 1, strlen(at + 1) - strlen(INVENTORY_SUFFIX));
    url = mem_fmt("dlcache://%s", f->name);
    scan->asked++;
    resolve(scan->node, NULL, url, NULL, GRANT_LIFE, scan_granted, f);
    mem_free(&url);
}

/* On a worker: the directory may have many names beside the records, and be slow. */
static void read_names(struct work *w)
{
    struct inventory_scan *scan = dlc_container(w, struct inventory_scan, work);
    char *path = mem_fmt("%s/catalogs", scan->node->config->dir);
    DIR *dir = os_opendir(path);
    const struct dirent *e;

    while (dir != NULL && (e = os_readdir(dir)) != NULL) {
        if (!is_record(e->d_name))
            continue;
        mem_reserve(scan->names.list, scan->names.n, scan->names.cap);
        scan->names.list[scan->names.n++] = mem_str(e->d_name);
    }
    os_closedir(&dir);
    mem_free(&path);
    loop_post(scan->node->loop, &scan->task);
}

static struct inventory_scan *scan_new(struct node *n, size_t most)
{
    struct inventory_scan *scan = mem_new(struct inventory_scan);

    scan->node = n;
    scan->most = most;
    scan->asked = 1;
    n->member->inventory_read = false;
    return scan;
}

static void scan_some(struct inventory_scan *scan)
{
    struct record_names *names = scan->node->member->records;

    for (size_t i = 0; i < scan->most && names->n > 0; i++) {
        char *file = names->list[--names->n];

        if (!scan->node->stopping)
            scan_open(scan, file, strchr(file, '@'));
        mem_free(&file);
    }
    scan_answered(scan);
}

static void open_names(struct task *t)
{
    struct inventory_scan *scan = dlc_container(t, struct inventory_scan, task);

    scan->node->pending--;
    inventory_close(scan->node);
    scan->node->member->records = mem_new(struct record_names);
    *scan->node->member->records = scan->names;
    scan_some(scan);
}

bool inventory_more(struct node *n)
{
    if (n->member->records == NULL || n->member->records->n == 0)
        return false;
    scan_some(scan_new(n, OPEN_MORE));
    return true;
}

void inventory_close(struct node *n)
{
    struct record_names *names = n->member->records;

    n->member->records = NULL;
    if (names == NULL)
        return;
    for (size_t i = 0; i < names->n; i++)
        mem_free(&names->list[i]);
    mem_free(&names->list);
    mem_free(&names);
}

static void read_and_open(struct node *n, size_t most)
{
    struct inventory_scan *scan;

    n->member->not_seen = 0;
    if (n->disk == NULL) {
        n->member->inventory_read = true;
        return;
    }
    scan = scan_new(n, most);
    scan->work.run = read_names;
    scan->task.run = open_names;
    n->pending++;
    work_run(n->work, WORK_BACKGROUND, &scan->work);
}

void inventory_open(struct node *n)
{
    read_and_open(n, OPEN_FIRST);
}

void inventory_list(struct node *n)
{
    read_and_open(n, 0);
}

const struct node_events inventory_events = {.catalog_loaded = record_write};
