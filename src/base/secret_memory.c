// SPDX-License-Identifier: Apache-2.0
#include "base/secret_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/log.h"
#include "base/syscalls.h"

static size_t whole_pages(size_t len)
{
    size_t page = (size_t)os_page_size();

    return (len + page - 1) / page * page;
}

void *secret_map(size_t len)
{
    size_t size = whole_pages(len);
    void *p = os_map_private(size);

    dlc_check(p != NULL); /* as for any small allocation: there is no way on */
    if (os_mlock(p, size) < 0)
        log_warn("keys cannot be locked into memory (%s): raise RLIMIT_MEMLOCK (LimitMEMLOCK=), or "
                 "have no swap, or an encrypted one",
                 strerror(errno));
    if (os_madvise(p, size, MADV_DONTDUMP) < 0)
        log_warn("keys would be in a core file: %s", strerror(errno));
    return p;
}

void secret_unmap(void **p, size_t len)
{
    if (*p == NULL)
        return;
    explicit_bzero(*p, len);
    os_unmap(*p, whole_pages(len)); /* which unlocks */
    *p = NULL;
}
