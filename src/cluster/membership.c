// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership.h"

#include "base/api_token.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "cluster/access.h"
#include "cluster/agent.h"
#include "cluster/catalog_from_peer.h"
#include "cluster/certificate.h"
#include "cluster/commands.h"
#include "cluster/cost.h"
#include "cluster/dataset_records.h"
#include "cluster/disk_inventory.h"
#include "cluster/handover.h"
#include "cluster/job_check.h"
#include "cluster/member.h"
#include "cluster/node_credential.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer_server.h"
#include "cluster/peer/redis_tier.h"
#include "cluster/report.h"
#include "cluster/tickets.h"
#include "cluster/usage.h"
#include "cluster/revocation.h"
#include "cluster/peer/view.h"
#include "cluster/view_change.h"
#include "cluster/weight_exchange.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "daemon/ending.h"
#include "daemon/events.h"
#include "daemon/state.h"
#include "ipc/node_marker.h"

/* ---- what the manager is told, and what it says ---- */

static json_t *gather(struct node *n, bool *more)
{
    json_t *progress, *figures = NULL, *chunks, *sessions, *usage, *body;

    if (usage_collect(n) && report_collect(n))
        figures = report_figures(n, &progress);
    if (figures == NULL)
        return NULL;
    chunks = report_chunks(n, more);
    sessions = revocation_rows(n);
    usage = usage_batch(n);
    body = json_pack("{s:I, s:o, s:o, s:o}", "view", (json_int_t)cluster_version(n->cluster),
                     "figures", figures, "progress", progress, "commands_done", commands_done(n));
    if (usage != NULL)
        json_object_set_new(figures, "usage", usage);

    if (chunks != NULL)
        json_object_set_new(body, "chunks", chunks);
    if (sessions != NULL)
        json_object_set_new(body, "sessions", sessions);
    return body;
}

static void take_view(struct node *n, const json_t *view, struct cluster_view *v)
{
    uint64_t before = cluster_version(n->cluster);

    cluster_use_view(n->cluster, v);
    if (cluster_version(n->cluster) != before)
        log_info("view %llu: %u nodes", (unsigned long long)cluster_version(n->cluster),
                 cluster_live(n->cluster));
    if (n->member->peer_server != NULL &&
        cluster_version(n->cluster) ==
            (uint64_t)json_integer_value(json_object_get(view, "version")))
        peer_server_revoked(n->member->peer_server, json_object_get(view, "revoked"));
    cluster_view_changed(n);
}

static void digest(struct node *n, const struct agent_news *news)
{
    const json_t *view = json_object_get(news->answer, "view");

    const char *credential = json_string_value(json_object_get(news->answer, "credential"));

    if (credential != NULL) { /* who has it is this node's administrator */
        secret_free(&n->token);
        n->token = mem_str(credential);
    }
    if (news->joined) {
        cluster_joined(n->cluster);
        report_again(n);
        if (json_is_false(json_object_get(news->answer, "known")))
            revocation_store_is_new(n);
        if (!n->member->inventory)
            inventory_open(n);
        n->member->inventory = true;
    }
    if (n->member->peer_server != NULL)
        peer_server_heard(n->member->peer_server, json_object_get(news->answer, "tickets"));
    report_heard(n, news->well);
    if (news->well)
        revocation_heard(n, news->answer);
    if (news->well)
        usage_heard(n, json_object_get(news->answer, "usage"));
    if (news->well && news->sent != NULL)
        commands_confirmed(n, json_object_get(news->sent, "commands_done"));
    if (news->well && json_is_true(json_object_get(news->answer, "inventory")))
        dataset_records_tell(n);
    if (news->view != NULL)
        take_view(n, view, news->view);
    if (!n->member->leaving)
        commands_take(n, json_object_get(news->answer, "commands"));
}

static int certified(struct node *n, struct tls_identity *id, struct dlc_err *err)
{
    if (n->member->leaving || !certificate_for_peers(n->member->certificate))
        return 0;
    peers_identity(n->peers, id);
    return peer_server_identity(n->member->peer_server, id, err);
}

static const struct agent_ops agent_does = {
    .gather = gather, .digest = digest, .certified = certified};

/* ---- leaving ---- */

/* First the peer server is closed and the manager is told: on a thread, because both wait and need
 * the loop. */
static void *leave_main(void *arg)
{
    struct node *n = arg;

    if (n->member->peer_server != NULL)
        peer_server_close(n->member->peer_server);
    agent_leave(n->member->agent);
    loop_post(n->loop, &n->member->left_task);
    return NULL;
}

static void has_left(struct task *t)
{
    struct member *m = dlc_container(t, struct member, left_task);

    pthread_join(m->leaver, NULL);
    m->left = true;
    node_stop_now(m->node);
}

static bool leave(struct node *n)
{
    struct member *m = n->member;

    if (m->left || m->leaving)
        return m->leaving && !m->left;
    m->left_task.run = has_left;
    usage_end(n);
    if (m->peer_server != NULL)
        peer_server_cancel(m->peer_server);
    m->leaving = os_thread(&m->leaver, leave_main, n) == 0;
    m->stop_again = !m->leaving;
    if (m->stop_again)
        log_warn("no thread to leave the cluster: tried again");
    return true;
}

/* ---- life ---- */

/* The token, the peer client and server, the Redis in common. */
static int open_parts(struct node *n, struct dlc_err *err)
{
    const struct node_cluster *s = n->membership;
    struct peers_config pc = {0};
    struct member *m = n->member;
    int rc = certificate_new(n->config, s, &m->certificate, err);

    pc.tls = certificate_for_peers(m->certificate);
    if (rc == 0 && !s->inside)
        n->token = node_credential_load(n->config->dir);
    if (rc == 0 && !s->inside && n->token == NULL)
        rc = token_load(n->config, NULL, &n->token, err);
    if (rc == 0 && !s->inside && n->token == NULL)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "a node needs a token to join: --token-file with one that an admin makes "
                         "for it (`dlcache node join-token NAME`), or with a copy of the manager's "
                         "DIR/node.token");
    if (rc == 0 && s->listen != NULL)
        rc = peer_server_open(n, s->listen, pc.tls, &m->peer_server, err);
    if (rc == 0 && m->peer_server != NULL && (n->peers = peers_new(&pc, err)) == NULL)
        rc = err->code;
    if (rc == 0 && n->config->shared[0] != '\0')
        rc = shared_new(&(struct shared_config){.url = n->config->shared}, &n->shared, err);
    return rc;
}

static void leave_marker(const struct node *n)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *ca = n->config->manager_ca[0] != '\0' ? os_realpath(n->config->manager_ca) : NULL;
    int rc = node_marker_write(n->config->socket, agent_name(n->member->agent),
                               n->membership->manager, ca, &err);

    free(ca); /* of libc */
    if (rc < 0)
        log_warn("while this node is down, programs may start a stand-alone daemon in its place: "
                 "%s",
                 err.text);
}

static int membership_open(struct node *n, struct dlc_err *err)
{
    struct member *m = n->member = mem_new(struct member);
    int rc;

    m->node = n;
    m->left = true;
    dlc_list_init(&m->requests);
    dlc_list_init(&m->resolves);
    dlc_list_init(&m->commands);
    usage_open(n);
    rc = open_parts(n, err);
    if (rc == 0) {
        m->left = false;
        rc = agent_open(n, &agent_does,
                        m->peer_server != NULL ? peer_server_address(m->peer_server) : NULL,
                        m->certificate, &m->agent, err);
    }
    if (rc == 0 && !n->membership->inside)
        leave_marker(n);
    return rc;
}

static void membership_tick(struct node *n)
{
    if (n->member->stop_again)
        node_stop(n);
    report_tick(n);
    handover_tick(n);
    revocation_tick(n);
    tickets_tick(n);
    job_weights_all_send(n);
}

static void membership_close(struct node *n)
{
    struct member *m = n->member;

    if (m == NULL)
        return;
    if (m->agent != NULL && !m->left) { /* it could not be opened: nothing runs */
        agent_leave(m->agent);
        m->left = true;
    }
    report_heard(n, false);
    commands_free(n);
    peers_free(&n->peers);
    handover_close(n);
    view_change_close(n);
    shared_free(&n->shared);
    peer_server_free(&m->peer_server);
    agent_close(&m->agent);
    certificate_free(&m->certificate);
    cluster_free(&n->cluster);
    secret_free(&n->token);
    report_close(n);
    inventory_close(n);
    cost_close(n);
    usage_close(n);
    for (size_t i = 0; i < CHECKED_JOBS; i++)
        mem_free(&m->checked_jobs[i].key);
    mem_free(&n->member);
}

static void membership_figures(struct node *n, json_t *to)
{
    struct member *m = n->member;

    json_object_set_new(to, "cluster", agent_figures(m->agent));
    if (m->certificate != NULL)
        json_object_set_new(to, "certificate", certificate_json(m->certificate));
    if (m->peer_server != NULL && !m->leaving)
        json_object_set_new(to, "peer_server", peer_server_json(m->peer_server));
}

static const struct node_events *const listeners[] = {
    &cost_events, &handover_events, &inventory_events, &report_events, &usage_events, NULL};

const struct cluster_ops membership_ops = {
    .open = membership_open,
    .leave = leave,
    .tick = membership_tick,
    .close = membership_close,
    .figures = membership_figures,
    .resolve = resolve,
    .identify = identify,
    .check_job = job_check,
    .renew_credentials = resolve_again,
    .borrow_catalog = catalog_from_peer,
    .events = listeners,
};
