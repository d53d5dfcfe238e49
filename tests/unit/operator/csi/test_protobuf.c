// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "operator/csi/protobuf.h"

static void reads_what_it_writes(void **state)
{
    struct buf b = BUF_INIT, inner = BUF_INIT;
    struct pb_reader r;
    struct pb_field f;
    char *text;

    (void)state;
    pb_add_number(&inner, 1, 1);
    pb_add_number(&b, 1, UINT64_MAX);
    pb_add_number(&b, 2, 0); /* left out */
    pb_add_text(&b, 3, "");  /* left out */
    pb_add_text(&b, 4, "csi.dlcache.io");
    pb_add_message(&b, 2000, &inner);
    r = pb_read(b.data, b.len);
    assert_true(pb_next(&r, &f));
    assert_int_equal(f.number, 1);
    assert_true(f.is_number && f.value == UINT64_MAX);
    assert_true(pb_next(&r, &f));
    assert_int_equal(f.number, 4);
    text = pb_text(&f);
    assert_string_equal(text, "csi.dlcache.io");
    assert_true(pb_next(&r, &f));
    assert_int_equal(f.number, 2000);
    assert_int_equal(f.len, 2);
    assert_memory_equal(f.data, "\x08\x01", 2);
    assert_false(pb_next(&r, &f));
    assert_false(r.invalid);
    mem_free(&text);
    buf_release(&b);
    buf_release(&inner);
}

/* As other programs write them: 150 in field 1, "testing" in field 2, fixed numbers. */
static void reads_the_encoding_of_others(void **state)
{
    const char known[] = "\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04\x21\x01\0\0\0\0\0\0\x80";
    struct pb_reader r = pb_read(known, sizeof(known) - 1);
    struct pb_field f;

    (void)state;
    assert_true(pb_next(&r, &f) && f.number == 1 && f.value == 150);
    assert_true(pb_next(&r, &f) && f.number == 2 && f.len == 7 && !f.is_number);
    assert_true(pb_next(&r, &f) && f.number == 3 && f.value == 0x04030201);
    assert_true(pb_next(&r, &f) && f.number == 4 && f.value == (1ull << 63 | 1));
    assert_false(pb_next(&r, &f) || r.invalid);
}

static void refuses_what_is_no_message(void **state)
{
    static const struct {
        const char *data;
        size_t len;
    } bad[] = {
        {"\x08", 1},                                          /* no value */
        {"\x80", 1},                                          /* half a key */
        {"\x00\x01", 2},                                      /* field 0 */
        {"\x0b", 1},                                          /* a group */
        {"\x12\x05test", 6},                                  /* cut off */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* length 2^64 - 1 */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* 65 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {"\x0d\x01\x02\x03", 4}, /* half a fixed number */
        {"\x09\x01\x02\x03\x04\x05\x06\x07", 8},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 11}, /* field too large */
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct pb_reader r = pb_read(bad[i].data, bad[i].len);
        struct pb_field f;

        assert_false(pb_next(&r, &f));
        assert_true(r.invalid);
        assert_false(pb_next(&r, &f)); /* and goes no further */
    }
}

static void a_text_has_no_nul(void **state)
{
    const struct pb_field nul = {.number = 1, .data = "a\0b", .len = 3};
    const struct pb_field number = {.number = 1, .is_number = true, .value = 3};
    const struct pb_field empty = {.number = 1};
    char *text;

    (void)state;
    assert_null(pb_text(&nul));
    assert_null(pb_text(&number));
    text = pb_text(&empty);
    assert_string_equal(text, "");
    mem_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(reads_the_encoding_of_others),
        cmocka_unit_test(refuses_what_is_no_message),
        cmocka_unit_test(a_text_has_no_nul),
    };

    return cmocka_run_group_tests_name("operator/csi/protobuf", tests, NULL, NULL);
}
