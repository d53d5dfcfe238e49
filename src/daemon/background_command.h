// SPDX-License-Identifier: Apache-2.0
/*
 * A client's command that takes longer than a turn of the loop: worker threads or many turns execute
 * it, then the loop answers. Each command embeds this as the first member of its own struct.
 *
 *     background_new --> background_run --> work() on a worker --> back() on the loop --> background_end
 *
 * (BACKGROUND-1) It holds a reference of its dataset, and the connection by number: the client may
 *                be gone when the command ends. back() looks the connection up (conn_by_id()).
 * (BACKGROUND-2) A client has at most 16 of them at a time.
 */
#ifndef DLC_DAEMON_BACKGROUND_COMMAND_H
#define DLC_DAEMON_BACKGROUND_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/event_loop.h"
#include "base/thread_pool.h"
#include "daemon/work.h"

struct conn;
struct dataset;
struct node;

struct background_command {
    struct work work;
    struct task task;
    struct node *node;
    uint64_t conn;
    struct dataset *ds; /* NULL: all */
    int rc;
    struct dlc_err err;
};

/* All functions are L. */

/* Gives a struct of `size` bytes, zeroed but for its struct background_command. NULL: the client has
 * too many already; it has been answered. */
void *background_new(struct conn *c, struct dataset *ds, size_t size);
/* work() posts b->task when it has ended. */
void background_run(struct background_command *b, enum work_class class,
                    void (*work)(struct work *), void (*back)(struct task *));
void background_end(struct background_command *b); /* frees the struct around it */

#endif
