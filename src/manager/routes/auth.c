// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "manager/routes/api.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"
#include "manager/tables/node_token.h"

#define TOKEN_FILE_MAX 4096

/* ---- tokens ---- */

void token_new(char out[static TOKEN_LEN + 1])
{
    unsigned char random[32];
    struct buf b = BUF_INIT;
    char *s = out + 4;

    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_base64(random, sizeof(random), &b); /* 43 characters and one '=' */
    dlc_check(b.len == TOKEN_LEN - 4 + 1);
    memcpy(out, "dlc_", 4);
    memcpy(s, b.data, TOKEN_LEN - 4);
    out[TOKEN_LEN] = '\0';
    for (; *s != '\0'; s++)
        *s = *s == '+' ? '-' : *s == '/' ? '_' : *s;
    OPENSSL_cleanse(random, sizeof(random));
    OPENSSL_cleanse(b.data, b.len);
    buf_release(&b);
}

void token_hash(const char *token, unsigned char out[static SHA256_LEN])
{
    sha256(token, strlen(token), out);
}

static bool looks_like_token(const char *s)
{
    return strlen(s) == TOKEN_LEN && str_starts(s, "dlc_") &&
           strspn(s + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
               TOKEN_LEN - 4;
}

void token_doc_id(const unsigned char hash[static SHA256_LEN], char out[static TOKEN_ID_LEN + 1])
{
    memcpy(out, "token.", 6);
    str_hex(hash, SHA256_LEN, out + 6);
}

/* Is the hash among those of the tenant, and not past its time? */
static bool tenant_has(const json_t *body, const unsigned char hash[static SHA256_LEN])
{
    const json_t *tokens = json_object_get(body, "tokens");
    int64_t now = wall_ms();
    char hex[2 * SHA256_LEN + 1];
    bool found = false;

    str_hex(hash, SHA256_LEN, hex);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *t = json_array_get(tokens, i);
        const char *its = json_string_value(json_object_get(t, "hash"));
        int64_t until = json_integer_value(json_object_get(t, "until_ms"));

        if (its != NULL && strlen(its) == sizeof(hex) - 1 &&
            CRYPTO_memcmp(its, hex, sizeof(hex) - 1) == 0 && (until == 0 || now < until))
            found = true;
    }
    return found;
}

static int tenant_of(struct api *api, const unsigned char hash[static SHA256_LEN],
                     struct caller *out, struct dlc_err *err)
{
    struct store_doc index = STORE_DOC_INIT, tenant = STORE_DOC_INIT;
    char id[TOKEN_ID_LEN + 1];
    const char *name = NULL;
    int rc;

    token_doc_id(hash, id);
    rc = store_get(api->tables->store, STORE_MANAGER, id, &index, err);
    if (rc == 0) {
        name = json_string_value(json_object_get(index.body, "tenant"));
        rc = name != NULL && str_is_name(name) ? 0 : DLC_ENOTFOUND;
    }
    if (rc == 0)
        rc = store_get(api->tables->store, STORE_TENANT, name, &tenant, err);
    if (rc == 0 && tenant_has(tenant.body, hash)) {
        out->role = ROLE_TENANT;
        memcpy(out->tenant, name, strlen(name) + 1);
    } else if (rc == 0 || (rc == DLC_ENOTFOUND && store_is_marked(api->tables->store, err))) {
        rc = dlc_err_set(err, DLC_EDENIED, "the token is not known, or no longer");
    } else if (rc == DLC_ENOTFOUND) {
        rc = err->code;
    }
    store_doc_release(&index);
    store_doc_release(&tenant);
    return rc;
}

/* Compares with all, in constant time. */
static bool file_has(const struct file_tokens *f, const unsigned char hash[static SHA256_LEN])
{
    bool found = false;

    for (size_t i = 0; i < f->n; i++)
        found |= CRYPTO_memcmp(hash, f->hash[i], SHA256_LEN) == 0;
    return found;
}

int token_hash_caller(struct api *api, const unsigned char hash[static SHA256_LEN],
                      struct caller *out, struct dlc_err *err)
{
    struct auth_tokens files;
    int rc = 0;

    *out = (struct caller){0};
    auth_tokens_get(&api->auth, &files);
    if (file_has(&files.admin, hash))
        out->role = ROLE_ADMIN;
    else if (file_has(&files.node, hash) && api->no_shared_node_token)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "node.token opens nothing here (--no-shared-node-token): an admin makes a "
                         "token for each node (`dlcache node join-token NAME`)");
    else if (file_has(&files.node, hash))
        out->role = ROLE_NODE;
    else
        rc = tenant_of(api, hash, out, err);
    return rc;
}

int token_caller(struct api *api, const char *token, struct caller *out, struct dlc_err *err)
{
    unsigned char hash[SHA256_LEN];

    *out = (struct caller){0};
    if (!looks_like_token(token))
        return dlc_err_set(
            err, DLC_EDENIED,
            "this is not a token: a token is dlc_ and %d more characters; was it copied whole?",
            TOKEN_LEN - 4);
    token_hash(token, hash);
    return token_hash_caller(api, hash, out, err);
}

/* ---- the check before each handler ---- */

/* Check and handler run on the same thread, one after the other. */
static _Thread_local struct {
    const struct http_request *request;
    struct caller who;
} current;

const struct caller *caller_of(const struct http_request *r)
{
    dlc_check(current.request == r);
    return &current.who;
}

void caller_set_object(const struct http_request *r, const char *id)
{
    dlc_check(current.request == r);
    snprintf(current.who.object, sizeof(current.who.object), "%s", id);
}

const char *role_name(enum role role)
{
    return role == ROLE_ADMIN ? "admin" : role == ROLE_NODE ? "node" : "tenant";
}

bool caller_sees(const struct caller *who, const char *tenant)
{
    if (who->role == ROLE_ADMIN)
        return true;
    return who->role == ROLE_TENANT && tenant != NULL && strcmp(who->tenant, tenant) == 0;
}

/* A token that is not ours, of a node that joins. */
static int review_caller(struct api *api, const char *token, struct caller *out,
                         struct dlc_err *err)
{
    char *node = NULL;
    int rc = api->reviewer.review(api->reviewer.arg, token, &node, err);

    *out = (struct caller){0};
    if (rc == 0 && !str_is_name(node))
        rc = dlc_err_set(err, DLC_EDENIED, "%.80s is not a name of a node here: " STR_NAME_RULE,
                         node);
    if (rc == 0) {
        out->role = ROLE_NODE;
        out->joins = true;
        snprintf(out->node, sizeof(out->node), "%s", node);
    }
    mem_free(&node);
    return rc;
}

/* As token_caller(), and of single nodes. */
static int request_caller(struct api *api, const char *token, bool joins, struct caller *out,
                          struct dlc_err *err)
{
    int rc = token_caller(api, token, out, err);
    unsigned char hash[SHA256_LEN];
    struct node_token n;

    if (rc == DLC_EDENIED && !looks_like_token(token) && joins && api->reviewer.review != NULL)
        return review_caller(api, token, out, err);
    if (rc != DLC_EDENIED || !looks_like_token(token))
        return rc;
    *out = (struct caller){0};
    token_hash(token, hash);
    token_doc_id(hash, out->token_id);
    rc = node_token_get(api->tables, out->token_id, &n);
    if (rc < 0 && rc != DLC_EDENIED)
        dlc_err_set(err, rc, "the store does not answer");
    if (rc == 0) {
        out->role = ROLE_NODE;
        out->joins = n.joins;
        out->credential_due = n.due;
        out->credential_life = n.life;
        memcpy(out->node, n.node, sizeof(out->node));
    }
    return rc;
}

static void refuse_token(struct api *api, struct http_request *r, struct http_reply *reply,
                         const struct dlc_err *err)
{
    if (err->code == DLC_EDENIED)
        http_problem(
            reply, 401, "Unknown token", "%s%s", err->text,
            looks_like_token(r->token)
                ? "; `dlcache tenant token NAME` makes a tenant a new one, that of admins is "
                  "in admin.token of the manager's directory"
                : "");
    else if (!looks_like_token(r->token))
        http_problem(reply, 503, "Not known yet", "%s", err->text);
    else
        reply_store_error(api, r, reply, err);
}

/* A token of another role: roles are those that may. */
static void refuse_role(uint32_t roles, struct http_reply *reply)
{
    http_problem(reply, 403, "Not allowed",
                 "a token of role %s may not do this: it takes that of %s%s%s%s%s",
                 role_name(current.who.role), (roles & ROLE_ADMIN) != 0 ? "an admin" : "",
                 (roles & ROLE_ADMIN) != 0 && (roles & ROLE_TENANT) != 0 ? " or " : "",
                 (roles & ROLE_TENANT) != 0 ? "a tenant" : "",
                 (roles & (ROLE_ADMIN | ROLE_TENANT)) != 0 && (roles & ROLE_NODE) != 0 ? " or "
                                                                                       : "",
                 (roles & ROLE_NODE) != 0 ? "a node (`dlcache node join-token NAME`)" : "");
}

/* An admin may act for a tenant, and has the tenant's rights for this request alone: the operator
 * registers what users of a namespace wrote. */
static bool act_as_tenant(const struct http_request *r, struct http_reply *reply)
{
    const char *name = r->as_tenant;

    if (name == NULL)
        return true;
    if (current.who.role != ROLE_ADMIN) {
        http_problem(reply, 403, "Not allowed", "only an admin may act for a tenant");
        return false;
    }
    if (!str_is_name(name)) {
        http_problem(reply, 400, "Bad header",
                     "Dlcache-As-Tenant: a tenant is named by " STR_NAME_RULE);
        return false;
    }
    current.who.role = ROLE_TENANT;
    current.who.for_tenant = true;
    snprintf(current.who.tenant, sizeof(current.who.tenant), "%s", name);
    return true;
}

const char *caller_node(const struct http_request *r)
{
    const struct caller *who = caller_of(r);

    return r->node != NULL ? r->node : who->node[0] != '\0' ? who->node : NULL;
}

bool caller_is_node(const struct http_request *r, const char *node, struct http_reply *reply)
{
    const char *token = caller_of(r)->node;
    bool by_token = token[0] != '\0' && node != NULL && strcmp(token, node) != 0;

    if (node == NULL || (!by_token && (r->node == NULL || strcmp(r->node, node) == 0)))
        return true;
    http_problem(reply, 403, "Not allowed", "the %s is of node %s, not of %s",
                 by_token ? "token" : "certificate", by_token ? token : r->node, node);
    return false;
}

/* A node acts for no other node. Where the manager speaks TLS, it shows the certificate that it got
 * with its join. */
static bool check_node(const struct http_request *r, const struct http_route *route,
                       struct http_reply *reply)
{
    bool about_node = str_starts(route->pattern, "/v1/nodes/{name}") &&
                      strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0;

    if (current.who.role != ROLE_NODE)
        return true;
    if (current.who.joins && (route->roles & ROUTE_JOINS) == 0) {
        http_problem(reply, 401, "Join token",
                     "this token lets node %s join, once, and nothing else: the node has got a "
                     "credential of its own for the rest",
                     current.who.node);
        return false;
    }
    if (r->asked_certificate && r->node == NULL && (route->roles & ROUTE_JOINS) == 0) {
        http_problem(reply, 401, "Certificate missing",
                     "a node shows its certificate here, which is valid, of this cluster and not "
                     "revoked: it "
                     "gets one when it joins (PUT /v1/nodes/NAME with certificate_request)");
        return false;
    }
    return caller_is_node(r, about_node ? r->params[0] : r->node, reply);
}

/* What a store that was emptied does not know is not what is not there. */
static bool check_store(struct api *api, const struct http_route *route, struct http_reply *reply)
{
    char *why = (route->roles & ROUTE_ANYWAY) != 0 ? NULL : leader_store_lost(api->tables);
    bool lost = why != NULL;

    if (lost)
        reply_not_leading(api, reply);
    mem_free(&why);
    return !lost;
}

bool auth_check(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                void *ctx)
{
    struct api *api = api_of(ctx);
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t roles = route->roles & ROLE_ANY;

    current.request = r;
    current.who = (struct caller){0};
    if (roles == 0)
        return true;
    if (r->token != NULL) {
        if (request_caller(api, r->token, (route->roles & ROUTE_JOINS) != 0, &current.who, &err) <
            0) {
            refuse_token(api, r, reply, &err);
            return false;
        }
    } else if (r->local) {
        current.who.role = ROLE_ADMIN;
    } else {
        http_problem(reply, 401, "Token missing",
                     "this needs a token: send Authorization: Bearer TOKEN");
        return false;
    }
    if (!act_as_tenant(r, reply))
        return false;
    if ((current.who.role & roles) == 0) {
        refuse_role(roles, reply);
        return false;
    }
    if (!check_node(r, route, reply) || !check_store(api, route, reply))
        return false;
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0 &&
        (route->roles & ROUTE_READS) == 0 && !leader_leads(api->tables)) {
        reply_not_leading(api, reply);
        return false;
    }
    return true;
}

/* ---- the files ---- */

/* Cuts the text into its tokens. */
static int parse_tokens(char *text, const char *path, struct file_tokens *out, struct dlc_err *err)
{
    char *rest = NULL;

    out->n = 0;
    for (char *t = strtok_r(text, " \t\r\n", &rest); t != NULL;
         t = strtok_r(NULL, " \t\r\n", &rest)) {
        if (out->n == AUTH_FILE_TOKENS)
            return dlc_err_set(err, DLC_EINVAL,
                               "%s holds more than %d tokens: keep the new one and the one before",
                               path, AUTH_FILE_TOKENS);
        if (!looks_like_token(t))
            return dlc_err_set(err, DLC_EINVAL,
                               "%s: token %zu is not a token; remove the file, and a new one is "
                               "made",
                               path, out->n + 1);
        token_hash(t, out->hash[out->n++]);
    }
    return out->n > 0 ? 0
                      : dlc_err_set(err, DLC_EINVAL,
                                    "%s holds no token: remove it, and a new one is made", path);
}

static int read_token_file(const char *path, struct file_tokens *out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    struct stat st;
    int rc;

    buf_reserve(&b, TOKEN_FILE_MAX + 1); /* growing would leave copies behind */
    rc = os_read_file(path, TOKEN_FILE_MAX, &b, err);
    if (rc == 0 && os_stat(path, &st) < 0)
        rc = dlc_err_sys(err, "cannot look at %s", path);
    if (rc == 0 && (st.st_mode & 077) != 0)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "%s can be read by others: remove it, and a new one is made", path);
    if (rc == 0)
        rc = parse_tokens((char *)(uintptr_t)buf_str(&b), path, out, err);
    if (b.data != NULL)
        OPENSSL_cleanse(b.data, b.cap);
    buf_release(&b);
    return rc;
}

static int make_token_file(const char *path, struct dlc_err *err)
{
    char token[TOKEN_LEN + 2];
    int rc;

    token_new(token);
    token[TOKEN_LEN] = '\n';
    rc = os_write_file(path, token, TOKEN_LEN + 1, 0600, err);
    OPENSSL_cleanse(token, sizeof(token));
    return rc;
}

static int open_token_file(const struct auth *a, const char *name, struct file_stamp *stamp,
                           bool make, struct file_tokens *out, struct dlc_err *err)
{
    char *path = mem_fmt("%s/%s", a->dir, name);
    int rc = 0;

    if (make && os_access(path, F_OK) < 0 && errno == ENOENT)
        rc = make_token_file(path, err);
    file_stamp_take(stamp, path);
    if (rc == 0)
        rc = read_token_file(path, out, err);
    mem_free(&path);
    return rc;
}

static int load_files(struct auth *a, bool make, struct dlc_err *err)
{
    struct auth_tokens t;
    int rc = open_token_file(a, "admin.token", &a->admin_file, make, &t.admin, err);

    if (rc == 0)
        rc = open_token_file(a, "node.token", &a->node_file, make, &t.node, err);
    for (size_t i = 0; rc == 0 && i < t.admin.n; i++)
        if (file_has(&t.node, t.admin.hash[i]))
            rc = dlc_err_set(err, DLC_EINVAL,
                             "%s: admin.token and node.token hold the same token; remove one of "
                             "them",
                             a->dir);
    if (rc == 0) {
        dlc_mtx_lock(&a->mtx);
        a->tokens = t;
        dlc_mtx_unlock(&a->mtx);
    }
    return rc;
}

int auth_open(struct auth *a, const char *dir, struct dlc_err *err)
{
    auth_release(a);
    *a = (struct auth){.dir = mem_str(dir)};
    dlc_mtx_init(&a->mtx, LCK_auth);
    return load_files(a, true, err);
}

void auth_release(struct auth *a)
{
    if (a->dir != NULL)
        dlc_mtx_release(&a->mtx);
    mem_free(&a->dir);
}

static bool file_changed(const struct auth *a, const char *name, struct file_stamp *stamp)
{
    char *path = mem_fmt("%s/%s", a->dir, name);
    bool changed = file_stamp_take(stamp, path);

    mem_free(&path);
    return changed;
}

int auth_reload(struct auth *a, struct dlc_err *err)
{
    bool admin = file_changed(a, "admin.token", &a->admin_file);
    bool node = file_changed(a, "node.token", &a->node_file);
    int rc = admin || node ? load_files(a, false, err) : 0;

    return rc == 0 ? admin || node : rc;
}

void auth_tokens_get(struct auth *a, struct auth_tokens *out)
{
    dlc_mtx_lock(&a->mtx);
    *out = a->tokens;
    dlc_mtx_unlock(&a->mtx);
}
