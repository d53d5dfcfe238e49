// SPDX-License-Identifier: Apache-2.0
/* Replies from files: see async_server_i.h. A piece is read while the client takes nothing: one
 * piece of memory per connection, and a slow client holds no worker. */
#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/async_server_i.h"

#define FILE_TAG DLC_TAG4('a', 's', 'f', 'l')
#define PIECE    (256u << 10)

enum file_phase { FILE_IDLE, FILE_READING, FILE_POSTED, FILE_LEFT };

struct async_file {
    uint32_t tag;
    struct async_lane *lane;
    int fd;
    uint64_t offset, left;
    void (*ready)(struct async_file *f, void *arg);
    void *arg;
    bool (*check)(void *arg, uint64_t at, const void *data, size_t n); /* X */
    void (*over)(void *arg);
    void *check_arg; /* of both */
    struct work work;
    struct task task;
    char *piece;
    size_t len; /* of the piece */

    struct dlc_mtx mtx;    /* rank LCK_http: worker and loop meet */
    enum file_phase phase; /* G: mtx */
};

static void file_release(struct async_file *f)
{
    dlc_check(f->tag == FILE_TAG);
    os_close(&f->fd);
    if (f->over != NULL)
        f->over(f->check_arg);
    dlc_mtx_release(&f->mtx);
    mem_free(&f->piece);
    f->tag = 0;
    mem_free(&f);
}

static void on_read(struct task *t)
{
    struct async_file *f = dlc_container(t, struct async_file, task);
    bool is_left;

    dlc_mtx_lock(&f->mtx);
    is_left = f->phase == FILE_LEFT;
    f->phase = FILE_IDLE;
    dlc_mtx_unlock(&f->mtx);
    if (is_left)
        file_release(f);
    else
        f->ready(f, f->arg);
}

static void on_worker(struct work *w)
{
    struct async_file *f = dlc_container(w, struct async_file, work);
    bool good = os_pread_all(f->fd, f->piece, f->len, f->offset) == 0, is_left;

    if (good && f->check != NULL)
        good = f->check(f->check_arg, f->offset, f->piece, f->len);
    dlc_mtx_lock(&f->mtx);
    is_left = f->phase == FILE_LEFT;
    if (!is_left) {
        f->offset += f->len;
        f->left -= f->len;
        f->len = good ? f->len : 0;
        f->phase = FILE_POSTED;
        loop_post(f->lane->thread.loop, &f->task); /* under the lock: the lane is there */
    }
    dlc_mtx_unlock(&f->mtx);
    if (is_left)
        file_release(f);
}

struct async_file *async_file_new(struct async_lane *l, const struct http_reply *reply,
                                  void (*ready)(struct async_file *f, void *arg), void *arg)
{
    struct async_file *f = mem_new(struct async_file);

    dlc_check(l->server->config.run != NULL);
    f->tag = FILE_TAG;
    f->lane = l;
    f->fd = reply->file_fd;
    f->offset = reply->file_offset;
    f->left = reply->data_len;
    f->check = reply->file_check;
    f->over = reply->file_over;
    f->check_arg = reply->file_arg;
    f->ready = ready;
    f->arg = arg;
    f->work.run = on_worker;
    f->task.run = on_read;
    f->piece = mem_alloc((size_t)DLC_MIN(f->left, (uint64_t)PIECE));
    dlc_mtx_init(&f->mtx, LCK_http);
    return f;
}

bool async_file_read(struct async_file *f)
{
    const struct async_server_config *c = &f->lane->server->config;

    dlc_check(f->left > 0);
    f->len = (size_t)DLC_MIN(f->left, (uint64_t)PIECE);
    dlc_mtx_lock(&f->mtx);
    dlc_check(f->phase == FILE_IDLE);
    f->phase = FILE_READING;
    dlc_mtx_unlock(&f->mtx);
    if (c->run(&f->work, f->len, c->ctx))
        return true;
    dlc_mtx_lock(&f->mtx);
    f->phase = FILE_IDLE;
    dlc_mtx_unlock(&f->mtx);
    return false;
}

size_t async_file_piece(const struct async_file *f, const char **data)
{
    *data = f->piece;
    return f->len;
}

uint64_t async_file_left(const struct async_file *f)
{
    return f->left;
}

void async_file_free(struct async_file **fp)
{
    struct async_file *f = *fp;
    bool idle;

    *fp = NULL;
    if (f == NULL)
        return;
    dlc_mtx_lock(&f->mtx);
    idle = f->phase == FILE_IDLE;
    if (!idle)
        f->phase = FILE_LEFT; /* the worker, or the task that it has posted, frees it */
    dlc_mtx_unlock(&f->mtx);
    if (idle)
        file_release(f);
}
