/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - joins tasks whose solvers have a common one with fewer launches.
 *
 * A batch norm whose x, or whose gradient, a convolution writes gets its statistics or sums from
 * that, in parts, where both solvers know how (yki_solver.with_parts): the launch that reads all of
 * it for the parts is gone. They are added in another order then, so plans with a budget of memory
 * do without, whose bits should not depend on it.
 *
 * The two gradients of a convolution are separate tasks until here, so that each has had the
 * choice of all solvers. Where the solvers that were taken say so (yki_solver.joins), one task
 * takes their place. Some (yki_solver.adds) also add the gradient by another reader of the image,
 * and gate the sum, where that is what comes next: so it is behind the shortcuts of a ResNet. The
 * gradient by the input has the same bits as before; that by the weight may be summed in another
 * number of parts. More memory is in use at a time, so plans that save memory do without, and
 * yki_plan_create makes a plan again without if it does not fit. Nor is it for a stage of a graph,
 * where another member waits for one of the two.
 */
#include "plan/fuse.h"

/* Finds the solver for what two tasks compute. */
static const yki_solver *
common_solver(const yki_task *a, const yki_task *b)
{
    for (const yki_solver *const *s = yki_solvers; *s; s++)
        if ((*s)->joins[0] && (*s)->joins[0] == a->solver && (*s)->joins[1] == b->solver)
            return *s;
    return NULL;
}

static bool
is_other_gradient(const yki_fusion *f, const yki_task *by_input, const yki_task *task)
{
    return task->problem.op == &yki_op_conv2d_grad_weight && task->slots[1] == by_input->slots[0] &&
           yki_is_of_forward(f->plan, task->slots[0]) && common_solver(by_input, task);
}

static bool
suits(const yki_plan *plan, const yki_task *task)
{
    return yki_solver_suits(task->solver, &task->problem, yki_plan_traits(plan, task->solver));
}

/* Writes the recipe of a joined task in the place of its own. */
static yoke_status
write_recipe(const yki_plan *plan, yki_task *task)
{
    return yki_solver_emit(task->solver, &task->problem, yki_plan_traits(plan, task->solver),
                           task->tuning, &task->recipe);
}

/* The same. Returns false if the device has none for it; then nothing has changed. */
static bool
emit(const yki_plan *plan, yki_task *task, yoke_status *status)
{
    if (!suits(plan, task))
        return false;
    *status = write_recipe(plan, task);
    return true;
}

/* Puts a joined task, which has its recipe, in the place of another. */
static void
put(yki_fusion *f, size_t index, const yki_task *task)
{
    yki_recipe_clear(&f->plan->tasks[index].recipe);
    yki_fusion_replace(f, index, task);
    f->plan->joined = true;
}

static void
drop(yki_fusion *f, size_t index)
{
    yki_recipe_clear(&f->plan->tasks[index].recipe);
    yki_fusion_drop(f, index);
}

/* A tuning that was measured to be better than the guess is better than a launch less. */
static yoke_status
join_gradients(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task *task = &plan->tasks[index], joined = *task;
    size_t partner;
    const yki_task *other;
    yoke_status status = YOKE_OK;

    if (yki_plan_hastens(plan) || task->problem.op != &yki_op_conv2d_grad_input ||
        task->section != YKI_BACKWARD || task->problem.input_count != 2 ||
        yki_conv_attrs_get(&task->problem.attrs).act)
        return YOKE_OK;
    partner = yki_fusion_find_near(f, index, is_other_gradient);
    if (partner == 0)
        return YOKE_OK;
    other = &plan->tasks[partner];
    if (task->tuning != 0 || other->tuning != 0)
        return YOKE_OK;
    joined.solver = common_solver(task, other);
    joined.problem.op = *joined.solver->op;
    joined.problem.attrs = other->problem.attrs;
    joined.problem.input_count = 3;
    joined.problem.in[0] = other->problem.in[0];
    joined.problem.in[1] = task->problem.in[0];
    joined.problem.in[2] = task->problem.in[1];
    joined.problem.extra_count = 1;
    joined.problem.extra[0] = other->problem.out;
    joined.slots[0] = other->slots[0];
    joined.slots[1] = task->slots[0];
    joined.slots[2] = task->slots[1];
    joined.slots[3] = yki_task_result(task);
    joined.slots[4] = yki_task_result(other);
    joined.seconds = task->seconds + other->seconds;
    if (!emit(plan, &joined, &status))
        return YOKE_OK;
    drop(f, partner);
    put(f, index, &joined);
    return status;
}

static bool
adds_gradients(const yki_task *task)
{
    const yki_problem *p = &task->problem;

    return yki_is_plain_sum(task) || (p->op == &yki_op_unary_grad && p->input_count == 3 &&
                                      yki_unary_attrs_get(&p->attrs).kind == YKI_UNARY_RELU);
}

/* Returns whether a task behind `index` and before `end` computes the value. */
static bool
is_computed_between(const yki_fusion *f, int32_t value, size_t index, size_t end)
{
    for (size_t t = index + 1; t < end; t++) {
        const yki_task *task = &f->plan->tasks[t];

        f->plan->work++;
        for (uint32_t s = task->problem.input_count;
             !task->dropped && s < yki_problem_operands(&task->problem); s++)
            if (task->slots[s] == value)
                return true;
    }
    return false;
}

/* The sum with another gradient joins, and the gate behind the sum. */
static yoke_status
join_sum(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task *task = &plan->tasks[index], joined = *task;
    yki_conv_attrs attrs = yki_conv_attrs_get(&task->problem.attrs);
    const uint32_t terms = task->problem.input_count, more = task->problem.extra_count;
    const yki_task *sum;
    yoke_status status = YOKE_OK;
    int32_t reader, results[2] = {0};
    uint32_t first, other;
    bool gated;

    if (!task->solver || !task->solver->adds || attrs.act || task->tuning != 0 ||
        (task->problem.op == &yki_op_conv2d_grad_input && terms > 2))
        return YOKE_OK;
    reader = yki_fusion_only_reader(f, yki_task_result(task));
    if (reader < 0 || (size_t)reader > index + YKI_FUSION_NEAR)
        return YOKE_OK;
    sum = &plan->tasks[reader];
    gated = sum->problem.op == &yki_op_unary_grad;
    first = gated ? 1 : 0;
    other = sum->slots[first] == yki_task_result(task) ? first + 1 : first;
    if (!adds_gradients(sum) || sum->section != YKI_BACKWARD || !sum->solver ||
        sum->problem.out.type != task->problem.out.type ||
        is_computed_between(f, sum->slots[other], index, (size_t)reader) ||
        (gated && !yki_is_of_forward(plan, sum->slots[0])))
        return YOKE_OK;
    attrs.act = gated ? YKI_CONV_ACT_GATED_SUM : YKI_CONV_ACT_SUM;
    yki_conv_attrs_set(&joined.problem.attrs, &attrs);
    results[0] = yki_task_result(sum);
    if (more)
        results[1] = task->slots[terms + 1];
    joined.slots[terms] = sum->slots[other];
    joined.problem.in[terms] = sum->problem.in[other];
    joined.slots[terms + 1] = sum->slots[0];
    joined.problem.in[terms + 1] = sum->problem.in[0];
    joined.problem.input_count += gated ? 2 : 1;
    for (uint32_t i = 0; i < 1 + more; i++)
        joined.slots[joined.problem.input_count + i] = results[i];
    joined.seconds = task->seconds + sum->seconds;
    if (!emit(plan, &joined, &status))
        return YOKE_OK;
    if (task->node)
        plan->node_value[task->node->id] = -1;
    drop(f, (size_t)reader);
    put(f, index, &joined);
    return status;
}

/* ---- parts for a batch norm ---- */

enum { MOST_APART = 8 };

/* Returns the task before `index` that writes the value as its first result; -1: none is near. */
static int64_t
writer_near(const yki_fusion *f, size_t index, int32_t value)
{
    for (size_t t = index; t > 0 && t + MOST_APART > index; t--) {
        const yki_task *task = &f->plan->tasks[t - 1];

        f->plan->work++;
        if (!task->dropped && yki_task_result(task) == value)
            return (int64_t)t - 1;
    }
    return -1;
}

static void
insert_operand(yki_task *task, uint32_t at, const yki_operand *operand, int32_t value)
{
    yki_problem *p = &task->problem;

    for (uint32_t k = yki_problem_operands(p); k > at; k--)
        task->slots[k] = task->slots[k - 1];
    for (uint32_t k = p->input_count; k > at; k--)
        p->in[k] = p->in[k - 1];
    task->slots[at] = value;
    p->in[at] = *operand;
    p->input_count++;
}

/* The convolution before a norm as it is with parts: count x rows x channels numbers more. For
 * sums it reads what the norm reads. */
static bool
make_writer(const yki_task *norm, bool is_grad, yki_task *conv)
{
    const yki_bn_attrs bn = yki_bn_attrs_get(&norm->problem.attrs);
    yki_conv_parts_attrs attrs = {.conv = yki_conv_attrs_get(&conv->problem.attrs),
                                  .norm_act = bn.act,
                                  .norm_affine = bn.affine,
                                  .epsilon = bn.epsilon};
    const uint32_t last = is_grad && bn.act != YKI_BN_NONE && bn.affine ? 5 : 3;

    conv->solver = conv->solver->with_parts;
    conv->problem.op = *conv->solver->op;
    yki_conv_parts_attrs_set(&conv->problem.attrs, &attrs);
    for (uint32_t k = 0; is_grad && k < last; k++) {
        if (conv->problem.input_count == YKI_MAX_INPUTS)
            return false;
        if (k != 1) /* the gradient is its own result */
            insert_operand(conv, conv->problem.input_count, &norm->problem.in[k], norm->slots[k]);
    }
    return true;
}

/* Whether the convolution could read in its place what the norm's gradient reads. */
static bool
are_of_forward(const yki_plan *plan, const yki_task *norm)
{
    for (uint32_t k = 0; k < norm->problem.input_count; k++)
        if (k != 1 && !yki_is_of_forward(plan, norm->slots[k]))
            return false;
    return true;
}

static yoke_status
join_norm(yki_fusion *f, size_t index)
{
    yki_plan *plan = f->plan;
    yki_task norm = plan->tasks[index], conv;
    const bool is_grad = norm.problem.op == &yki_op_bn_layer_grad;
    const uint32_t from = is_grad ? 1 : 0, to = is_grad ? 3 : 1;
    yki_operand parts;
    int64_t writer, count;
    int32_t value;

    if ((!is_grad && norm.problem.op != &yki_op_bn_layer) || !norm.solver->with_parts ||
        plan->options.most || (is_grad && !are_of_forward(plan, &norm)))
        return YOKE_OK;
    writer = writer_near(f, index, norm.slots[from]);
    if (writer < 0)
        return YOKE_OK;
    conv = plan->tasks[writer];
    /* Backward has convolutions too: the gradient of a transposed one. They give statistics. */
    if (conv.problem.op != (is_grad ? &yki_op_conv2d_grads : &yki_op_conv2d) || !conv.solver ||
        !conv.solver->with_parts || conv.section != norm.section ||
        !make_writer(&norm, is_grad, &conv))
        return YOKE_OK;
    count = conv.solver->parts(&conv.problem, yki_plan_traits(plan, conv.solver));
    parts =
        (yki_operand){.type = YOKE_F32,
                      .shape = yoke_shape(count, is_grad ? 2 : 3, norm.problem.in[0].shape.dim[0]),
                      .layout = YKI_PLAIN};
    norm.solver = norm.solver->with_parts;
    norm.problem.op = *norm.solver->op;
    insert_operand(&norm, to, &parts, -1);
    conv.problem.extra[conv.problem.extra_count++] = parts;
    if (!suits(plan, &conv) || !suits(plan, &norm))
        return YOKE_OK;
    YKI_TRY(yki_fusion_add_value(f, &parts, &value));
    norm.slots[to] = value;
    conv.slots[yki_problem_operands(&conv.problem) - 1] = value;
    conv.seconds = norm.seconds = 0; /* unknown: one does more now, the other less */
    YKI_TRY(write_recipe(plan, &conv));
    put(f, (size_t)writer, &conv);
    YKI_TRY(write_recipe(plan, &norm));
    put(f, index, &norm);
    return YOKE_OK;
}

yoke_status
yki_plan_join(yki_plan *plan)
{
    yki_fusion f;
    yoke_status status = YOKE_OK;

    if (plan->options.no_fusion || plan->options.no_join || plan->options.small ||
        plan->options.canonical)
        return YOKE_OK;
    YKI_TRY(yki_fusion_begin(&f, plan));
    for (size_t t = 0; t < plan->task_count && status == YOKE_OK; t++) {
        if (plan->tasks[t].dropped)
            continue;
        plan->work++;
        status = join_gradients(&f, t);
        if (status == YOKE_OK)
            status = join_sum(&f, t);
        if (status == YOKE_OK && !plan->tasks[t].dropped)
            status = join_norm(&f, t);
    }
    yki_fusion_end(&f);
    return status;
}
