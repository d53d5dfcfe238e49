// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/kube_config.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "unit.h"

#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static struct dlc_err err;

static int parse(struct kube_config *c, const char *context, const char *text)
{
    memset(&err, 0, sizeof(err));
    return kube_config_parse(c, "/home/me/.kube/config", text, strlen(text), context, &err);
}

/* A kubeconfig with these members of its cluster and its user, as flow mappings. Gives. */
static char *with(const char *cluster, const char *user)
{
    return mem_fmt("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                   "clusters:\n- name: k\n  cluster: {%s}\n"
                   "users:\n- name: u\n  user: {%s}\n"
                   "contexts:\n- name: c\n  context: {cluster: k, user: u}\n"
                   "- name: other\n  context: {cluster: k, namespace: ns}\n",
                   cluster, user);
}

static char *pem64(void)
{
    struct buf b = BUF_INIT;

    str_base64(PEM, strlen(PEM), &b);
    return buf_take(&b);
}

static void test_files_and_tokens(void **state)
{
    struct kube_config c = KUBE_CONFIG_INIT;
    char *text = with("server: 'https://h:6443/', certificate-authority: ca.pem, "
                      "tls-server-name: kube.example",
                      "client-certificate: /abs/crt, client-key: sub/key, tokenFile: t");

    (void)state;
    assert_int_equal(parse(&c, NULL, text), 0);
    assert_string_equal(c.from, "/home/me/.kube/config");
    assert_string_equal(c.server, "https://h:6443");
    assert_string_equal(c.namespace, "default");
    assert_string_equal(c.ca_file, "/home/me/.kube/ca.pem");
    assert_string_equal(c.cert_file, "/abs/crt");
    assert_string_equal(c.key_file, "/home/me/.kube/sub/key");
    assert_string_equal(c.token_file, "/home/me/.kube/t");
    assert_string_equal(c.server_name, "kube.example");
    assert_null(c.token);
    assert_false(c.insecure);
    kube_config_release(&c);
    assert_null(c.server);
    assert_int_equal(parse(&c, "other", text), 0); /* a context without a user is nobody */
    assert_string_equal(c.namespace, "ns");
    assert_null(c.cert_file);
    kube_config_release(&c);
    mem_free(&text);
}

static void test_inline_data(void **state)
{
    struct kube_config c = KUBE_CONFIG_INIT;
    char *data = pem64();
    char *cluster = mem_fmt("server: http://127.0.0.1:1, certificate-authority: no, "
                            "certificate-authority-data: %s, insecure-skip-tls-verify: true",
                            data);
    char *user = mem_fmt("client-certificate-data: %s, client-key-data: \"%.20s\\n%s\", token: abc",
                         data, data, data + 20);
    char *text = with(cluster, user);

    (void)state;
    if (parse(&c, NULL, text) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(c.ca_pem, PEM);
    assert_null(c.ca_file);
    assert_string_equal(c.cert_pem, PEM);
    assert_string_equal(c.key_pem, PEM);
    assert_string_equal(c.token, "abc");
    assert_true(c.insecure);
    kube_config_release(&c);
    mem_free(&data);
    mem_free(&cluster);
    mem_free(&user);
    mem_free(&text);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *cluster, *user, *why;
    } cases[] = {
        {"", "", "server: is missing"},
        {"server: 7", "", "server: must be a text"},
        {"server: ftp://x", "", "https://HOST:PORT"},
        {"server: 'https://'", "", "https://HOST:PORT"},
        {"server: 'https://user:pw@h'", "", "https://HOST:PORT"},
        {"server: \"https://h\\r\\nX: y\"", "", "https://HOST:PORT"},
        {"server: 'https://h?x'", "", "https://HOST:PORT"},
        {"server: https://h, certificate-authority-data: '%%%'", "", "PEM file in base64"},
        {"server: https://h, certificate-authority-data: AAAA", "", "PEM file in base64"},
        {"server: https://h, tls-server-name: 'a:b'", "", "name of a host"},
        {"server: https://h, insecure-skip-tls-verify: 'no'", "", "true or false"},
        {"server: https://h, proxy-url: http://p", "", "proxies"},
        {"server: https://h", "exec: {command: sh}", "exec: is not supported"},
        {"server: https://h", "auth-provider: {name: gcp}", "auth-provider: is not supported"},
        {"server: https://h", "username: a, password: b", "is not supported"},
        {"server: https://h", "token: \"a\\r\\nb\"", "one word"},
        {"server: https://h", "client-certificate: x", "need each other"},
        {"server: https://h", "client-key: x", "need each other"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct kube_config c = KUBE_CONFIG_INIT;
        char *text = with(cases[i].cluster, cases[i].user);

        assert_int_equal(parse(&c, NULL, text), DLC_EINVAL);
        if (strstr(err.text, cases[i].why) == NULL)
            fail_msg("%s %s: '%s'", cases[i].cluster, cases[i].user, err.text);
        assert_memory_equal(&c, &(struct kube_config)KUBE_CONFIG_INIT, sizeof(c));
        mem_free(&text);
    }
}

static void test_shapes_that_are_none(void **state)
{
    static const char *const cases[] = {
        "",
        "[]",
        "text",
        "current-context: x",
        "current-context: [x]",
        "clusters: []",
        "current-context: x\ncontexts: {}",
        "current-context: x\ncontexts: [null, 1, [], {name: x}, {name: x, context: 3}]",
        "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\nclusters: {y: 1}",
        ("current-context: x\ncontexts: [{name: x, context: {cluster: y, user: z}}]\n"
         "clusters: [{name: y, cluster: {server: https://h}}]\nusers: 7"),
        "current-context: x\ncontexts: [{name: x, context: {cluster: [y]}}]",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct kube_config c = KUBE_CONFIG_INIT;

        assert_int_equal(parse(&c, NULL, cases[i]), DLC_EINVAL);
        assert_memory_equal(&c, &(struct kube_config)KUBE_CONFIG_INIT, sizeof(c));
    }
}

static void write_to(const char *dir, const char *name, const char *text)
{
    char *path = mem_fmt("%s/%s", dir, name);

    assert_int_equal(os_write_file(path, text, strlen(text), 0600, &err), 0);
    mem_free(&path);
}

static void test_in_a_pod(void **state)
{
    struct kube_config c = KUBE_CONFIG_INIT;
    char dir[256];

    (void)state;
    assert_int_equal(os_mkdirs(unit_path("account", dir), 0700), 0);
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), DLC_ENOTFOUND);
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "6443", 1);
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), DLC_ENOTFOUND); /* no token */
    assert_null(c.token_file);
    write_to(dir, "token", "abc\n");
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), 0);
    assert_string_equal(c.server, "https://[fd00::1]:6443");
    assert_string_equal(c.namespace, "default");
    kube_config_release(&c);
    write_to(dir, "namespace", " dlcache\n");
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    unsetenv("KUBERNETES_SERVICE_PORT");
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), 0);
    assert_string_equal(c.server, "https://10.0.0.1:443");
    assert_string_equal(c.namespace, "dlcache");
    kube_config_release(&c);
    setenv("KUBERNETES_SERVICE_HOST", "h/../x", 1);
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), DLC_EINVAL);
    setenv("KUBERNETES_SERVICE_HOST", "h", 1);
    setenv("KUBERNETES_SERVICE_PORT", "66666", 1);
    assert_int_equal(kube_config_in_cluster(&c, dir, &err), DLC_EINVAL);
}

static void test_which_is_found(void **state)
{
    struct kube_config c = KUBE_CONFIG_INIT;
    char *text = with("server: https://given", ""), *other = with("server: https://named", "");
    char dir[256], given[256], named[256], list[600];

    (void)state;
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBECONFIG");
    setenv("HOME", unit_path("home", dir), 1);
    assert_int_equal(kube_config_load(&c, NULL, NULL, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "KUBECONFIG"));
    assert_int_equal(os_write_file(unit_path("given", given), text, strlen(text), 0600, &err), 0);
    assert_int_equal(os_write_file(unit_path("named", named), other, strlen(other), 0600, &err), 0);
    snprintf(list, sizeof(list), ":%s:/no/such/file", named);
    setenv("KUBECONFIG", list, 1);
    setenv("KUBERNETES_SERVICE_HOST", "h", 1);
    assert_int_equal(kube_config_load(&c, NULL, NULL, &err), 0);
    assert_string_equal(c.server, "https://named");
    kube_config_release(&c);
    assert_int_equal(kube_config_load(&c, given, NULL, &err), 0);
    assert_string_equal(c.server, "https://given");
    kube_config_release(&c);
    assert_int_equal(kube_config_load(&c, given, "absent", &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "absent"));
    mem_free(&text);
    mem_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_and_tokens), cmocka_unit_test(test_inline_data),
        cmocka_unit_test(test_what_is_refused),  cmocka_unit_test(test_shapes_that_are_none),
        cmocka_unit_test(test_in_a_pod),         cmocka_unit_test(test_which_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
