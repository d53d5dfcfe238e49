// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/view_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

static void free_text(void *text)
{
    mem_free(&text);
}

void view_add_to_reply(const struct view *v, struct http_reply *reply)
{
    static const char name[] = "\"view\":";
    char *rest = json_dumps(reply->body, JSON_COMPACT);
    struct buf b = BUF_INIT;

    dlc_check(json_is_object(reply->body) && rest != NULL && reply->done == NULL);
    buf_reserve(&b, strlen(rest) + v->len + sizeof(name) + 1);
    buf_add(&b, rest, strlen(rest) - 1); /* without its '}' */
    buf_adds(&b, json_object_size(reply->body) > 0 ? "," : "");
    buf_adds(&b, name);
    buf_add(&b, v->text, v->len);
    buf_addc(&b, '}');
    free(rest);
    json_decref(reply->body);
    reply->body = NULL;
    reply->type = "application/json";
    reply->data_len = b.len;
    reply->data = reply->arg = buf_take(&b);
    reply->done = free_text;
}
