// SPDX-License-Identifier: Apache-2.0
#include "sandbox/landlock_i.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>

#include "base/syscalls.h"

/* The first that lets files be renamed between directories, which the disk tier does: Linux 5.19. */
#define LANDLOCK_ABI_MIN 2

/* Rights that the headers of older kernels lack. */
#define FS_REFER        (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE     (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV    (1ull << 15) /* ABI 5 */
#define FS_FIRST        ((1ull << 13) - 1)
#define SCOPE_ABSTRACT  (1ull << 0) /* ABI 6: abstract sockets of processes outside */
#define SCOPE_SIGNAL    (1ull << 1) /* ABI 6: signals to processes outside */
#define ABI_OF_TRUNCATE 3
#define ABI_OF_IOCTL    5
#define ABI_OF_SCOPES   6

#define FS_READ      (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define FS_WRITE                                                                                   \
    (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                     \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |  \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | FS_REFER | FS_TRUNCATE)
#define FS_OF_FILES (FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

/* As struct landlock_ruleset_attr of a newer kernel. An older one takes it if what it does not know
 * is 0. */
struct ruleset {
    uint64_t fs, net, scoped;
};

static uint64_t handled(int abi)
{
    return FS_FIRST | FS_REFER | (abi >= ABI_OF_TRUNCATE ? FS_TRUNCATE : 0) |
           (abi >= ABI_OF_IOCTL ? FS_IOCTL_DEV : 0);
}

int landlock_open(struct landlock *l)
{
    struct ruleset r = {0};

    *l = (struct landlock){.ruleset = -1};
    l->abi = os_landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (l->abi < 0)
        return -1;
    if (l->abi < LANDLOCK_ABI_MIN) {
        errno = EOPNOTSUPP;
        return -1;
    }
    r.fs = handled(l->abi);
    r.scoped = l->abi >= ABI_OF_SCOPES ? SCOPE_ABSTRACT | SCOPE_SIGNAL : 0;
    l->ruleset = os_landlock_create(&r, sizeof(r), 0);
    return l->ruleset < 0 ? -1 : 0;
}

void landlock_allow(struct landlock *l, const char *path, enum landlock_access access)
{
    struct landlock_path_beneath_attr rule = {
        .allowed_access = (access == LANDLOCK_WRITE ? FS_WRITE : FS_READ) & handled(l->abi),
        .parent_fd = os_open(path, O_PATH, 0),
    };
    struct stat st;
    int fd = rule.parent_fd;

    if (fd < 0)
        return;
    if (os_fstat(fd, &st) < 0)
        l->error = errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= FS_OF_FILES;
    if (l->error == 0 && os_landlock_add(l->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule) < 0)
        l->error = errno;
    os_close(&fd);
}

int landlock_enter(struct landlock *l)
{
    int rc = -1;

    if (l->error != 0)
        errno = l->error;
    else
        rc = os_landlock_restrict(l->ruleset);
    os_close(&l->ruleset);
    return rc;
}
