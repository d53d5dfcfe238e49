// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon: creates its parts, runs the loop, and frees the parts.
 *
 * Shutdown takes at most two seconds (ending.c): the socket closes first, then the sessions, then
 * the buckets (every request posts its end). The loop then runs until no work is left that would
 * post to it. Only then are the tiers freed.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/audit_log.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "base/turn_limit.h"
#include "daemon/backlog.h"
#include "daemon/client_commands.h"
#include "daemon/client_conn.h"
#include "daemon/cluster_ops.h"
#include "daemon/dataset.h"
#include "daemon/decoded_cache.h"
#include "daemon/ending.h"
#include "daemon/events.h"
#include "daemon/fetch/assemble.h"
#include "daemon/fetch/fetch.h"
#include "daemon/fetch/object_index.h"
#include "daemon/fetch/room.h"
#include "daemon/fetch/source.h"
#include "daemon/figures.h"
#include "daemon/job_weights.h"
#include "daemon/listing.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/sample_value.h"
#include "daemon/prefetch/pump.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/prefetch/warm.h"
#include "daemon/reserve.h"
#include "daemon/state.h"
#include "cache/disk/disk.h"
#include "cache/policy/policy.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/redis_tier.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

#define TICK         DLC_MS(200)
#define TICK_SHORT   DLC_MS(50) /* while memory is short: whoever needs it takes what was given */
#define LOOKS        512u       /* datasets of a pass over all in one turn of the loop */
#define SCAN_EVERY   DLC_MS(1)  /* slices of a look at pins; between them others have their turn */
#define FIRST_CLIENT DLC_SEC(5)
#define LOCK_WAIT    DLC_SEC(30) /* for a daemon that is ending */

static void on_signal(struct watch *w, uint32_t events)
{
    struct node *n = dlc_container(w, struct node, signals);
    struct signalfd_siginfo info;

    (void)events;
    if (os_read(w->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP) {
        if (n->start != NULL && n->start->reload != NULL)
            n->start->reload(n->start->arg);
        return;
    }
    log_info("signal %u: ending", info.ssi_signo);
    node_stop(n);
}

/* ---- the tick ---- */

/* once: of this second. Is the ceiling lower than before? Then more may have to go soon. */
static bool follow_limits(struct node *n, bool once)
{
    struct memory_figures f;
    struct mem_wish wish;
    uint64_t ceiling, before = n->memories.ceiling;

    tenant_memories_figures(&n->memories, &f);
    host_memory_read(&n->machine);
    wish = (struct mem_wish){
        .configured = n->config->memory == CONFIG_AUTO ? 0 : n->config->memory,
        .ceiling = before,
        .used = f.populated,
    };
    ceiling = once ? mem_limit_now(&n->machine, &wish) : mem_limit_between(&n->machine, &wish);
    ceiling = DLC_MIN(ceiling, f.max);
    if (ceiling == before)
        return false;
    log_debug("memory ceiling %llu -> %llu", (unsigned long long)before,
              (unsigned long long)ceiling);
    tenant_memories_set_ceiling(&n->memories, ceiling);
    return ceiling < before;
}

static void say_progress(struct node *n)
{
    struct dataset *ds;

    for (unsigned i = 0; i < LOOKS && (ds = dataset_step(n, &n->progress_at)) != NULL; i++)
        dataset_progress(ds);
    dlc_list_each (l, &n->warms)
        warm_progress(dlc_container(l, struct warm, link));
}

static void conns_close(struct dlc_list *conns)
{
    while (!dlc_list_empty(conns)) {
        struct conn *c = dlc_container(conns->next, struct conn, link);

        conn_close(&c);
    }
}

/* The first half of the end: nothing new comes in, and what is under way is cut short. */
static void wind_down(struct node *n)
{
    loop_limit_turns(n->loop, (struct dlc_dur){0}); /* nobody is served any more */
    tenant_memories_set_closing(&n->memories);
    if (os_ftruncate(n->lock_fd, 0) < 0) /* no pid: who wants the directory now waits for us */
        log_debug("cannot empty the lock file");
    server_close(n);
    while (room_try(n)) /* what waits for memory that is closing ends */
        ;
    conns_close(&n->conns);
    conns_close(&n->zombies);
    reserve_release(n);
    /* Workers only look at it: relaxed. What peers were asked for ends now, on the loop. */
    atomic_store_explicit(&n->ending, true, memory_order_relaxed);
    peers_free(&n->peers);
    shared_free(&n->shared);
    dlc_list_each_safe (l, &n->datasets)
        dataset_shutdown(dlc_container(l, struct dataset, link));
}

/* Memory of datasets that nobody has had open for long goes back to the machine, in steps. True:
 * there is more. */
static bool free_idle(struct node *n, struct dlc_mono now)
{
    uint64_t decoded, bytes;

    if (dataset_trim(n))
        return true; /* so few stay that a step can look at all */
    dlc_list_each (l, &n->idle) {
        struct dataset *ds = dlc_container(l, struct dataset, idle);

        decoded_caches_figures(ds, &decoded, &bytes);
        if (ds->state != DATASET_READY || mem_index_resident(ds->index) + decoded == 0 ||
            n->config->memory_idle.ns == 0 ||
            dlc_mono_sub(now, ds->last_used).ns < n->config->memory_idle.ns)
            continue;
        if (dataset_evict_some(ds, &ds->emptied, &bytes))
            return true;
        ds->emptied = (struct evict_place){0};
        memory_give_back(dataset_memory(ds));
        log_info("%s was not used for long: its memory is given back", ds->url.shown);
    }
    return false;
}

/* What takes long is done in steps, one in each turn of the loop. */
static void on_freeing(struct timer *t)
{
    struct node *n = dlc_container(t, struct node, freeing);
    bool more = tenant_memories_free_some(&n->memories);
    struct dataset *ds;

    for (unsigned i = 0; i < LOOKS && (ds = dataset_step(n, &n->freeing_at)) != NULL; i++)
        more |= bypass_evict_some(ds);
    more |= n->freeing_at > 0;
    more |= free_idle(n, loop_now(n->loop));
    if (n->stopping)
        return;
    if (room_try(n) || tenant_memories_room_is_coming(&n->memories))
        loop_timer_set(n->loop, t, dlc_mono_add(loop_now(n->loop), SCAN_EVERY));
    if (more)
        loop_timer_set(n->loop, t, loop_now(n->loop));
}

/* Who started us may still be on its way: the first client has time to come. */
static bool is_idle(const struct node *n, struct dlc_mono now)
{
    bool none_yet = n->last_client.ns == n->started.ns;
    int64_t most = n->config->idle_exit.ns;

    if (none_yet)
        most = DLC_MAX(most, FIRST_CLIENT.ns);
    return n->config->idle_exit.ns > 0 && n->n_conns == 0 && n->pending == 0 &&
           dlc_mono_sub(now, n->last_client).ns > most;
}

/* How often each dataset will still be read: each second, and of very many a part at each tick. */
static void expect(struct node *n)
{
    struct dataset *ds;

    for (unsigned i = 0; n->expecting && i < LOOKS; i++) {
        ds = dataset_step(n, &n->expect_at);
        if (ds != NULL)
            dataset_expect(ds);
        n->expecting = ds != NULL;
    }
}

static void on_tick(struct timer *t)
{
    struct node *n = dlc_container(t, struct node, tick);
    struct dlc_mono now = loop_now(n->loop);
    bool once = dlc_mono_sub(now, n->room_told).ns >= DLC_SEC(1).ns, shrinks;

    if (n->stopping) {
        if (n->listener.fd >= 0)
            wind_down(n);
        if (n->pending == 0)
            loop_stop(n->loop);
        else
            loop_timer_set(n->loop, t, dlc_mono_add(now, DLC_MS(5)));
        return;
    }
    tenant_memories_tick(&n->memories);
    if (n->disk != NULL)
        disk_tick(n->disk);
    loop_timer_set(n->loop, &n->freeing, now);
    say_progress(n);
    server_listen(n);
    reserve_fill(n);
    conns_resume(n);
    shrinks = follow_limits(n, once);
    if (once) {
        n->room_told = now;
        n->expecting = true;
    }
    decoded_caches_tell_room(n);
    if (n->cluster != NULL)
        ownership_count_some(n);
    expect(n);
    if (is_idle(n, now)) {
        log_info("idle: ending");
        node_stop(n);
    }
    if (n->cluster_ops != NULL)
        n->cluster_ops->tick(n);
    prefetch_pump(n);
    if (!n->stopping)
        loop_timer_set(n->loop, t, dlc_mono_add(now, shrinks ? TICK_SHORT : TICK));
}

/* ---- putting it together ---- */

/* Who hears of events. */
static const struct node_events *const listeners[] = {
    &backlog_events,  &decoded_cache_events, &job_weights_events,  &listing_events,
    &assemble_events, &disk_hints_events,    &next_use_events,     &ownership_events,
    &outcomes_events, &bypass_events,        &object_index_events, &sample_value_events,
    &figures_events,
};

static void set_listeners(struct node *n)
{
    size_t at = DLC_COUNT(listeners);

    memcpy(n->events, listeners, sizeof(listeners));
    if (n->cluster_ops == NULL)
        return;
    for (const struct node_events *const *e = n->cluster_ops->events; *e != NULL; e++) {
        dlc_check(at < EVENTS_MAX);
        n->events[at++] = *e;
    }
}

/* 0: ours. -1: held by the daemon whose pid is told, or by nobody who tells. */
static int take_lock(int fd, char pid[static 32])
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), LOCK_WAIT);

    while (os_flock(fd, LOCK_EX | LOCK_NB) < 0) {
        memset(pid, 0, 32);
        if (os_pread(fd, pid, 31, 0) != 0 || dlc_mono_passed(end, dlc_mono_now()))
            return -1;
        dlc_sleep(DLC_MS(10)); /* empty: it is ending, or just starting */
    }
    return 0;
}

static int lock_dir(struct node *n, struct dlc_err *err)
{
    char *path = mem_fmt("%s/daemon.lock", n->config->dir), *catalogs;
    char pid[32] = "";
    int rc = 0;

    catalogs = mem_fmt("%s/catalogs", n->config->dir);
    if (os_mkdirs(catalogs, 0700) < 0 || os_sync_dir(n->config->dir) < 0) {
        rc = dlc_err_sys(err, "cannot make %s (choose another place with --dir)", catalogs);
        goto out;
    }
    n->lock_fd = os_open(path, O_RDWR | O_CREAT, 0600);
    if (n->lock_fd < 0) {
        rc = dlc_err_sys(err, "cannot open %s (choose another place with --dir)", path);
        goto out;
    }
    if (take_lock(n->lock_fd, pid) < 0) {
        rc = dlc_err_set(err, DLC_EBUSY,
                         "another daemon (pid %.*s) uses %s: end it with `dlcache stop`, or choose "
                         "another --dir",
                         (int)strcspn(pid, "\n"), pid, n->config->dir);
        goto out;
    }
    catalog_clean(n->config->dir);
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (os_ftruncate(n->lock_fd, 0) < 0 || os_pwrite_all(n->lock_fd, pid, strlen(pid), 0) < 0)
        rc = dlc_err_sys(err, "cannot write %s", path);
out:
    mem_free(&path);
    mem_free(&catalogs);
    return rc;
}

static struct policy_options policy_options(const struct node *n)
{
    double factor = n->config->cost_factor;

    return (struct policy_options){.half_life = dlc_dur_seconds(n->config->half_life),
                                   .cost_factor = factor > 0 ? factor : POLICY_COST_TIES};
}

/* refusal: why a tier cannot feed a policy, or NULL; NULL: it can feed all. */
static int check_policy(const char *option, const char *name,
                        const char *(*refusal)(const struct policy_ops *ops), struct dlc_err *err)
{
    const struct policy_ops *ops = policy_find(name);
    const char *why = ops != NULL && refusal != NULL ? refusal(ops) : NULL;

    if (ops == NULL && strcmp(name, "auto") != 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "--%s %s: there is auto, and the policies of `dlcache sim --help`",
                           option, name);
    return why == NULL ? 0 : dlc_err_set(err, DLC_EINVAL, "--%s %s: %s", option, name, why);
}

static int open_memory(struct node *n, struct dlc_err *err)
{
    uint64_t asked = n->config->memory == CONFIG_AUTO ? 0 : n->config->memory;
    struct mem_wish wish = {.configured = asked};
    const struct policy_ops *policy = policy_find(n->config->memory_policy);
    uint64_t max, now, allowed;
    char a[24], b[24];

    if (check_policy("memory-policy", n->config->memory_policy, NULL, err) < 0 ||
        check_policy("disk-policy", n->config->disk_policy, disk_policy_refusal, err) < 0)
        return err->code;
    host_memory_read(&n->machine);
    allowed = DLC_MIN(n->machine.total, n->machine.cgroup_max);
    /* The limit of a cgroup may be raised while we run, the machine's memory not. */
    max = DLC_MIN(mem_limit_max(&n->machine, asked), n->machine.total);
    now = mem_limit_now(&n->machine, &wish);
    if (asked > allowed)
        log_warn("--memory %s is more than this machine or its cgroup allows: using at most %s",
                 str_size(asked, a), str_size(allowed, b));
    tenant_memories_init(&n->memories, max, now, policy);
    n->memories.policy_options = policy_options(n);
    /* Where tokens decide, each tenant's is made with its first dataset. */
    if (n->cluster_ops != NULL && !n->membership->inside)
        return 0;
    return tenant_memory_get(&n->memories, "", &n->own_memory, err);
}

/* What the settings call auto: 5 % of the file system, at least 1 GB. */
static uint64_t keep_free(const struct node *n)
{
    struct statvfs fs;

    if (n->config->disk_keep_free != CONFIG_AUTO)
        return n->config->disk_keep_free;
    if (os_statvfs(n->config->dir, &fs) < 0)
        return 1000000000;
    return DLC_MAX((uint64_t)fs.f_blocks * fs.f_frsize / 20, 1000000000);
}

static void open_disk(struct node *n)
{
    char *root = mem_fmt("%s/disk", n->config->dir);
    struct disk_config dc = {
        .root = root,
        .limit = n->config->disk == CONFIG_AUTO ? 0 : n->config->disk,
        .keep_free = keep_free(n),
        .sync = n->config->disk_sync,
        .cool_down = n->config->cool_down,
        .policy = policy_find(n->config->disk_policy), /* NULL: auto */
        .policy_options = policy_options(n),
    };
    struct dlc_err err;

    if (n->config->disk != 0 && disk_open(&dc, &n->disk, &err) < 0)
        log_warn("no disk tier: %s; samples are kept in memory only", err.text);
    mem_free(&root);
}

/* Signals go to a descriptor; block them before any thread is born. */
static int open_signals(struct node *n, struct dlc_err *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    n->signals.ready = on_signal;
    n->signals.fd = os_signalfd(&set);
    if (n->signals.fd < 0 || loop_watch_set(n->loop, &n->signals, EPOLLIN) < 0)
        return dlc_err_sys(err, "cannot watch signals");
    return 0;
}

/* A connection per request in flight, a descriptor or more per client. */
static void raise_files(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int node_open(struct node *n, struct dlc_err *err)
{
    int rc;

    raise_files();
    n->loop = loop_new(err);
    if (n->loop == NULL)
        return err->code;
    if ((rc = open_signals(n, err)) < 0 || (rc = lock_dir(n, err)) < 0 ||
        (rc = open_memory(n, err)) < 0)
        return rc;
    n->work = work_new(err);
    if (n->work == NULL)
        return err->code;
    open_disk(n);
    rc = server_open(n, &client_command_ops, err);
    if (rc == 0 && n->cluster_ops != NULL)
        rc = n->cluster_ops->open(n, err);
    return rc;
}

static void node_close(struct node *n)
{
    work_free(&n->work); /* lets the last writes to disk end */
    while (!dlc_list_empty(&n->warms)) {
        struct warm *w = dlc_container(n->warms.next, struct warm, link);

        warm_free(&w);
    }
    if (n->cluster_ops != NULL)
        n->cluster_ops->close(n);
    server_close(n);
    reserve_release(n);
    disk_close(&n->disk);
    tenant_memory_put(&n->own_memory);
    tenant_memories_free(&n->memories);
    if (n->signals.fd >= 0 && n->loop != NULL)
        loop_watch_del(n->loop, &n->signals);
    os_close(&n->signals.fd);
    loop_free(&n->loop);
    os_close(&n->lock_fd);
    audit_log_close(&n->audit);
}

/* One line that people, and tests (tests/lib/dl.py), can find. */
static void say_long_turns(const struct loop *l)
{
    struct loop_figures f;

    loop_figures(l, &f);
    if (f.longest.ns > LOOP_TURN_MAX.ns)
        log_warn(
            "the event loop did nothing else for %.1f ms of CPU time, most of it in %s; readers "
            "wait meanwhile: please report it",
            dlc_dur_seconds(f.longest) * 1e3, f.longest_in);
}

int node_main(const struct config *c, const struct node_start *start, struct dlc_err *err)
{
    struct node *n = mem_new(struct node);
    void *gateway = NULL;
    int rc;

    n->config = c;
    n->start = start;
    if (start != NULL && start->cluster != NULL) {
        n->membership = start->cluster;
        n->cluster_ops = start->ops;
    }
    set_listeners(n);
    n->lock_fd = n->listener.fd = n->signals.fd = -1;
    dlc_list_init(&n->conns);
    dlc_list_init(&n->following);
    dlc_list_init(&n->zombies);
    reserve_init(n);
    dlc_list_init(&n->datasets);
    dlc_list_init(&n->idle);
    dlc_list_init(&n->backlogs);
    dlc_list_init(&n->warms);
    dlc_list_init(&n->deriving);
    dlc_list_init(&n->decoded);
    n->fetches = fetch_pipeline_new(n, fetch_sources, n_fetch_sources, prefetch_pump);
    n->started = n->last_client = dlc_mono_now();
    n->figures = figures_new(n);
    n->tick.fire = on_tick;
    n->pump.fire = prefetch_pump_again;
    n->freeing.fire = on_freeing;
    rc = address_rules_parse(&n->tenant_networks, c->tenant_networks, err);
    if (rc == 0 && c->audit_log[0] != '\0')
        rc = audit_log_open(c->audit_log, &n->audit, err);
    if (rc == 0)
        rc = node_open(n, err);
    if (rc == 0 && start != NULL && start->gateway != NULL)
        rc = start->gateway->open(n, &gateway, err);
    if (rc == 0) {
        log_info("serving at %s, data in %s", c->socket, c->dir);
        if (start != NULL && start->ready != NULL)
            start->ready(start->arg);
        loop_timer_set(n->loop, &n->tick, dlc_mono_now());
        loop_limit_turns(n->loop, turn_limit_configured());
        loop_run(n->loop);
        say_long_turns(n->loop);
    }
    figures_end(n->figures);
    if (start != NULL && start->gateway != NULL)
        start->gateway->close(&gateway);
    node_close(n);
    figures_free(&n->figures);
    ending_over(n);
    fetch_pipeline_free(&n->fetches);
    address_rules_release(&n->tenant_networks);
    mem_free(&n);
    return rc;
}
