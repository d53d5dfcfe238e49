// SPDX-License-Identifier: Apache-2.0
/* Counted references to an open dataset, the lock that serializes calls on its order, and waits
 * that a signal can end. */
#include "ext.h"

#include <limits.h>
#include <unistd.h>

#define LOOK_EVERY DLC_MS(50)

/* How often this process is a fork of the one that loaded us. Written in the child before it has a
 * second thread. */
static unsigned generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    generation++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void dataset_ref_init(void)
{
    pthread_once(&once, watch_forks);
}

struct dataset_ref *dataset_ref_new(struct dlc_dataset *ds, PyTypeObject *view)
{
    struct dataset_ref *c = PyMem_Calloc(1, sizeof(*c));

    if (c == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *c =
        (struct dataset_ref){.ds = ds, .count = dlc_count(ds), .refs = 1, .generation = generation};
    pthread_mutex_init(&c->turn, NULL);
    c->view = (PyTypeObject *)Py_NewRef((PyObject *)view);
    return c;
}

void dataset_ref_put(struct dataset_ref **cp)
{
    struct dataset_ref *c = *cp;

    *cp = NULL;
    if (c == NULL || --c->refs > 0)
        return;
    dlc_close(&c->ds);
    pthread_mutex_destroy(&c->turn);
    Py_DECREF((PyObject *)c->view);
    PyMem_Free(c);
}

/* ---- waiting ---- */

/* Called by a wait of libdlcache, without the GIL. */
static bool signal_came(struct interrupt *i)
{
    struct wait *w = (struct wait *)i; /* its first member */
    struct dlc_mono now = dlc_mono_now();
    int rc;

    if (!dlc_mono_passed(w->next, now))
        return false;
    w->next = dlc_mono_add(now, LOOK_EVERY);
    PyEval_RestoreThread(w->thread);
    rc = PyErr_CheckSignals();
    w->thread = PyEval_SaveThread();
    return rc < 0;
}

/* Python runs handlers in the main thread only, which after a fork is another. */
static bool is_main_thread(void)
{
    static _Thread_local unsigned asked = UINT_MAX; /* in which generation */
    static _Thread_local bool answer;

    if (asked != generation) {
        asked = generation;
        answer = gettid() == getpid();
    }
    return answer;
}

void wait_begin(struct wait *w)
{
    *w = (struct wait){.interrupt = {.ask = signal_came}, .thread = PyEval_SaveThread()};
    if (is_main_thread()) {
        w->next = dlc_mono_add(dlc_mono_now(), LOOK_EVERY);
        interrupt_asked = &w->interrupt;
    }
}

bool wait_end(struct wait *w)
{
    interrupt_asked = NULL;
    PyEval_RestoreThread(w->thread);
    return !w->interrupt.yes;
}

/* ---- turns ---- */

void turn_begin(struct dataset_ref *c, struct wait *w)
{
    if (c->generation != generation) { /* held by a thread that stayed with the parent, maybe */
        pthread_mutex_init(&c->turn, NULL);
        c->generation = generation;
    }
    wait_begin(w);
    pthread_mutex_lock(&c->turn);
}

bool turn_end(struct dataset_ref *c, struct wait *w)
{
    pthread_mutex_unlock(&c->turn);
    return wait_end(w);
}
