// SPDX-License-Identifier: Apache-2.0
/*
 * Real Redis servers on loopback for tests: one, or a Cluster. Ports are free ones, data lies in
 * the test's directory, and they die with the test. tests/lib/redisd.py does the same in Python.
 */
#ifndef DLC_TESTS_METADATA_REDIS_SERVERS_H
#define DLC_TESTS_METADATA_REDIS_SERVERS_H

#include <stdbool.h>
#include <sys/types.h>

enum { REDIS_MOST = 8 };

struct redis_server {
    int port;
    int tls_port; /* 0: none */
    pid_t pid;    /* 0: not running */
};

struct redis_servers {
    struct redis_server s[REDIS_MOST];
    unsigned n, masters; /* of a Cluster the first `masters` are masters, then their replicas */
    bool cluster, mutual;
    char password[32]; /* "": none */
};

bool redis_servers_exist(void); /* is there a redis-server? */
void redis_servers_start_one(struct redis_servers *r, const char *password);
/* One that speaks TLS at a second port, and whose clients need certificates if `mutual`. In the
 * test's directory are ca.pem, server.pem (for 127.0.0.1 and redis.test), client.pem and, of nobody
 * we know, other-ca.pem; *.key beside them. */
void redis_servers_start_tls(struct redis_servers *r, const char *password, bool mutual);
const char *redis_servers_file(const char *name, char out[static 256]);
void redis_servers_start_cluster(struct redis_servers *r, unsigned masters, unsigned replicas);
void redis_servers_stop(struct redis_servers *r);

void redis_server_kill(struct redis_servers *r, unsigned i);  /* SIGKILL */
void redis_server_start(struct redis_servers *r, unsigned i); /* again, with its data */
void redis_server_signal(struct redis_servers *r, unsigned i, int sig);
/* A command, words separated by blanks; the answer as text: integers, strings, "(nil)", lists with
 * newlines. To be freed. */
char *redis_server_ask(struct redis_servers *r, unsigned i, const char *command);
void redis_servers_wait_ready(struct redis_servers *r); /* all slots served, all know all */

/* "redis://[:password@]127.0.0.1:P[,...]"; with TLS "rediss://", without ?ca=. */
void redis_servers_url(const struct redis_servers *r, char out[static 400]);

#endif
