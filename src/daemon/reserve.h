// SPDX-License-Identifier: Apache-2.0
/* Descriptors kept in reserve, so that attached readers are served when the process runs out. */
#ifndef DLC_DAEMON_RESERVE_H
#define DLC_DAEMON_RESERVE_H

#include <stdbool.h>

struct node;

#define RESERVE 16 /* descriptors: reserve.c */

void reserve_init(struct node *n);
void reserve_fill(struct node *n); /* as far as possible */
void reserve_release(struct node *n);
bool reserve_leaves_slack(void);   /* false: the rest is for fetches; errno */
void reserve_lend(struct node *n); /* releases one, so that something can be opened now */
bool is_shortage(int e);           /* is this errno a lack of descriptors or memory? */
/* Something failed for want of descriptors or memory: count it, log it, release the reserve. */
void node_short(struct node *n, const char *what);

#endif
