// SPDX-License-Identifier: Apache-2.0
/*
 * Changes the plan of programs that run with DLCACHE_TEST_FAULT=@FILE (base/fault.h); by faults.py:
 *
 *     faultctl FILE arm PLAN PID    from now on, in that process
 *     faultctl FILE disarm          lets go what hangs; prints how many calls there were, how many
 *                                   were hit, and the last of those
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

int main(int argc, char **argv)
{
    struct fault_plan p;

    if (argc < 3 || !fault_share_at(argv[1]))
        return 2;
    if (argc == 5 && strcmp(argv[2], "arm") == 0 && fault_parse(argv[3], &p)) {
        p.pid = atoi(argv[4]);
        fault_plan(&p);
        return 0;
    }
    if (argc == 3 && strcmp(argv[2], "disarm") == 0) {
        fault_disarm();
        printf("%d %d %s\n", fault_calls(), fault_hits(), fault_name(fault_last()));
        return 0;
    }
    return 2;
}
