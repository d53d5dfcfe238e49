// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes on the daemon's socket, in two pieces. The reader gives objects or an error, and
 * what it gives can be sent again.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "ipc/frame.h"
#include "base/syscalls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All whole messages that are there. 0: wants more; negative: nonsense. */
static int drain(struct msg_reader *r, int sock)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    do {
        struct msg m = MSG_INIT;

        rc = msg_reader_next(r, sock, &m, &err);
        if (rc == 1) {
            struct msg_writer w = MSG_WRITER_INIT;

            dlc_check(json_is_object(m.body) && m.n_fds == 0);
            dlc_check(msg_writer_add(&w, -1, m.body, NULL, 0, NULL) == 0);
            msg_writer_release(&w);
        }
        msg_release(&m);
    } while (rc == 1);
    dlc_check(rc == 0 || err.text[0] != '\0');
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct msg_reader r = MSG_READER_INIT;
    size_t half = size > 0 ? data[0] % (size + 1) : 0;
    int s[2];

    if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0)
        return 0;
    if (os_write_all(s[0], data, half) == 0 && drain(&r, s[1]) == 0 &&
        os_write_all(s[0], data + half, size - half) == 0)
        drain(&r, s[1]);
    msg_reader_release(&r);
    os_close(&s[0]);
    os_close(&s[1]);
    return 0;
}
