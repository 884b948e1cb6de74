/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - optimizers with their default values, and learning rates over time.
 *
 * The host computes the factor of the learning rate in double, once a step. Each process
 * computes its own; the factors are equal on all hosts with the same libm.
 */
#include <math.h>

#include "replica/replica.h"

yoke_optimizer
yoke_sgd(float learning_rate, float momentum)
{
    return (yoke_optimizer){
        .kind = YOKE_OPTIMIZER_SGD, .learning_rate = learning_rate, .momentum = momentum};
}

yoke_optimizer
yoke_adam(float learning_rate)
{
    return (yoke_optimizer){.kind = YOKE_OPTIMIZER_ADAM,
                            .learning_rate = learning_rate,
                            .beta1 = 0.9f,
                            .beta2 = 0.999f,
                            .epsilon = 1e-8f};
}

yoke_optimizer
yoke_adamw(float learning_rate, float weight_decay)
{
    yoke_optimizer optimizer = yoke_adam(learning_rate);

    optimizer.kind = YOKE_OPTIMIZER_ADAMW;
    optimizer.weight_decay = weight_decay;
    return optimizer;
}

yoke_optimizer
yoke_rmsprop(float learning_rate)
{
    return (yoke_optimizer){.kind = YOKE_OPTIMIZER_RMSPROP,
                            .learning_rate = learning_rate,
                            .beta2 = 0.99f,
                            .epsilon = 1e-8f};
}

static double
between(double from, double to, double part)
{
    return from + (to - from) * part;
}

static double
cosine(double from, double to, double part)
{
    return to + (from - to) * 0.5 * (1 + cos(3.14159265358979323846 * part));
}

float
yoke_schedule_factor(const yoke_schedule *s, int64_t step)
{
    int64_t warmup, after, length;
    double part;

    if (!s)
        return 1;
    if (yki_check_schedule(s) != YOKE_OK)
        return NAN;
    if (step < 0) {
        yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the step of a schedule", step, 0, INT64_MAX);
        return NAN;
    }
    warmup = s->warmup;
    if (step < warmup && s->kind == YOKE_SCHEDULE_ONE_CYCLE)
        return (float)cosine((double)s->initial, 1, (double)step / (double)warmup);
    if (step < warmup)
        return (float)((double)(step + 1) / (double)warmup);
    after = step - warmup;
    length = s->steps > warmup ? s->steps - warmup : 1;
    part = YKI_MIN((double)after / (double)length, 1.0);
    switch (s->kind) {
    case YOKE_SCHEDULE_STEP:
        return (float)pow((double)s->factor, (double)(after / s->period));
    case YOKE_SCHEDULE_LINEAR:
        return (float)between(1, (double)s->final_factor, part);
    case YOKE_SCHEDULE_COSINE:
    case YOKE_SCHEDULE_ONE_CYCLE:
        return (float)cosine(1, (double)s->final_factor, part);
    case YOKE_SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}
