// SPDX-License-Identifier: Apache-2.0
#include "stores.h"

#include "unit.h"

#ifdef DLC_REDIS
#include "redis_servers.h"
#endif

static unsigned serial; /* of stores made so far */

static void sqlite_url(char out[static 512])
{
    char name[64], path[256];

    snprintf(name, sizeof(name), "m%u/manager.db", serial++);
    snprintf(out, 512, "sqlite:%s", unit_path(name, path));
}

#ifdef DLC_REDIS
static struct redis_servers servers;

static bool redis_start(void)
{
    if (!redis_servers_exist()) {
        print_message("there is no redis-server: tools/deps test\n");
        return false;
    }
    redis_servers_start_one(&servers, "secret-of-the-test");
    return true;
}

static bool tls_start(void)
{
    if (!redis_servers_exist())
        return false;
    redis_servers_start_tls(&servers, "secret-of-the-test", true);
    return true;
}

static void tls_url(char out[static 512])
{
    char base[400], ca[256], cert[256], key[256];
    int n;

    redis_servers_url(&servers, base);
    n = snprintf(out, 512, "%s/t%u?ca=%s&cert=%s&key=%s", base, serial++,
                 redis_servers_file("ca.pem", ca), redis_servers_file("client.pem", cert),
                 redis_servers_file("client.key", key));
    assert_in_range(n, 1, 511);
}

static bool cluster_start(void)
{
    if (!redis_servers_exist())
        return false;
    redis_servers_start_cluster(&servers, 3, 0);
    return true;
}

static void redis_stop(void)
{
    redis_servers_stop(&servers);
}

static void redis_url(char out[static 512])
{
    char base[400];

    redis_servers_url(&servers, base);
    snprintf(out, 512, "%s/t%u", base, serial++);
}
#endif

const struct test_store stores[] = {
    {"sqlite", "sqlite", NULL, sqlite_url, NULL},
#ifdef DLC_REDIS
    {"redis", "redis", redis_start, redis_url, redis_stop},
    {"rediss", "redis", tls_start, tls_url, redis_stop},
    {"redis cluster", "redis cluster", cluster_start, redis_url, redis_stop},
#endif
};
const size_t n_stores = unit_count(stores);
