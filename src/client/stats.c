// SPDX-License-Identifier: Apache-2.0
/* The daemon's report as text: dlc_daemon_stats(). */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/last_error.h"
#include "ipc/frame.h"

#define TRIES 2 /* a daemon that has just been lost may have been followed by another one */

static int ask_stat(struct dlc_dataset *ds, struct msg *m, struct dlc_err *err)
{
    json_t *ask = json_pack("{s:s}", "op", "stat");
    int rc = DLC_ENODAEMON;

    for (int i = 0; i < TRIES && rc == DLC_ENODAEMON; i++) {
        struct attachment *a = dataset_attached(ds);

        if (a == NULL) {
            rc = dlc_err_set(err, DLC_ENODAEMON, "no daemon answers at %s", ds->config.socket);
            break;
        }
        msg_release(m);
        rc = attach_call(a, ask, -1, dlc_mono_add(dlc_mono_now(), ds->timeout), m, err);
        if (rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT)
            dataset_lost(ds, a);
        dataset_detach(ds, a);
    }
    json_decref(ask);
    return rc;
}

int64_t dlc_daemon_stats(struct dlc_dataset *ds, char *buf, size_t cap)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct msg m = MSG_INIT;
    int64_t len = ask_stat(ds, &m, &err);
    char *text;

    if (len < 0) {
        msg_release(&m);
        return client_fail(&err);
    }
    json_object_del(m.body, "ok");
    text = json_dumps(m.body, JSON_COMPACT);
    msg_release(&m);
    if (text == NULL)
        return client_failf(DLC_ENOMEM, "no memory for the daemon's figures");
    len = (int64_t)strlen(text);
    if ((size_t)len < cap)
        memcpy(buf, text, (size_t)len + 1);
    free(text);
    return len;
}
