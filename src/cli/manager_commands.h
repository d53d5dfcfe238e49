// SPDX-License-Identifier: Apache-2.0
/*
 * What commands that ask the manager have in common, on net/manager_client.h: find the manager and
 * the token, make the parts of a request, show the answer as a table or as it came.
 *
 * Address: --manager, DLCACHE_MANAGER, else the Unix socket of a `dlcache manager` with the same
 * --dir, else the manager of the node whose place --socket is (ipc/node_marker.h), else the Unix
 * socket of the daemon's embedded manager (SOCKET.api). Token: as token_load(). For a manager that
 * was named also admin.token in --dir, if that is no daemon's directory: a daemon's is of its own
 * embedded manager. A Unix socket needs none.
 */
#ifndef DLC_CLI_MANAGER_COMMANDS_H
#define DLC_CLI_MANAGER_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/args.h"

struct manager_client;

struct api {
    struct manager_client *manager;
    bool has_token; /* we show one */
    char *node;     /* of this machine, whose manager it is; NULL: it was named, or is local */
};

#define API_INIT                                                                                   \
    {                                                                                              \
        NULL, false, NULL                                                                          \
    }

/* Does anything say where a manager is: a setting, or a socket that exists? */
bool api_is_known(const struct config *c);
/* Gives: *a; return it with api_close(). Nothing is sent yet. DLC_ENODAEMON: nothing says where the
 * manager is. */
int api_open(struct api *a, const struct config *c, struct dlc_err *err);
void api_close(struct api *a);

/* Takes body (NULL: none). Gives *out, NULL when the answer had no body. */
int api_call(struct api *a, const char *method, const char *path, json_t *body, json_t **out,
             struct dlc_err *err);
/* Lines of a stream, until each() returns false or it ends. */
int api_lines(struct api *a, const char *path, bool (*each)(const char *line, void *arg), void *arg,
              struct dlc_err *err);

/* Page after page of a list, whose path may have a query; each() borrows the items. */
typedef void api_page_f(const json_t *items, void *arg);
int api_pages(struct api *a, const char *path, api_page_f *each, void *arg, struct dlc_err *err);
/* All of them. Gives {"items": [...]}. */
int api_list(struct api *a, const char *path, json_t **out, struct dlc_err *err);

/* ---- parts of requests ---- */

/* May it be the name of something, [a-z0-9][a-z0-9._-]{0,62}? `what`: "tenant". */
int api_name(const char *what, const char *name, struct dlc_err *err);
/* A whole number of at most max, if it was given, becomes a member. `option`: "node-count". */
int api_set_number(json_t *body, const char *member, const char *option, const char *text,
                   uint64_t max, struct dlc_err *err);
/* "a,b", if it was given, becomes a member ["a", "b"]. */
void api_set_names(json_t *body, const char *member, const char *text);
/* "endpoint": the one that this environment means, where the URL can have one. */
void api_set_endpoint(json_t *body, const struct config *c, const char *url);
/* Set a member, unless text is NULL or "". */
void api_set(json_t *body, const char *name, const char *text);
/* The next part of a query: '?' or '&', name, '=', text in percent-encoding; none when text is
 * NULL. */
void api_query(struct buf *path, const char *name, const char *text);

/* ---- what commands do alike ---- */

typedef void api_print_f(const json_t *answer, void *arg);

struct api_view {
    bool json;
    const char *every; /* of --watch; NULL: once */
};

#define API_JSON(on)                                                                               \
    {                                                                                              \
        "json", 0, NULL, "Print the API's JSON.", on, NULL                                         \
    }
#define API_WATCH(text)                                                                            \
    {                                                                                              \
        "watch", 'w', "TIME", "Look again every TIME, such as 1s.", NULL, text                     \
    }
#define API_END                                                                                    \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL, NULL                                                            \
    }

/* GET path (a list: all of its pages) and print it, once or again and again. The exit status. */
int api_look(const struct command *cmd, const struct args *a, const struct api_view *v,
             const char *path, bool list, api_print_f *print, void *arg);
/* One request, then print. Takes body. The exit status. */
int api_do(const struct command *cmd, const struct args *a, bool json, const char *method,
           const char *path, json_t *body, api_print_f *print, void *arg);

/* DELETE what is at path; one that is not there is an error. json: print what it was. force: with
 * "?force=1". The exit status. */
int api_remove(const struct command *cmd, const struct args *a, bool json, const char *path,
               bool force);

/* ---- answers ---- */

/* "2026-01-31T12:00:00.000Z" as "2026-01-31 12:00:00"; "-" when absent. */
const char *api_time(const json_t *o, const char *member, char out[static 24]);
/* An array of texts as "a, b"; `none` when it is empty or absent. Gives. */
char *api_joined(const json_t *names, const char *none);

#endif
