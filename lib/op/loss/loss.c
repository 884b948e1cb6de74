/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.c - losses and metrics: for each sample a sum, and how many it counts.
 *
 * The division by the count comes once, after every reduction, so a loss knows nothing
 * of the batch. An ignored label adds 0 and counts 0. Counts are PyTorch's: labels for
 * cross-entropies, elements for the others.
 *
 * Labels are checked where they come in from the host (yoke_node.limit), so an error
 * can name the sample. The kernels only make sure that nothing is read out of bounds:
 * a label beyond the classes makes the loss NaN, which stops the step.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/ops.h"

static const struct {
    const char *name;
    bool labels; /* targets are integers; otherwise they are like x */
    bool metric;
} kinds[YKI_LOSS_KINDS] = {
    [YKI_LOSS_SOFTMAX_CE] = {"softmax_cross_entropy", true, false},
    [YKI_LOSS_CE] = {"cross_entropy", true, false},
    [YKI_LOSS_BCE] = {"binary_cross_entropy", false, false},
    [YKI_LOSS_MSE] = {"mean_squared_error", false, false},
    [YKI_LOSS_L1] = {"l1_loss", false, false},
    [YKI_LOSS_HUBER] = {"huber_loss", false, false},
    [YKI_METRIC_ACCURACY] = {"accuracy", true, true},
    [YKI_METRIC_TOP_K] = {"top_k", true, true},
    [YKI_METRIC_MAE] = {"mean_absolute_error", false, true},
};

static const char *
called(const yki_attrs *attrs)
{
    return kinds[yki_loss_attrs_get(attrs).kind].name;
}

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_loss_attrs a = yki_loss_attrs_get(attrs);

    snprintf(text, size, "%s i%d:%d s%.9g d%.9g k%d%s%s%s", kinds[a.kind].name, a.has_ignore_index,
             a.ignore_index, (double)a.label_smoothing, (double)a.delta, a.k, a.rows ? " rows" : "",
             a.class_weights ? " classes" : "", a.weights ? " weights" : "");
}

/* The hint is for a sample that has one label, or one row of targets, where x still has several
 * axes: layers such as dense work on the last axis and keep the others. */
static const char *
flatten_hint(const yoke_node *x, const yoke_node *target, int32_t rank)
{
    return target->shape.rank == rank && x->shape.rank > 1 ? "; did you forget yoke_flatten?" : "";
}

/* x is (C) with a scalar label, or (C, rest...) with labels (rest...); with `rows`, (rest..., C).
 */
static yoke_status
check_labels(const yoke_node *x, const yoke_node *target, bool rows)
{
    yoke_shape rest = {0};
    char given[128], wanted[128], got[128];

    if (target->type == YOKE_F32)
        return yki_fail_type("the target", target, "i32 or u8");
    if (x->shape.rank < 1)
        return yki_fail_shape("the input", x, "(classes) or (classes, ...)");
    rest.rank = x->shape.rank - 1;
    memcpy(rest.dim, x->shape.dim + !rows, (size_t)rest.rank * sizeof rest.dim[0]);
    if (!yki_shape_equal(rest, target->shape))
        return yki_fail(
            YOKE_ERROR_SHAPE,
            "the target \"%s\" has shape %s; must be %s, the axes %s the classes of \"%s\" %s%s",
            target->name, yki_shape_text(target->shape, got, sizeof got),
            yki_shape_text(rest, wanted, sizeof wanted), rows ? "before" : "after", x->name,
            yki_shape_text(x->shape, given, sizeof given), flatten_hint(x, target, 0));
    return YOKE_OK;
}

/* Of a constant. */
static yoke_status
check_class_weights(const yoke_node *w)
{
    const float *values = w->data;

    for (int64_t c = 0; yki_is_constant(w) && c < w->shape.dim[0]; c++)
        if (!(values[c] >= 0 && values[c] <= FLT_MAX))
            return yki_fail(YOKE_ERROR_VALUE,
                            "the weight of class %lld is %g; must be between 0 and %g",
                            (long long)c, (double)values[c], (double)FLT_MAX);
    return YOKE_OK;
}

static yoke_status
check_weights(const yoke_node *node, const yki_loss_attrs *a)
{
    const yoke_node *x = node->inputs[0], *target = node->inputs[1], *w = node->inputs[2];
    char text[128], must[160];

    if (a->class_weights) {
        YKI_TRY(yki_check_f32("the class weights", w));
        if (w->batched || !yki_shape_equal(w->shape, yoke_shape(x->shape.dim[0]))) {
            snprintf(must, sizeof must, "(%lld), a weight for each class, the same for all samples",
                     (long long)x->shape.dim[0]);
            return yki_fail_shape("the class weights", w, must);
        }
        YKI_TRY(check_class_weights(w));
    }
    if (!a->weights)
        return YOKE_OK;
    w = node->inputs[node->input_count - 1];
    YKI_TRY(yki_check_f32("the weights", w));
    if (w->batched && (w->shape.rank == 0 || yki_shape_equal(w->shape, target->shape)))
        return YOKE_OK;
    snprintf(must, sizeof must, "()%s%s, and be given for each sample",
             target->shape.rank ? " or " : "",
             target->shape.rank ? yki_shape_text(target->shape, text, sizeof text) : "");
    return yki_fail_shape("the weights", w, must);
}

static yoke_status
check_operands(const yoke_node *node)
{
    const yki_loss_attrs a = yki_loss_attrs_get(&node->attrs);
    const yoke_node *x = node->inputs[0], *target = node->inputs[1];
    char left[128], right[128];

    YKI_TRY(yki_check_f32("the input", x));
    if (!x->batched || !target->batched)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "\"%s\" does not depend on the sample; must be computed from an input",
                        x->batched ? target->name : x->name);
    if (kinds[a.kind].labels) {
        YKI_TRY(check_labels(x, target, a.rows));
        if (a.kind == YKI_METRIC_TOP_K && (a.k < 1 || a.k > x->shape.dim[0]))
            return yki_fail_range(YOKE_ERROR_VALUE, "k", a.k, 1, x->shape.dim[0]);
        return check_weights(node, &a);
    }
    YKI_TRY(yki_check_f32("the target", target));
    if (!yki_shape_equal(x->shape, target->shape))
        return yki_fail(
            YOKE_ERROR_SHAPE, "the target \"%s\" has shape %s; must be %s, the shape of \"%s\"%s",
            target->name, yki_shape_text(target->shape, right, sizeof right),
            yki_shape_text(x->shape, left, sizeof left), x->name, flatten_hint(x, target, 1));
    return check_weights(node, &a);
}

static yoke_status
infer(yoke_node *node)
{
    YKI_TRY(check_operands(node));
    node->type = YOKE_F32;
    node->shape = yoke_shape(2);
    node->batched = true;
    return YOKE_OK;
}

static yoke_status
infer_grad(yoke_node *node)
{
    YKI_TRY(check_operands(node));
    yki_node_like(node, node->inputs[0]);
    return YOKE_OK;
}

static yoke_status
gradient(yoke_node *node, yoke_node *dy, const bool *wanted, yoke_node **dx)
{
    (void)dy; /* differentiation starts at a loss */
    for (uint32_t i = 1; i < node->input_count; i++)
        if (wanted[i])
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "the %s \"%s\" depends on a parameter that is trained; must not, as a "
                            "loss has no gradient by its %s",
                            i == 1 ? "target" : "weight", node->inputs[i]->name,
                            i == 1 ? "target" : "weights");
    if (wanted[0])
        dx[0] = yki_node(node->graph, &yki_op_loss_grad, NULL, node->inputs, node->input_count,
                         &node->attrs, sizeof node->attrs);
    return yki_graph_status(node->graph);
}

static double
flops(const yoke_node *node)
{
    return 6.0 * (double)yki_shape_count(node->inputs[0]->shape);
}

static bool
is_metric(const yki_attrs *attrs)
{
    return kinds[yki_loss_attrs_get(attrs).kind].metric;
}

const yki_op yki_op_loss = {
    .name = "loss",
    .called = called,
    .infer = infer,
    .gradient = gradient,
    .flops = flops,
    .describe = describe,
    .is_loss = true,
    .is_metric = is_metric,
};

const yki_op yki_op_loss_grad = {
    .name = "loss_grad",
    .infer = infer_grad,
    .flops = flops,
    .describe = describe,
};

/* `weights` (NULL: none) are those of classes, then those of the target's values. */
static yoke_node *
make(yoke_graph *graph, yki_loss_kind kind, yoke_node *x, yoke_node *target,
     yoke_node *const weights[2], const yki_loss_attrs *attrs)
{
    yoke_node *inputs[4] = {x, target}, *node;
    uint32_t count = 2;
    char *name;

    for (int i = 0; i < 2 && weights; i++)
        if (weights[i])
            inputs[count++] = weights[i];

    name = yki_layer_name(graph, NULL, kinds[kind].name);
    node = yki_node(graph, &yki_op_loss, name, inputs, count, attrs, sizeof *attrs);
    yki_free(name);
    /* For a metric, a label beyond the classes is a miss, whatever it is. */
    if (node && kinds[kind].labels && !kinds[kind].metric &&
        !yki_limit_values(target, 0, x->shape.dim[attrs->rows ? x->shape.rank - 1 : 0],
                          attrs->has_ignore_index ? &attrs->ignore_index : NULL))
        return NULL;
    return node;
}

/* Weighted losses have kernels for classes on the first axis alone. */
static yoke_node *
classes_first(yoke_graph *graph, yoke_node *x)
{
    int32_t axes[YOKE_MAX_RANK] = {x->shape.rank - 1};

    for (int32_t i = 1; i < x->shape.rank; i++)
        axes[i] = i - 1;
    return yoke_transpose(graph, x, axes);
}

static yoke_node *
with_options(yoke_graph *graph, yki_loss_kind kind, yoke_node *x, yoke_node *target,
             const yoke_loss_options *options, size_t size)
{
    yoke_loss_options o = {0};
    yki_loss_attrs attrs = {.kind = (int32_t)kind};

    if (!graph || graph->status != YOKE_OK)
        return NULL;
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (!(o.label_smoothing >= 0 && o.label_smoothing < 1) || !(o.delta >= 0)) {
        yki_graph_fail(graph, kinds[kind].name,
                       o.delta >= 0 ? yki_fail_range_below(YOKE_ERROR_VALUE, "label_smoothing",
                                                           (double)o.label_smoothing, 0, 1)
                                    : yki_fail_range_real(YOKE_ERROR_VALUE, "delta",
                                                          (double)o.delta, 0, FLT_MAX));
        return NULL;
    }
    if (o.axis != 0 && (o.axis != -1 || kind != YKI_LOSS_SOFTMAX_CE)) {
        yki_graph_fail(graph, kinds[kind].name,
                       yki_fail(YOKE_ERROR_VALUE,
                                "axis is %d; must be 0 or, for softmax_cross_entropy, -1", o.axis));
        return NULL;
    }
    if (o.class_weights && !kinds[kind].labels) {
        yki_graph_fail(graph, kinds[kind].name,
                       yki_fail(YOKE_ERROR_VALUE,
                                "class_weights are given; only a cross-entropy of "
                                "labels takes them"));
        return NULL;
    }
    attrs.rows = o.axis == -1 && x && x->shape.rank > 1;
    attrs.class_weights = o.class_weights != NULL;
    attrs.weights = o.weights != NULL;
    if (attrs.rows && (o.class_weights || o.weights)) {
        x = classes_first(graph, x);
        attrs.rows = 0;
    }
    attrs.has_ignore_index = o.has_ignore_index;
    attrs.ignore_index = o.has_ignore_index ? o.ignore_index : 0;
    attrs.label_smoothing = o.label_smoothing;
    attrs.delta = o.delta > 0 ? o.delta : 1;
    return make(graph, kind, x, target, (yoke_node *[]){o.class_weights, o.weights}, &attrs);
}

yoke_node *
yoke_softmax_cross_entropy_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                                 const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_SOFTMAX_CE, x, target, options, size);
}

yoke_node *
yoke_cross_entropy_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                         const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_CE, x, target, options, size);
}

yoke_node *
yoke_binary_cross_entropy_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                                const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_BCE, x, target, options, size);
}

yoke_node *
yoke_mean_squared_error_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                              const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_MSE, x, target, options, size);
}

yoke_node *
yoke_l1_loss_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                   const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_L1, x, target, options, size);
}

yoke_node *
yoke_huber_loss_sized(yoke_graph *graph, yoke_node *x, yoke_node *target,
                      const yoke_loss_options *options, size_t size)
{
    return with_options(graph, YKI_LOSS_HUBER, x, target, options, size);
}

yoke_node *
yoke_accuracy(yoke_graph *graph, yoke_node *x, yoke_node *target)
{
    yki_loss_attrs attrs = {.kind = YKI_METRIC_ACCURACY, .k = 1};

    return make(graph, YKI_METRIC_ACCURACY, x, target, NULL, &attrs);
}

yoke_node *
yoke_top_k(yoke_graph *graph, yoke_node *x, yoke_node *target, int32_t k)
{
    yki_loss_attrs attrs = {.kind = YKI_METRIC_TOP_K, .k = k};

    return make(graph, YKI_METRIC_TOP_K, x, target, NULL, &attrs);
}

yoke_node *
yoke_mean_absolute_error(yoke_graph *graph, yoke_node *x, yoke_node *target)
{
    yki_loss_attrs attrs = {.kind = YKI_METRIC_MAE};

    return make(graph, YKI_METRIC_MAE, x, target, NULL, &attrs);
}
