// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/pod_trouble.h"

#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/json.h"
#include "operator/reconcile/reconcile_i.h"

#define FIRST_DELAY DLC_SEC(10)
#define MOST_DELAY  DLC_SEC(300)

/* ---- evicted, failed ---- */

static bool is_disrupted(const json_t *pod)
{
    const json_t *c = json_find(json_at(pod, "status.conditions"), "type", "DisruptionTarget");

    return strcmp(json_text_at(c, "status"), "True") == 0;
}

bool pod_is_evicted(const json_t *pod)
{
    static const char *const reasons[] = {
        "Evicted",    "NodeLost",   "Shutdown",     "NodeShutdown",
        "Terminated", "Preempting", "NodeAffinity", "UnexpectedAdmissionError"};
    const char *reason = json_text_at(pod, "status.reason");

    if (strcmp(json_text_at(pod, "status.phase"), "Failed") != 0)
        return false;
    for (size_t i = 0; i < DLC_COUNT(reasons); i++)
        if (strcmp(reason, reasons[i]) == 0)
            return true;
    return strncmp(reason, "OutOf", 5) == 0 || is_disrupted(pod);
}

void pod_why_failed(const json_t *pod, char out[static 300])
{
    const json_t *s = json_object_get(pod, "status");
    const json_t *c = json_array_get(json_object_get(s, "containerStatuses"), 0);
    const json_t *t = json_at(c, "state.terminated");
    const char *reason = json_text_at(t, "reason");

    if (t != NULL)
        snprintf(out, 300, "its program ended with status %lld%s%s%s",
                 (long long)json_int_at(t, "exitCode"), reason[0] != '\0' ? " (" : "", reason,
                 reason[0] != '\0' ? ")" : "");
    else
        snprintf(out, 300, "%s %s", json_text_at(s, "reason"), json_text_at(s, "message"));
}

/* ---- waiting ---- */

/* On its way, not in trouble. */
static bool is_starting(const char *reason)
{
    return reason[0] == '\0' || strcmp(reason, "ContainerCreating") == 0 ||
           strcmp(reason, "PodInitializing") == 0;
}

static void describe(const json_t *container, const char *reason, char out[static 300])
{
    const json_t *last = json_at(container, "lastState.terminated");
    const char *name = json_text_at(container, "name");
    const char *why = json_text_at(last, "reason");

    if (strcmp(reason, "CrashLoopBackOff") == 0 && last != NULL)
        snprintf(out, 300,
                 "container %s ended with status %lld%s%s%s, was restarted %lld times, and waits "
                 "for the next restart; kubectl logs --previous shows its last words",
                 name, (long long)json_int_at(last, "exitCode"), why[0] != '\0' ? " (" : "", why,
                 why[0] != '\0' ? ")" : "", (long long)json_int_at(container, "restartCount"));
    else
        snprintf(out, 300, "container %s does not start: %s: %s", name, reason,
                 json_text_at(container, "state.waiting.message"));
    cut_text(out);
}

bool pod_trouble(const json_t *pod, char reason[static 64], char out[static 300])
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

    for (size_t i = 0; i < DLC_COUNT(lists); i++) {
        const json_t *all = json_object_get(json_object_get(pod, "status"), lists[i]), *c;
        size_t k;

        json_array_foreach(all, k, c)
        {
            const char *waits = json_text_at(c, "state.waiting.reason");

            if (is_starting(waits))
                continue;
            snprintf(reason, 64, "%s", waits);
            describe(c, waits, out);
            return true;
        }
    }
    return false;
}

/* ---- evictions in a row ---- */

void evictions_read(struct evictions *e, const json_t *entry)
{
    const json_t *o = json_object_get(entry, "evictions");

    e->count = json_int_at(o, "count");
    e->time = time_at(o, "time");
    snprintf(e->why, sizeof(e->why), "%s", json_text_at(o, "message"));
}

void evictions_add(struct evictions *e, const json_t *pod, int64_t now)
{
    int64_t made = time_at(json_object_get(pod, "metadata"), "creationTimestamp");

    if (e->count > 0 && made < e->time) /* (POD-TROUBLE-1) */
        return;
    e->count = e->count > 0 && now - made < EVICTIONS_FORGET_S ? e->count + 1 : 1;
    e->time = now;
    pod_why_failed(pod, e->why);
    cut_text(e->why);
}

int64_t evictions_until(const struct evictions *e)
{
    unsigned again = (unsigned)DLC_CLAMP(e->count - 1, 0, 100);

    return again == 0 ? 0 : e->time + backoff_after(again, FIRST_DELAY, MOST_DELAY).ns / 1000000000;
}

json_t *evictions_json(const struct evictions *e)
{
    char text[SPEC_TIME_LEN];

    return e->count == 0 ? NULL
                         : json_pack("{s:I, s:s, s:s}", "count", (json_int_t)e->count, "time",
                                     spec_time(e->time, text), "message", e->why);
}
