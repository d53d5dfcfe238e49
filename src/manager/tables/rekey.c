// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/rekey.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/tables/documents.h"
#include "manager/tables/key_record.h"
#include "manager/tables/tables.h"

#define PAGE 256

int rekey_begin(struct tables *t, struct seal *seal, struct dlc_err *err)
{
    char first[SEAL_KEY_ID_LEN + 1], now[SEAL_KEY_ID_LEN + 1];

    seal_first_id(seal, first);
    seal_key_id(seal, now);
    return strcmp(first, now) == 0 ? 0 : key_record_set(t->store, seal, first, err);
}

/* ---- one record ---- */

/* A change_f. */
static int seal_document(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct seal *seal = arg;
    int rc = seal_again(seal, d->body, err);

    char now[SEAL_KEY_ID_LEN + 1];

    if (rc < 0)
        return rc;
    seal_key_id(seal, now);
    return rc > 0 || (d->key[0] != '\0' && strcmp(d->key, now) != 0) ? 0 : 1;
}

static int rekey_one(struct tables *t, const struct seal *seal, enum store_kind kind,
                     const char *id, struct rekey_step *step, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err why = DLC_ERR_INIT;
    uint64_t was;
    int rc = store_get(t->store, kind, id, &d, &why);

    was = d.version;
    store_doc_release(&d);
    if (rc == 0)
        rc = document_change(t, kind, id, STORE_ANY, seal_document, (void *)(uintptr_t)seal, &d,
                             &why);
    if (rc == 0) {
        step->looked_at++;
        step->written += d.version != was;
    }
    store_doc_release(&d);
    if (rc == DLC_EDENIED || rc == DLC_ECORRUPT) {
        log_error("rekey: record %s of kind %d stays as it is: %s", id, (int)kind, why.text);
        step->failed++;
        return 0;
    }
    if (rc == 0 || rc == DLC_ENOTFOUND) /* deleted meanwhile */
        return 0;
    if (err != NULL)
        *err = why;
    return rc;
}

/* ---- all ---- */

/* A cursor is "KIND/ID", the last record that is done. */
static const char *cursor_parse(const char *after, int *kind)
{
    char *end = NULL;
    long n = after != NULL ? strtol(after, &end, 10) : 0;

    *kind = 0;
    if (after == NULL || *end != '/' || n < 0 || n >= STORE_KINDS)
        return NULL;
    *kind = (int)n;
    return end[1] != '\0' ? end + 1 : NULL;
}

/* A page of a kind. *after: gives the last id that is done; NULL: there is no more of this kind. */
static int rekey_page(struct tables *t, const struct seal *seal, enum store_kind kind, char **after,
                      struct dlc_mono until, struct rekey_step *step, struct dlc_err *err)
{
    char **ids = mem_zero(PAGE * sizeof(*ids)), *last = NULL;
    size_t n = 0, i;
    int rc = store_ids(t->store, kind, NULL, *after, NULL, PAGE, ids, &n, err);

    for (i = 0; rc == 0 && i < n && !dlc_mono_passed(until, dlc_mono_now()); i++) {
        rc = rekey_one(t, seal, kind, ids[i], step, err);
        if (rc == 0) {
            mem_free(&last);
            last = mem_str(ids[i]);
        }
    }
    if (rc == 0 && i == n && n < PAGE) {
        mem_free(&last);
        mem_free(after);
    } else if (last != NULL) {
        mem_free(after);
        *after = last;
    }
    for (i = 0; i < n; i++)
        mem_free(&ids[i]);
    mem_free(&ids);
    return rc;
}

int rekey_some(struct tables *t, const struct seal *seal, const char *after, struct dlc_dur limit,
               struct rekey_step *out, struct dlc_err *err)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), limit);
    int kind, rc = 0;
    char *id = mem_str(cursor_parse(after, &kind));

    *out = (struct rekey_step){0};
    while (rc == 0 && kind < STORE_KINDS && !dlc_mono_passed(until, dlc_mono_now())) {
        rc = rekey_page(t, seal, (enum store_kind)kind, &id, until, out, err);
        kind += rc == 0 && id == NULL;
    }
    if (rc == 0 && kind < STORE_KINDS)
        out->next = mem_fmt("%d/%s", kind, id != NULL ? id : "");
    mem_free(&id);
    return rc;
}

/* ---- how many use which ---- */

static void add_key(const char *id, void *arg)
{
    json_object_set_new(arg, id, json_true()); /* a record with two texts counts once */
}

static bool count_record(struct store_doc *d, void *arg)
{
    json_t *keys = json_object(), *v;
    const char *id;

    if (d->key[0] != '\0')
        add_key(d->key, keys);
    seal_each_key(d->body, add_key, keys);
    json_object_foreach(keys, id, v) json_add_int(arg, id, 1);
    json_decref(keys);
    return true;
}

int rekey_count(struct tables *t, json_t **out, struct dlc_err *err)
{
    int rc = 0;

    *out = json_object();
    for (int kind = 0; rc == 0 && kind < STORE_KINDS; kind++)
        rc = store_each(t->store, (enum store_kind)kind, NULL, count_record, *out, err);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}
