/* SPDX-License-Identifier: Apache-2.0
 *
 * sampling.h - draws a token from logits.
 */
#ifndef YKI_SAMPLING_H
#define YKI_SAMPLING_H

#include "base/base.h"

/* Fails unless all numbers are in their ranges. */
yoke_status yki_check_sampling(const yoke_sampling *sampling);
/* Gives the token that `seed` draws at this place of a stream; -1: a logit is not a number. `work`
 * has room for `count` numbers, `order` for as many tokens. */
int32_t yki_sample(const float *logits, int64_t count, const yoke_sampling *sampling, uint64_t seed,
                   int64_t place, double *work, int32_t *order);

#endif
