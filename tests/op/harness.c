/* SPDX-License-Identifier: Apache-2.0
 *
 * harness.c - see harness.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles.h"
#include "support/devices.h"

/* Simulators take minutes for what a device does in milliseconds. */
enum { SIMULATOR_ELEMENTS = 6000, SIMULATOR_FLOPS = 100000, DIFFERENCES = 12, FEW_GRAPHS = 2 };
/* Compilers are slow: only every third test tries what this processor runs only for lack of
 * anything else, and of vectors of other widths, which are the same code with another number, one
 * width in turn. The matrix has other processors. */
enum { FOREIGN_TESTS = 3 };
enum {
    QUICK_ELEMENTS = 1500,
    QUICK_FLOPS = 10000,
    TINY_FLOPS = 100
}; /* there, with YOKE_TEST_QUICK=1 */

typedef struct setup {
    yoke_graph *graph;
    op_check_options options;
    int64_t n;
    double **values; /* by node id */
    yki_step_values step;
    int graphs_before; /* in this test */
    uint64_t *hashes;  /* by node id, of canonical solvers' results; 0: none yet */
} setup;

/* YOKE_TEST_QUICK=1: a second and third look (sanitizers, distcheck) at the same code
 * needs neither every vector width and tuning nor every shape. */
static bool
quick(void)
{
    const char *wanted = getenv("YOKE_TEST_QUICK");

    return wanted && strcmp(wanted, "1") == 0;
}

bool
op_thorough(void)
{
    const char *wanted = getenv("YOKE_TEST_THOROUGH");

    return wanted && strcmp(wanted, "1") == 0;
}

TESTS_SHARE_A_PROCESS

static bool
is_simulator(yki_queue *queue)
{
    return yki_device_get_traits(yki_queue_device(queue))->type == YOKE_DEVICE_ACCELERATOR;
}

/* ---- data ---- */

static void
fill_given(setup *s)
{
    for (size_t i = 0; i < s->graph->node_count; i++) {
        const yoke_node *node = s->graph->nodes[i];
        int64_t count = op_value_count(node, s->n);

        if (node->op)
            continue;
        s->values[i] = calloc((size_t)count + 1, sizeof **s->values);
        for (int64_t k = 0; k < count; k++) {
            double value;

            if (yki_is_constant(node))
                value = (double)((const float *)node->data)[k];
            else if (node->type != YOKE_F32)
                value = floor(op_uniform(s->options.seed, (uint32_t)i, (uint64_t)k) *
                              (s->options.labels ? s->options.labels : 10));
            else if (s->options.whole)
                value = floor(op_uniform(s->options.seed, (uint32_t)i, (uint64_t)k) * 5) - 2;
            else if (s->options.positive)
                value = 0.02 + 0.96 * op_uniform(s->options.seed, (uint32_t)i, (uint64_t)k);
            else
                value = op_normal(s->options.seed, (uint32_t)i, (uint64_t)k) *
                            (s->options.scale > 0 ? (double)s->options.scale : 1) +
                        (strcmp(node->name, "dy") == 0 ? 0 : (double)s->options.offset);
            /* What the device gets, so that rounding the input is no part of the error. */
            s->values[i][k] = (double)(float)value;
        }
    }
}

/* ---- finite differences ---- */

/* Of the values up to the result; those of its gradient stay as they are. */
static double
objective(setup *s, const yoke_node *result, const yoke_node *seed)
{
    double sum = 0;

    op_evaluate(s->graph, result->id + 1, s->n, &s->step, s->values);
    for (int64_t i = 0; i < op_value_count(result, s->n); i++)
        sum += s->values[result->id][i] * (seed ? s->values[seed->id][i] : i % 2 == 0);
    return sum;
}

static void
check_differences(setup *s, const yoke_node *result, const yoke_node *seed)
{
    for (size_t i = 0; i < s->graph->node_count; i++) {
        const yoke_node *node = s->graph->nodes[i];
        int64_t count = op_value_count(node, s->n);
        double *analytic, largest = 0, middle;

        if (node->op || !node->gradient || count == 0)
            continue;
        middle = objective(s, result, seed);
        analytic = malloc((size_t)count * sizeof *analytic);
        memcpy(analytic, s->values[node->gradient->id], (size_t)count * sizeof *analytic);
        for (int64_t k = 0; k < count; k++)
            largest = fmax(largest, fabs(analytic[k]));
        for (int d = 0; d < DIFFERENCES; d++) {
            int64_t k = (int64_t)(op_uniform(s->options.seed, 777, (uint64_t)d) * (double)count);
            double kept = s->values[node->id][k], h = 1e-5, plus, minus, slope, kink;

            s->values[node->id][k] = kept + h;
            plus = objective(s, result, seed);
            s->values[node->id][k] = kept - h;
            minus = objective(s, result, seed);
            s->values[node->id][k] = kept;
            slope = (plus - minus) / (2 * h);
            /* At a kink (relu at 0, a maximum that changes) the sides differ: no slope there. */
            kink = fabs((plus - middle) - (middle - minus)) / h;
            if (kink > 1e-3 * fmax(1, largest))
                continue;
            ck_assert_msg(fabs(slope - analytic[k]) <= 1e-5 * fmax(1, largest) + 1e-6,
                          "gradient of %s at %lld: %g by the rule, %g by differences", node->name,
                          (long long)k, analytic[k], slope);
        }
        free(analytic);
    }
    objective(s, result, seed);
}

/* ---- layouts ---- */

/* Where element (n, index in the sample) lies. */
static int64_t
position(const yki_operand *operand, int64_t n, int64_t index)
{
    int64_t block = YKI_MAX(operand->layout.block, 1u), first = 1, rest, c;

    if (operand->shape.rank > 0)
        first = operand->shape.dim[0];
    rest = yki_shape_count(operand->shape) / first;
    c = index / rest;
    return ((n * ((first + block - 1) / block) + c / block) * rest + index % rest) * block +
           c % block;
}

/* The bytes of an operand for a device; what no element owns is `poison`. */
static void *
to_device(const yki_operand *operand, int64_t n, const double *values, float poison, size_t *size)
{
    int64_t per_sample = yki_shape_count(operand->shape), samples = operand->batched ? n : 1;
    int64_t count = yki_operand_count(operand, (yki_extents){.batch = n});
    size_t element = yki_type_size(operand->type);
    unsigned char *bytes = malloc((size_t)count * element + 1);

    *size = (size_t)count * element;
    for (int64_t i = 0; operand->type == YOKE_F32 && i < count; i++)
        memcpy(bytes + 4 * i, &poison, 4);
    for (int64_t b = 0; b < samples; b++)
        for (int64_t i = 0; i < per_sample; i++) {
            double value = values[b * per_sample + i];
            int64_t at = position(operand, b, i);
            float f = (float)value;
            int32_t integer = (int32_t)value;

            if (operand->type == YOKE_U8)
                bytes[at] = (unsigned char)integer;
            else
                memcpy(bytes + 4 * at, operand->type == YOKE_F32 ? (void *)&f : (void *)&integer,
                       4);
        }
    return bytes;
}

static bool
is_zero(const unsigned char *element)
{
    float value;

    memcpy(&value, element, sizeof value);
    return value == 0;
}

/* Of the elements in the order of the plain layout, wherever they lie. A zero has no sign: some
 * compilers drop a sum with 0. */
static uint64_t
hash_result(const yki_operand *out, int64_t n, const unsigned char *result)
{
    int64_t per_sample = yki_shape_count(out->shape), samples = out->batched ? n : 1;
    size_t element = yki_type_size(out->type);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (int64_t b = 0; b < samples; b++)
        for (int64_t i = 0; i < per_sample; i++) {
            const unsigned char *from = result + (size_t)position(out, b, i) * element;
            bool zero = out->type == YOKE_F32 && is_zero(from);

            for (size_t k = 0; k < element; k++)
                hash = (hash ^ (zero ? 0 : from[k])) * 1099511628211u;
        }
    return hash;
}

/* ---- one solver ---- */

typedef struct trial {
    const setup *s;
    const yoke_node *node;
    const yki_solver *solver;
    yki_problem problem;
    yki_queue *queue;
    yki_buffer *buffers[YKI_MAX_INPUTS + 1];
    yki_runner *runner;
    char text[YKI_PROBLEM_TEXT + 200];
} trial;

/* What an element of a tensor in memory says; a float's NaN stays one. */
static double
value_at(yoke_type type, const unsigned char *bytes, int64_t index)
{
    float f;
    int32_t integer;

    if (type == YOKE_U8)
        return bytes[index];
    memcpy(&f, bytes + 4 * index, 4);
    memcpy(&integer, bytes + 4 * index, 4);
    return type == YOKE_F32 ? (double)f : integer;
}

static unsigned char *
run_once(trial *t, int64_t n)
{
    const yki_operand *out = &t->problem.out;
    size_t element = yki_type_size(out->type);
    int64_t whole = yki_operand_count(out, t->problem.max);
    int64_t used = yki_operand_count(out, (yki_extents){.batch = n});
    size_t size = (size_t)whole * element;
    unsigned char *result = malloc(size + 1), *blank = malloc(size + 4);
    const float poison = nanf("7");

    for (size_t i = 0; i < size; i += 4)
        memcpy(blank + i, &poison, 4);
    ASSERT_OK(yki_buffer_put(t->buffers[t->problem.input_count], 0, size, blank));
    ASSERT_OK(yki_runner_enqueue(t->runner, YKI_PHASE_RUN, (yki_extents){.batch = n}, NULL));
    ASSERT_OK(yki_queue_finish(t->queue));
    ASSERT_OK(yki_buffer_get(t->buffers[t->problem.input_count], 0, size, result));
    /* Not an assertion for each: Check notes every one of them with a system call. */
    for (int64_t i = 0; i < used; i++)
        if (isnan(value_at(out->type, result, i)))
            ck_abort_msg("%s: batch %lld: element %lld of %lld is not a number", t->text,
                         (long long)n, (long long)i, (long long)used);
    for (int64_t i = used; i < whole; i++)
        if (memcmp(result + (size_t)i * element, blank + (size_t)i * element, element) != 0)
            ck_abort_msg("%s: batch %lld: wrote beyond the batch, element %lld", t->text,
                         (long long)n, (long long)i);
    free(blank);
    return result;
}

/* Elements [first, end) of every sample. */
static void
compare_range(trial *t, int64_t n, const unsigned char *result, const double *expected,
              int64_t first, int64_t end)
{
    const yki_operand *out = &t->problem.out;
    int64_t per_sample = yki_shape_count(out->shape), samples = out->batched ? n : 1, at = 0;
    double worst = 0, largest = 0;

    for (int64_t b = 0; b < samples; b++)
        for (int64_t i = first; i < end; i++) {
            double e = expected[b * per_sample + i];
            double got = value_at(out->type, result, position(out, b, i));

            largest = fmax(largest, fabs(e));
            if (!(fabs(got - e) <= worst)) {
                worst = fabs(got - e);
                at = b * per_sample + i;
            }
        }
    ck_assert_msg(worst <= op_tolerance(t->node->op, t->solver->numerical_class) * largest + 1e-30,
                  "%s: batch %lld: off by %g of %g at %lld", t->text, (long long)n, worst, largest,
                  (long long)at);
}

static void
compare(trial *t, int64_t n, const unsigned char *result, const double *expected)
{
    int64_t count = yki_shape_count(t->problem.out.shape), rows = 1;

    if (op_rows_differ(t->node))
        rows = t->problem.out.shape.dim[0];
    for (int64_t r = 0; r < rows; r++)
        compare_range(t, n, result, expected, count / rows * r, count / rows * (r + 1));
}

static void
check_runs(trial *t)
{
    int64_t max = t->problem.max.batch, batches[] = {1, 0, max / 2};
    bool brief = quick() && is_simulator(t->queue);
    size_t batch_count = brief ? 1 : YKI_COUNT(batches);
    yki_class class = t->solver->numerical_class;
    bool rounds = yki_class_rounds(class) && op_find_rounded_row(t->node->op);
    double *rounded =
        rounds ? op_evaluate_rounded(t->node, class, t->s->n, &t->s->step, t->s->values) : NULL;
    const double *expected = rounds ? rounded : t->s->values[t->node->id];
    unsigned char *full = run_once(t, max), *again;
    size_t element = yki_type_size(t->problem.out.type);
    int64_t count = yki_operand_count(&t->problem.out, t->problem.max);

    compare(t, max, full, expected);
    if (t->s->options.canonical) {
        uint64_t hash = hash_result(&t->problem.out, max, full), *known;

        known = &t->s->hashes[t->node->id];
        ck_assert_msg(*known == 0 || *known == hash, "%s: its bits are not those of other solvers",
                      t->text);
        *known = hash;
    }
    again = brief ? NULL : run_once(t, max);
    ck_assert_msg(!again || memcmp(full, again, (size_t)count * element) == 0,
                  "%s: two runs differ", t->text);
    free(again);
    for (size_t i = 0; i < batch_count; i++) {
        unsigned char *part = run_once(t, batches[i]);

        if (t->problem.out.batched)
            ck_assert_msg(memcmp(part, full,
                                 (size_t)yki_operand_count(&t->problem.out,
                                                           (yki_extents){.batch = batches[i]}) *
                                     element) == 0,
                          "%s: the first %lld samples depend on the rest of the batch", t->text,
                          (long long)batches[i]);
        else if (batches[i] == 0) {
            bool from_batch = false;

            for (uint32_t k = 0; k < t->problem.input_count; k++)
                from_batch |= t->problem.in[k].batched;
            for (int64_t k = 0; from_batch && k < count; k++)
                if (value_at(t->problem.out.type, part, k) != 0)
                    ck_abort_msg("%s: the sum over no samples is %g", t->text,
                                 value_at(t->problem.out.type, part, k));
        }
        free(part);
    }
    free(rounded);
    free(full);
}

/* Oclgrind 21 gives the number of a released buffer to the next one but keeps its shadow, of the
 * old size, so that what lies behind counts as uninitialised: on simulators everything is kept
 * until the end. */
typedef struct leftover {
    yki_runner *runner;
    yki_buffer *buffers[YKI_MAX_INPUTS + 2];
} leftover;

static leftover *leftovers;
static size_t leftover_count;

static void
release_leftovers(void)
{
    for (size_t i = 0; i < leftover_count; i++) {
        yki_runner_destroy(leftovers[i].runner);
        for (size_t k = 0; k < YKI_COUNT(leftovers[i].buffers); k++)
            yki_buffer_destroy(leftovers[i].buffers[k]);
    }
    free(leftovers);
    leftovers = NULL;
    leftover_count = 0;
}

/* Takes what a trial used; `keep`: until release_leftovers(). */
static void
finish_trial(const trial *t, yki_buffer *step, bool keep)
{
    leftover *last;

    leftovers = realloc(leftovers, (leftover_count + 1) * sizeof *leftovers);
    ck_assert_ptr_nonnull(leftovers);
    last = &leftovers[leftover_count++];
    memset(last, 0, sizeof *last);
    last->runner = t->runner;
    memcpy(last->buffers, t->buffers, sizeof t->buffers);
    last->buffers[YKI_MAX_INPUTS + 1] = step;
    if (!keep)
        release_leftovers();
}

/* ---- in the short form of the matrix ---- */

/* Adds the text of options. Numbers from 4 on are sizes, and count as one. */
static void
add_options(yki_hash *hash, const char *text)
{
    while (*text) {
        char *end = NULL;
        bool size = *text >= '0' && *text <= '9' && strtol(text, &end, 10) >= 4;

        yki_hash_add(hash, size ? "#" : text, 1);
        text = size ? end : text + 1;
    }
}

/* Whether this is one more time that the same text of kernels, with other sizes, computes the same
 * operation: all but the first, the fourth, the sixteenth time, and so on. */
static bool
only_repeats(const trial *t, const yki_device_traits *traits, unsigned variant,
             const yki_recipe *recipe)
{
    static struct {
        char key[33];
        unsigned count;
    } seen[4096];
    const yki_op *op = t->node->op;
    yki_hash hash;
    char key[33];
    size_t at;
    unsigned count;

    yki_hash_start(&hash);
    yki_hash_string(&hash, t->solver->name);
    yki_hash_string(&hash, op->called ? op->called(&t->node->attrs) : op->name);
    yki_hash_add(&hash, &traits->vector_width, sizeof traits->vector_width);
    yki_hash_add(&hash, &variant, sizeof variant);
    for (size_t i = 0; i < recipe->launch_count; i++) {
        yki_hash_string(&hash, recipe->launches[i].kernel);
        add_options(&hash, recipe->launches[i].options);
    }
    yki_hash_hex(&hash, key);
    for (at = 0; seen[at].count && strcmp(seen[at].key, key) != 0; at++)
        ck_assert_uint_lt(at + 2, YKI_COUNT(seen));
    memcpy(seen[at].key, key, sizeof key);
    count = ++seen[at].count;
    return (count & (count - 1)) || !(count & 0x55555555);
}

static void
run_trial(trial *t, const yki_device_traits *traits, unsigned variant, unsigned tuning)
{
    yki_recipe recipe;
    yki_buffer *step;

    ASSERT_OK(yki_solver_emit(t->solver, &t->problem, traits, tuning, &recipe));
    if (test_in_short() && !t->s->options.canonical && only_repeats(t, traits, variant, &recipe)) {
        yki_recipe_clear(&recipe);
        return;
    }
    for (size_t i = 0; i < recipe.launch_count && t->s->options.plain_units; i++)
        strcat(recipe.launches[i].options, " -DDOT_MMA_PLAIN");
    op_check_arguments(yki_queue_device(t->queue), t->solver, &recipe);
    for (uint32_t i = 0; i <= t->problem.input_count; i++) {
        bool is_out = i == t->problem.input_count;
        const yki_operand *operand = is_out ? &t->problem.out : &t->problem.in[i];
        const yoke_node *node = is_out ? t->node : t->node->inputs[i];
        size_t size;
        void *bytes = to_device(operand, t->problem.max.batch, t->s->values[node->id], 7.5f, &size);

        ASSERT_OK(
            yki_buffer_create(yki_queue_device(t->queue), size, 0, "an operand", &t->buffers[i]));
        ASSERT_OK(yki_buffer_put(t->buffers[i], 0, size, bytes));
        free(bytes);
    }
    ASSERT_OK(yki_buffer_create(yki_queue_device(t->queue), sizeof t->s->step, 0, "step", &step));
    ASSERT_OK(yki_buffer_put(step, 0, sizeof t->s->step, &t->s->step));
    ASSERT_OK(yki_runner_create(t->queue, &t->problem, &recipe, t->buffers, step, &t->runner));
    ASSERT_OK(yki_runner_enqueue(t->runner, YKI_PHASE_PREPARE, t->problem.max, NULL));
    check_runs(t);
    yki_recipe_clear(&recipe);
    finish_trial(t, step, is_simulator(t->queue));
}

static bool
is_tiny(const setup *s, const yoke_node *node)
{
    return node->op->flops && node->op->flops(node) * (double)s->n <= TINY_FLOPS;
}

/* All layouts and widths of a solver, and its tunings; `brief`: leaves out what this processor runs
 * only where it has no other solver. Returns how many were run. */
static unsigned
check_solver(const setup *s, const yoke_node *node, const yki_solver *solver, yki_queue *queue,
             bool brief)
{
    const yki_device_traits *own = yki_device_get_traits(yki_queue_device(queue));
    static const uint32_t widths[] = {0, 8, 4};
    size_t width_count = !quick() ? YKI_COUNT(widths) : is_simulator(queue) ? 2 : 1;
    unsigned runs = 0;

    for (size_t w = 0; w < width_count; w++) {
        yki_device_traits traits = *own;
        bool foreign = own->type == YOKE_DEVICE_CPU && (widths[w] || solver->side_by_side);
        bool fixed = s->options.canonical && solver->canonical == YKI_CANONICAL_FIXED;
        yki_problem problem;

        if (s->options.canonical) {
            if (solver->canonical == YKI_NOT_CANONICAL || (fixed && w > 0))
                continue;
            yki_problem_of_node(node, (yki_extents){.batch = s->n}, &problem);
            if (solver->numerical_class != yki_canonical_class(&problem))
                continue;
            foreign = false;
        }

        if (s->options.plain_units) {
            if (w > 0)
                break;
            foreign = false;
            traits.type = YOKE_DEVICE_GPU;
            traits.bf16 = YKI_DOT_MMA_BF16;
            traits.tf32 = YKI_DOT_MMA_TF32;
            traits.f16 = YKI_DOT_MMA_F16;
            traits.copies_ahead = true;
        } else if (op_thorough())
            foreign = false;
        else if (w > 0 && own->type == YOKE_DEVICE_CPU && s->options.skipped_widths >> (w - 1) & 1)
            continue;
        if (foreign && (brief || (w > 0 && (test_number / FOREIGN_TESTS + w) % 2 == 0)))
            continue;
        if (widths[w] && own->type == YOKE_DEVICE_ACCELERATOR) {
            /* A simulator, which also looks at the kernels for CPUs: 16 and 4 lanes, two units. */
            traits.type = YOKE_DEVICE_CPU;
            traits.vector_width = widths[w] == 8 ? 16 : widths[w];
            traits.compute_units = YKI_MAX(traits.compute_units, 2);
        } else if (widths[w]) {
            /* A CPU that has no vectors takes the kernels of other devices. */
            if (own->type != YOKE_DEVICE_CPU || own->vector_width < 4 ||
                widths[w] == own->vector_width)
                continue;
            traits.vector_width = widths[w];
        }
        if (s->options.canonical)
            yki_canonical_traits(&traits, solver->canonical, &traits);
        for (unsigned variant = 0; !fixed || variant == 0; variant++) {
            trial t = {.s = s, .node = node, .solver = solver, .queue = queue};
            unsigned tunings, tuning = 0;

            yki_problem_of_node(node, (yki_extents){.batch = s->n}, &t.problem);
            if (solver->layouts ? !solver->layouts(&t.problem, &traits, variant) : variant > 0)
                break;
            if (!solver->applies(&t.problem, &traits))
                continue;
            tunings = solver->tunings ? solver->tunings(&t.problem, &traits) : 1;
            /* On simulators two for tiny problems: kernels that only a tuning launches. */
            if (s->options.plain_units)
                tuning = tunings - 1;
            else if (quick())
                tunings = YKI_MIN(tunings, is_simulator(queue) && is_tiny(s, node) ? 2u : 1u);
            if (s->options.canonical && !op_thorough())
                tunings = YKI_MIN(tunings, 2u); /* no tuning changes these bits: two show it */
            if (foreign || fixed)
                tunings = YKI_MIN(tunings, 1u);
            for (; tuning < tunings; tuning++) {
                if (!yki_solver_ends(solver, &t.problem, &traits, tuning))
                    continue;
                size_t used = (size_t)snprintf(
                    t.text, sizeof t.text, "%s on %s, width %u, tuning %u: ", solver->name,
                    yki_device_id(yki_queue_device(queue)), traits.vector_width, tuning);

                yki_problem_text(&t.problem, t.text + used, sizeof t.text - used);
                run_trial(&t, &traits, variant, tuning);
                runs++;
            }
        }
    }
    return runs;
}

static bool
too_large_for_simulator(const setup *s, const yoke_node *node)
{
    int64_t n = s->n, count = op_value_count(node, n);
    double flops = node->op->flops ? node->op->flops(node) * (double)n : 0;

    if (s->options.simulator_flops)
        return flops > (double)s->options.simulator_flops;

    for (uint32_t i = 0; i < node->input_count; i++)
        count += op_value_count(node->inputs[i], n);
    /* What is small but has many products per element takes as long. */
    return count > (quick() ? QUICK_ELEMENTS : SIMULATOR_ELEMENTS) ||
           flops > (quick() ? QUICK_FLOPS : SIMULATOR_FLOPS);
}

static unsigned
check_solvers(const setup *s, const yoke_node *node, yki_queue *queue, bool brief)
{
    unsigned runs = 0;

    for (const yki_solver *const *solver = yki_solvers; *solver; solver++)
        if (*(*solver)->op == node->op &&
            (!(*solver)->sets || (s->options.only && !is_simulator(queue))) &&
            (!(*solver)->emulates || s->options.only) &&
            (!s->options.only || strstr((*solver)->name, s->options.only))) {
            unsigned more = check_solver(s, node, *solver, queue, brief);

            runs += more;
            if (s->options.canonical && (*solver)->canonical == YKI_CANONICAL_FIXED && more > 0)
                break; /* plans take no other */
        }
    return runs;
}

static void
check_on_device(const setup *s, yoke_device *device)
{
    bool simulator;
    yki_queue *queue;

    ASSERT_OK(yki_queue_create(device, false, &queue));
    simulator = is_simulator(queue);
    for (size_t i = 0; i < s->graph->node_count; i++) {
        const yoke_node *node = s->graph->nodes[i];
        unsigned runs = 0;

        if (!node->op || node->op->is_view || (simulator && too_large_for_simulator(s, node)))
            continue;
        if (quick() || s->graphs_before >= FEW_GRAPHS || test_number % FOREIGN_TESTS != 1)
            runs = check_solvers(s, node, queue, true);
        if (runs == 0)
            runs = check_solvers(s, node, queue, false);
        if (s->options.canonical && runs > 0)
            s->options.canonical(node, s->hashes[i]);
        ck_assert_msg(
            runs > 0 || s->options.only ||
                (s->options.may_be_refused && yki_device_get_traits(device)->loop_limit > 0),
            "no solver for %s (%s)", node->name, node->op->name);
    }
    release_leftovers();
    yki_queue_destroy(queue);
}

static yki_device_traits
first_traits(void)
{
    return *yki_device_get_traits(yoke_selection_get(test_selected(), 0));
}

bool
op_on_simulator(void)
{
    return first_traits().type == YOKE_DEVICE_ACCELERATOR;
}

bool
op_attention_is_slow(void)
{
    return !op_thorough() && first_traits().loop_limit > 0;
}

void
op_check_graph(yoke_graph *graph, yoke_node *result, const op_check_options *options)
{
    setup s = {.graph = graph};
    yoke_node *seed = NULL, *also[64];
    size_t also_count = 0;
    static int graphs; /* of this test */
    static unsigned of_test;

    graphs = of_test == test_number ? graphs : 0;
    of_test = test_number;
    s.graphs_before = graphs++;
    if (quick() && s.graphs_before >= FEW_GRAPHS) {
        yoke_graph_destroy(graph);
        return;
    }
    if (options)
        s.options = *options;
    if (!s.options.seed)
        s.options.seed = getenv("YOKE_TEST_SEED") ? (uint32_t)atoi(getenv("YOKE_TEST_SEED")) : 1;
    s.n = s.options.batch ? s.options.batch : 5;
    s.step = (yki_step_values){.step = 3,
                               .seed = {11, 12},
                               .learning_rate = 0.1f,
                               .inverse_count = 0.25f,
                               .clip_scale = 1,
                               .good = 1};
    ASSERT_OK(yoke_graph_status(graph));
    ck_assert_ptr_nonnull(result);
    if (!s.options.no_gradient) {
        for (size_t i = 0; i < graph->node_count; i++)
            if (!graph->nodes[i]->op && graph->nodes[i]->type == YOKE_F32 &&
                graph->nodes[i]->role == YKI_ROLE_INPUT && !graph->nodes[i]->target &&
                !(s.options.targets && strcmp(graph->nodes[i]->name, s.options.targets) == 0) &&
                also_count < YKI_COUNT(also))
                also[also_count++] = graph->nodes[i];
        if (!result->op->is_loss) {
            seed = yoke_input(graph, "dy", YOKE_F32, result->shape);
            ck_assert_ptr_nonnull(seed);
            seed->batched = result->batched;
        }
        ASSERT_OK(
            yki_graph_differentiate_from(graph, op_sum_of_two, result, seed, also, also_count));
    }
    s.values = calloc(graph->node_count, sizeof *s.values);
    s.hashes = calloc(graph->node_count, sizeof *s.hashes);
    fill_given(&s);
    op_evaluate(graph, graph->node_count, s.n, &s.step, s.values);
    if (!s.options.no_gradient && !s.options.no_differences)
        check_differences(&s, result, seed);

    for (size_t i = 0; i < yoke_selection_count(test_selected()); i++)
        check_on_device(&s, yoke_selection_get(test_selected(), i));
    test_selected_leave();
    for (size_t i = 0; i < graph->node_count; i++)
        free(s.values[i]);
    free(s.values);
    free(s.hashes);
    yoke_graph_destroy(graph);
}

void
op_set_relu(yoke_node *conv)
{
    yki_conv_attrs attrs = yki_conv_attrs_get(&conv->attrs);

    attrs.act = YKI_CONV_ACT_RELU;
    yki_conv_attrs_set(&conv->attrs, &attrs);
}
