// SPDX-License-Identifier: Apache-2.0
/*
 * The operator's webhook, its certificates and its HTTP, and nothing else of it, for
 * tests/lib/webhook.py:
 *
 *     hook-probe    begins with {"webhook": "127.0.0.1:PORT", "http": ..., "bundle": PEM}
 *     rotate        (a line on standard input) another CA and certificate; answers with the same
 *
 * Ends with its standard input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "operator/webhook/certs.h"
#include "operator/webhook/endpoints.h"

static const char *const hosts[] = {"127.0.0.1"};
static const struct certs_names names = {hosts, 1, 0};
static struct metrics figures;

static void state_of(struct serve_state *out, void *arg)
{
    (void)arg;
    out->now.leader = true;
    out->now.watches[0] = (struct metrics_watch){"Pod", true};
    out->now.n_watches = 1;
}

static void must(int rc, const struct dlc_err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "hook-probe: %s\n", err->text);
    exit(1);
}

static void show(struct serve *s, const struct certs *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *out;

    must(serve_tls(s, c->cert, c->key, &err), &err);
    out = json_pack("{s:s, s:s, s:s}", "webhook", serve_webhook(s), "http", serve_address(s),
                    "bundle", c->bundle);
    json_dumpf(out, stdout, JSON_COMPACT);
    puts("");
    fflush(stdout);
    json_decref(out);
}

int main(void)
{
    struct serve_config config = {"127.0.0.1:0", "127.0.0.1:0", &figures, state_of, NULL};
    struct certs certs = CERTS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct serve *s = NULL;
    char line[64];

    must(certs_renew(&certs, &names, dlc_wall_seconds(), NULL, &err), &err);
    must(serve_open(&config, &s, &err), &err);
    show(s, &certs);
    while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "rotate\n") == 0) {
        free(certs.ca_key); /* lost: what is left is kept in the bundle */
        certs.ca_key = NULL;
        must(certs_renew(&certs, &names, dlc_wall_seconds(), NULL, &err), &err);
        show(s, &certs);
    }
    serve_close(&s);
    certs_release(&certs);
    return 0;
}
