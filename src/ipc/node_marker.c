// SPDX-License-Identifier: Apache-2.0
#include "ipc/node_marker.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/socket_dir.h"
#include "base/str.h"
#include "base/syscalls.h"

#define MARKER_MAX 4096

static char *path_of(const char *socket)
{
    return mem_fmt("%s.node", socket);
}

int node_marker_write(const char *socket, const char *name, const char *manager, const char *ca,
                      struct dlc_err *err)
{
    bool has_ca = ca != NULL && ca[0] != '\0';
    char *path = path_of(socket);
    char *text = mem_fmt("node %s of %s\n%s%s%s", name, manager, has_ca ? "ca " : "",
                         has_ca ? ca : "", has_ca ? "\n" : "");
    int rc = os_write_file(path, text, strlen(text), 0644, err);

    if (rc == 0 && os_chmod(path, 0644) < 0) /* whatever the umask: other users are served, too */
        rc = dlc_err_sys(err, "cannot let others read %s", path);
    mem_free(&text);
    mem_free(&path);
    return rc;
}

/* The whole text; NULL: there is none. Gives. */
static char *read_text(const char *socket)
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

char *node_marker_read(const char *socket)
{
    char *text = read_text(socket);

    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

static bool is_trusted(const struct config *c)
{
    char *path = path_of(c->socket);
    struct stat st;
    bool trusted = os_lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
                   (config_trusts(c, st.st_uid) || socket_dir_vouches(c->socket, st.st_uid));

    mem_free(&path);
    return trusted;
}

bool node_marker_load(const struct config *c, struct node_marker *out)
{
    char *text = is_trusted(c) ? read_text(c->socket) : NULL;
    char *of = text != NULL ? strstr(text, " of ") : NULL, *line;

    *out = (struct node_marker)NODE_MARKER_INIT;
    if (of != NULL) {
        line = strchr(of, '\n');
        out->name = mem_strn(text + strlen("node "), (size_t)(of - text) - strlen("node "));
        out->manager = mem_strn(of + 4, strcspn(of + 4, "\n"));
        out->ca = mem_str(line != NULL && str_starts(line + 1, "ca ") ? line + 4 : "");
    }
    mem_free(&text);
    return of != NULL;
}

void node_marker_release(struct node_marker *m)
{
    mem_free(&m->name);
    mem_free(&m->manager);
    mem_free(&m->ca);
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
