// SPDX-License-Identifier: Apache-2.0
#include "cli/manager_commands.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/request_fields.h"
#include "cli/resource_name.h"
#include "ipc/node_marker.h"
#include "net/manager_client.h"

#define STARTING DLC_SEC(3)

/* ---- where ---- */

static bool is_socket(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* A daemon that has just started opens its API a moment after its own socket. */
static void wait_for_daemon(const char *socket, const char *api)
{
    struct dlc_mono start = dlc_mono_now();

    while (is_socket(socket) && !is_socket(api) && dlc_mono_since(start).ns < STARTING.ns)
        dlc_sleep(DLC_MS(20));
}

/* Where the manager is, and how we came to know. */
struct manager_place {
    char *base;              /* "": nothing says */
    struct node_marker node; /* its manager; name NULL: it is not */
};

static void place_release(struct manager_place *p)
{
    mem_free(&p->base);
    node_marker_release(&p->node);
}

/* The socket as an address, if there is one; "" otherwise. Takes path, gives. */
static char *address_of(char *path)
{
    char *address = is_socket(path) ? mem_fmt("unix:%s", path) : mem_str("");

    mem_free(&path);
    return address;
}

static struct manager_place find_place(const struct config *c)
{
    struct manager_place p = {.base = mem_str(c->manager), .node = NODE_MARKER_INIT};
    char *api, *beside;

    if (p.base[0] != '\0')
        return p;
    mem_free(&p.base);
    beside = address_of(mem_fmt("%s/manager.sock", c->dir));
    if (beside[0] == '\0' && node_marker_load(c, &p.node)) {
        mem_free(&beside);
        p.base = mem_str(p.node.manager);
        return p;
    }
    api = mem_fmt("%s.api", c->socket);
    if (beside[0] == '\0')
        wait_for_daemon(c->socket, api);
    api = address_of(api);
    p.base = mem_fmt("%s%s%s", api, api[0] != '\0' && beside[0] != '\0' ? "," : "", beside);
    mem_free(&api);
    mem_free(&beside);
    return p;
}

bool api_is_known(const struct config *c)
{
    struct manager_place p = find_place(c);
    bool known = p.base[0] != '\0';

    place_release(&p);
    return known;
}

/* ---- who ---- */

/* admin.token in --dir, if that is the directory of a manager, or of a person who copied it there.
 * Gives *out, NULL: none. */
static int find_admin_token(const struct config *c, char **out, struct dlc_err *err)
{
    char *path = mem_fmt("%s/admin.token", c->dir), *lock = mem_fmt("%s/daemon.lock", c->dir);
    int rc = 0;

    if (access(path, R_OK) == 0 && access(lock, F_OK) < 0)
        rc = token_load_file(path, out, err);
    mem_free(&path);
    mem_free(&lock);
    return rc;
}

/* Gives *out, NULL: none. */
static int find_token(const struct config *c, const struct manager_place *p, char **out,
                      struct dlc_err *err)
{
    int rc = token_load(c, NULL, out, err);

    if (rc < 0 || *out != NULL || p->node.name != NULL || str_starts(p->base, "unix:"))
        return rc;
    return find_admin_token(c, out, err);
}

/* The authority that a setting names, else the one that the node uses. */
static const char *find_ca(const struct config *c, const struct manager_place *p)
{
    if (c->manager_ca[0] != '\0')
        return c->manager_ca;
    return p->node.name != NULL && p->node.ca[0] != '\0' && access(p->node.ca, R_OK) == 0
               ? p->node.ca
               : NULL;
}

int api_open(struct api *a, const struct config *c, struct dlc_err *err)
{
    struct manager_place p = find_place(c);
    char *token = NULL;
    int rc = 0;

    if (p.base[0] == '\0')
        rc = dlc_err_set(err, DLC_ENODAEMON,
                         "no manager at %s.api or %s/manager.sock: name one with --manager "
                         "http://HOST:PORT, or start one with `dlcache serve` or `dlcache manager`",
                         c->socket, c->dir);
    if (p.node.name != NULL && isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "asking %s, the manager of this machine's node %s\n", p.base, p.node.name);
    if (rc == 0)
        rc = find_token(c, &p, &token, err);
    if (rc == 0) {
        const struct manager_client_config mc = {
            .http.base = p.base,
            .http.token = token,
            .http.ca = find_ca(c, &p),
        };

        a->has_token = token != NULL || str_starts(p.base, "unix:");
        a->node = p.node.name != NULL ? mem_str(p.node.name) : NULL;
        rc = manager_client_open(&mc, &a->manager, err);
    }
    secret_free(&token);
    place_release(&p);
    return rc;
}

void api_close(struct api *a)
{
    manager_client_close(&a->manager);
    mem_free(&a->node);
}

/* ---- asking ---- */

static int explain(const struct api *a, const char *path, struct dlc_err *err)
{
    int status = manager_client_status(a->manager);
    struct dlc_err said = *err;

    if (status == 401 && !a->has_token)
        dlc_err_set(err, DLC_EDENIED,
                    "%s wants a token: name its file with --token-file, or set DLCACHE_TOKEN",
                    manager_client_address(a->manager));
    else if (status == 0 && a->node != NULL)
        dlc_err_set(err, said.code, "the manager of this machine's node %s: %s", a->node,
                    said.text);
    else if (status == 401)
        dlc_err_set(err, DLC_EDENIED,
                    "%s does not take this token (--token-file, DLCACHE_TOKEN): %s",
                    manager_client_address(a->manager), said.text);
    else if (status == 400)
        request_fields_show(path, err);
    return err->code;
}

int api_call(struct api *a, const char *method, const char *path, json_t *body, json_t **out,
             struct dlc_err *err)
{
    int rc = manager_client_call(a->manager, method, path, body, out, err);

    json_decref(body);
    return rc < 0 ? explain(a, path, err) : 0;
}

int api_lines(struct api *a, const char *path, bool (*each)(const char *line, void *arg), void *arg,
              struct dlc_err *err)
{
    int rc = manager_client_lines(a->manager, path, each, arg, err);

    if (rc == DLC_EINVAL)
        request_fields_show(path, err);
    return rc;
}

int api_pages(struct api *a, const char *path, api_page_f *each, void *arg, struct dlc_err *err)
{
    int rc = manager_client_pages(a->manager, path, each, arg, err);

    return rc < 0 ? explain(a, path, err) : 0;
}

int api_list(struct api *a, const char *path, json_t **out, struct dlc_err *err)
{
    json_t *all = NULL;
    int rc = manager_client_list(a->manager, path, &all, err);

    *out = rc == 0 ? json_pack("{s:o}", "items", all) : NULL;
    return rc < 0 ? explain(a, path, err) : 0;
}

/* ---- parts of requests ---- */

int api_name(const char *what, const char *name, struct dlc_err *err)
{
    if (name_is_ok(name))
        return 0;
    return dlc_err_set(
        err, DLC_EINVAL,
        "\"%.80s\" is not the name of a %s: use up to 63 of a-z, 0-9, '.', '_' and '-', of "
        "which the last three do not come first",
        name, what);
}

int api_set_number(json_t *body, const char *member, const char *option, const char *text,
                   uint64_t max, struct dlc_err *err)
{
    uint64_t n;

    if (text == NULL)
        return 0;
    if (!str_parse_u64(text, &n) || n > max)
        return dlc_err_set(err, DLC_EINVAL, "--%s: \"%.60s\" is not a whole number up to %llu",
                           option, text, (unsigned long long)max);
    json_object_set_new(body, member, json_integer((json_int_t)n));
    return 0;
}

void api_set_names(json_t *body, const char *member, const char *text)
{
    json_t *all;

    if (text == NULL)
        return;
    all = json_array();
    for (size_t n; *text != '\0'; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        if (n > 0)
            json_array_append_new(all, json_stringn(text, n));
    }
    json_object_set_new(body, member, all);
}

void api_set_endpoint(json_t *body, const struct config *c, const char *url)
{
    char *endpoint = ctl_endpoint(c, url);

    api_set(body, "endpoint", endpoint);
    mem_free(&endpoint);
}

void api_set(json_t *body, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_object_set_new(body, name, json_string(text));
}

void api_query(struct buf *path, const char *name, const char *text)
{
    if (text == NULL)
        return;
    buf_addf(path, "%c%s=", strchr(buf_str(path), '?') != NULL ? '&' : '?', name);
    str_uri_encode(text, strlen(text), false, path);
}

/* ---- what commands do alike ---- */

static int get(struct api *api, const char *path, bool list, json_t **out, struct dlc_err *err)
{
    return list ? api_list(api, path, out, err) : api_call(api, "GET", path, NULL, out, err);
}

/* Once, or until interrupted or the manager is away. */
static int look(struct api *api, const struct api_view *v, struct dlc_dur every, const char *path,
                bool list, api_print_f *print, void *arg, struct dlc_err *err)
{
    bool again = every.ns > 0, terminal = isatty(STDOUT_FILENO) == 1;
    int rc;

    for (;;) {
        json_t *answer = NULL;

        rc = get(api, path, list, &answer, err);
        if (rc == 0 && again && !v->json && terminal)
            fputs("\033[H\033[2J", stdout);
        if (rc == 0 && v->json)
            print_json(json_incref(answer), !again);
        else if (rc == 0)
            print(answer, arg);
        json_decref(answer);
        if (rc == 0 && again && !v->json && !terminal)
            putchar('\n');
        if (!again || rc < 0 || fflush(stdout) != 0)
            return rc;
        dlc_sleep(every);
    }
}

int api_look(const struct command *cmd, const struct args *a, const struct api_view *v,
             const char *path, bool list, api_print_f *print, void *arg)
{
    struct api api = API_INIT;
    struct dlc_dur every = {0};
    struct dlc_err err = DLC_ERR_INIT;
    int rc = 0;

    if (v->every != NULL && (!str_parse_dur(v->every, &every) || every.ns < DLC_MS(10).ns))
        rc = dlc_err_set(&err, DLC_EINVAL, "--watch: \"%.60s\" is not a time of 10ms or more",
                         v->every);
    if (rc == 0)
        rc = api_open(&api, &a->config, &err);
    if (rc == 0)
        rc = look(&api, v, every, path, list, print, arg, &err);
    api_close(&api);
    return rc < 0 ? cli_fail(cmd, &err) : end_output(cmd);
}

int api_do(const struct command *cmd, const struct args *a, bool json, const char *method,
           const char *path, json_t *body, api_print_f *print, void *arg)
{
    struct api api = API_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *answer = NULL;
    int rc = api_open(&api, &a->config, &err);

    if (rc == 0)
        rc = api_call(&api, method, path, json_incref(body), &answer, &err);
    api_close(&api);
    json_decref(body);
    if (rc < 0)
        return cli_fail(cmd, &err);
    if (json)
        print_json(answer != NULL ? json_incref(answer) : json_object(), true);
    else
        print(answer, arg);
    json_decref(answer);
    return end_output(cmd);
}

int api_remove(const struct command *cmd, const struct args *a, bool json, const char *path,
               bool force)
{
    struct api api = API_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *was = NULL, *answer = NULL;
    char *full = mem_fmt("%s%s", path, force ? "?force=1" : "");
    int rc = api_open(&api, &a->config, &err);

    if (rc == 0)
        rc = api_call(&api, "GET", path, NULL, &was, &err);
    if (rc == 0)
        rc = api_call(&api, "DELETE", full, NULL, &answer, &err);
    api_close(&api);
    if (rc == 0 && json)
        print_json(json_incref(was), true);
    json_decref(was);
    json_decref(answer);
    mem_free(&full);
    return rc < 0 ? cli_fail(cmd, &err) : end_output(cmd);
}

/* ---- answers ---- */

const char *api_time(const json_t *o, const char *member, char out[static 24])
{
    const char *s = json_string_value(json_object_get(o, member));

    if (s == NULL || strlen(s) < 19)
        return "-";
    memcpy(out, s, 19);
    out[10] = ' ';
    out[19] = '\0';
    return out;
}

char *api_joined(const json_t *names, const char *none)
{
    struct buf b = BUF_INIT;
    const json_t *v;
    size_t i;

    json_array_foreach((json_t *)names, i, v)
    {
        const char *s = json_string_value(v);

        buf_addf(&b, "%s%s", b.len > 0 ? ", " : "", s != NULL ? s : "?");
    }
    if (b.len == 0)
        buf_adds(&b, none);
    return buf_take(&b);
}
