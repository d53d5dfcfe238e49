// SPDX-License-Identifier: Apache-2.0
/*
 * A client for Redis: one server or a Cluster, by the same calls. Commands are sent in pipelines,
 * one per server at a time, to all servers at once. Redirections are followed, lost connections are
 * opened again, fail-overs are waited for, until a deadline.
 *
 * (REDIS-1) A command may run more than once: after a broken connection it is unknown whether it
 *           ran. Send only commands that may be repeated.
 * (REDIS-2) The keys of one command lie in one slot. Braces put them there: {tag}.
 * (REDIS-3) Commands of one call may run in any order.
 *
 * Any thread; a call uses connections of its own, which are kept for the next.
 */
#ifndef DLC_NET_REDIS_REDIS_H
#define DLC_NET_REDIS_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define REDIS_SLOTS 16384

struct redis;

/*
 * "redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PREFIX][?timeout=5s]"; rediss:// is the
 * same over TLS, with &ca=FILE (of who signs the servers' certificates; default: the system's) and
 * &cert=FILE&key=FILE (ours, where the server asks for one).
 */
struct redis_url {
    char *user, *password; /* NULL: none */
    char **hosts;
    uint16_t *ports;
    size_t n;
    char *prefix; /* NULL: none */
    bool tls;
    char *ca, *cert, *key; /* NULL: none */
    struct dlc_dur timeout;
};
int redis_url_parse(const char *url, struct redis_url *out, struct dlc_err *err);
void redis_url_release(struct redis_url *u);

/* Takes u. Finds out what is there: DLC_EBUCKET when nobody answers, DLC_EDENIED. */
int redis_open(struct redis_url *u, struct redis **out, struct dlc_err *err);
void redis_close(struct redis **rp);
bool redis_is_cluster(struct redis *r);

/* A Lua script; made by redis_script_init() once. */
struct redis_script {
    const char *text;
    char sha[41];
};
void redis_script_init(struct redis_script *s, const char *text);

struct redis_cmd {
    const struct redis_script *script; /* NULL: the command's name is the first argument */
    struct buf args;                   /* as the protocol wants them */
    unsigned n_args, n_keys;
    int slot;          /* -1: any server */
    bool copied;       /* where there are replicas, {'ok', ...} counts once one of them has it */
    redisReply *reply; /* after a good redis_run(): never an error */
    /* while it runs */
    bool waits;   /* WAIT follows it */
    bool whole;   /* the server does not know the script: send its text */
    char ask[96]; /* where to ask once, "HOST:PORT"; "": where the slot is */
};

void redis_cmd_init(struct redis_cmd *c, const char *name);
void redis_cmd_init_script(struct redis_cmd *c, const struct redis_script *s);
void redis_cmd_release(struct redis_cmd *c);
void redis_cmd_key(struct redis_cmd *c, const char *key); /* keys first */
void redis_cmd_arg(struct redis_cmd *c, const void *data, size_t len);
void redis_cmd_text(struct redis_cmd *c, const char *s);
void redis_cmd_number(struct redis_cmd *c, uint64_t n);

/*
 * Run them all. 0: each has its reply. Else the first failure: DLC_EBUCKET nobody answered in time,
 * DLC_EDENIED, DLC_ENOSPACE, DLC_EPROTO; some may have run.
 */
int redis_run(struct redis *r, struct redis_cmd *cmds, size_t n, struct dlc_err *err);

int redis_slot(const char *key, size_t len);

/* What an error reply wants. */
enum redis_answer {
    REDIS_FINAL,  /* it is an error */
    REDIS_MOVED,  /* the slot is elsewhere */
    REDIS_ASK,    /* this once elsewhere */
    REDIS_LATER,  /* try again in a moment */
    REDIS_SCRIPT, /* send the script's text */
};
/* Gives slot and "HOST:PORT" for the first two; HOST may be empty: the one that said so. */
enum redis_answer redis_answer_parse(const char *text, int *slot, char address[static 80]);

#endif
