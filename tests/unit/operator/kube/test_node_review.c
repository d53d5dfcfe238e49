// SPDX-License-Identifier: Apache-2.0
/* Who joins by a token of a service account. With a whole manager: cluster/nodes-join-by-service-account. */
#include "operator/kube/node_review.h"

#include <pthread.h>

#include "base/mem.h"
#include "net/odd.h"
#include "unit.h"

#define REVIEW                                                                                     \
    "{\"status\":{\"authenticated\":true,\"audiences\":[\"a\",\"dlcache\"],\"user\":{"             \
    "\"username\":"                                                                                \
    "\"system:serviceaccount:ns:node\",\"extra\":{\"authentication.kubernetes.io/"                 \
    "pod-name\":[\"p\"],"                                                                          \
    "\"authentication.kubernetes.io/pod-uid\":[\"u\"]}}}}"
#define POD                                                                                        \
    "{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"serviceAccountName\":\"node\",\"nodeName\":\"n1\"}" \
    "}"

static struct dlc_err err;

/* The text with the first `old` replaced. */
static json_t *changed(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    char *all;
    json_t *v;

    assert_non_null(at);
    all = mem_fmt("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    v = json_loads(all, 0, NULL);
    assert_non_null(v);
    mem_free(&all);
    return v;
}

static int judge(const char *old, const char *new)
{
    json_t *review = changed(REVIEW, old, new);
    const char *pod, *uid;
    int rc = node_review_pod(review, "ns", "node", &pod, &uid, &err);

    if (rc == 0) {
        assert_string_equal(pod, "p");
        assert_string_equal(uid, "u");
    }
    json_decref(review);
    return rc;
}

static void test_reviews(void **state)
{
    static const struct {
        const char *old, *new;
    } refused[] = {
        {"true", "false"},
        {"true", "\"true\""},
        {"true", "1"},
        {"\"dlcache\"", "\"dlcache2\""},
        {"[\"a\",\"dlcache\"]", "\"dlcache\""},
        {"[\"a\",\"dlcache\"]", "[]"},
        {"\"audiences\"", "\"x\""},
        {":ns:node", ":ns:node2"},
        {":ns:node", ":ns2:node"},
        {":ns:node", ":ns:node:ns:node"},
        {"system:serviceaccount:", ""},
        {"[\"p\"]", "[]"},
        {"[\"p\"]", "[\"\"]"},
        {"[\"p\"]", "[\"p\",\"q\"]"},
        {"[\"p\"]", "\"p\""},
        {"[\"u\"]", "[7]"},
        {"pod-uid", "node-uid"},
        {"{\"status\"", "{\"x\""},
    };

    (void)state;
    assert_int_equal(judge("true", "true"), 0);
    for (size_t i = 0; i < unit_count(refused); i++)
        if (judge(refused[i].old, refused[i].new) != DLC_EDENIED)
            fail_msg("%s for %s lets a node in", refused[i].new, refused[i].old);
}

static int judge_pod(const char *old, const char *new)
{
    json_t *pod = changed(POD, old, new);
    const char *node;
    int rc = node_review_node(pod, "node", "u", &node, &err);

    if (rc == 0)
        assert_string_equal(node, "n1");
    json_decref(pod);
    return rc;
}

static void test_pods(void **state)
{
    (void)state;
    assert_int_equal(judge_pod("n1", "n1"), 0);
    assert_int_equal(judge_pod("\"u\"", "\"v\""), DLC_EDENIED);
    assert_int_equal(judge_pod("\"u\"", "\"\""), DLC_EDENIED);
    assert_int_equal(judge_pod("\"uid\"", "\"deletionTimestamp\":\"x\",\"uid\""), DLC_EDENIED);
    assert_int_equal(judge_pod("\"node\"", "\"other\""), DLC_EDENIED);
    assert_int_equal(judge_pod("\"n1\"", "\"\""), DLC_EDENIED);
    assert_int_equal(judge_pod("\"n1\"", "null"), DLC_EDENIED);
}

static void test_accounts(void **state)
{
    static const char *const bad[] = {"", "node", "/node", "ns/", "ns/node/x"};
    const struct kube_config config = {.from = (char *)"test",
                                       .server = (char *)"http://127.0.0.1:1"};
    struct node_review *r;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        assert_int_equal(node_review_new(&config, bad[i], &r, &err), DLC_EINVAL);
        assert_null(r);
    }
}

struct asker {
    struct node_review *review;
    int rc;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct dlc_err e = DLC_ERR_INIT;
    char *node;

    a->rc = node_review_ask(a->review, "x.y.z", &node, &e);
    assert_null(node);
    return NULL;
}

/* (NODE-REVIEW-2) Strangers keep few threads waiting, and errors of the API server are not ours to
 * take for an answer: it does not let us ask (403), and the token may be good. */
static void test_many_strangers(void **state)
{
    struct kube_config config = {.from = (char *)"test"};
    struct asker askers[2 * NODE_REVIEW_WAITING];
    pthread_t threads[unit_count(askers)];
    struct node_review *r;
    size_t busy = 0, asked = 0;
    struct odd o;

    (void)state;
    odd_open(&o, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    config.server = o.base;
    assert_int_equal(node_review_new(&config, "ns/node", &r, &err), 0);
    for (size_t i = 0; i < unit_count(askers); i++) {
        askers[i].review = r;
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (size_t i = 0; i < unit_count(askers); i++) {
        pthread_join(threads[i], NULL);
        busy += askers[i].rc == DLC_EBUSY;
        asked += askers[i].rc == DLC_EBUCKET;
    }
    assert_int_equal(busy + asked, unit_count(askers));
    assert_true(asked >= 1 && (size_t)o.asked == asked);
    node_review_free(&r);
    odd_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reviews),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_accounts),
        cmocka_unit_test(test_many_strangers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
