// SPDX-License-Identifier: Apache-2.0
/* Heads of replies of the asynchronous server: see async_server_i.h. */
#include <string.h>
#include <time.h>

#include "net/async_server_i.h"

#define DATE_LENGTH 40

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {200, "OK"},
        {206, "Partial Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {416, "Range Not Satisfiable"},
        {431, "Request Header Fields Too Large"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < DLC_COUNT(table); i++)
        if (table[i].status == status)
            return table[i].text;
    return "Other";
}

static void add_field(struct buf *b, const char *name, const char *value)
{
    if (value != NULL && strpbrk(value, "\r\n") == NULL)
        buf_addf(b, "%s: %s\r\n", name, value);
}

static void add_date(struct buf *b)
{
    char text[DATE_LENGTH];
    time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    add_field(b, "Date", text);
}

void async_reply_head(struct buf *b, const struct http_reply *reply, uint64_t len, bool keep)
{
    int status = reply->status == 0 ? 200 : reply->status;
    const char *type = reply->type != NULL   ? reply->type
                       : reply->body != NULL ? "application/json"
                                             : "application/octet-stream";

    buf_addf(b, "HTTP/1.1 %d %s\r\nContent-Length: %llu\r\n", status, reason_of(status),
             (unsigned long long)len);
    add_date(b);
    add_field(b, "Content-Type", type);
    add_field(b, "Cache-Control", "no-store");
    add_field(b, "Retry-After", reply->retry_after);
    for (size_t i = 0; i < HTTP_HEADERS && reply->headers[i].name != NULL; i++)
        add_field(b, reply->headers[i].name, reply->headers[i].value);
    if (!keep)
        add_field(b, "Connection", "close");
    buf_adds(b, "\r\n");
}
