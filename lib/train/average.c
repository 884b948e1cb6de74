/* SPDX-License-Identifier: Apache-2.0
 *
 * average.c - lets a trainer evaluate, predict and save with the moving average of its weights.
 *
 * The average is kept by who owns a bucket, as the optimizer's state (replica/updater.c), and is
 * the same bits in all groups, as the weights are. To be used it takes their place, and theirs is
 * kept where it was: no plan has to know of it.
 */
#include "team/sharding.h"
#include "train/trainer.h"

yoke_status
yki_trainer_exchange_average(yoke_trainer *t)
{
    /* Before the first step there is none yet. */
    if (t->options.average == 0 || t->step == 0)
        return YOKE_OK;
    /* Until all units of all devices are exchanged, and owners have the others' parts, weights are
     * a mixture. */
    t->crew.torn = true;
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        t->crew.at = k;
        YKI_TRY(yki_updater_exchange(r->updater));
        YKI_TRY(yki_queue_flush(r->queue));
    }
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        t->crew.at = k;
        YKI_TRY(yki_queue_finish(r->queue));
        r->weights->version++;
    }
    if (t->crew.sharding.ranges && !t->crew.sharding.weights) /* each owner has a part of it */
        YKI_TRY(yki_sharding_share(&t->crew));
    t->crew.torn = false;
    return YOKE_OK;
}
