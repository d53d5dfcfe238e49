// SPDX-License-Identifier: Apache-2.0
/* Run the same cases against every store of stores.h, each case on an empty one. */
#ifndef DLC_TESTS_METADATA_EACH_STORE_H
#define DLC_TESTS_METADATA_EACH_STORE_H

#include "store_unit.h"
#include "stores.h"

/* What a case gets in *state. */
struct fixture {
    char url[512];
    struct store *m;
};

static inline struct store *store_of(void **state)
{
    return ((struct fixture *)*state)->m;
}

static inline const char *url_of(void **state)
{
    return ((struct fixture *)*state)->url;
}

static inline void reopen(void **state)
{
    struct fixture *f = *state;

    store_close(&f->m);
    ok(store_open(f->url, &f->m, &err));
}

static const struct test_store *each_current;

static inline int each_open(void **state)
{
    struct fixture *f = mem_new(struct fixture);

    each_current->url(f->url);
    *state = f;
    if (store_open(f->url, &f->m, &err) == 0)
        return strcmp(store_backend(f->m), each_current->backend);
    print_error("%s\n", err.text);
    return -1;
}

static inline int each_close(void **state)
{
    struct fixture *f = *state;

    store_close(&f->m);
    mem_free(&f);
    return 0;
}

struct each_case {
    const char *name;
    void (*f)(void **state);
};

static inline int each_store(const struct each_case *cases, size_t n)
{
    struct CMUnitTest *tests = mem_zero(n * sizeof(*tests));
    char(*names)[80] = mem_zero(n * sizeof(*names));
    int failed = 0;

    for (size_t s = 0; s < n_stores; s++) {
        each_current = &stores[s];
        if (each_current->start != NULL && !each_current->start())
            continue;
        for (size_t i = 0; i < n; i++) {
            snprintf(names[i], sizeof(names[i]), "%s: %s", each_current->name, cases[i].name);
            tests[i] = (struct CMUnitTest){names[i], cases[i].f, each_open, each_close, NULL};
        }
        failed += _cmocka_run_group_tests(each_current->name, tests, n, NULL, NULL);
        if (each_current->stop != NULL)
            each_current->stop();
    }
    mem_free(&tests);
    mem_free(&names);
    return failed;
}

#endif
