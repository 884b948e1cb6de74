/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.cl - losses, metrics and gradients, sample by sample; and all of them in one
 * operator, summed over the batch.
 *
 * x is (classes, positions) per sample; labels are (positions), and other targets are
 * like x. A function computes the pair (sum, count) of one sample and, if it gets
 * memory for it, the gradient of the sum, not divided by anything. A label that is no
 * class makes the result NaN and reads nothing.
 *
 * With SPREAD 0 a work-item takes a sample, and a few samples are one group. With 1 a
 * group takes a sample, and its work-items take positions, or single elements, in
 * rotation. With 2 a group takes a sample with few positions and labels, and its
 * work-items take the classes in rotation. Sums and maxima are joined in a tree.
 *
 * With -DWEIGHTED, which goes with a SPREAD of 0 or 1, classes and values of the target may have
 * weights: what has weight w gives w times its loss, and counts w.
 *
 * Last stands a dense layer with its loss and its backward, for CPUs: -DDENSE and -DMETRIC
 * name the loss and the metric, and -DTARGET the type of the target.
 */
#ifndef WG
#define WG 1
#endif
#ifndef LABEL
#define LABEL int
#endif
#ifndef SPREAD
#define SPREAD 0
#endif

/* The arguments for one sample; `grad` NULL: the gradient is not wanted. */
#define SAMPLE_ARGS(TARGET)                                                                   \
    __global const float *x, __global const TARGET *target, __global float *grad,             \
        int classes, int positions, int has_ignore, int ignore, float smoothing, float delta, \
        int k WEIGHTS_ARG PARTS_ARG
#define ARGS(TARGET)                                                                          \
    __global const float *x, __global const TARGET *target, __global float *out, int samples, \
        int classes, int positions, int has_ignore, int ignore, float smoothing, float delta, \
        int k WEIGHTS_ARG
#include "exact.cl"
#include "math.cl"
#define KERNEL __kernel YKI_GROUP(WG, 1) void

/* weights has one for each value of the target with a weight_step of 1, and with 0 one for each
 * sample. */
#ifdef WEIGHTED
#define WEIGHTS_ARG                                                                           \
    , __global const float *class_weights, __global const float *weights,                     \
        int has_class_weights, int has_weights, int weight_step
#define WEIGHTS(n, per_target)                                                                \
    , class_weights, weights + (n) * (weight_step ? (per_target) : 1), has_class_weights,     \
        has_weights, weight_step
#define CLASS_WEIGHT(c) (has_class_weights ? class_weights[c] : 1.f)
#define WEIGHT(i)       (has_weights ? weights[(long)(i)*weight_step] : 1.f)
#define TIMES_CLASS(c)  *CLASS_WEIGHT(c)
#define TIMES(i)        *WEIGHT(i)
#define LABEL_WEIGHT(label, p)                                                                \
    (((label) >= 0 && (label) < classes ? CLASS_WEIGHT(label) : 1.f) * WEIGHT(p))
#define COUNT_ELEMENT(i) counted += WEIGHT(i);
#define ELEMENTS         counted
#else
#define WEIGHTS_ARG
#define WEIGHTS(n, per_target)
#define TIMES_CLASS(c)
#define TIMES(i)
#define LABEL_WEIGHT(label, p) 1.f
#define COUNT_ELEMENT(i)
#define ELEMENTS (ELEMENT == 0 ? (float)count : 0.f)
#endif

/* Where this work-item begins among positions and single elements, and how far it steps. */
#if SPREAD == 0
#define PARTS
#define PARTS_ARG
#define LOCAL_PARTS
#define POSITION     0
#define ELEMENT      0
#define POSITION_STEP 1
#define ELEMENT_STEP 1
#define FOR_EACH_SAMPLE(n)                                                                    \
    for (long n = get_global_id(0); n < samples; n += get_global_size(0))
#else
#define PARTS        , parts
#define PARTS_ARG    , __local float *parts
#define LOCAL_PARTS  __local float parts[WG];
#define ELEMENT      ((int)get_local_id(0))
#define ELEMENT_STEP WG
#if SPREAD == 1
#define POSITION     ELEMENT
#define POSITION_STEP WG
#else
#define POSITION     0
#define POSITION_STEP 1
#endif
#define FOR_EACH_SAMPLE(n)                                                                    \
    for (long n = get_group_id(0); n < samples; n += get_num_groups(0))

/* WG is a power of 2. Each work-item gets the result. */
#define JOIN_PARTS(name, OP)                                                                  \
    float name(float own, __local float *parts)                                               \
    {                                                                                         \
        int item = (int)get_local_id(0);                                                      \
                                                                                              \
        parts[item] = own;                                                                    \
        for (int step = WG / 2; step > 0; step /= 2) {                                        \
            barrier(CLK_LOCAL_MEM_FENCE);                                                     \
            if (item < step)                                                                  \
                parts[item] = OP(parts[item], parts[item + step]);                            \
        }                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        own = parts[0];                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                         \
        return own;                                                                           \
    }
#define ADD(a, b) ((a) + (b))
JOIN_PARTS(join_largest, fmax)
JOIN_PARTS(join_sum, ADD)
#endif

/* A sample's pair. */
#if SPREAD == 1
#define SUM_PAIR(v) sum_pair(v, parts)
float2 sum_pair(float2 v, __local float *parts)
{
    float first = join_sum(v.x, parts);

    return (float2)(first, join_sum(v.y, parts));
}
#else
#define SUM_PAIR(v) (v)
#endif
/* One of the work-items that have a sample's result stores it. */
#define STORE_PAIR(v, n, p)                                                                   \
    {                                                                                         \
        float2 pair_ = SUM_PAIR(v);                                                           \
                                                                                              \
        if (SPREAD == 0 || get_local_id(0) == 0)                                              \
            vstore2(pair_, n, p);                                                             \
    }

/* The largest element of a column: after subtracting it, exp cannot overflow. */
float largest(__global const float *column, int classes, int stride)
{
    float m = column[0];

    for (int c = 1; c < classes; c++)
        m = fmax(m, column[(long)c * stride]);
    return m;
}

float sum_of_exp(__global const float *column, int classes, int stride, float m)
{
    float sum = 0.f;

    for (int c = 0; c < classes; c++)
        sum += YKI_EXP(float, column[(long)c * stride] - m);
    return sum;
}

/* Sets all elements of a column of a gradient. */
void fill_column(__global float *column, int classes, int stride, float value)
{
    for (int c = 0; c < classes; c++)
        column[(long)c * stride] = value;
}

/* Counts a label of this weight in `result`. Returns false if its column takes no part: the label is ignored,
 * or is no class and has made the result NaN. It then writes the column's slope too, unless
 * `slope` is NULL because it is not wanted. */
int count_label(int label, float weight, float2 *result, __global float *slope, int classes, int positions,
                int has_ignore, int ignore)
{
    int ignored = has_ignore && label == ignore;

    if (!ignored)
        (*result).y += weight;
    if (!ignored && label >= 0 && label < classes)
        return 1;
    if (!ignored)
        (*result).x = NAN;
    if (slope)
        fill_column(slope, classes, positions, ignored ? 0.f : NAN);
    return 0;
}

#ifdef WEIGHTED
/* The weight of a label's target, which is spread over the classes: 1 without weights of classes. */
float mass_of(__global const float *class_weights, int has_class_weights, int classes, int label,
              float smoothing)
{
    float sum = 0.f;

    if (!has_class_weights)
        return 1.f;
    for (int c = 0; smoothing > 0.f && c < classes; c++)
        sum += class_weights[c];
    return YKI_FMA(1.f - smoothing, class_weights[label], smoothing * QUOTIENT(float, sum, classes));
}
#define MASS mass_of(class_weights, has_class_weights, classes, label, smoothing)
#endif

#if SPREAD < 2
/* -log softmax[label], smoothed: (1 - s) of that plus s of the mean over classes. */
float2 softmax_ce(SAMPLE_ARGS(LABEL))
{
    float2 result = (float2)(0.f, 0.f);

    for (int p = POSITION; p < positions; p += POSITION_STEP) {
        __global const float *column = x + p;
        __global float *slope = grad + p;
        int label = (int)target[p];
        float m, sum = 0.f, log_sum, loss, scale;

        if (!count_label(label, LABEL_WEIGHT(label, p), &result, grad ? slope : 0, classes,
                         positions, has_ignore, ignore))
            continue;
        m = largest(column, classes, positions);
        if (!grad)
            sum = sum_of_exp(column, classes, positions, m);
        else
            for (int c = 0; c < classes; c++) {
                float e = YKI_EXP(float, column[(long)c * positions] - m);

                slope[(long)c * positions] = e;
                sum += e;
            }
        log_sum = m + YKI_LOG(float, sum);
        loss = (log_sum - column[(long)label * positions]) TIMES_CLASS(label);
        if (smoothing > 0.f) {
            float mean = 0.f;

            for (int c = 0; c < classes; c++)
                mean += (log_sum - column[(long)c * positions]) TIMES_CLASS(c);
            loss = YKI_FMA(1.f - smoothing, loss, smoothing * QUOTIENT(float, mean, classes));
        }
        result.x += loss TIMES(p);
        if (!grad)
            continue;
        scale = QUOTIENT(float, 1.f, sum);
#ifdef WEIGHTED
        scale *= MASS * WEIGHT(p);
#endif
        for (int c = 0; c < classes; c++) {
            float wanted = (c == label ? 1.f - smoothing : 0.f) + QUOTIENT(float, smoothing, classes);

            slope[(long)c * positions] =
                slope[(long)c * positions] * scale - wanted TIMES_CLASS(c) TIMES(p);
        }
    }
    return result;
}

/* The same on probabilities: -log x[label]. PyTorch clamps the logarithm at -100, which keeps a
 * probability of 0 finite. Where it is clamped, the slope is bounded, not infinite. */
float2 ce(SAMPLE_ARGS(LABEL))
{
    float2 result = (float2)(0.f, 0.f);

    for (int p = POSITION; p < positions; p += POSITION_STEP) {
        __global const float *column = x + p;
        __global float *slope = grad + p;
        int label = (int)target[p];
        float loss;

        if (!count_label(label, LABEL_WEIGHT(label, p), &result, grad ? slope : 0, classes,
                         positions, has_ignore, ignore))
            continue;
        loss = -fmax(YKI_LOG(float, column[(long)label * positions]), -100.f) TIMES_CLASS(label);
        if (smoothing > 0.f) {
            float mean = 0.f;

            for (int c = 0; c < classes; c++)
                mean -= fmax(YKI_LOG(float, column[(long)c * positions]), -100.f) TIMES_CLASS(c);
            loss = YKI_FMA(1.f - smoothing, loss, smoothing * QUOTIENT(float, mean, classes));
        }
        result.x += isnan(column[(long)label * positions]) ? NAN : loss TIMES(p);
        for (int c = 0; grad && c < classes; c++) {
            float wanted = (c == label ? 1.f - smoothing : 0.f) + QUOTIENT(float, smoothing, classes);

            wanted = wanted TIMES_CLASS(c) TIMES(p);
            slope[(long)c * positions] =
                wanted == 0.f ? 0.f : QUOTIENT(float, -wanted, fmax(column[(long)c * positions], 1e-38f));
        }
    }
    return result;
}

#endif

/* Losses of single elements: EXPR of a (x) and b (target), and its GRAD. */
#define ELEMENTWISE(name, EXPR, GRAD)                                                         \
    float2 name(SAMPLE_ARGS(float))                                                           \
    {                                                                                         \
        long count = (long)classes * positions;                                               \
        float total = 0.f, counted = 0.f;                                                     \
                                                                                              \
        for (long i = ELEMENT; i < count; i += ELEMENT_STEP) {                                \
            float a = x[i], b = target[i], d = a - b;                                         \
                                                                                              \
            total += (EXPR)TIMES(i);                                                          \
            COUNT_ELEMENT(i)                                                                  \
            if (grad)                                                                         \
                grad[i] = (GRAD)TIMES(i);                                                     \
        }                                                                                     \
        (void)counted;                                                                        \
        return (float2)(total, ELEMENTS);                                                     \
    }

/* On logits, without overflow: max(a, 0) - a b + log(1 + e^-|a|). d is not used. */
#define SIGMOID(a)                                                                            \
    QUOTIENT(float, (a) >= 0.f ? 1.f : YKI_EXP(float, a), 1.f + YKI_EXP(float, -fabs(a)))
ELEMENTWISE(bce, (d - d) + (a > 0.f ? a : 0.f) - a *b + YKI_LOG1P(float, YKI_EXP(float, -fabs(a))), SIGMOID(a) - b)
ELEMENTWISE(mse, d *d, 2.f * d)
ELEMENTWISE(l1, fabs(d), d > 0.f ? 1.f : d < 0.f ? -1.f : d * 0.f)
ELEMENTWISE(huber, fabs(d) <= delta ? 0.5f * d *d : delta *(fabs(d) - 0.5f * delta),
            fabs(d) <= delta ? d : d > 0.f ? delta : d < 0.f ? -delta : d)

#if SPREAD < 2
/* 1 for each label among the k largest; of equal ones the first counts. */
float2 top_k(SAMPLE_ARGS(LABEL))
{
    float hits = 0.f;

    for (int p = POSITION; p < positions; p += POSITION_STEP) {
        __global const float *column = x + p;
        int label = (int)target[p], before = 0;

        if (label < 0 || label >= classes)
            continue;
        for (int c = 0; c < classes; c++) {
            float other = column[(long)c * positions];
            float own = column[(long)label * positions];

            before += other > own || (other == own && c < label) || isnan(own);
        }
        hits += before < k ? 1.f : 0.f;
    }
    return (float2)(hits, POSITION == 0 ? (float)positions : 0.f);
}
#else
/* ---- the same three with a group for a column. All its work-items go the same way, and have the
 * same result. ---- */

/* The slope of a column that takes no part, by its label. */
#define NO_SLOPE(label) (has_ignore && (label) == ignore ? 0.f : NAN)
#define FOR_EACH_CLASS(c)                                                                     \
    for (int c = (int)get_local_id(0); c < classes; c += WG)

float2 softmax_ce(SAMPLE_ARGS(LABEL))
{
    float2 result = (float2)(0.f, 0.f);

    for (int p = 0; p < positions; p++) {
        __global const float *column = x + p;
        int label = (int)target[p];
        int counts = count_label(label, 1.f, &result, 0, classes, positions, has_ignore, ignore);
        float m = column[0], sum = 0.f, all = 0.f, loss, log_sum;

        FOR_EACH_CLASS(c)
            m = fmax(m, column[(long)c * positions]);
        m = join_largest(m, parts);
        FOR_EACH_CLASS(c)
        {
            float v = column[(long)c * positions];

            sum += YKI_EXP(float, v - m);
            all += v - m;
        }
        sum = join_sum(sum, parts);
        all = join_sum(all, parts);
        log_sum = YKI_LOG(float, sum);
        loss = m + log_sum - column[(long)(counts ? label : 0) * positions];
        if (smoothing > 0.f)
            loss = YKI_FMA(1.f - smoothing, loss, smoothing * (log_sum - QUOTIENT(float, all, classes)));
        if (counts)
            result.x += loss;
        sum = QUOTIENT(float, 1.f, sum);
        if (grad)
            FOR_EACH_CLASS(c)
            {
                float wanted = (c == label ? 1.f - smoothing : 0.f) + QUOTIENT(float, smoothing, classes);
                float slope = YKI_EXP(float, column[(long)c * positions] - m) * sum - wanted;

                grad[p + (long)c * positions] = counts ? slope : NO_SLOPE(label);
            }
    }
    return result;
}

float2 ce(SAMPLE_ARGS(LABEL))
{
    float2 result = (float2)(0.f, 0.f);

    for (int p = 0; p < positions; p++) {
        __global const float *column = x + p;
        int label = (int)target[p];
        int counts = count_label(label, 1.f, &result, 0, classes, positions, has_ignore, ignore);
        float own = column[(long)(counts ? label : 0) * positions], mean = 0.f, loss;

        if (smoothing > 0.f)
            FOR_EACH_CLASS(c)
                mean -= fmax(YKI_LOG(float, column[(long)c * positions]), -100.f);
        mean = join_sum(mean, parts);
        loss = -fmax(YKI_LOG(float, own), -100.f);
        if (smoothing > 0.f)
            loss = YKI_FMA(1.f - smoothing, loss, smoothing * QUOTIENT(float, mean, classes));
        if (counts)
            result.x += isnan(own) ? NAN : loss;
        if (grad)
            FOR_EACH_CLASS(c)
            {
                float wanted = (c == label ? 1.f - smoothing : 0.f) + QUOTIENT(float, smoothing, classes);
                float slope = wanted == 0.f
                                  ? 0.f
                                  : QUOTIENT(float, -wanted, fmax(column[(long)c * positions], 1e-38f));

                grad[p + (long)c * positions] = counts ? slope : NO_SLOPE(label);
            }
    }
    return result;
}

float2 top_k(SAMPLE_ARGS(LABEL))
{
    float hits = 0.f;

    for (int p = 0; p < positions; p++) {
        __global const float *column = x + p;
        int label = (int)target[p], known = label >= 0 && label < classes;
        float own = column[(long)(known ? label : 0) * positions], before = 0.f;

        FOR_EACH_CLASS(c)
        {
            float other = column[(long)c * positions];

            before += other > own || (other == own && c < label) || isnan(own) ? 1.f : 0.f;
        }
        before = join_sum(before, parts);
        hits += known && before < (float)k ? 1.f : 0.f;
    }
    return (float2)(hits, (float)positions);
}
#endif

#define NOWHERE ((__global float *)0)
#define OF_SAMPLE(name, n, per_target, grad, k)                                               \
    name(x + (n) * classes * positions, target + (n) * (per_target), grad, classes,           \
         positions, has_ignore, ignore, smoothing, delta, k WEIGHTS(n, per_target) PARTS)

/* For all samples: writes pairs to out, or the gradient. */
#define PAIRS(name, TARGET, per_target)                                                       \
    KERNEL                                                                                    \
    yki_##name(ARGS(TARGET))                                                                  \
    {                                                                                         \
        LOCAL_PARTS                                                                           \
        FOR_EACH_SAMPLE(n)                                                                    \
        {                                                                                     \
            STORE_PAIR(OF_SAMPLE(name, n, per_target, NOWHERE, k), n, out)                    \
        }                                                                                     \
    }
#define GRADIENT(name, TARGET, per_target)                                                    \
    KERNEL                                                                                    \
    yki_##name##_grad(ARGS(TARGET))                                                           \
    {                                                                                         \
        LOCAL_PARTS                                                                           \
        FOR_EACH_SAMPLE(n)                                                                    \
        {                                                                                     \
            (void)OF_SAMPLE(name, n, per_target, out + n * classes * positions, k);           \
        }                                                                                     \
    }

/* Sums the pairs of one result, in the order of the samples. */
void sum_pairs(__global const float *pairs, __global float *out, int samples)
{
    float2 sum = (float2)(0.f, 0.f);

    for (int n = 0; n < samples; n++)
        sum += vload2(n, pairs);
    vstore2(sum, 0, out);
}

/* Sums all results: the loss, and up to two metrics, whose pairs begin `stride` further on each. */
#if WG == 1
#define SUMS
#define LOCAL_SUMS
void sum_all(__global const float *pairs, int stride, __global float *loss,
             __global float *metric0, __global float *metric1, int metrics, int samples)
{
    sum_pairs(pairs, loss, samples);
    if (metrics > 0)
        sum_pairs(pairs + 2 * (long)stride, metric0, samples);
    if (metrics > 1)
        sum_pairs(pairs + 4 * (long)stride, metric1, samples);
}
#else
/* In the order of yki_batch_sum_groups: SHARE work-items take the samples in rotation. */
#define SHARE      (WG < 32 ? WG : 32)
#define SUMS       , sums
#define LOCAL_SUMS __local float2 sums[SHARE];
void sum_all(__global const float *pairs, int stride, __global float *loss,
             __global float *metric0, __global float *metric1, int metrics, int samples,
             __local float2 *sums)
{
    int item = (int)get_local_id(0);

    for (int r = 0; r <= metrics; r++) {
        __global float *out = r == 0 ? loss : r == 1 ? metric0 : metric1;
        float2 sum = (float2)(0.f, 0.f);

        for (int n = item; item < SHARE && n < samples; n += SHARE)
            sum += vload2((long)r * stride + n, pairs);
        if (item < SHARE)
            sums[item] = sum;
        for (int step = SHARE / 2; step > 0; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < step)
                sums[item] += sums[item + step];
        }
        if (item == 0)
            vstore2(sums[0], 0, out);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

/* A barrier under a condition confuses some compilers, so the number of metrics is a macro where
 * pairs are joined by the group. Only single groups are alone. */
#ifndef METRICS
#define METRICS 0
#endif
#if SPREAD
#define HAS_METRIC(i) (METRICS > (i))
#define SUM_ALONE
#elif WG == 1
#define HAS_METRIC(i) (metrics > (i))
#define SUM_ALONE                                                                             \
    barrier(CLK_GLOBAL_MEM_FENCE);                                                            \
    if (alone)                                                                                \
        sum_all(pairs, stride, loss, metric0, metric1, metrics, samples);
#else /* without work, this loop ends at once */
#define HAS_METRIC(i) (metrics > (i))
#define SUM_ALONE                                                                             \
    barrier(CLK_GLOBAL_MEM_FENCE);                                                            \
    sum_all(pairs, stride, loss, metric0, metric1, alone ? metrics : -1, samples, sums);
#endif

/* The loss, its gradient (with_grad) and metrics of the same operands. alone: there is one
 * group, which also computes the sums; otherwise yki_loss_sums follows. */
#define STEP(name, TARGET, per_target, metric)                                                \
    KERNEL                                                                                    \
    yki_##name##_step(__global const float *x, __global const TARGET *target,                 \
                      __global float *grad, __global float *pairs, __global float *loss,      \
                      __global float *metric0, __global float *metric1, int samples,          \
                      int stride, int classes, int positions, int has_ignore, int ignore,     \
                      float smoothing, float delta, int metrics, int k0, int k1,              \
                      int with_grad, int alone)                                               \
    {                                                                                         \
        LOCAL_PARTS                                                                           \
        LOCAL_SUMS                                                                            \
        FOR_EACH_SAMPLE(n)                                                                    \
        {                                                                                     \
            __global float *slope = with_grad ? grad + n * classes * positions : NOWHERE;     \
                                                                                              \
            STORE_PAIR(OF_SAMPLE(name, n, per_target, slope, 0), n, pairs)                    \
            if (HAS_METRIC(0))                                                                \
                STORE_PAIR(OF_SAMPLE(metric, n, per_target, NOWHERE, k0), stride + n, pairs)  \
            if (HAS_METRIC(1))                                                                \
                STORE_PAIR(OF_SAMPLE(metric, n, per_target, NOWHERE, k1),                     \
                           2 * (long)stride + n, pairs)                                       \
        }                                                                                     \
        SUM_ALONE                                                                             \
    }

#ifdef WEIGHTED /* what joins a loss with others takes no weights */
#undef STEP
#define STEP(name, TARGET, per_target, metric)
#endif
#define ALL(name, TARGET, per_target, metric)                                                 \
    PAIRS(name, TARGET, per_target)                                                           \
    GRADIENT(name, TARGET, per_target)                                                        \
    STEP(name, TARGET, per_target, metric)

ALL(softmax_ce, LABEL, positions, top_k)
ALL(ce, LABEL, positions, top_k)
ALL(bce, float, classes *positions, l1)
ALL(mse, float, classes *positions, l1)
ALL(l1, float, classes *positions, l1)
ALL(huber, float, classes *positions, l1)
PAIRS(top_k, LABEL, positions)

KERNEL
yki_loss_sums(__global const float *pairs, __global float *loss, __global float *metric0,
              __global float *metric1, int samples, int stride, int metrics)
{
    LOCAL_SUMS
    sum_all(pairs, stride, loss, metric0, metric1, metrics, samples SUMS);
}

#ifdef DENSE
/* ---- a dense layer, its loss and its backward, in one work-item ---- */

#ifndef METRIC
#define METRIC top_k
#endif
#ifndef TARGET
#define TARGET LABEL
#endif
#ifndef LANES
#define LANES 4
#endif

#define floatw YKI_PASTE(float, LANES)
#define loadw  YKI_PASTE(vload, LANES)
#define storew YKI_PASTE(yki_store, LANES)
#define lanesw YKI_PASTE(YKI_LANES, LANES)
/* Samples, or units, that are taken at once: one accumulator each. */
#define BLOCK  8
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

#define LANE_LOAD(name, i)                                                                    \
    if (i < count)                                                                            \
        x.s##name = from[i];
#define LANE_STORE(name, i)                                                                   \
    if (i < count)                                                                            \
        to[i] = x.s##name;

/* A vector of which only `count` lanes exist in memory. */
floatw load_some(__global const float *from, int count)
{
    floatw x = 0.f;

    if (count >= LANES)
        return loadw(0, from);
    lanesw(LANE_LOAD)
    return x;
}

void store_some(floatw x, __global float *to, int count)
{
    if (count >= LANES) {
        storew(x, 0, to);
        return;
    }
    lanesw(LANE_STORE)
}

/* Copies the weight (classes, inputs) to (inputs, padded), and the bias behind it, so that units
 * are lanes. Units that do not exist have zeros. */
void pack_units(__global const float *weight, __global const float *bias, int inputs, int classes,
                int padded, int has_bias, __global float *to)
{
    for (int q = 0; q < inputs; q++)
        for (int u = 0; u < padded; u++)
            to[(long)q * padded + u] = u < classes ? weight[(long)u * inputs + q] : 0.f;
    for (int u = 0; u < padded; u++)
        to[(long)inputs * padded + u] = has_bias && u < classes ? bias[u] : 0.f;
}

/* Samples beyond the last one repeat it. */
#define SAMPLE(i) min(first + i, samples - 1)
#define ROW(i)    __global const float *x##i = x + (long)SAMPLE(i) * inputs;
#define ZERO(i)   floatw sum##i = (floatw)(0.f);
#define TERM(i)   sum##i = YKI_FMA((floatw)(x##i[q]), w, sum##i);
#define RESULT(i) store_some(sum##i + shift, y + (long)SAMPLE(i) * classes + j, classes - j);

/* y (samples, classes) for a block of samples. */
void layer(__global const float *x, __global const float *packed, __global float *y, int first,
           int samples, int inputs, int classes, int padded)
{
    EACH(ROW)

    for (int j = 0; j < padded; j += LANES) {
        floatw shift = loadw(0, packed + (long)inputs * padded + j);
        EACH(ZERO)

        for (int q = 0; q < inputs; q++) {
            floatw w = loadw(0, packed + (long)q * padded + j);

            EACH(TERM)
        }
        EACH(RESULT)
    }
}

#define SLOPE(i)      __global const float *s##i = slope + (long)SAMPLE(i) * padded;
#define TERM_DX(i)    sum##i = YKI_FMA((floatw)(s##i[u]), w, sum##i);
#define GATE(i)                                                                               \
    sum##i = select(sum##i, (floatw)(0.f),                                                    \
                    load_some(x + (long)SAMPLE(i) * inputs + q, inputs - q) <= 0.f);
#define RESULT_DX(i) store_some(sum##i, dx + (long)SAMPLE(i) * inputs + q, inputs - q);

/* dx = slope weight for a block of samples, 0 where x is not positive if there is a gate. */
void layer_by_input(__global const float *x, __global const float *weight,
                    __global const float *slope, __global float *dx, int first, int samples,
                    int inputs, int classes, int padded, int gate)
{
    EACH(SLOPE)

    for (int q = 0; q < inputs; q += LANES) {
        EACH(ZERO)

        for (int u = 0; u < classes; u++) {
            floatw w = load_some(weight + (long)u * inputs + q, inputs - q);

            EACH(TERM_DX)
        }
        if (gate) {
            EACH(GATE)
        }
        EACH(RESULT_DX)
    }
}

#define TERM_DW(i) sum##i = YKI_FMA((floatw)(s[i]), v, sum##i);
#define RESULT_DW(i)                                                                          \
    if (u + i < classes)                                                                      \
        store_some(sum##i, dw + (long)(u + i) * inputs + q, inputs - q);

/* dw = slope^T x, summed in the order of the samples. */
void layer_by_weight(__global const float *x, __global const float *slope, __global float *dw,
                     int samples, int inputs, int classes, int padded)
{
    for (int q = 0; q < inputs; q += LANES)
        for (int u = 0; u < classes; u += BLOCK) {
            EACH(ZERO)

            for (int n = 0; n < samples; n++) {
                floatw v = load_some(x + (long)n * inputs + q, inputs - q);
                __global const float *s = slope + (long)n * padded + u;

                EACH(TERM_DW)
            }
            EACH(RESULT_DW)
        }
}

void layer_by_bias(__global const float *slope, __global float *db, int samples, int classes,
                   int padded)
{
    for (int u = 0; u < classes; u += LANES) {
        floatw sum = (floatw)(0.f);

        for (int n = 0; n < samples; n++)
            sum += loadw(0, slope + (long)n * padded + u);
        store_some(sum, db + u, classes - u);
    }
}

/* x (N, inputs), weight (classes, inputs). `scratch` has room for the packed weight, the slope
 * (the gradient by y) and the pairs, for the most samples that there may be. */
__kernel YKI_GROUP(1, 1) void
yki_dense_loss(__global const float *x, __global const float *weight, __global const float *bias,
               __global const TARGET *target, __global float *loss, __global float *metric0,
               __global float *metric1, __global float *y, __global float *dw, __global float *db,
               __global float *dx, __global float *scratch, int samples, int most, int inputs,
               int classes, int per_target, int has_bias, int gate, int with_dx, int has_ignore,
               int ignore, float smoothing, float delta, int metrics, int k0, int k1)
{
    int padded = (classes + (LANES > BLOCK ? LANES : BLOCK) - 1) &
                 -(LANES > BLOCK ? LANES : BLOCK);
    __global float *slope = scratch + ((long)inputs + 1) * padded;
    __global float *pairs = slope + (long)most * padded;

    pack_units(weight, bias, inputs, classes, padded, has_bias, scratch);
    for (int first = 0; first < samples; first += BLOCK) {
        layer(x, scratch, y, first, samples, inputs, classes, padded);
        for (int n = first; n < min(first + BLOCK, samples); n++) {
            __global const float *row = y + (long)n * classes;
            __global float *grad = slope + (long)n * padded;

#define OF_ROW(name, grad, k)                                                                 \
    name(row, target + (long)n * per_target, grad, classes, 1, has_ignore, ignore, smoothing, \
         delta, k)
            for (int u = classes; u < padded; u++)
                grad[u] = 0.f;
            vstore2(OF_ROW(DENSE, grad, 0), n, pairs);
            if (metrics > 0)
                vstore2(OF_ROW(METRIC, NOWHERE, k0), most + n, pairs);
            if (metrics > 1)
                vstore2(OF_ROW(METRIC, NOWHERE, k1), 2 * (long)most + n, pairs);
        }
        if (with_dx)
            layer_by_input(x, weight, slope, dx, first, samples, inputs, classes, padded, gate);
    }
    layer_by_weight(x, slope, dw, samples, inputs, classes, padded);
    if (has_bias)
        layer_by_bias(slope, db, samples, classes, padded);
    sum_all(pairs, most, loss, metric0, metric1, metrics, samples);
}
#endif
