// SPDX-License-Identifier: Apache-2.0
#include "manager/fingerprints.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "manager/tables/key_record.h"

#define PRINT_LEN 16
#define TRIES     8

struct prints {
    char admin[PRINT_LEN + 1], node[PRINT_LEN + 1];
};

/* Those of the files: each may hold an older token besides. */
struct own_prints {
    struct prints first, second; /* empty texts: there is none */
};

/* ---- the tokens ---- */

static void print_of(const unsigned char hash[static SHA256_LEN], char out[static PRINT_LEN + 1])
{
    unsigned char print[SHA256_LEN];

    hmac_sha256(hash, SHA256_LEN, "dlcache token print", 19, print);
    str_hex(print, PRINT_LEN / 2, out);
}

static struct own_prints prints_here(const struct fingerprints *f)
{
    struct own_prints p = {{"", ""}, {"", ""}};
    struct auth_tokens t;

    auth_tokens_get(f->auth, &t);
    print_of(t.admin.hash[0], p.first.admin);
    print_of(t.node.hash[0], p.first.node);
    if (t.admin.n > 1)
        print_of(t.admin.hash[1], p.second.admin);
    if (t.node.n > 1)
        print_of(t.node.hash[1], p.second.node);
    return p;
}

static bool has_admin(const struct own_prints *here, const char *print)
{
    return strcmp(here->first.admin, print) == 0 || strcmp(here->second.admin, print) == 0;
}

static bool has_node(const struct own_prints *here, const char *print)
{
    return strcmp(here->first.node, print) == 0 || strcmp(here->second.node, print) == 0;
}

static void copy_print(const json_t *body, const char *name, char out[static PRINT_LEN + 1])
{
    const char *s = json_string_value(json_object_get(body, name));

    snprintf(out, PRINT_LEN + 1, "%s", s != NULL ? s : "");
}

static bool same(const struct prints *a, const struct prints *b)
{
    return strcmp(a->admin, b->admin) == 0 && strcmp(a->node, b->node) == 0;
}

/* DLC_ENOTFOUND: it has none yet. */
static int prints_there(const struct fingerprints *f, struct prints *out, uint64_t *version,
                        struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(f->store, STORE_MANAGER, STORE_MARK, &d, err);

    if (rc == 0) {
        copy_print(d.body, "admin", out->admin);
        copy_print(d.body, "node", out->node);
        *version = d.version;
    }
    store_doc_release(&d);
    return rc;
}

static int put_prints(const struct fingerprints *f, const struct prints *p, uint64_t expect,
                      struct dlc_err *err)
{
    struct store_doc d = {(char *)STORE_MARK, (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:s, s:s}", "admin", p->admin, "node", p->node);
    rc = store_put(f->store, STORE_MANAGER, &d, expect, err);
    json_decref(d.body);
    return rc;
}

/* What this directory and the store agreed on last; empty texts: nothing. */
static struct prints prints_agreed(const char *path)
{
    struct prints p = {"", ""};
    struct buf b = BUF_INIT;

    if (os_read_file(path, 256, &b, NULL) < 0 ||
        sscanf(buf_str(&b), "%16s %16s", p.admin, p.node) != 2)
        p = (struct prints){"", ""};
    buf_release(&b);
    return p;
}

static int write_agreed(const char *path, const struct prints *p, struct dlc_err *err)
{
    char *text = mem_fmt("%s %s\n", p->admin, p->node);
    int rc = os_write_file(path, text, strlen(text), 0600, err);

    mem_free(&text);
    return rc;
}

static int refuse(const struct fingerprints *f, const struct own_prints *here,
                  const struct prints *there, struct dlc_err *err)
{
    bool admin = !has_admin(here, there->admin);
    bool node = !has_node(here, there->node);
    struct store_doc d = STORE_DOC_INIT;
    const char *leader = NULL;
    int rc;

    if (store_get(f->store, STORE_MANAGER, "leader", &d, NULL) == 0)
        leader = json_string_value(json_object_get(d.body, "address"));
    rc = dlc_err_set(err, DLC_EDENIED,
                     "%s%s%s in %s %s not of this store, whose managers (the last to lead: %.100s) "
                     "have others: copy %s from the directory of one of them, then start again",
                     admin ? "admin.token" : "", admin && node ? " and " : "",
                     node ? "node.token" : "", f->dir, admin && node ? "are" : "is",
                     leader != NULL ? leader : "unknown", admin && node ? "both" : "it");
    store_doc_release(&d);
    return rc;
}

/* One step; DLC_EBUSY: another manager was faster, look again. */
static int agree_once(const struct fingerprints *f, const char *path, const struct own_prints *here,
                      struct dlc_err *err)
{
    struct prints there, agreed = prints_agreed(path);
    uint64_t version = 0;
    int rc = prints_there(f, &there, &version, err);

    if (rc == DLC_ENOTFOUND)
        return put_prints(f, &here->first, STORE_NEW, err);
    if (rc < 0 || same(&here->first, &there))
        return rc;
    if (!same(&agreed, &there) && !(has_admin(here, there.admin) && has_node(here, there.node)))
        return refuse(f, here, &there, err);
    rc = put_prints(f, &here->first, version, err);
    if (rc == 0)
        log_warn("tokens in %s are new: copy them to the directories of the other managers, and to "
                 "whoever uses them",
                 f->dir);
    return rc;
}

bool fingerprints_lost(const struct fingerprints *f, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.agreed", f->dir);
    struct prints agreed = prints_agreed(path), there;
    uint64_t version;
    int rc = prints_there(f, &there, &version, err);

    mem_free(&path);
    if (rc == DLC_ECHANGED && store_reopen(f->store, false, NULL) == 0)
        rc = prints_there(f, &there, &version, err); /* a backup was put there */
    if (rc == DLC_ENOTFOUND && agreed.admin[0] != '\0')
        rc = dlc_err_set(
            err, DLC_ECHANGED,
            "the store is empty, and had records when this manager used it last: " STORE_LOST_REMEDY
            ". To begin with an empty store, remove %s/manager.agreed and restart",
            f->dir);
    return rc == DLC_ECHANGED;
}

int fingerprints_agree(const struct fingerprints *f, struct dlc_err *err)
{
    char *path = mem_fmt("%s/manager.agreed", f->dir);
    struct own_prints here = prints_here(f);
    struct dlc_err lost = DLC_ERR_INIT;
    int rc;

    if (fingerprints_lost(f, &lost)) {
        mem_free(&path);
        log_error("%s", lost.text);
        return 0;
    }
    rc = key_record_follow(f->store, f->seal, err);

    if (rc == 0) {
        rc = DLC_EBUSY;
        for (int i = 0; i < TRIES && rc == DLC_EBUSY; i++)
            rc = agree_once(f, path, &here, err);
    }
    if (rc == 0)
        rc = write_agreed(path, &here.first, err);
    mem_free(&path);
    return rc;
}

bool fingerprints_match(const struct fingerprints *f, struct dlc_err *err)
{
    struct own_prints here = prints_here(f);
    struct prints there;
    uint64_t version;

    if (fingerprints_lost(f, err))
        return false;
    if (key_record_follow(f->store, f->seal, err) == DLC_EDENIED)
        return false;
    if (prints_there(f, &there, &version, NULL) < 0 ||
        (has_admin(&here, there.admin) && has_node(&here, there.node)))
        return true; /* a store that does not answer is another matter */
    refuse(f, &here, &there, err);
    return false;
}
