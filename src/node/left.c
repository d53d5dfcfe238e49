// SPDX-License-Identifier: Apache-2.0
/*
 * What this node has on disk of the cluster's datasets, be they open or not.
 *
 * Beside the catalogs lies a note for each dataset of the cluster that was open here: which catalog
 * is its, and the number that names its chunks. With it a daemon that was started anew finds the
 * chunks of a dataset that nobody has opened since: to tell the manager of them, and to drop them.
 *
 *     DIR/catalogs/NAME.left      {"catalog": "0123456789abcdef.cat", "disk": "0123456789abcdef"}
 *
 * It is about the snapshot that was listed last: what is left of others goes when room is needed.
 */
#include "node/node_i.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "node/cataloguer.h"

#define LEFT_MAX 32 /* datasets that are opened again */
#define NOTE_MAX 4096

/* ---- dropping ---- */

static uint64_t drop(struct disk *d, struct chunk_id id, uint64_t size)
{
    if (!disk_has(d, id))
        return 0;
    disk_drop(d, id);
    return size;
}

/* Its samples and its archives' derived forms. Bytes. */
static uint64_t drop_chunks(struct disk *d, const struct catalog *c, uint64_t disk_id)
{
    struct catalog_entry e;
    uint64_t bytes = 0, size;

    for (uint64_t i = 0; i < catalog_count(c); i++)
        if (catalog_get(c, i, &e, NULL) == 0)
            bytes += drop(d, chunk_id_of(disk_id, e.key, e.etag), e.size);
    for (uint64_t j = 0; j < catalog_objects(c); j++)
        if (catalog_derived(c, j, &size, NULL) == 0 && catalog_object(c, j, &e, NULL) == 0)
            bytes += drop(d, derived_chunk_id(disk_id, e.key, e.etag), size);
    return bytes;
}

uint64_t dataset_drop_chunks(const struct dataset *ds)
{
    return drop_chunks(ds->node->disk, ds->catalog, ds->disk_id);
}

/* ---- notes ---- */

/* Gives; NULL: that is no name. */
static char *note_path(const struct node *n, const char *name)
{
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return NULL;
    return mem_fmt("%s/catalogs/%s.left", n->config->dir, name);
}

void left_note(const struct dataset *ds)
{
    char *path = ds->cid != NULL && ds->node->disk != NULL ? note_path(ds->node, ds->cid) : NULL;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf old = BUF_INIT;
    char *note;

    if (path == NULL)
        return;
    note = mem_fmt("{\"catalog\": \"%s\", \"disk\": \"%016llx\"}\n",
                   strrchr(ds->catalog_path, '/') + 1, (unsigned long long)ds->disk_id);
    if ((os_read_file(path, NOTE_MAX, &old, NULL) < 0 || strcmp(buf_str(&old), note) != 0) &&
        os_write_file(path, note, strlen(note), 0600, &err) < 0)
        log_warn("%s is not remembered: %s", ds->cid, err.text);
    buf_release(&old);
    mem_free(&note);
    mem_free(&path);
}

/* Gives the catalog; NULL: there is no note, or it makes no sense. */
static struct catalog *read_note(const struct node *n, const char *path, uint64_t *disk_id)
{
    json_t *note = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *file = json_string_value(json_object_get(note, "catalog"));
    const char *disk = json_string_value(json_object_get(note, "disk"));
    struct catalog *c = NULL;
    unsigned char raw[8];
    char *where;

    if (file != NULL && strchr(file, '/') == NULL && disk != NULL && strlen(disk) == 16 &&
        str_unhex(disk, 16, raw)) {
        *disk_id = 0;
        for (unsigned i = 0; i < sizeof(raw); i++)
            *disk_id = *disk_id << 8 | raw[i];
        where = mem_fmt("%s/catalogs/%s", n->config->dir, file);
        if (catalog_open(where, &c, NULL) < 0)
            c = NULL;
        mem_free(&where);
    }
    json_decref(note);
    return c;
}

uint64_t left_drop(struct node *n, const char *name)
{
    char *path = note_path(n, name);
    struct catalog *c = NULL;
    uint64_t disk_id = 0, bytes = 0;

    if (path != NULL)
        c = read_note(n, path, &disk_id);
    if (c != NULL) {
        bytes = drop_chunks(n->disk, c, disk_id);
        unlink(path);
    }
    catalog_close(&c);
    mem_free(&path);
    return bytes;
}

/* ---- opening again ---- */

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    (void)err;
    (void)arg;
    if (g != NULL && !n->stopping)
        dataset_reopen(
            n, &(struct wanted){
                   .url = g->url, .endpoint = g->endpoint, .anonymous = g->anonymous, .grant = g});
}

static void open_one(struct node *n, const char *file)
{
    char *name = mem_strn(file, strlen(file) - strlen(".left"));
    char *url = mem_fmt("dlcache://%s", name);

    resolve(n, NULL, url, NULL, GRANT_LIFE, on_granted, NULL);
    mem_free(&url);
    mem_free(&name);
}

void left_open(struct node *n)
{
    char *path = mem_fmt("%s/catalogs", n->config->dir);
    DIR *dir = n->disk != NULL ? opendir(path) : NULL;
    const struct dirent *e;
    unsigned found = 0;

    while (dir != NULL && found < LEFT_MAX && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || !str_ends(e->d_name, ".left"))
            continue;
        found++;
        open_one(n, e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    mem_free(&path);
}
