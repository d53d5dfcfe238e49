// SPDX-License-Identifier: Apache-2.0
/*
 * Code that origins share: the answer to a LIST. A page holds up to a million objects (a directory
 * of file://), so its strings lie one after the other in large blocks, not each in its own.
 */
#include "bucket/origins/origin.h"

#include <string.h>

#include "base/mem.h"

#define TEXT_BLOCK 32768

struct attempt_text {
    struct attempt_text *next;
    size_t used, cap;
    char data[];
};

static char *text_copy(struct attempt *a, const char *s, size_t len)
{
    struct attempt_text *t = a->text;
    char *p;

    if (t == NULL || t->cap - t->used < len + 1) {
        size_t cap = DLC_MAX(len + 1, (size_t)TEXT_BLOCK);

        t = mem_alloc(sizeof(*t) + cap);
        t->next = a->text;
        t->used = 0;
        t->cap = cap;
        a->text = t;
    }
    p = t->data + t->used;
    memcpy(p, s, len);
    p[len] = '\0';
    t->used += len + 1;
    return p;
}

/* May it stand between the quotes of a header? One with a line end in it would be several headers. */
static bool etag_is_plain(const char *etag)
{
    for (; *etag != '\0'; etag++)
        if ((unsigned char)*etag <= ' ' || *etag == '"' || *etag == 0x7f)
            return false;
    return true;
}

void attempt_add_object(struct attempt *a, const char *key, size_t key_len, uint64_t size,
                        const char *etag)
{
    struct bucket_object *o;

    mem_reserve(a->objects, a->n_objects, a->cap_objects);
    o = &a->objects[a->n_objects++];
    o->key = text_copy(a, key, key_len);
    o->size = size;
    o->etag = etag == NULL || etag[0] == '\0' || !etag_is_plain(etag)
                  ? ""
                  : text_copy(a, etag, strlen(etag));
}

void attempt_add_folder(struct attempt *a, const char *prefix, size_t len)
{
    mem_reserve(a->folders, a->n_folders, a->cap_folders);
    a->folders[a->n_folders++] = text_copy(a, prefix, len);
}

void attempt_clear(struct attempt *a)
{
    struct attempt_text *t;

    while ((t = a->text) != NULL) {
        a->text = t->next;
        mem_free(&t);
    }
    mem_free(&a->objects);
    mem_free(&a->folders);
    mem_free(&a->next);
    a->n_objects = a->cap_objects = 0;
    a->n_folders = a->cap_folders = 0;
    a->rc = 0;
    a->err.code = 0;
    a->err.text[0] = '\0';
    a->retryable = a->throttled = false;
    a->retry_after = (struct dlc_dur){0};
    a->first_byte = (struct dlc_mono){0};
    a->received = a->size = 0;
    a->etag_seen[0] = '\0';
    a->sum = (struct object_checksum){0};
    a->priv = NULL;
}

void attempt_move_answer(struct attempt *to, struct attempt *from)
{
    to->rc = from->rc;
    if (from->rc < 0)
        to->err = from->err;
    to->retryable = from->retryable;
    to->throttled = from->throttled;
    to->retry_after = from->retry_after;
    to->first_byte = from->first_byte;
    to->received = from->received;
    to->size = from->size;
    memcpy(to->etag_seen, from->etag_seen, sizeof(to->etag_seen));
    to->sum = from->sum;
    to->objects = from->objects;
    to->n_objects = from->n_objects;
    to->cap_objects = from->cap_objects;
    to->folders = from->folders;
    to->n_folders = from->n_folders;
    to->cap_folders = from->cap_folders;
    to->next = from->next;
    to->text = from->text;
    from->objects = NULL;
    from->folders = NULL;
    from->next = NULL;
    from->text = NULL;
    attempt_clear(from);
}
