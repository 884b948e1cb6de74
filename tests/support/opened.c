/* SPDX-License-Identifier: Apache-2.0
 *
 * opened.c - the devices of the environment as fixtures.
 */
#include "support/opened.h"
#include "support/scratch.h"

test_devices devices;

void
open_devices(void)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
}

void
open_devices_in_scratch(void)
{
    scratch_set_up();
    open_devices();
}

void
close_devices(void)
{
    test_devices_close(&devices);
}

void
find_devices(void)
{
    scratch_set_up();
    ck_assert(test_devices_find(TEST_AS_IS, &devices));
}

void
leave_devices(void)
{
    test_devices_close(&devices);
    scratch_tear_down();
}
