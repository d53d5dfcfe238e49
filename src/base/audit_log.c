// SPDX-License-Identifier: Apache-2.0
#include "base/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "base/syscalls.h"

#define AUDIT_TAG  DLC_TAG4('a', 'u', 'd', 't')
#define LOOK_EVERY DLC_SEC(1)

struct audit_log {
    uint32_t tag;
    char *path;         /* NULL: standard output */
    struct dlc_mtx mtx; /* rank LCK_audit; guards what follows */
    int fd;
    struct dlc_mono look_at;  /* when the path is compared with the open file again */
    bool torn;                /* the last line was cut: the next one begins with a newline */
    uint64_t failed, limited; /* lines lost since the last one that was written */
    uint64_t lost;            /* since the start */
    struct dlc_mono second;   /* of the refusals that are counted ... */
    unsigned refusals;        /* ... here */
    struct log_limit warnings;
};

/* ---- text ---- */

static void add_member(struct buf *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    buf_addf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",", name);
    str_json(text, AUDIT_TEXT_MAX, out);
}

static void add_time(struct buf *out, int64_t unix_ms)
{
    time_t s = (time_t)(unix_ms / 1000);
    char day[32];
    struct tm tm;

    gmtime_r(&s, &tm);
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(out, "{\"time\":\"%s.%03dZ\"", day, (int)(unix_ms % 1000));
}

static void add_actor(struct buf *out, const struct audit_event *e)
{
    buf_adds(out, ",\"actor\":{");
    add_member(out, "role", e->role != NULL ? e->role : "unknown");
    add_member(out, "name", e->name);
    add_member(out, "by", e->by);
    if (e->local)
        buf_addf(out, ",\"uid\":%lld,\"pid\":%lld", (long long)e->uid, (long long)e->pid);
    buf_addc(out, '}');
}

void audit_event_json(const struct audit_event *e, int64_t unix_ms, struct buf *out)
{
    static const char *const outcomes[] = {"ok", "refused", "failed"};

    add_time(out, unix_ms);
    add_actor(out, e);
    add_member(out, "address", e->address);
    add_member(out, "request", e->request);
    add_member(out, "action", e->action);
    add_member(out, "object", e->object);
    add_member(out, "tenant", e->tenant);
    add_member(out, "outcome", outcomes[e->outcome]);
    if (e->status != 0)
        buf_addf(out, ",\"status\":%d", e->status);
    add_member(out, "reason", e->reason);
    buf_addc(out, '}');
}

/* ---- the file ---- */

static int open_file(const char *path)
{
    return os_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOFOLLOW, 0600);
}

int audit_log_open(const char *path, struct audit_log **out, struct dlc_err *err)
{
    struct audit_log *a = mem_new(struct audit_log);
    bool to_file = strcmp(path, "-") != 0;

    *out = NULL;
    a->tag = AUDIT_TAG;
    a->path = to_file ? mem_str(path) : NULL;
    a->fd = to_file ? open_file(path) : STDOUT_FILENO;
    dlc_mtx_init(&a->mtx, LCK_audit);
    if (a->fd < 0) {
        int rc = dlc_err_sys(err, "--audit-log: cannot open %s", path);

        audit_log_close(&a);
        return rc;
    }
    *out = a;
    return 0;
}

void audit_log_close(struct audit_log **ap)
{
    struct audit_log *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    dlc_check(a->tag == AUDIT_TAG);
    if (a->path != NULL)
        os_close(&a->fd);
    dlc_mtx_release(&a->mtx);
    mem_free(&a->path);
    a->tag = 0;
    mem_free(&a);
}

/* (AUDIT-5) */
static void follow_path_locked(struct audit_log *a)
{
    struct dlc_mono now = dlc_mono_now();
    struct stat at_path, ours;
    int fd;

    if (a->path == NULL || !(a->look_at.ns == 0 || dlc_mono_passed(a->look_at, now)))
        return;
    a->look_at = dlc_mono_add(now, LOOK_EVERY);
    if (os_fstat(a->fd, &ours) == 0 && os_stat(a->path, &at_path) == 0 &&
        ours.st_ino == at_path.st_ino && ours.st_dev == at_path.st_dev)
        return;
    fd = open_file(a->path);
    if (fd < 0)
        return; /* the file that we have is better than none */
    os_close(&a->fd);
    a->fd = fd;
    a->torn = false;
}

static bool put_locked(struct audit_log *a, struct buf *line)
{
    ssize_t n;

    buf_addc(line, '\n');
    if (a->torn) {
        struct buf whole = BUF_INIT;

        buf_addc(&whole, '\n');
        buf_add(&whole, line->data, line->len);
        buf_release(line);
        *line = whole;
    }
    do
        n = os_write(a->fd, line->data, line->len);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && (size_t)n < line->len)
        errno = ENOSPC; /* what another call would say */
    if (n > 0)
        a->torn = (size_t)n < line->len;
    return n == (ssize_t)line->len;
}

static void lose_locked(struct audit_log *a, uint64_t *which)
{
    ++*which;
    a->lost++;
    if (which == &a->failed && log_limit_allows(&a->warnings))
        log_warn("audit log: %s cannot be written (%s): %llu lines are lost so far",
                 a->path != NULL ? a->path : "standard output", strerror(errno),
                 (unsigned long long)a->lost);
}

/* The lines that are missing here. */
static bool tell_lost_locked(struct audit_log *a, int64_t unix_ms)
{
    struct buf line = BUF_INIT;
    bool ok;

    if (a->failed + a->limited == 0)
        return true;
    add_time(&line, unix_ms);
    buf_addf(&line, ",\"action\":\"audit.lost\",\"failed\":%llu,\"limited\":%llu}",
             (unsigned long long)a->failed, (unsigned long long)a->limited);
    ok = put_locked(a, &line);
    if (ok)
        a->failed = a->limited = 0;
    buf_release(&line);
    return ok;
}

/* (AUDIT-4) */
static bool allowed_locked(struct audit_log *a, const struct audit_event *e)
{
    struct dlc_mono now = dlc_mono_now();

    if (e->outcome != AUDIT_REFUSED)
        return true;
    if (a->second.ns == 0 || dlc_mono_sub(now, a->second).ns >= DLC_SEC(1).ns) {
        a->second = now;
        a->refusals = 0;
    }
    return a->refusals++ < AUDIT_REFUSALS;
}

void audit_log_write(struct audit_log *a, const struct audit_event *e)
{
    struct buf line = BUF_INIT;
    struct timespec now;
    int64_t ms;

    if (a == NULL)
        return;
    dlc_check(a->tag == AUDIT_TAG && e->action != NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    audit_event_json(e, ms, &line);
    dlc_mtx_lock(&a->mtx);
    if (!allowed_locked(a, e)) {
        lose_locked(a, &a->limited);
    } else {
        follow_path_locked(a);
        if (!tell_lost_locked(a, ms) || !put_locked(a, &line))
            lose_locked(a, &a->failed);
    }
    dlc_mtx_unlock(&a->mtx);
    buf_release(&line);
}

uint64_t audit_log_lost(struct audit_log *a)
{
    uint64_t lost;

    if (a == NULL)
        return 0;
    dlc_mtx_lock(&a->mtx);
    lost = a->lost;
    dlc_mtx_unlock(&a->mtx);
    return lost;
}
