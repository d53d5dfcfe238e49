// SPDX-License-Identifier: Apache-2.0
#include "base/address_rules.h"

#include <sys/un.h>

#include "unit.h"

static const struct sockaddr *address(const char *text, struct sockaddr_storage *ss)
{
    if (!address_of_host(text, ss))
        fail_msg("%s is not an address", text);
    return (const struct sockaddr *)ss;
}

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        enum address_kind kind;
    } cases[] = {
        {"8.8.8.8", ADDRESS_PUBLIC},
        {"2606:4700::1111", ADDRESS_PUBLIC},
        {"11.0.0.0", ADDRESS_PUBLIC},
        {"9.255.255.255", ADDRESS_PUBLIC},
        {"172.15.255.255", ADDRESS_PUBLIC},
        {"172.32.0.0", ADDRESS_PUBLIC},
        {"192.167.255.255", ADDRESS_PUBLIC},
        {"192.169.0.0", ADDRESS_PUBLIC},
        {"100.63.255.255", ADDRESS_PUBLIC},
        {"100.128.0.0", ADDRESS_PUBLIC},
        {"168.63.129.17", ADDRESS_PUBLIC},
        {"223.255.255.255", ADDRESS_PUBLIC},
        {"0.0.0.0", ADDRESS_UNSPECIFIED},
        {"0.1.2.3", ADDRESS_UNSPECIFIED},
        {"::", ADDRESS_UNSPECIFIED},
        {"127.0.0.1", ADDRESS_LOOPBACK},
        {"127.255.255.255", ADDRESS_LOOPBACK},
        {"::1", ADDRESS_LOOPBACK},
        {"localhost", ADDRESS_LOOPBACK},
        {"LOCALHOST.", ADDRESS_LOOPBACK},
        {"bucket.localhost", ADDRESS_LOOPBACK},
        {"0x7f000001", ADDRESS_LOOPBACK},
        {"2130706433", ADDRESS_LOOPBACK},
        {"0177.1", ADDRESS_LOOPBACK},
        {"10.0.0.0", ADDRESS_PRIVATE},
        {"10.255.255.255", ADDRESS_PRIVATE},
        {"172.16.0.0", ADDRESS_PRIVATE},
        {"172.31.255.255", ADDRESS_PRIVATE},
        {"192.168.0.1", ADDRESS_PRIVATE},
        {"fc00::1", ADDRESS_PRIVATE},
        {"fdff:ffff::1", ADDRESS_PRIVATE},
        {"fec0::1", ADDRESS_PRIVATE},
        {"169.254.1.1", ADDRESS_LINK_LOCAL},
        {"fe80::1", ADDRESS_LINK_LOCAL},
        {"fe80::1%eth0", ADDRESS_LINK_LOCAL},
        {"febf::1", ADDRESS_LINK_LOCAL},
        {"100.64.0.0", ADDRESS_CGNAT},
        {"100.127.255.255", ADDRESS_CGNAT},
        {"224.0.0.1", ADDRESS_MULTICAST},
        {"239.255.255.255", ADDRESS_MULTICAST},
        {"ff02::1", ADDRESS_MULTICAST},
        {"255.255.255.255", ADDRESS_BROADCAST},
        {"240.0.0.1", ADDRESS_RESERVED},
        {"198.18.0.1", ADDRESS_RESERVED},
        {"169.254.169.254", ADDRESS_METADATA},
        {"169.254.170.2", ADDRESS_METADATA},
        {"0xa9fea9fe", ADDRESS_METADATA},
        {"100.100.100.200", ADDRESS_METADATA},
        {"168.63.129.16", ADDRESS_METADATA},
        {"192.0.0.192", ADDRESS_METADATA},
        {"fd00:ec2::254", ADDRESS_METADATA},
        {"fd00:ec2::23", ADDRESS_METADATA},
        {"fd20:ce::254", ADDRESS_METADATA},
        {"169.254.42.42", ADDRESS_METADATA},
        {"fd00:42::42", ADDRESS_METADATA},
        {"fd00:c1::a9fe:a9fe", ADDRESS_METADATA},
        {"::ffff:0:a9fe:a9fe", ADDRESS_METADATA},
        {"::ffff:0:7f00:1", ADDRESS_LOOPBACK},
        /* (ADDR-1) */
        {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
        {"::ffff:10.1.2.3", ADDRESS_PRIVATE},
        {"::ffff:8.8.8.8", ADDRESS_PUBLIC},
        {"::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b::a9fe:a9fe", ADDRESS_METADATA},
        {"64:ff9b::8.8.8.8", ADDRESS_PUBLIC},
        {"64:ff9b:1::8.8.8.8", ADDRESS_PRIVATE},
        {"2002:7f00:1::1", ADDRESS_LOOPBACK},
        {"2002:c0a8:101::1", ADDRESS_PRIVATE},
        {"2001:0:1:2::3", ADDRESS_RESERVED},
    };
    const struct address_rules none = ADDRESS_RULES_INIT;
    struct sockaddr_storage ss;

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        const struct sockaddr *a = address(cases[i].text, &ss);

        if (address_kind_of(a) != cases[i].kind)
            fail_msg("%s is %s, not %s", cases[i].text, address_kind_text(address_kind_of(a)),
                     address_kind_text(cases[i].kind));
        assert_int_equal(address_rules_allow(&none, a), cases[i].kind == ADDRESS_PUBLIC);
    }
}

static void test_networks_allow(void **state)
{
    static const struct {
        const char *nets, *text;
        bool allowed;
    } cases[] = {
        {"127.0.0.0/8", "127.9.9.9", true},
        {"127.0.0.0/8", "::ffff:127.0.0.1", true},
        {"127.0.0.0/8", "64:ff9b::127.0.0.1", true},
        {"64:ff9b::/96", "64:ff9b::10.0.0.1", true},
        {"127.0.0.0/8", "::1", false},
        {"127.0.0.0/8,::1", "::1", true},
        {"10.1.2.3", "10.1.2.3", true},
        {"10.1.2.3", "10.1.2.4", false},
        {"10.1.2.4/30", "10.1.2.7", true},
        {"10.1.2.4/30", "10.1.2.8", false},
        {" 10.0.0.0/8 , fd12::/48 ", "fd12::7", true},
        {"fd12::/48", "fd12:0:1::", false},
        {"0.0.0.0/0", "192.168.1.1", true},
        {"0.0.0.0/0", "fd12::1", false},
        {"::/0", "192.168.1.1", true},
        /* (ADDR-2) */
        {"0.0.0.0/0,::/0", "169.254.169.254", false},
        {"169.254.0.0/16", "169.254.169.254", false},
        {"169.254.0.0/16", "169.254.7.7", true},
        {"100.64.0.0/10", "100.100.100.200", false},
        {"fd00:ec2::/32", "fd00:ec2::254", false},
        {"169.254.169.254", "169.254.169.254", true},
        {"169.254.169.254/32", "64:ff9b::169.254.169.254", true},
        {"", "8.8.8.8", true},
    };
    struct sockaddr_storage ss;

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct address_rules r = ADDRESS_RULES_INIT;
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(address_rules_parse(&r, cases[i].nets, &err), 0);
        if (address_rules_allow(&r, address(cases[i].text, &ss)) != cases[i].allowed)
            fail_msg("%s with %s", cases[i].text, cases[i].nets);
        address_rules_release(&r);
    }
}

static void test_bad_networks(void **state)
{
    static const char *const texts[] = {
        "x",          "10.0.0.0/33", "fd12::/129",      "10.0.0.0/",   "10.0.0.0/-1", "10.0.0.1/8",
        "fd12::1/64", "127.0.0.1/8", "10.0.0.0/8,,::1", "localhost/8", "10/8",        "/8",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        struct address_rules r = ADDRESS_RULES_INIT;
        struct dlc_err err = DLC_ERR_INIT;

        if (address_rules_parse(&r, texts[i], &err) == 0)
            fail_msg("%s was taken", texts[i]);
        assert_null(r.nets);
        assert_int_equal(r.n, 0);
    }
}

static void test_what_is_not_an_address(void **state)
{
    static const char *const names[] = {"",          "example.com",  "localhost.example.com",
                                        "1.2.3.4.5", "notlocalhost", "::g"};
    const struct address_rules none = ADDRESS_RULES_INIT;
    const struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_storage ss;
    char text[64];

    (void)state;
    for (size_t i = 0; i < unit_count(names); i++)
        assert_false(address_of_host(names[i], &ss));
    assert_false(address_rules_allow(&none, (const struct sockaddr *)(const void *)&un));
    assert_int_equal(address_kind_of((const struct sockaddr *)(const void *)&un), ADDRESS_RESERVED);
    address_text(address("0x7f000001", &ss), text);
    assert_string_equal(text, "127.0.0.1");
    address_text(address("FD00:ec2::254", &ss), text);
    assert_string_equal(text, "fd00:ec2::254");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_networks_allow),
        cmocka_unit_test(test_bad_networks),
        cmocka_unit_test(test_what_is_not_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
