/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c - tells people, in lines of text, what the shares are and what a team loses by
 * them.
 *
 * Idea: yki_shares_get gives all that is needed. The ceiling is the sum of the speeds that
 * the devices have alone with a full batch. A team that stays below it has one of four
 * causes, each with a remedy: memory, shares that do not follow speed, overhead, or few
 * samples, which cannot be split.
 *
 * Not here: memory in bytes, which the trainer knows.
 */
#include <stdio.h>

#include "shares/shares.h"

/* The causes are told if the team is below this fraction of the ceiling. */
static const double NEAR = 0.97;

static void
tell_device(const yki_share_info *info, const yki_teller *to)
{
    char predicted[32] = "not known", measured[32] = "not yet";

    if (info->count == 0 && info->reason[0] != '\0') {
        yki_tell(to, "%-20s %8d left out: %s", info->name, 0, info->reason);
        return;
    }
    if (info->predicted > 0)
        snprintf(predicted, sizeof predicted, "%.3f ms", 1e3 * info->predicted);
    if (info->measured > 0)
        snprintf(measured, sizeof measured, "%.3f ms", 1e3 * info->measured);
    yki_tell(to, "%-20s %8lld %12s %12s %6.1f %%", info->name, (long long)info->count, predicted,
             measured, 100 * info->idle);
}

static void
tell_losses(const yki_shares *s, const yki_shares_state *state, const yki_teller *to)
{
    double ceiling = yki_shares_ceiling(s), step = yki_shares_step_seconds(s), now;
    yki_share_info slowest, info;

    yki_shares_get(s, 0, &slowest);
    for (size_t k = 0; k < state->devices; k++) {
        yki_shares_get(s, k, &info);
        if (info.predicted > slowest.predicted)
            slowest = info;
        if (info.limit <= info.count)
            yki_tell(to, "held back: the memory of %s holds no more than %lld samples", info.name,
                     (long long)info.limit);
    }
    if (!(step > 0))
        return;
    now = (double)state->batch / step;
    yki_tell(to,
             "ceiling: %.4g samples/s, the sum of the devices' speeds; by the model %.4g (%.1f %%)",
             ceiling, now, 100 * now / ceiling);
    if (now >= NEAR * ceiling)
        return;
    if (state->kind != YKI_SHARES_AUTO || state->fixed)
        yki_tell(to, "held back: the others wait for %s, whose share is %s", slowest.name,
                 state->kind == YKI_SHARES_AUTO ? "fixed" : "given");
    if (slowest.overhead > (1 - NEAR) * step)
        yki_tell(to,
                 "held back: %s takes %.3g ms before its first sample; a larger batch spreads it",
                 slowest.name, 1e3 * slowest.overhead);
    if ((double)state->batch * (1 - NEAR) < (double)state->devices)
        yki_tell(to, "held back: samples are whole, and %lld for %zu devices are few",
                 (long long)state->batch, state->devices);
}

void
yki_shares_explain(const yki_shares *s, const yki_teller *to)
{
    static const char *const kinds[] = {"auto", "even", "given"};
    yki_shares_state state;
    yki_share_info info;

    yki_shares_get_state(s, &state);
    yki_tell(to, "shares: %s%s, changed %llu times", kinds[state.kind],
             state.fixed ? ", fixed" : "", (unsigned long long)state.changes);
    yki_tell(to, "%-20s %8s %12s %12s %8s", "device", "share", "predicted", "measured", "idle");
    for (size_t k = 0; k < state.devices; k++) {
        yki_shares_get(s, k, &info);
        tell_device(&info, to);
    }
    tell_losses(s, &state, to);
}
