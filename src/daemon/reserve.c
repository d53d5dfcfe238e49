// SPDX-License-Identifier: Apache-2.0
/*
 * Reserve descriptors, for a daemon at its limit on open files.
 *
 * At the limit the kernel drops descriptors that come with a message, and leaves connecting clients
 * waiting. The daemon keeps RESERVE descriptors unused. One is lent to accept a client, so that it
 * can be told why it is refused. All are closed when a request failed for want of descriptors: the
 * client asks again, and succeeds. The tick opens them again, but leaves SLACK of them to the files
 * and connections of fetches, so that attached clients are served.
 */
#include "daemon/reserve.h"

#include <errno.h>
#include <fcntl.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "daemon/job_weights.h"
#include "daemon/state.h"

void reserve_init(struct node *n)
{
    for (unsigned i = 0; i < RESERVE; i++)
        n->reserve[i] = -1;
}

#define SLACK 8

static int spare_open(void)
{
    return os_open("/dev/null", O_RDONLY, 0);
}

/* How many of SLACK descriptors could be opened now. */
static unsigned slack_left(void)
{
    int fds[SLACK];
    unsigned n = 0;

    while (n < SLACK && (fds[n] = spare_open()) >= 0)
        n++;
    for (unsigned i = 0; i < n; i++)
        os_close(&fds[i]);
    return n;
}

bool reserve_leaves_slack(void)
{
    return slack_left() == SLACK;
}

void reserve_fill(struct node *n)
{
    unsigned taken = 0, give;

    for (unsigned i = 0; i < RESERVE; i++)
        if (n->reserve[i] < 0 && (n->reserve[i] = spare_open()) >= 0)
            taken++;
    if (taken == 0)
        return;
    give = SLACK - slack_left();
    for (unsigned i = 0; i < RESERVE && give > 0; i++)
        if (n->reserve[i] >= 0) {
            os_close(&n->reserve[i]);
            give--;
        }
}

void reserve_release(struct node *n)
{
    for (unsigned i = 0; i < RESERVE; i++)
        os_close(&n->reserve[i]);
}

void reserve_lend(struct node *n)
{
    unsigned i = 0;

    while (i + 1 < RESERVE && n->reserve[i] < 0)
        i++;
    os_close(&n->reserve[i]);
}

bool is_shortage(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOMEM || e == ENOBUFS || e == ENOSPC;
}

void node_short(struct node *n, const char *what)
{
    static struct log_limit limit; /* L */

    count(descriptor_shortages);
    if (log_limit_allows(&limit))
        log_warn("%s: out of descriptors or memory: raise the limit on open files (ulimit -n, "
                 "LimitNOFILE=); %u such warnings before this one were left out",
                 what, log_limit_left_out(&limit));
    reserve_release(n);
}
