// SPDX-License-Identifier: Apache-2.0
#include "cli/node_drain.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/progress.h"

#define LOOK_EVERY DLC_MS(200)
#define TRIES      2           /* of the node: others may only have had to make room */
#define SILENT_MAX DLC_SEC(20) /* without a word of a hand-over: the node does not know of it */

static const char *state_of(const json_t *node)
{
    return json_text_at(node, "state");
}

static const json_t *handover_of(const json_t *node)
{
    const json_t *h = json_at(node, "figures.handover");

    return json_is_true(json_object_get(h, "draining")) ? h : NULL;
}

void node_drain_short(const json_t *node, char *out, size_t len)
{
    const json_t *h = handover_of(node);
    uint64_t total = json_u64_at(h, "total_bytes");

    if (strcmp(state_of(node), "draining") == 0 && total > 0)
        snprintf(out, len, "draining %.0f %%",
                 100.0 * (double)json_u64_at(h, "bytes") / (double)total);
    else
        snprintf(out, len, "%s", state_of(node));
}

/* What is left, and what to do. */
static void add_left(const json_t *h, const char *name, struct buf *out)
{
    char size[24];

    if (json_u64_at(h, "no_room") > 0)
        buf_addf(out,
                 "; %s found no room at %s: give it more (--memory, --disk), or remove %s all the "
                 "same, and the bucket is read for them again",
                 str_size(json_u64_at(h, "no_room_bytes"), size), json_text_at(h, "full"), name);
    if (json_u64_at(h, "failed") > 0)
        buf_addf(out, "; %llu samples could not be handed over (tried again): %s",
                 (unsigned long long)json_u64_at(h, "failed"), json_text_at(h, "error"));
}

void node_drain_text(const json_t *node, struct buf *out)
{
    const char *state = state_of(node), *name = json_text_at(node, "name");
    const json_t *h = handover_of(node);
    char a[24], b[24];

    if (strcmp(state, "drained") == 0) {
        buf_addf(out, "drained: safe to remove (%s handed over",
                 str_size(json_u64_at(node, "drained.bytes"), a));
        if (json_u64_at(node, "drained.unpacked_bytes") > 0)
            buf_addf(out,
                     "; %s of unpacked archives stay behind: they are unpacked again where samples "
                     "of them are missing, which reads those archives from the bucket",
                     str_size(json_u64_at(node, "drained.unpacked_bytes"), b));
        buf_adds(out, ")");
        return;
    }
    buf_adds(out, state);
    if (h == NULL || strcmp(state, "live") == 0) /* its last figures are older than an undrain */
        return;
    buf_addf(out, ": %s of %s handed over", str_size(json_u64_at(h, "bytes"), a),
             str_size(json_u64_at(h, "total_bytes"), b));
    if (strcmp(state, "gone") == 0)
        buf_addf(
            out,
            "; start it again to go on, or give it up with `dlcache node leave %s`: the bucket "
            "is read for the rest again",
            name);
    else
        add_left(h, name, out);
}

/* 1: go on. 0: it is drained. Else *err says why it does not go on. */
static int look(const json_t *node, struct progress *bar, struct dlc_mono since,
                struct dlc_err *err)
{
    const json_t *h = handover_of(node);
    struct buf text = BUF_INIT;
    int rc = 1;

    if (strcmp(state_of(node), "drained") == 0)
        return 0;
    node_drain_text(node, &text);
    if (strcmp(state_of(node), "draining") != 0)
        rc = dlc_err_set(err, DLC_ECANCELED, "node %s is %s", json_text_at(node, "name"),
                         buf_str(&text));
    else if (h == NULL && dlc_mono_since(since).ns > SILENT_MAX.ns)
        rc = dlc_err_set(err, DLC_EPROTO,
                         "node %s is draining and says nothing of its copies: is it of an older "
                         "version? `dlcache node show` shows what it has",
                         json_text_at(node, "name"));
    else if (strcmp(json_text_at(h, "phase"), "done") == 0 && json_u64_at(h, "tries") >= TRIES &&
             json_u64_at(h, "no_room") + json_u64_at(h, "failed") > 0)
        rc = dlc_err_set(err, DLC_ENOSPACE, "node %s is %s", json_text_at(node, "name"),
                         buf_str(&text));
    else if (h != NULL)
        progress_update(bar, "handing over", json_u64_at(h, "samples"), json_u64_at(h, "total"),
                        json_u64_at(h, "bytes"), json_u64_at(h, "total_bytes"));
    buf_release(&text);
    return rc;
}

int node_drain_wait(struct api *api, const char *path, struct progress *bar, json_t **node,
                    struct dlc_err *err)
{
    struct dlc_mono since = dlc_mono_now();
    int rc;

    do {
        *node = NULL;
        rc = api_call(api, "GET", path, NULL, node, err);
        if (rc == 0)
            rc = look(*node, bar, since, err);
        if (rc != 0)
            json_decref(*node);
        if (rc == 1)
            dlc_sleep(LOOK_EVERY);
    } while (rc == 1);
    return rc;
}
