// SPDX-License-Identifier: Apache-2.0
/* Attaches to a daemon, and sends it requests over the socket. */
#ifndef DLC_CLIENT_ATTACH_H
#define DLC_CLIENT_ATTACH_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/attachment.h"
#include "ipc/frame.h"

struct dlc_dataset;

#define NO_DEADLINE ((struct dlc_mono){INT64_MAX}) /* a listing takes as long as it takes */

/* How to find a daemon. */
struct attach_how {
    bool may_spawn; /* start one if none answers */
    bool refresh;
    /* A daemon that is silent for this long hangs: after a connect or hello, and while it opens the
     * dataset (it reports the progress of a listing). */
    struct dlc_dur greeting, silence;
    struct dlc_mono deadline; /* for everything together */
    bool *reached;            /* set when there was a daemon to talk to; or NULL */
};
#define ATTACH_SILENCE DLC_SEC(30)

/* Connect, open, map. DLC_ETIMEDOUT: the daemon hangs. Gives *out. */
int attachment_new(struct dlc_dataset *ds, const struct attach_how *how, struct attachment **out,
                   struct dlc_err *err);
void attachment_unmap(struct attachment *a);          /* segment, index and descriptors */
uint64_t attachment_held(const struct attachment *a); /* pins that are set now */
void attachment_free(struct attachment **ap);
/*
 * Send one request over the socket, with a descriptor unless fd is negative; the answer is in *m,
 * which was MSG_INIT. After DLC_ENODAEMON and DLC_ETIMEDOUT (also of a daemon that hangs, before
 * the deadline) do not use the attachment for requests again: the answer may still come.
 */
int attach_call(struct attachment *a, const json_t *ask, int fd, struct dlc_mono deadline,
                struct msg *m, struct dlc_err *err);

#endif
