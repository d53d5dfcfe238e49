// SPDX-License-Identifier: Apache-2.0
/*
 * A server that plays the API server and the manager for their clients: it keeps the objects it is
 * sent at their paths, as an API server does, unless it was told what to say.
 *
 *     GET PATH                 200 what is there, or 404
 *     POST PATH                201 kept at PATH/NAME (metadata.name, or name), or 409 AlreadyExists
 *     PUT, PATCH PATH          200 the members of the body over what is there, null takes away;
 *                              .../status: of the status alone; 404; 409 when it names another
 *                              version or uid
 *     DELETE PATH              200, or 404
 *
 * Every write makes a new resourceVersion, and data of stringData. One request per connection, one
 * at a time. play_*() may be called while no client waits for an answer.
 */
#ifndef DLC_TEST_PLAY_H
#define DLC_TEST_PLAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"

struct play {
    int fd;
    pthread_t thread;
    char base[64];       /* "http://127.0.0.1:PORT" */
    pthread_mutex_t mtx; /* held while it answers: who locks it makes clients wait */
    int version;
    json_t *kept;     /* path -> object */
    json_t *says;     /* "METHOD PATH" -> [{"status", "body", "times"}] */
    json_t *bodies;   /* "METHOD PATH" -> the last body that was sent there */
    struct buf asked; /* "METHOD PATH\n" of every request, without the query */
    char token[64], idempotent[80], as_tenant[64]; /* of the last request; "": none */
};

void play_open(struct play *p);
void play_close(struct play *p);

/* Answer "METHOD PATH" so, `times` times (0: always); then as it was told next, or by itself. A
 * status of 0: close the connection without a word; 429 asks for 7 s. json NULL: no body. */
void play_says(struct play *p, const char *what, int status, const char *json, int times);
void play_forget(struct play *p); /* what it was told to say */
/* An object is there. Takes; uid and version are put in. */
void play_put(struct play *p, const char *path, json_t *object);
json_t *play_at(struct play *p, const char *path);    /* borrowed; NULL: there is none */
json_t *play_body(struct play *p, const char *what);  /* the last one sent; borrowed, or NULL */
int play_count(const struct play *p, const char *of); /* requests that begin so */
/* The requests since the last call were these: "GET /a, POST /b". */
void play_expect(struct play *p, const char *want);

json_t *play_parse(const char *json); /* gives */

#endif
