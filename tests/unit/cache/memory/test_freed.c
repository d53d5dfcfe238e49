// SPDX-License-Identifier: Apache-2.0
/* Which memfds the kernel has not freed yet, where it tells. */
#include "unit.h"

#include <fcntl.h>
#include <sys/fanotify.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/freed_i.h"

/* Does this kernel tell, and may this process ask? */
static bool kernel_tells(void)
{
    int fd = os_fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC);
    bool tells = fd >= 0;

    os_close(&fd);
    return tells;
}

static bool is_kept(const struct freed *f, uint64_t inode)
{
    struct map kept = {0};
    bool there;

    assert_true(freed_read(f, &kept));
    there = map_get(&kept, inode) != NULL;
    map_release(&kept);
    return there;
}

static void test_until_the_last_descriptor_is_closed(void **state)
{
    struct freed f;
    uint64_t one, two;
    int fds[3] = {os_memfd("one"), os_memfd("two"), -1};

    (void)state;
    freed_open(&f);
    assert_int_equal(f.group >= 0, kernel_tells());
    assert_int_equal(f.list >= 0, kernel_tells());
    one = freed_watch(&f, fds[0]);
    two = freed_watch(&f, fds[1]);
    assert_int_equal(one != 0 && two != 0 && one != two, kernel_tells());
    if (kernel_tells()) {
        fds[2] = os_dup(fds[1]);
        os_close(&fds[1]);
        assert_true(is_kept(&f, one) && is_kept(&f, two));
        os_close(&fds[0]);
        assert_true(!is_kept(&f, one) && is_kept(&f, two));
        os_close(&fds[2]);
        assert_false(is_kept(&f, two));
    }
    for (unsigned i = 0; i < unit_count(fds); i++)
        os_close(&fds[i]);
    freed_close(&f);
    assert_true(f.group == -1 && f.list == -1);
}

/* Without the list of marks nothing is watched: nobody would hear of it. */
static void test_no_list(void **state)
{
    struct map kept = {0};
    struct freed f;
    int fd = os_memfd("one");

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(open), .nth = 1, .pid = getpid()});
    freed_open(&f);
    assert_int_equal(fault_disarm(), kernel_tells());
    assert_true(f.group == -1 && f.list == -1);
    assert_int_equal(freed_watch(&f, fd), 0);
    assert_false(freed_read(&f, &kept));
    assert_int_equal(kept.n, 0);
    os_close(&fd);
}

static void test_no_fanotify(void **state)
{
    struct freed f = {.group = 77, .list = 77};

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fanotify), .nth = 1, .pid = getpid()});
    freed_open(&f);
    assert_true(fault_disarm());
    assert_true(f.group == -1 && f.list == -1);
    freed_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_until_the_last_descriptor_is_closed),
        cmocka_unit_test(test_no_list),
        cmocka_unit_test(test_no_fanotify),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
