/* SPDX-License-Identifier: Apache-2.0
 *
 * lower.c - turns a graph into values and tasks: what a plan for training or for evaluation has
 * to compute, in the graph's order.
 *
 * It takes only nodes that a result depends on, and of a graph with places only those of this
 * member (needed_nodes.c). Views are tasks too, without a solver: a later stage may have to
 * bring their input into the plain layout first.
 */
#include <string.h>

#include "plan/plan.h"

/* Kernels count elements with ints. */
static yoke_status
check_count(const yki_plan *plan, const yki_value *value)
{
    int64_t count = yki_value_count(&value->operand, plan->options.max);

    if (count <= INT32_MAX)
        return YOKE_OK;
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "%s: a batch of %lld has %lld values; must be at most %d; take a smaller "
                    "batch, or accumulate",
                    value->node ? value->node->name : "a value of the plan",
                    (long long)plan->options.max.batch, (long long)count, INT32_MAX);
}

yoke_status
yki_plan_add_value(yki_plan *plan, const yki_value *value, int32_t *index)
{
    YKI_TRY(check_count(plan, value));
    YKI_TRY(yki_grow((void **)&plan->values, &plan->value_capacity, plan->value_count + 1,
                     sizeof *plan->values, "a plan's values"));
    plan->values[plan->value_count] = *value;
    plan->values[plan->value_count].size =
        (uint64_t)yki_value_bytes(&value->operand, plan->options.max);
    *index = (int32_t)plan->value_count++;
    return YOKE_OK;
}

yoke_status
yki_plan_add_task(yki_plan *plan, const yki_task *task)
{
    YKI_TRY(yki_grow((void **)&plan->tasks, &plan->task_capacity, plan->task_count + 1,
                     sizeof *plan->tasks, "a plan's tasks"));
    plan->tasks[plan->task_count++] = *task;
    return YOKE_OK;
}

int32_t
yki_value_root(const yki_plan *plan, int32_t value)
{
    while (plan->values[value].alias >= 0)
        value = plan->values[value].alias;
    return value;
}

/* What a plan has to know of a node besides the node itself; by node id. */
typedef struct role {
    yki_weight *weight;   /* of a parameter or state */
    yki_weight *gradient; /* the parameter whose gradient this node computes; else NULL */
    yki_buffer *lent;     /* the buffer of a value that crosses */
    yki_use use;
} role;

static void
note_weights(const yki_plan *plan, role *roles)
{
    const yki_weights *w = plan->weights;

    for (size_t i = 0; i < w->state_count; i++)
        roles[w->states[i].node->id].weight = &w->states[i];
    for (size_t i = 0; i < w->weight_count; i++) {
        const yoke_node *gradient = w->weights[i].node->gradient;

        roles[w->weights[i].node->id].weight = &w->weights[i];
        /* A gradient that belongs to several parameters goes to the first, and is copied to the
         * others. */
        if (plan->options.training && yki_weights_trains(w, &w->weights[i]) && gradient &&
            gradient->op && !gradient->op->is_view && !roles[gradient->id].gradient &&
            !roles[gradient->id].lent)
            roles[gradient->id].gradient = &w->weights[i];
    }
}

/* Values that cross have buffers that both sides know. A value of another member is given here. */
static void
note_crossings(const yki_plan *plan, role *roles)
{
    const yki_weights *w = plan->weights;
    const yki_crossings *c;

    if (!w->placed)
        return;
    c = &w->placed->crossings[plan->options.training];
    for (size_t i = 0; i < c->count; i++) {
        if (c->list[i].from == w->home)
            roles[c->list[i].node->id].lent = c->list[i].source;
        if (c->list[i].to == w->home)
            roles[c->list[i].node->id].lent = c->list[i].target;
    }
}

static yoke_status
lower_given(yki_plan *plan, const yoke_node *node, const role *its)
{
    yki_value value = {.node = node, .alias = -1};
    const yki_weight *weight = its->weight;
    yki_buffer *lent = weight && weight->value ? weight->value : its->lent;
    /* A bucket that is here has or gets memory elsewhere. */
    const bool apart = weight && node->role == YKI_ROLE_PARAMETER &&
                       yki_weights_has(plan->weights, weight->bucket);

    value.operand = yki_operand_of(node);
    value.decided = true; /* given in the plain layout */
    /* This is false for a weight of another member, which has contents of its own. */
    value.given = node->role == YKI_ROLE_INPUT || (its->use.import && node->op);
    value.storage = node->role == YKI_ROLE_INPUT ? YKI_STORE_INPUT
                    : lent || apart              ? YKI_STORE_LENT
                                                 : YKI_STORE_KEPT;
    value.buffer = lent;
    if (weight && yki_weights_divides(plan->weights, weight)) {
        value.gathered = weight->bucket + 1;
        value.offset = weight->offset;
    }
    return yki_plan_add_value(plan, &value, &plan->node_value[node->id]);
}

/* In a team, later tasks see the merged value. This device's own value stays until the next step,
 * because others may still read it. */
static yoke_status
add_merge(yki_plan *plan, const yoke_node *node, yki_section section, yki_merge merge)
{
    int32_t in = plan->node_value[node->id], out;
    yki_value value = {.node = node,
                       .alias = -1,
                       .storage = plan->values[in].storage,
                       .operand = plan->values[in].operand};
    yki_task task = {.node = node, .section = section};

    plan->unmerged[node->id] = in;
    plan->values[in].storage = YKI_STORE_KEPT;
    YKI_TRY(yki_plan_add_value(plan, &value, &out));
    plan->node_value[node->id] = out;
    task.problem = (yki_problem){.op = &yki_op_merge,
                                 .input_count = 1,
                                 .in = {value.operand},
                                 .out = value.operand,
                                 .max = plan->options.max};
    yki_merge_set(&task.problem.attrs, &merge);
    task.slots[0] = in;
    task.slots[1] = out;
    return yki_plan_add_task(plan, &task);
}

static int32_t
value_for(const yki_plan *plan, const yki_op *op, const yoke_node *input)
{
    int32_t own = plan->unmerged[input->id];

    return op->reads_unmerged && own >= 0 ? own : plan->node_value[input->id];
}

/* Whether differentiation began with this node: its value gets the loss scale. */
static bool
begins_backward(const yki_op *op, const yoke_node *node)
{
    return op == &yki_op_loss_grad ||
           (op == &yki_op_ones && node->backward && node->origin == NULL);
}

/* Multiplies the newest task's result by the loss scale, and lets that be the node's value. */
static yoke_status
add_loss_scale(yki_plan *plan, const yoke_node *node)
{
    yki_task *made = &plan->tasks[plan->task_count - 1];
    const int32_t scaled = plan->node_value[node->id];
    yki_value value = {
        .alias = -1, .storage = YKI_STORE_ARENA, .operand = plan->values[scaled].operand};
    yki_task task = {.node = node, .section = made->section};
    int32_t raw;

    YKI_TRY(yki_plan_add_value(plan, &value, &raw));
    made->slots[made->problem.input_count] = raw;
    task.problem = (yki_problem){.op = &yki_op_loss_scale,
                                 .input_count = 1,
                                 .in = {value.operand},
                                 .out = value.operand,
                                 .max = made->problem.max,
                                 .rows = made->problem.rows};
    task.slots[0] = raw;
    task.slots[1] = scaled;
    return yki_plan_add_task(plan, &task);
}

/* The operator has its products behind the gradient of the loss: it scales that itself. */
static void
scale_inside(yki_task *task)
{
    yki_linear_loss_attrs attrs = yki_linear_loss_attrs_get(&task->problem.attrs);

    attrs.scaled = 1;
    yki_linear_loss_attrs_set(&task->problem.attrs, &attrs);
}

static yoke_status
lower_computed(yki_plan *plan, const yoke_node *node, const role *its)
{
    yki_value value = {.node = node, .alias = -1};
    yki_task task = {.node = node};
    yoke_node *inputs[YKI_MAX_INPUTS];
    const yki_op *op;
    uint32_t count = yki_effective(node, plan->options.training, &op, inputs);

    if (!op) {
        int32_t passed = plan->node_value[inputs[0]->id];

        plan->node_value[node->id] = passed;
        /* A result that is the same value as an input of the node: the value stays. */
        if (its->use.result && plan->values[passed].storage == YKI_STORE_ARENA)
            plan->values[passed].storage = YKI_STORE_KEPT;
        return YOKE_OK;
    }
    task.section = node->backward ? YKI_BACKWARD : YKI_FORWARD;
    task.rounds = yki_precision_of(plan->options.precision, node);
    if (!yki_has_class(op, task.rounds))
        task.rounds = YKI_CLASS_DIRECT;
    yki_problem_of_node(node, plan->options.max, &task.problem);
    task.problem.op = op;
    task.problem.repacks = yki_plan_repacks(plan);
    if (!plan->options.training && op->evaluation_attrs)
        op->evaluation_attrs(&task.problem.attrs);
    yki_problem_set_inputs(&task.problem, inputs, count);
    for (uint32_t k = 0; k < count; k++)
        task.slots[k] = value_for(plan, op, inputs[k]);
    value.operand = yki_operand_of(node);
    if (its->gradient) {
        value.buffer = its->gradient->gradient;
        value.bucket = value.within = its->gradient->bucket + 1;
        value.offset = plan->weights->buckets[its->gradient->bucket].start + its->gradient->offset;
    } else {
        value.buffer = its->lent;
    }
    value.storage = value.buffer || its->gradient ? YKI_STORE_LENT
                    : its->use.result             ? YKI_STORE_KEPT
                                                  : YKI_STORE_ARENA;
    YKI_TRY(yki_plan_add_value(plan, &value, &plan->node_value[node->id]));
    task.slots[count] = plan->node_value[node->id];
    if (plan->options.scales_loss && op == &yki_op_linear_loss_grad)
        scale_inside(&task);
    YKI_TRY(yki_plan_add_task(plan, &task));
    if (plan->options.scales_loss && begins_backward(op, node))
        return add_loss_scale(plan, node);
    if (plan->options.team && op->merge && op->merge(&node->attrs) != YKI_MERGE_NONE)
        return add_merge(plan, node, task.section, op->merge(&node->attrs));
    return YOKE_OK;
}

/* Copies a gradient to its parameter where it is a view, or belongs to another parameter too. */
static yoke_status
copy_stray_gradients(yki_plan *plan)
{
    for (size_t i = 0; plan->options.training && i < plan->weights->weight_count; i++) {
        yki_weight *weight = &plan->weights->weights[i];
        const yoke_node *gradient = weight->node->gradient;
        yki_value value = {.alias = -1,
                           .storage = YKI_STORE_LENT,
                           .buffer = weight->gradient,
                           .bucket = weight->bucket + 1,
                           .within = weight->bucket + 1};
        yki_task task = {.section = YKI_BACKWARD};
        int32_t source, target;

        if (!gradient || weight->node->frozen || !yki_weights_trains(plan->weights, weight))
            continue;
        source = plan->node_value[gradient->id];
        value.offset = plan->weights->buckets[weight->bucket].start + weight->offset;
        if (plan->values[source].bucket == value.bucket &&
            plan->values[source].offset == value.offset)
            continue;
        value.operand = plan->values[source].operand;
        YKI_TRY(yki_plan_add_value(plan, &value, &target));
        task.problem = (yki_problem){.op = &yki_op_reorder,
                                     .input_count = 1,
                                     .in = {value.operand},
                                     .out = value.operand,
                                     .max = plan->options.max};
        task.slots[0] = source;
        task.slots[1] = target;
        YKI_TRY(yki_plan_add_task(plan, &task));
    }
    return YOKE_OK;
}

static yoke_status
lower_node(yki_plan *plan, const yoke_node *node, const role *its)
{
    if (its->use.import || (its->use.own && !node->op))
        return lower_given(plan, node, its);
    return its->use.own ? lower_computed(plan, node, its) : YOKE_OK;
}

/* Notes weights, crossings and uses by node. */
static yoke_status
note_roles(const yki_plan *plan, role *roles)
{
    const yki_weights *w = plan->weights;
    yki_use *uses = yki_alloc(w->graph->node_count, sizeof *uses, "a plan's nodes");

    if (!uses)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_find_uses(w->graph, plan->options.training, w->placed, w->home, uses);
    for (size_t i = 0; i < w->graph->node_count; i++)
        roles[i].use = uses[i];
    yki_free(uses);
    note_crossings(plan, roles);
    note_weights(plan, roles);
    return YOKE_OK;
}

yoke_status
yki_plan_lower(yki_plan *plan)
{
    const yoke_graph *graph = plan->weights->graph;
    role *roles = yki_alloc(graph->node_count, sizeof *roles, "a plan's nodes");
    yoke_status status = YOKE_OK;

    if (!roles)
        return YOKE_ERROR_OUT_OF_MEMORY;
    plan->node_count = graph->node_count;
    plan->node_value = yki_alloc(graph->node_count, sizeof *plan->node_value, "a plan's nodes");
    plan->unmerged = yki_alloc(graph->node_count, sizeof *plan->unmerged, "a plan's nodes");
    if (!plan->node_value || !plan->unmerged) {
        status = YOKE_ERROR_OUT_OF_MEMORY;
        goto done;
    }
    for (size_t i = 0; i < graph->node_count; i++)
        plan->node_value[i] = plan->unmerged[i] = -1;
    status = note_roles(plan, roles);
    for (size_t i = 0; i < graph->node_count && status == YOKE_OK; i++)
        status = lower_node(plan, graph->nodes[i], &roles[i]);
    if (status == YOKE_OK)
        status = copy_stray_gradients(plan);
done:
    yki_free(roles);
    return status;
}
