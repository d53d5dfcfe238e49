// SPDX-License-Identifier: Apache-2.0
#include "ipc/node_marker.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"

#define MARKER_MAX 4096

static char *path_of(const char *socket)
{
    return mem_fmt("%s.node", socket);
}

int node_marker_write(const char *socket, const char *name, const char *manager,
                      struct dlc_err *err)
{
    char *path = path_of(socket), *text = mem_fmt("node %s of %s\n", name, manager);
    int rc = os_write_file(path, text, strlen(text), 0644, err);

    mem_free(&text);
    mem_free(&path);
    return rc;
}

char *node_marker_read(const char *socket)
{
    char *path = path_of(socket), *text = NULL;
    struct buf b = BUF_INIT;

    if (os_read_file(path, MARKER_MAX, &b, NULL) == 0)
        text = mem_str(str_trim((char *)buf_str(&b)));
    if (text != NULL && !str_starts(text, "node "))
        mem_free(&text);
    buf_release(&b);
    mem_free(&path);
    return text;
}

int node_marker_refuse(const char *socket, int code, struct dlc_err *err)
{
    char *node = node_marker_read(socket);
    int rc = 0;

    if (node != NULL)
        rc = dlc_err_set(err, code,
                         "%s is the place of %.300s: start that with `dlcache node`, or, if this "
                         "machine has left the cluster, remove %s.node; a daemon of your own needs "
                         "another --socket",
                         socket, node, socket);
    mem_free(&node);
    return rc;
}
