/* SPDX-License-Identifier: Apache-2.0
 *
 * sizes.c - how large C has the types that yoke.f90 describes, for sizes.f90.
 */
#include <yoke.h>

size_t test_size(int of);

size_t
test_size(int of)
{
    return of == 1   ? sizeof(yoke_optimizer)
           : of == 2 ? sizeof(yoke_trainer_options)
           : of == 3 ? sizeof(yoke_result)
                     : sizeof(yoke_feed);
}
