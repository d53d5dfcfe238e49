// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP servers of the API: one at the address, with or without TLS, and one at the Unix socket.
 *
 * Certificate and key are files, and read again when they change. Then another server listens on
 * the same socket with the new certificate. The one before takes nobody new, and answers who is
 * connected until the next change; then a thread closes it, since that may take seconds. So no
 * request fails because of a new certificate.
 *
 * (API-SERVER-1) Files that cannot be used, or do not belong together yet, change nothing.
 */
#ifndef DLC_MANAGER_API_SERVER_H
#define DLC_MANAGER_API_SERVER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/file_stamp.h"

struct api;
struct http_server;
struct manager_config;

struct api_server {
    struct api *api;                 /* borrowed */
    struct http_server *tcp, *local; /* NULL: none */
    struct http_server *before;      /* the one with the certificate before; NULL: none */
    char *address;                   /* of TCP; NULL: none */
    char *tls_cert, *tls_key;        /* NULL: no TLS */
    struct file_stamp cert_file, key_file;
    pthread_t closer;
    bool has_closer;
};

/* Release it also after a failure. *s is zeroed. */
int api_server_open(struct api_server *s, struct api *api, const struct manager_config *c,
                    struct dlc_err *err);
void api_server_close(struct api_server *s); /* zeroed is allowed; waits for handlers */
/* Look at the files of the certificate. 1: there is another one now. One thread at a time. */
int api_server_reload(struct api_server *s, struct dlc_err *err);
const char *api_server_address(const struct api_server *s); /* of TCP; NULL: none */

#endif
