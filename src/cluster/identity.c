// SPDX-License-Identifier: Apache-2.0
#include "cluster/identity.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

static void random_id(char out[static IDENTITY_LEN + 1])
{
    unsigned char bytes[IDENTITY_LEN / 2];

    dlc_check(RAND_bytes(bytes, sizeof(bytes)) == 1);
    str_hex(bytes, sizeof(bytes), out);
}

static bool is_id(const char *s)
{
    return strlen(s) == IDENTITY_LEN && strspn(s, "0123456789abcdef") == IDENTITY_LEN;
}

/* What the file says; else a new one is written there, so that the lock stays on the same file. */
static bool read_or_make(int fd, char out[static IDENTITY_LEN + 1])
{
    ssize_t n = os_pread(fd, out, IDENTITY_LEN, 0);

    out[n > 0 ? n : 0] = '\0';
    if (is_id(out))
        return true;
    random_id(out);
    return os_ftruncate(fd, 0) == 0 && os_pwrite_all(fd, out, IDENTITY_LEN, 0) == 0 &&
           os_fdatasync(fd) == 0;
}

void identity_open(struct identity *i, const char *dir)
{
    char *path = mem_fmt("%s/node.id", dir);

    *i = (struct identity){.lock = -1};
    random_id(i->instance);
    if (os_mkdirs(dir, 0700) == 0)
        i->lock = os_open(path, O_RDWR | O_CREAT, 0600);
    if (i->lock < 0 || os_flock(i->lock, LOCK_EX | LOCK_NB) < 0 ||
        !read_or_make(i->lock, i->directory)) {
        i->directory[0] = '\0';
        os_close(&i->lock);
        log_info("%s cannot be used: after a crash the node's name is free when it is missed",
                 path);
    }
    mem_free(&path);
}

void identity_close(struct identity *i)
{
    if (i->lock >= 0)
        os_close(&i->lock);
}
