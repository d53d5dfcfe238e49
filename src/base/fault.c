// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

static_assert(CALL_any < 64, "a plan has a bit for each call");

/* W the test, R any; sequentially consistent but for the look at `armed` that is always paid. */
struct fault_state {
    _Atomic unsigned armed; /* kinds */
    void (*_Atomic observer)(enum fault_call, int fd);
    _Atomic int countdown; /* the operation that makes it 0 is the first that is hit */
    _Atomic int hits, hanging;
    _Atomic int last;          /* enum fault_call */
    _Atomic unsigned releases; /* grows: calls that hang since an earlier one go on */
    _Atomic int readers;       /* of the plan, just now */
    struct fault_plan plan;    /* written while `armed` is 0 and nobody reads it */
};

static struct fault_state own;
static struct fault_state *state = &own; /* changed by fault_share(), before there are threads */

void fault_share(void)
{
    void *p = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    dlc_check(p != MAP_FAILED && state == &own);
    state = p;
}

bool fault_share_at(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(own)) == 0)
        p = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED)
        state = p;
    return p != MAP_FAILED;
}

static void pause_ms(int ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        ;
}

static void arm(unsigned kinds, const struct fault_plan *p)
{
    state->armed &= FAULT_OBSERVE;
    /* A process that was killed as it read never ends it: a second is enough for all others. */
    for (int i = 0; state->readers > 0 && i < 1000; i++)
        pause_ms(1);
    state->readers = 0;
    state->plan = *p;
    state->countdown = p->nth;
    state->hits = 0;
    state->armed |= kinds;
}

void fault_arm(unsigned kinds, int nth)
{
    arm(kinds, &(struct fault_plan){.calls = FAULT_ALL_CALLS, .nth = nth});
}

void fault_plan(const struct fault_plan *p)
{
    dlc_check(p->nth > 0);
    arm(FAULT_SYSCALL, p);
}

void fault_release(void)
{
    state->releases++;
}

void fault_observe(void (*f)(enum fault_call, int))
{
    state->armed &= ~(unsigned)FAULT_OBSERVE;
    state->observer = f;
    if (f != NULL)
        state->armed |= FAULT_OBSERVE;
}

bool fault_disarm(void)
{
    state->armed &= FAULT_OBSERVE;
    fault_release();
    return state->hits > 0;
}

int fault_calls(void)
{
    return state->plan.nth - state->countdown;
}

int fault_hits(void)
{
    return state->hits;
}

int fault_hanging(void)
{
    return state->hanging;
}

enum fault_call fault_last(void)
{
    return (enum fault_call)state->last;
}

const char *fault_name(enum fault_call call)
{
    static const char *const names[] = {
#define CALL(name, error, functions) [CALL_##name] = #name,
#include "base/tbl/calls.def"
#undef CALL
        [CALL_any] = "any",
    };

    return names[call];
}

static int error_of(enum fault_call call)
{
    static const int errors[] = {
#define CALL(name, error, functions) [CALL_##name] = (error),
#include "base/tbl/calls.def"
#undef CALL
        [CALL_any] = EIO,
    };

    return errors[call];
}

static bool is_due_now(enum fault_kind kind, enum fault_call call)
{
    const struct fault_plan *p = &state->plan;
    int left;

    if ((state->armed & kind) == 0)
        return false;
    if (kind == FAULT_SYSCALL && (p->calls & (uint64_t)1 << call) == 0)
        return false;
    if (p->pid != 0 && p->pid != getpid())
        return false;
    left = atomic_fetch_sub(&state->countdown, 1);
    if (left > 1 || 1 - left >= (p->times > 0 ? p->times : 1))
        return false;
    state->last = (int)call;
    state->hits++;
    return true;
}

/* Is this operation one of those that the plan hits? Then *out is the plan. */
static bool is_due(enum fault_kind kind, enum fault_call call, struct fault_plan *out)
{
    bool due;

    if ((atomic_load_explicit(&state->armed, memory_order_relaxed) & kind) == 0) /* is_due_now() */
        return false;
    state->readers++; /* before it looks at `armed`: arm() clears that before it looks here */
    due = is_due_now(kind, call);
    if (due)
        *out = state->plan;
    state->readers--;
    return due;
}

static void hang(void)
{
    unsigned before = state->releases;

    state->hanging++;
    while (state->releases == before)
        pause_ms(1);
    state->hanging--;
}

bool fault_hit(enum fault_kind kind)
{
    struct fault_plan p;

    return is_due(kind, CALL_any, &p);
}

static void say_hit(enum fault_call call)
{
    dprintf(STDERR_FILENO, "fault: %s in process %d\n", fault_name(call), (int)getpid());
}

bool fault_hit_call(enum fault_call call, int fd)
{
    unsigned armed = atomic_load_explicit(&state->armed, memory_order_relaxed); /* see above */
    void (*observer)(enum fault_call, int);
    struct fault_plan p;

    if (armed == 0)
        return false;
    observer = (armed & FAULT_OBSERVE) != 0 ? atomic_load(&state->observer) : NULL;
    if (observer != NULL) /* else it was taken away just now */
        observer(call, fd);
    if (!is_due(FAULT_SYSCALL, call, &p))
        return false;
    if (p.loud)
        say_hit(call);
    switch (p.mode) {
    case FAULT_FAIL: errno = p.error != 0 ? p.error : error_of(call); return true;
    case FAULT_DELAY: pause_ms(p.delay_ms); break;
    case FAULT_HANG: hang(); break;
    case FAULT_EXIT: _exit(FAULT_EXIT_STATUS);
    case FAULT_KILL: kill(getpid(), SIGKILL);
    }
    return false;
}

/* ---- plans in words ---- */

static bool calls_parse(const char *text, size_t len, uint64_t *out)
{
    *out = 0;
    if (len == 3 && strncmp(text, "all", 3) == 0)
        *out = FAULT_ALL_CALLS;
    if (*out != 0)
        return true;
    for (const char *p = text, *end = text + len; p <= end;) {
        size_t n = strcspn(p, "+,");
        int call = 0;

        while (call < CALL_any && (strlen(fault_name((enum fault_call)call)) != n ||
                                   strncmp(fault_name((enum fault_call)call), p, n) != 0))
            call++;
        if (call == CALL_any)
            return false;
        *out |= (uint64_t)1 << call;
        p += n + 1;
    }
    return true;
}

bool fault_parse(const char *text, struct fault_plan *out)
{
    static const char *const modes[] = {
        [FAULT_FAIL] = "fail", [FAULT_DELAY] = "delay", [FAULT_HANG] = "hang",
        [FAULT_EXIT] = "exit", [FAULT_KILL] = "kill",
    };
    size_t len = strcspn(text, ",");
    unsigned mode = 0, n_modes = sizeof(modes) / sizeof(modes[0]);
    int nth = 0, value = 0;
    char word[8] = "";

    *out = (struct fault_plan){0};
    if (!calls_parse(text, len, &out->calls) ||
        sscanf(text + len, ",%d,%7[a-z],%d", &nth, word, &value) < 2 || nth < 1)
        return false;
    while (mode < n_modes && strcmp(modes[mode], word) != 0)
        mode++;
    out->nth = nth;
    out->mode = (enum fault_mode)mode;
    out->error = out->delay_ms = value;
    return mode < n_modes;
}

#ifdef DLC_FAULT_ENV
__attribute__((constructor)) static void arm_from_environment(void)
{
    const char *text = getenv("DLCACHE_TEST_FAULT");
    struct fault_plan p;

    if (text == NULL || (text[0] == '@' && fault_share_at(text + 1)))
        return;
    if (!fault_parse(text, &p)) {
        dprintf(STDERR_FILENO, "DLCACHE_TEST_FAULT=%s makes no sense; see base/fault.h\n", text);
        _exit(2);
    }
    p.loud = true;
    fault_plan(&p);
}
#endif
