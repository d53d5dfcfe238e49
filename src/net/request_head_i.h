// SPDX-License-Identifier: Apache-2.0
/*
 * The head of an HTTP/1 request: its request line and the header fields that an asynchronous server
 * (async_server.h) needs. No input or output.
 *
 * (HEAD-1) Strict: lines end with CR LF, no field is folded, no control character but a tab is in a
 *          value. Two readers of one text must not see two different requests.
 * (HEAD-2) A request with a body is marked and not read further: where it ends is not known here.
 */
#ifndef DLC_NET_REQUEST_HEAD_I_H
#define DLC_NET_REQUEST_HEAD_I_H

#include <stdbool.h>
#include <stddef.h>

#define REQUEST_HEAD_MAX (16u << 10) /* bytes of request line and fields */

struct request_head {
    const char *method, *target; /* all texts point into the text that was parsed */
    const char *token;           /* Authorization: Bearer ...; NULL: none */
    const char *range;           /* NULL: none */
    bool if_range;
    bool processing; /* Dlcache-Processing: 1 */
    bool body;       /* one follows */
    bool keep;       /* the connection serves further requests */
};

/* Length of the head at the beginning of data, with its empty line; 0: it is not whole yet.
 * from: where an earlier call with fewer bytes ended. */
size_t request_head_length(const char *data, size_t len, size_t from);

/* Can this be the beginning of a request? False: no further byte makes it one. */
bool request_head_begins(const char *data, size_t len);

/* Parse text, which is whole, has len bytes and a NUL after them, and is cut in place. 0, or the
 * status to refuse it with; *why then says what is wrong. */
int request_head_parse(struct request_head *h, char *text, size_t len, const char **why);

#endif
