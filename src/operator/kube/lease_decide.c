// SPDX-License-Identifier: Apache-2.0
/* Decisions about a Lease by the rules of lease.h, without a clock or a server. */
#include "operator/kube/lease_i.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "operator/kube/kube.h"

#define LASTS_MOST 3600 /* s: a record that claims more is nonsense, and would lock us out */

/* Anything that a living holder changes. */
static bool is_same(const struct lease_view *v, const json_t *lease)
{
    return v->holder != NULL &&
           strcmp(v->holder, json_text_at(lease, "spec.holderIdentity")) == 0 &&
           strcmp(v->renewed, json_text_at(lease, "spec.renewTime")) == 0 &&
           v->transitions == json_int_at(lease, "spec.leaseTransitions");
}

static void remember(struct lease_view *v, const json_t *lease, struct dlc_mono now)
{
    json_int_t s = json_int_at(lease, "spec.leaseDurationSeconds");

    if (is_same(v, lease))
        return;
    mem_free(&v->holder);
    mem_free(&v->renewed);
    v->holder = mem_str(json_text_at(lease, "spec.holderIdentity"));
    v->renewed = mem_str(json_text_at(lease, "spec.renewTime"));
    v->transitions = json_int_at(lease, "spec.leaseTransitions");
    v->lasts = s > 0 ? DLC_SEC(DLC_MIN(s, LASTS_MOST)) : v->duration;
    v->since = now;
}

/* When somebody else may be the holder, unless the record changes before. */
static int64_t taken_at(const struct lease_view *v)
{
    return v->since.ns + lease_share(v->lasts, LEASE_TAKEN).ns;
}

enum lease_step lease_decide(struct lease_view *v, const json_t *lease, struct dlc_mono now)
{
    if (lease == NULL) {
        v->held_from = (struct dlc_mono){0};
        return LEASE_CREATE;
    }
    remember(v, lease, now);
    if (strcmp(v->holder, v->identity) == 0)
        return LEASE_RENEW;
    v->held_from = (struct dlc_mono){0};
    if (v->holder[0] == '\0' || now.ns >= taken_at(v))
        return LEASE_TAKE;
    return LEASE_WAIT;
}

json_t *lease_record(const struct lease_view *v, enum lease_step step, const json_t *lease,
                     const char *ns, const char *name, const char *now)
{
    json_t *record = lease != NULL ? json_deep_copy(lease) : NULL, *spec;
    json_int_t transitions = step == LEASE_CREATE ? 0 : v->transitions + (step == LEASE_TAKE);

    if (record == NULL)
        record = json_pack("{s:{s:s, s:s}}", "metadata", "namespace", ns, "name", name);
    json_object_del(json_object_get(record, "metadata"), "managedFields");
    spec = json_object_get(record, "spec");
    if (!json_is_object(spec)) {
        spec = json_object();
        json_object_set_new(record, "spec", spec);
    }
    if (step != LEASE_RENEW)
        json_object_set_new(spec, "acquireTime", json_string(now));
    json_object_set_new(spec, "holderIdentity", json_string(v->identity));
    json_object_set_new(spec, "renewTime", json_string(now));
    json_object_set_new(spec, "leaseTransitions", json_integer(transitions));
    json_object_set_new(spec, "leaseDurationSeconds", json_integer(v->duration.ns / 1000000000));
    return record;
}

json_t *lease_farewell(const json_t *lease, const char *now)
{
    json_t *record = json_deep_copy(lease), *spec = json_object_get(record, "spec");

    json_object_del(json_object_get(record, "metadata"), "managedFields");
    json_object_set_new(spec, "holderIdentity", json_string(""));
    json_object_set_new(spec, "leaseDurationSeconds", json_integer(1));
    json_object_set_new(spec, "renewTime", json_string(now));
    return record;
}

bool lease_view_holds(const struct lease_view *v, struct dlc_mono now)
{
    return v->held_from.ns != 0 &&
           now.ns < v->held_from.ns + lease_share(v->duration, LEASE_HOLDS).ns;
}

/* A follower looks often, so that it sees a renewal soon after it was made and does not wait for
 * longer than it must; and exactly when the record ends. */
struct dlc_mono lease_next(const struct lease_view *v, struct dlc_mono now)
{
    int pace = lease_view_holds(v, now) ? LEASE_RENEWED : LEASE_FOLLOWED;
    int64_t at = now.ns + lease_share(v->duration, pace).ns, ends = taken_at(v);

    if (v->held_from.ns == 0 && v->holder != NULL && ends > now.ns && ends < at)
        at = ends;
    return (struct dlc_mono){at};
}

void lease_view_release(struct lease_view *v)
{
    mem_free(&v->holder);
    mem_free(&v->renewed);
}
