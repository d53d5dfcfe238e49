// SPDX-License-Identifier: Apache-2.0
/*
 * Lists in pages. The first page fixes the version; a page that would be too long is requested
 * again with a quarter of its objects, down to one.
 */
#include "operator/kube/kube.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/kube/kube_i.h"

#define PAGE 250

struct listing {
    struct kube *kube;
    enum kube_kind kind;
    const struct kube_query *query;
    bool (*each)(json_t **object, void *arg);
    void *arg;
    unsigned limit;
    char *go_on, *version; /* of the last page */
};

static void add_query(struct buf *b, const char *name, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    buf_addf(b, "&%s=", name);
    str_uri_encode(value, strlen(value), false, b);
}

static char *page_path(const struct listing *l)
{
    char *all = kube_path(l->kind, l->query->ns);
    struct buf b = BUF_INIT;

    buf_addf(&b, "%s?limit=%u", all, l->limit);
    add_query(&b, "labelSelector", l->query->labels);
    add_query(&b, "fieldSelector", l->query->fields);
    add_query(&b, "continue", l->go_on);
    mem_free(&all);
    return buf_take(&b);
}

/* Objects of a list lack what a single one says of itself. */
static void complete(enum kube_kind kind, json_t *object)
{
    if (json_object_get(object, "apiVersion") == NULL)
        json_object_set_new(object, "apiVersion", json_string(kube_kinds[kind].api));
    if (json_object_get(object, "kind") == NULL)
        json_object_set_new(object, "kind", json_string(kube_kinds[kind].kind));
}

/* One object of a page, which lets go of it. False: the list is to end. */
static bool hand_over(struct listing *l, json_t *items, size_t i)
{
    json_t *object = json_incref(json_array_get(items, i));
    bool on;

    json_array_set_new(items, i, json_null());
    complete(l->kind, object);
    on = l->each(&object, l->arg);
    json_decref(object);
    return on;
}

static int take_page(struct listing *l, json_t *page, struct dlc_err *err)
{
    json_t *items = json_object_get(page, "items");
    const char *version = kube_version(page);
    const char *go_on = json_string_value(json_at(page, "metadata.continue"));

    if (!(json_is_array(items) || json_is_null(items)) || *version == '\0')
        return dlc_err_set(err, DLC_EPROTO, "the API server's list of %s is none",
                           kube_kinds[l->kind].plural);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *object = json_array_get(items, i);

        if (*kube_name(object) == '\0' || *kube_version(object) == '\0')
            return dlc_err_set(err, DLC_EPROTO, "the API server's list of %s holds nonsense",
                               kube_kinds[l->kind].plural);
        if (!hand_over(l, items, i))
            return dlc_err_set(err, DLC_ECANCELED, "the list was given up");
    }
    mem_free(&l->version);
    mem_free(&l->go_on);
    l->version = mem_str(version);
    l->go_on = go_on != NULL && *go_on != '\0' ? mem_str(go_on) : NULL;
    return 0;
}

/* *long_one: it was too long. */
static int get_page(struct listing *l, bool *long_one, struct dlc_err *err)
{
    struct kube_call c = {.kube = l->kube, .method = "GET", .list = true};
    char *path = page_path(l);
    json_t *page = NULL;
    int rc;

    c.path = path;
    rc = kube_call(&c, err);
    *long_one = c.http.too_long;
    if (rc == 0)
        rc = kube_call_json(&c, &page, err);
    kube_call_release(&c);
    if (rc == 0)
        rc = take_page(l, page, err);
    json_decref(page);
    mem_free(&path);
    return rc;
}

int kube_list(struct kube *k, enum kube_kind kind, const struct kube_query *q,
              bool (*each)(json_t **object, void *arg), void *arg, char **version,
              struct dlc_err *err)
{
    static const struct kube_query all = {NULL, NULL, NULL};
    struct listing l = {.kube = k,
                        .kind = kind,
                        .query = q != NULL ? q : &all,
                        .each = each,
                        .arg = arg,
                        .limit = PAGE};
    bool too_long = false;
    int rc;

    do {
        rc = get_page(&l, &too_long, err);
        too_long = too_long && l.limit > 1;
        if (too_long)
            l.limit = DLC_MAX(l.limit / 4, 1u);
    } while (too_long || (rc == 0 && l.go_on != NULL));
    if (version != NULL)
        *version = rc == 0 ? l.version : NULL;
    if (version == NULL || rc < 0)
        mem_free(&l.version);
    mem_free(&l.go_on);
    return rc;
}
