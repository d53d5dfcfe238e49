// SPDX-License-Identifier: Apache-2.0
/*
 * An origin that does what a test says. For each attempt the test's script is called on the lane's
 * thread and says what becomes of it; the answer is delivered by a timer. Bodies are a function of
 * key and position, so that any byte can be checked.
 */
#ifndef TESTS_FAKE_ORIGIN_H
#define TESTS_FAKE_ORIGIN_H

#include <stdatomic.h>

#include "bucket/bucket_i.h"

enum fake_fate {
    FAKE_OK,
    FAKE_FAIL,  /* with rc, retryable, throttled, retry_after */
    FAKE_HANG,  /* until it is cancelled */
    FAKE_SHORT, /* success, but a byte is missing */
    FAKE_EMPTY, /* success, but dst is left alone */
};

struct fake;

struct fake_call {
    struct fake *f;
    struct attempt *a;
    struct timer timer;
    unsigned nth; /* of all attempts, from 1 */

    /* for the script to set; all zero: success at once */
    enum fake_fate fate;
    struct dlc_dur delay;
    struct dlc_dur first_byte; /* after so long, not with the last one */
    int rc;
    bool retryable, throttled;
    struct dlc_dur retry_after;
    const char *etag;           /* of the object, now */
    struct object_checksum sum; /* STAT */
    bool flip;                  /* GET: a byte is wrong */
};

struct fake {
    struct origin o;
    struct origin_ops ops;
    struct loop *loops[8];
    void (*script)(struct fake *f, struct fake_call *c);
    void *priv; /* the script's */
    _Atomic unsigned started, cancelled, answered, flying, flying_max;
    _Atomic unsigned lane_started[8];
};

struct fake *fake_new(unsigned lanes, void (*script)(struct fake *, struct fake_call *));
/* A bucket on top, which owns it. NULL config: the defaults. */
struct bucket *fake_bucket(struct fake *f, const struct bucket_config *c);

void fake_fill(const struct attempt *a); /* with the right bytes */
bool fake_bytes_right(const char *key, uint64_t offset, const void *data, uint64_t len);

/* One read and what became of it, for tests that wait. */
struct fake_read {
    struct bucket_read r;
    _Atomic int done; /* how often */
};

void fake_read(struct bucket *b, struct fake_read *x, const char *key, uint64_t length);
void fake_read_release(struct fake_read *x);

/* Wait for a condition, at most 20 s of real time; each look moves the clock by step. */
#define wait_moving(cond, step)                                                                    \
    do {                                                                                           \
        int tries_ = 0;                                                                            \
        while (!(cond)) {                                                                          \
            assert_true(tries_++ < 20000);                                                         \
            fake_pause(step);                                                                      \
        }                                                                                          \
    } while (0)
#define wait_until(cond) wait_moving(cond, DLC_MS(0))

/* Let other threads run for a moment, with the clock moved on. */
void fake_pause(struct dlc_dur step);

#endif
