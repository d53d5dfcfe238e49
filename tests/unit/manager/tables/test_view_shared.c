// SPDX-License-Identifier: Apache-2.0
// timeout: 60
/* Views while they are replaced: who holds one keeps it as it was. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "manager/bare.h"
#include "manager/tables/view_builder.h"

#define READERS 8
#define HELD    4  /* views that each of them holds */
#define CHANGES 50 /* while they read */

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "view%u", serial++);
    return bare_lead(url_of(state), dir);
}

/* Node a moves to another port: the next view is another one. */
static void change(struct tables *c, unsigned k)
{
    struct store_doc d = {(char *)"a", (char *)"", NULL, k + 1};

    d.body = json_pack("{s:o, s:s}", "address", json_sprintf("http://a:%u", k), "state", "live");
    nodes_remember(c, &d, true);
    json_decref(d.body);
    view_tick(c);
}

struct reader {
    struct tables *c;
    _Atomic bool *stop;
    pthread_t thread;
    uint64_t seen; /* views */
};

/* A view is whole: its text is of its version. */
static void check(const struct view *v)
{
    char want[64];

    snprintf(want, sizeof(want), "{\"version\":%llu,", (unsigned long long)v->version);
    assert_memory_equal(v->text, want, strlen(want));
    assert_int_equal(strlen(v->text), v->len);
    assert_true(view_names(v, "a"));
}

static void *read_main(void *arg)
{
    struct reader *r = arg;
    struct view *held[HELD] = {NULL};
    uint64_t last = 0;

    for (unsigned i = 0; !*r->stop; i++) {
        struct view **slot = &held[i % HELD];

        view_put(slot);
        *slot = view_get(r->c, last);
        if (*slot == NULL) {
            sched_yield(); /* nothing new */
            continue;
        }
        assert_true((*slot)->version > last);
        last = (*slot)->version;
        r->seen++;
        for (unsigned k = 0; k < HELD; k++)
            if (held[k] != NULL)
                check(held[k]);
    }
    for (unsigned k = 0; k < HELD; k++)
        view_put(&held[k]);
    return NULL;
}

static void test_readers_keep_what_they_hold(void **state)
{
    struct tables *c = start(state);
    struct reader readers[READERS];
    _Atomic bool stop = false;
    struct view *first, *last;
    char *text;

    change(c, 0);
    first = view_get(c, 0);
    assert_null(view_get(c, first->version));
    text = mem_str(first->text);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.c = c, .stop = &stop};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_main, &readers[i]), 0);
    }
    for (unsigned k = 1; k <= CHANGES; k++)
        change(c, k);
    stop = true;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    last = view_get(c, 0);
    assert_int_equal(last->version, first->version + CHANGES);
    assert_string_equal(first->text, text);
    assert_int_equal(first->refs, 1); /* nobody else holds it, and the last one is there for all */
    assert_int_equal(last->refs, 2);
    view_put(&first);
    view_put(&last);
    mem_free(&text);
    bare_close(&c);
}

/* Who asks twice gets the same one, not a copy. */
static void test_it_is_not_copied(void **state)
{
    struct tables *c = start(state);
    struct view *a, *b;

    change(c, 0);
    a = view_get(c, 0);
    view_changed(c);
    view_tick(c); /* it comes out as it was */
    b = view_get(c, 0);
    assert_ptr_equal(a, b);
    view_put(&a);
    view_put(&b);
    bare_close(&c);
}

/* A heart-beat. */
static void say(struct tables *c, int used)
{
    json_t *figures = json_pack("{s:i}", "disk_used", used);
    bool woke;

    assert_true(nodes_heard(c, "a", figures, NULL, &woke));
    json_decref(figures);
}

static void *say_main(void *arg)
{
    for (int k = 0; k < 1000; k++)
        say(arg, k);
    return NULL;
}

/* Lists of nodes share what nodes have said, and keep it while nodes say other things. */
static void test_lists_share_figures(void **state)
{
    struct tables *c = start(state);
    struct node_info *held = NULL, *list = NULL;
    size_t n;
    pthread_t thread;

    change(c, 0);
    say(c, 7);
    n = nodes_list(c, &held);
    assert_int_equal(n, 1);
    assert_int_equal(nodes_list(c, &list), 1);
    assert_ptr_equal(held[0].figures, list[0].figures); /* not copied */
    nodes_release(&list, 1);
    assert_int_equal(pthread_create(&thread, NULL, say_main, c), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(nodes_list(c, &list), 1);
        assert_true(json_is_integer(json_object_get(list[0].figures, "disk_used")));
        nodes_release(&list, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(json_integer_value(json_object_get(held[0].figures, "disk_used")), 7);
    assert_int_equal(held[0].holds[0]->refs, 1);
    nodes_release(&held, n);
    bare_close(&c);
}

int main(void)
{
    const struct each_case cases[] = {
        {"readers keep what they hold", test_readers_keep_what_they_hold},
        {"it is not copied", test_it_is_not_copied},
        {"lists share figures", test_lists_share_figures},
    };

    return each_store(cases, unit_count(cases));
}
