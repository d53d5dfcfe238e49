// SPDX-License-Identifier: Apache-2.0
/*
 * Peer health: may a peer be asked, and with which deadline? Pure; the caller locks.
 *
 *     WELL --3 failures in a row--> SKIPPED --time passes--> on trial: one question
 *     on trial --good--> WELL       on trial --bad--> SKIPPED for twice as long, 30 s at most
 *     on trial --answers--> WELL, but with one more failure SKIPPED for twice as long
 *
 * Patience is four times the 99th percentile of the time to a first sign, within bounds. Requests
 * that were given up count too; otherwise patience could never grow.
 */
#ifndef DLC_CLUSTER_PEER_PEER_HEALTH_H
#define DLC_CLUSTER_PEER_PEER_HEALTH_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/histogram.h"

struct health {
    unsigned failures;          /* in a row */
    struct dlc_mono skipped;    /* until then; 0: well */
    struct dlc_dur pause;       /* the last one */
    bool trial;                 /* the trial request is in flight */
    struct dlc_mono left;       /* since then it is not there (health_left()); 0: it is */
    struct hist signs;          /* ns until the first sign */
    struct dlc_dur least, most; /* bounds of patience */
};

void health_init(struct health *h, struct dlc_dur least, struct dlc_dur most);

enum health_verdict { HEALTH_ASK, HEALTH_TRY, HEALTH_SKIP };
/* May it be asked now? HEALTH_TRY: as the trial request; its end must be reported. */
enum health_verdict health_admit(struct health *h, struct dlc_mono now);
bool health_usable(const struct health *h, struct dlc_mono now); /* not HEALTH_SKIP */
bool health_skipping(const struct health *h);                    /* not well */

/* The end of a request; trial: it was the trial. True: the peer is skipped from now on. */
void health_good(struct health *h);
bool health_bad(struct health *h, bool trial, struct dlc_mono now);
/* It has said that it ends, or no process listens at its address: it may be restarted. Apart from
 * health_bad(). */
void health_left(struct health *h, struct dlc_mono now);
void health_answers(struct health *h); /* the trial: the peer is alive, though perhaps slow */
void health_neither(struct health *h, bool trial); /* we cancelled it: no verdict */

void health_sign(struct health *h, struct dlc_dur waited);
struct dlc_dur health_patience(const struct health *h);

#endif
