// SPDX-License-Identifier: Apache-2.0
/* Kinds of objects, their URLs and metadata; and Events about objects. */
#include "operator/kube/kube.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define MESSAGE_MAX 1024 /* the API server's limit */

const struct kube_kind_info kube_kinds[KUBE_KINDS] = {
#define KIND(name, api, kind, plural, namespaced) {api, kind, plural, namespaced},
#include "operator/kinds.def"
#undef KIND
};

char *kube_path(enum kube_kind kind, const char *ns)
{
    const struct kube_kind_info *i = &kube_kinds[kind];
    struct buf b = BUF_INIT;

    buf_addf(&b, "%s/%s", strchr(i->api, '/') != NULL ? "/apis" : "/api", i->api);
    if (i->namespaced && ns != NULL) {
        buf_adds(&b, "/namespaces/");
        str_uri_encode(ns, strlen(ns), false, &b);
    }
    buf_addf(&b, "/%s", i->plural);
    return buf_take(&b);
}

const char *kube_time(bool micro, char out[static KUBE_TIME_LEN])
{
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(out, KUBE_TIME_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
    if (micro)
        snprintf(out + n, KUBE_TIME_LEN - n, ".%06ldZ", now.tv_nsec / 1000);
    else
        snprintf(out + n, KUBE_TIME_LEN - n, "Z");
    return out;
}

const char *kube_name(const json_t *object)
{
    return json_text_at(object, "metadata.name");
}

const char *kube_namespace(const json_t *object)
{
    return json_text_at(object, "metadata.namespace");
}

const char *kube_uid(const json_t *object)
{
    return json_text_at(object, "metadata.uid");
}

const char *kube_version(const json_t *object)
{
    return json_text_at(object, "metadata.resourceVersion");
}

bool kube_is_deleted(const json_t *object)
{
    return *json_text_at(object, "metadata.deletionTimestamp") != '\0';
}

/* -------- events -------- */

/* Of one object, reason and text there is one Event. Gives. */
static char *event_name(const json_t *about, const char *reason, const char *message)
{
    char *all = mem_fmt("%s\n%s\n%s", kube_uid(about), reason, message);
    char *name =
        mem_fmt("%.200s.%016llx", kube_name(about), (unsigned long long)hash64(all, strlen(all)));

    mem_free(&all);
    return name;
}

static json_t *event_body(const json_t *about, const char *name, const char *type,
                          const char *reason, const char *message)
{
    const char *ns = kube_namespace(about);
    char now[KUBE_TIME_LEN];

    kube_time(false, now);
    return json_pack("{s:{s:s, s:s}, s:{s:s?, s:s?, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:{s:s},"
                     " s:s, s:s, s:i, s:s}",
                     "metadata", "name", name, "namespace", *ns != '\0' ? ns : "default",
                     "involvedObject", "apiVersion",
                     json_string_value(json_object_get(about, "apiVersion")), "kind",
                     json_string_value(json_object_get(about, "kind")), "namespace", ns, "name",
                     kube_name(about), "uid", kube_uid(about), "resourceVersion",
                     kube_version(about), "type", type, "reason", reason, "message", message,
                     "source", "component", "dlcache-operator", "firstTimestamp", now,
                     "lastTimestamp", now, "count", 1, "reportingComponent", KUBE_MANAGER);
}

/* It was said before: once more. */
static int count_up(struct kube *k, const char *ns, const char *name, struct dlc_err *err)
{
    char now[KUBE_TIME_LEN];
    json_t *old, *patch;
    json_int_t count;
    int rc = kube_get(k, KUBE_EVENT, ns, name, &old, err);

    if (rc < 0)
        return rc;
    count = json_int_at(old, "count");
    patch = json_pack("{s:I, s:s}", "count", count + 1, "lastTimestamp", kube_time(false, now));
    rc = kube_patch(k, KUBE_EVENT, ns, name, patch, 0, NULL, err);
    json_decref(patch);
    json_decref(old);
    return rc;
}

/* Valid UTF-8 of at most MESSAGE_MAX bytes. Gives. */
static char *message_of(const char *fmt, va_list ap)
{
    char text[MESSAGE_MAX + 1];
    struct buf b = BUF_INIT;
    size_t n;

    vsnprintf(text, sizeof(text), fmt, ap);
    for (n = strlen(text); n > 0 && !str_is_utf8(text, n) && n + 4 > strlen(text); n--)
        ; /* cut in the middle of a character */
    if (str_is_utf8(text, n))
        buf_add(&b, text, n);
    else
        str_printable(text, strlen(text), &b);
    return buf_take(&b);
}

int kube_event(struct kube *k, const json_t *about, const char *type, const char *reason,
               struct dlc_err *err, const char *fmt, ...)
{
    const char *ns = *kube_namespace(about) != '\0' ? kube_namespace(about) : "default";
    char *message, *name;
    json_t *body;
    va_list ap;
    int rc;

    va_start(ap, fmt);
    message = message_of(fmt, ap);
    va_end(ap);
    name = event_name(about, reason, message);
    body = event_body(about, name, type, reason, message);
    if (body == NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "an event whose text is not UTF-8");
    else
        rc = kube_create(k, KUBE_EVENT, ns, body, NULL, err);
    if (rc == DLC_EBUSY)
        rc = count_up(k, ns, name, err);
    json_decref(body);
    mem_free(&name);
    mem_free(&message);
    return rc;
}
