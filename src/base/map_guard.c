// SPDX-License-Identifier: Apache-2.0
#include "base/map_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/syscalls.h"

#define GUARDS 1024 /* large samples that are being written at once */

/* A signal handler reads it, so it is never freed. */
struct map_guard {
    _Atomic bool taken;
    _Atomic uintptr_t data; /* 0: none. W its owner, R the handler */
    size_t len;             /* set before data */
    _Atomic bool failed;    /* W the handler, R any */
};

static struct map_guard guards[GUARDS];
static struct sigaction before;
static uintptr_t page; /* bytes; W install(), before the handler runs */

static struct map_guard *guard_at(uintptr_t addr)
{
    for (unsigned i = 0; i < GUARDS; i++) {
        /* acquire: pairs with the release in map_guard_new(), for len */
        uintptr_t data = atomic_load_explicit(&guards[i].data, memory_order_acquire);

        if (data != 0 && addr >= data && addr - data < guards[i].len)
            return &guards[i];
    }
    return NULL;
}

/* Nothing here but what a signal handler may do: atomics and plain system calls. */
static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    uintptr_t addr = (uintptr_t)info->si_addr;
    struct map_guard *g = guard_at(addr);
    int e = errno;

    (void)context;
    if (g != NULL && mmap((void *)(addr & ~(page - 1)), page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        /* release: whoever sees the bytes of that page after the thread told of them, sees this */
        atomic_store_explicit(&g->failed, true, memory_order_release);
    else
        sigaction(sig, &before, NULL); /* the access is made again, and not to us */
    errno = e;
}

/* With each mapping: somebody may have set another handler since. */
static void install(void)
{
    static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER; /* leaf */
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER}, now;

    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&mtx);
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_sigbus) {
        before = now;
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_mutex_unlock(&mtx);
}

static struct map_guard *guard_take(void)
{
    for (unsigned i = 0; i < GUARDS; i++) {
        bool taken = false;

        /* acquire: pairs with the release in map_guard_free() */
        if (atomic_compare_exchange_strong_explicit(&guards[i].taken, &taken, true,
                                                    memory_order_acquire, memory_order_relaxed))
            return &guards[i];
    }
    errno = ENOMEM;
    return NULL;
}

struct map_guard *map_guard_new(int fd, size_t len)
{
    struct map_guard *g = guard_take();
    void *p;

    if (g == NULL)
        return NULL;
    install();
    p = os_map(fd, 0, len, true);
    g->len = len;
    atomic_store_explicit(&g->failed, false, memory_order_relaxed); /* nobody maps it yet */
    /* release: pairs with guard_at() */
    atomic_store_explicit(&g->data, (uintptr_t)p, memory_order_release);
    if (p == NULL)
        map_guard_free(&g);
    return g;
}

void *map_guard_data(const struct map_guard *g)
{
    return (void *)atomic_load_explicit(&g->data, memory_order_relaxed); /* its owner's own */
}

bool map_guard_failed(const struct map_guard *g)
{
    return atomic_load_explicit(&g->failed, memory_order_acquire); /* with the handler */
}

void map_guard_free(struct map_guard **gp)
{
    struct map_guard *g = *gp;
    int e = errno;

    *gp = NULL;
    if (g == NULL)
        return;
    if (map_guard_data(g) != NULL)
        os_unmap(map_guard_data(g), g->len);
    atomic_store_explicit(&g->data, 0, memory_order_relaxed);      /* nobody touches it any more */
    atomic_store_explicit(&g->taken, false, memory_order_release); /* with guard_take() */
    errno = e;
}
