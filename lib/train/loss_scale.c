/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_scale.c - the scale of the loss where products are made of halves, which end at 65504 and
 * become 0 below 2^-25.
 *
 * The gradient of the loss is multiplied by a power of 2 (op/loss/loss_scale.c), so all gradients
 * are; the update takes it out exactly. The scale is that of the mean over a batch, but devices
 * compute gradients of sums, so they get a part of it: the scale over a power of 2 that is about
 * what a batch counts.
 *
 * Where a summed gradient is not finite, the step changes nothing on any device: all see it in the
 * norm of the same sums (clkernels/update.cl). The host learns of it here. It waits for each step
 * before it begins the next one, as that needs the new scale and the optimizer's own number of the
 * step. All processes see the same, so they agree without a message.
 */
#include <float.h>
#include <math.h>

#include "train/trainer.h"

#define START 65536.0f
#define MOST  0x1p24f /* where values are small enough for float, there would be no end */
#define LEAST 0x1p-24f
enum {
    GOOD_STEPS = 2000,
    IN_VAIN = 40, /* steps in a row that are skipped with a fixed scale, until there is a warning:
                   * as many as halve 65536 to the least */
};

bool
yki_loss_scale_is_valid(float scale)
{
    int exponent;

    return scale >= LEAST && scale <= 0x1p60f && frexpf(scale, &exponent) == 0.5f;
}

yoke_status
yki_loss_scale_check(const yoke_trainer_options *o, const yoke_graph *graph)
{
    if (o->loss_scale == 0)
        return YOKE_OK;
    if (!yki_loss_scale_is_valid(o->loss_scale))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "loss_scale is %g; must be 0, or a power of 2 between 2^-24 and 2^60",
                        (double)o->loss_scale);
    YKI_TRY(yki_precision_check(o->precision, graph));
    if (!yki_precision_scales_loss(o->precision, graph))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "loss_scale is %g, but no product is computed in f16; must be 0, or some "
                        "node must have that precision",
                        (double)o->loss_scale);
    return YOKE_OK;
}

/* The power of 2 at or above the samples of a batch, or their rows. */
static float
find_divisor(const yoke_trainer *t)
{
    const int64_t length = t->graph->loss ? t->graph->loss->length : 0;
    const float count = (float)t->options.batch * (float)YKI_MAX(length, (int64_t)1);
    float power = 1;

    while (power < count)
        power *= 2;
    return power;
}

void
yki_loss_scale_start(yoke_trainer *t)
{
    yki_loss_scale *s = &t->loss_scale;

    s->divisor = s->scales ? find_divisor(t) : 1;
    s->scale = !s->scales ? 1 : t->options.loss_scale > 0 ? t->options.loss_scale : START;
    s->every = GOOD_STEPS;
    s->good = s->bad = s->skipped = 0;
    s->warned = false;
}

float
yki_loss_scale_clip_norm(float clip_norm)
{
    return clip_norm > 0 ? clip_norm : FLT_MAX;
}

void
yki_loss_scale_give(yoke_trainer *t)
{
    for (size_t k = 0; k < t->crew.count; k++) {
        t->crew.members[k].replica->loss_scale = t->loss_scale.scale / t->loss_scale.divisor;
        t->crew.members[k].replica->skipped = (uint32_t)t->loss_scale.skipped;
    }
}

yoke_status
yki_loss_scale_read(yoke_trainer *t, yki_flight *flight)
{
    const yoke_replica *r = t->crew.members[t->crew.home].replica;

    if (!t->loss_scale.scales)
        return YOKE_OK;
    return yki_queue_read(r->queue, r->training->step_values, offsetof(yki_step_values, good),
                          sizeof flight->good, &flight->good, YKI_NO_WAIT, NULL);
}

/* Once no smaller scale is tried, it is not that which makes gradients infinite. This is said one
 * time, as else each step to come would say the same. */
static void
tell_skipped(yoke_trainer *t, int64_t step)
{
    yki_loss_scale *s = &t->loss_scale;
    const bool fixed = t->options.loss_scale > 0;
    const bool in_vain = fixed ? s->bad >= IN_VAIN : s->scale <= LEAST;

    if (!in_vain)
        yki_log(YOKE_LOG_INFO,
                "step %lld: a gradient is not finite, so the step is skipped; the loss scale is "
                "%g",
                (long long)step, (double)s->scale);
    else if (!s->warned)
        yki_log(YOKE_LOG_WARNING,
                "step %lld: a gradient is not finite again, with a loss scale of %g: the training "
                "diverges, its data are not finite%s; it goes on, and no more is said of steps "
                "that are skipped",
                (long long)step, (double)s->scale,
                fixed ? ", or that scale is too large" : ", or are too large for a half");
    s->warned |= in_vain;
}

/* A step of no valid sample changes nothing, and tells nothing. */
void
yki_loss_scale_land(yoke_trainer *t, const yki_flight *flight)
{
    yki_loss_scale *s = &t->loss_scale;
    const bool moves = t->options.loss_scale == 0;

    if (!s->scales || (!flight->good && flight->pairs[1] == 0))
        return;
    if (!flight->good) {
        s->skipped++;
        s->bad++;
        s->good = 0;
        if (moves && s->scale > LEAST)
            s->scale /= 2;
        tell_skipped(t, flight->step);
        return;
    }
    s->bad = 0;
    if (++s->good >= s->every) {
        s->good = 0;
        if (moves && s->scale < MOST)
            s->scale *= 2;
    }
}

void
yki_loss_scale_explain(const yoke_trainer *t, const yki_teller *to)
{
    const yki_loss_scale *s = &t->loss_scale;

    if (s->scales || s->skipped > 0)
        yki_tell(to, "loss scale: %g, %s; %lld steps were skipped, as a gradient was not finite",
                 (double)s->scale, t->options.loss_scale > 0 ? "fixed" : "found by itself",
                 (long long)s->skipped);
}

yoke_status
yoke_trainer_get_loss_scale(const yoke_trainer *t, float *scale, int64_t *skipped)
{
    YKI_GIVEN("yoke_trainer_get_loss_scale", {"trainer", t}, {"scale", scale},
              {"skipped", skipped});
    *scale = t->loss_scale.scale;
    *skipped = t->loss_scale.skipped;
    return YOKE_OK;
}
