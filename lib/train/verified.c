/* SPDX-License-Identifier: Apache-2.0
 *
 * verified.c - the states to which training goes back, if a device is found that has computed
 * wrongly for some steps (recheck.c).
 *
 * A state is kept after rounds in which all devices have had their turn to be checked, in the
 * memory of the host: the tensors of a checkpoint, and what else a step depends on. A device that
 * is found in its turn was right in the one before, which came after the older of two such states.
 * So two states are kept, and training goes back to the older one. The first state of all is taken
 * for right.
 *
 * What fit has to keep beside it, it keeps itself. Whoever changes weights from outside makes the
 * states worthless.
 */
#include <string.h>

#include "train/history.h"
#include "train/saved_tensors.h"

enum { APART = 10 }; /* steps between states, at least: a state takes time to copy */

static yoke_status
copy_state(yoke_trainer *t, yki_verified *state, bool back)
{
    yki_saved_tensors all = {0};
    yoke_status status = yki_saved_tensors_list(t, &all);

    if (status == YOKE_OK && !state->values) {
        state->values = yki_alloc((size_t)all.floats, sizeof *state->values, "a state");
        state->exponents =
            yki_alloc(t->crew.exact.weights, sizeof *state->exponents, "units of gradients");
        if (!state->values || !state->exponents)
            status = YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK)
        status = back ? yki_saved_tensors_put(&all, state->values)
                      : yki_saved_tensors_get(&all, state->values);
    yki_saved_tensors_clear(&all);
    return status;
}

static yoke_status
keep(yoke_trainer *t, size_t which)
{
    yki_verified *state = &t->recheck.states[which];

    YKI_TRY(copy_state(t, state, false));
    memcpy(state->exponents, t->crew.exact.exponents,
           t->crew.exact.weights * sizeof *state->exponents);
    state->step = t->step;
    state->epoch = t->epoch;
    state->epochs = t->history.count;
    state->rate = t->options.optimizer.learning_rate;
    state->there = true;
    if (t->recheck.fit.keep)
        t->recheck.fit.keep(t->recheck.fit.user, which);
    return YOKE_OK;
}

bool
yki_trainer_goes_back(const yoke_trainer *t)
{
    const size_t processes = t->crew.comm ? (size_t)t->crew.comm->ranks : 1;

    return t->options.recheck > 1 || (t->options.recheck && t->crew.team->total > processes);
}

bool
yki_trainer_keeps_state(const yoke_trainer *t)
{
    const int64_t round = t->options.recheck * (int64_t)t->crew.team->total;

    if (!yki_trainer_goes_back(t) || t->recheck.paused)
        return false;
    return !t->recheck.states[t->recheck.newest].there ||
           (t->step + 1) % yki_round_up(APART, round) == 0;
}

yoke_status
yki_trainer_keep_state(yoke_trainer *t)
{
    const size_t newest = t->recheck.newest;

    if (!t->recheck.states[newest].there)
        return keep(t, newest);
    YKI_TRY(keep(t, 1 - newest));
    t->recheck.newest = 1 - newest;
    return YOKE_OK;
}

yoke_status
yki_trainer_go_back(yoke_trainer *t)
{
    const size_t newest = t->recheck.newest;
    const size_t which = t->recheck.states[1 - newest].there ? 1 - newest : newest;
    yki_verified *state = &t->recheck.states[which];

    yki_log(YOKE_LOG_WARNING, "step %lld: training goes back to step %lld", (long long)t->step + 1,
            (long long)state->step);
    t->step = t->completed = state->step;
    t->epoch = state->epoch;
    yki_history_cut(t, state->epochs);
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        r->step = (uint32_t)t->step + 1;
        r->weights->version++;
    }
    yki_trainer_put_rate(t, state->rate);
    YKI_TRY(yki_granules_resume(&t->crew, state->exponents));
    YKI_TRY(copy_state(t, state, true));
    if (t->recheck.fit.go_back)
        t->recheck.fit.go_back(t->recheck.fit.user, which);
    /* It is the only one now. */
    t->recheck.states[1 - which].there = false;
    t->recheck.newest = which;
    t->recheck.went_back = true;
    return YOKE_OK;
}

void
yki_trainer_free_states(yoke_trainer *t)
{
    for (size_t i = 0; i < YKI_COUNT(t->recheck.states); i++) {
        yki_free(t->recheck.states[i].values);
        yki_free(t->recheck.states[i].exponents);
    }
}
