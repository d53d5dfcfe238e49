// SPDX-License-Identifier: Apache-2.0
#include "aws_home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "base/str.h"

extern char **environ;

static char home[64];
static struct loop_thread loop;

static void clear_environment(void)
{
    for (char **e = environ; *e != NULL;) {
        char *name = mem_strn(*e, strcspn(*e, "="));

        if (str_starts(name, "AWS_"))
            unsetenv(name);
        else
            e++;
        mem_free(&name);
    }
}

int aws_home_set_up(void **state)
{
    (void)state;
    clear_environment();
    snprintf(home, sizeof(home), "/tmp/dlcache-test-aws-XXXXXX");
    dlc_check(mkdtemp(home) != NULL && setenv("HOME", home, 1) == 0);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    dlc_check(loop_thread_start(&loop, "test", NULL) == 0);
    return 0;
}

int aws_home_tear_down(void **state)
{
    (void)state;
    loop_thread_stop(&loop);
    os_rmtree(home);
    return 0;
}

const char *aws_home_path(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", home, name);
    return path;
}

void aws_home_file(const char *name, const char *text)
{
    const char *path = aws_home_path(name);
    char *dir = mem_strn(path, (size_t)(strrchr(path, '/') - path));

    dlc_check(os_mkdirs(dir, 0700) == 0);
    dlc_check(os_write_file(path, text, strlen(text), 0600, NULL) == 0);
    mem_free(&dir);
}

struct wait {
    struct task ready;
    struct dlc_mtx mtx;
    struct dlc_cond cond;
    bool done; /* G: mtx */
};

static void on_ready(struct task *t)
{
    struct wait *w = dlc_container(t, struct wait, ready);

    dlc_mtx_lock(&w->mtx);
    w->done = true;
    dlc_cond_signal(&w->cond);
    dlc_mtx_unlock(&w->mtx);
}

int aws_home_get(struct credential_source *s, struct credentials_ref **out, struct dlc_err *err)
{
    struct wait w = {.ready.run = on_ready};
    int rc;

    dlc_mtx_init(&w.mtx, LCK_sync);
    dlc_cond_init(&w.cond);
    while ((rc = credential_source_get(s, loop.loop, &w.ready, out, err)) == DLC_EBUSY) {
        dlc_mtx_lock(&w.mtx);
        while (!w.done)
            dlc_cond_wait(&w.cond, &w.mtx);
        w.done = false;
        dlc_mtx_unlock(&w.mtx);
    }
    dlc_cond_release(&w.cond);
    dlc_mtx_release(&w.mtx);
    return rc;
}

int aws_home_find(const struct bucket_config *c, struct credentials_ref **out, struct dlc_err *err)
{
    struct credential_source *s;
    int rc = credential_source_new(c, &s, err);

    *out = NULL;
    if (rc == 0)
        rc = aws_home_get(s, out, err);
    credential_source_free(&s);
    return rc;
}

void aws_home_expect(const char *access, const char *secret, const char *token)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;
    int rc = aws_home_find(&c, &r, &err);

    assert_string_equal(err.code == DLC_EBUSY ? "" : err.text, "");
    assert_int_equal(rc, 0);
    assert_string_equal(credentials_of(r)->access_key, access);
    assert_string_equal(credentials_of(r)->secret_key, secret);
    if (token == NULL)
        assert_null(credentials_of(r)->session_token);
    else
        assert_string_equal(credentials_of(r)->session_token, token);
    credentials_put(&r);
}

void aws_home_expect_error(int code, const char *words)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;
    int rc = aws_home_find(&c, &r, &err);

    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    assert_null(r);
    assert_null(strcasestr(err.text, "hush")); /* every secret of these tests holds it */
}
