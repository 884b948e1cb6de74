/* SPDX-License-Identifier: Apache-2.0
 *
 * clblast.c - matrix products by CLBlast. It is the one file of lib/op that knows
 * OpenCL.
 *
 * How it fits in:
 *
 *  - One path. CLBlast switches between two kernels by the product of the sizes, so the
 *    bits of a sample could depend on the batch. XGEMM_MIN_INDIRECT_SIZE 0 pins the
 *    kernel for large sizes, whose tiles are padded: every element is the same chain of
 *    multiply-adds wherever it is, at any number of rows.
 *  - Nothing is allocated in a step: the padded copies are in yoke's scratch memory.
 *  - Parameters belong to a device for the whole process, in CLBlast's tables. Each recipe
 *    has a set. It is made CLBlast's before the call, if another one is there, under a lock
 *    that also covers the call. Changing sets costs a build (seconds), so the planner uses
 *    one set for a device.
 *  - Kernels are built when a plan is made (`prepare`), never in a step.
 *
 * Products with several axes (samples on both sides, broadcast matrices) are left to
 * other solvers: CLBlast's batched routines cannot use yoke's scratch memory.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/cl.h"

#include <clblast_c.h>

#include "op/matmul/matmul.h"

enum {
    CLBLAST_VALUES = 16, /* parameters of CLBlast's kernel "Xgemm" */
    MAX_CHOICES = 5,
    MAX_TILE = 128, /* the largest MWG, NWG */
    MAX_KWG = 32,
    MAX_VECTOR = 16,
    MAX_DEVICES = 64,
    SAMPLES = 512, /* elements of a product that are compared */
    RUNS = 5,
    MOST_TOGETHER = 64, /* runs that are timed together */
    OWN_GROUP = 256 /* work-items of a group, in its own parameters and in the kernels that copy */
};

#define LONG_ENOUGH 2e-3 /* seconds, to be timed */

/* ---- sets of parameters ----
 *
 * There is no list of sets for known devices: seeds are common starting points, and a search goes
 * on from them by changing one value at a time. */

/* The parameters that are searched. GEMMK and KREG stay 0 and 1, which select CLBlast's first
 * kernel. */
typedef enum parameter {
    MWG,   /* rows of a work-group's tile */
    NWG,   /* columns of the tile */
    KWG,   /* terms at a time */
    MDIMC, /* work-items over rows and columns of the tile */
    NDIMC,
    MDIMA, /* the same, while loading A and B */
    NDIMB,
    KWI, /* unrolling of the inner loop */
    VWM, /* vector widths */
    VWN,
    STRM, /* strided or contiguous items */
    STRN,
    SA, /* whether A and B pass through local memory */
    SB,
    PARAMETERS
} parameter;

/* For each parameter, the index of its value. */
typedef struct parameter_set {
    uint8_t choice[PARAMETERS];
} parameter_set;

/* The number that stands for CLBlast's own parameters for the device. It is valid only while no
 * other set was used. */
#define OWN 0xffffffffu

static const struct {
    const char *name;
    uint8_t bits; /* in the number of a set */
    uint8_t choices;
    uint8_t values[MAX_CHOICES];
} parameters[PARAMETERS] = {
    [MWG] = {"MWG", 2, 4, {16, 32, 64, 128}},
    [NWG] = {"NWG", 2, 4, {16, 32, 64, 128}},
    [KWG] = {"KWG", 1, 2, {16, 32}},
    [MDIMC] = {"MDIMC", 2, 4, {4, 8, 16, 32}},
    [NDIMC] = {"NDIMC", 2, 4, {4, 8, 16, 32}},
    [MDIMA] = {"MDIMA", 2, 4, {4, 8, 16, 32}},
    [NDIMB] = {"NDIMB", 2, 4, {4, 8, 16, 32}},
    [KWI] = {"KWI", 1, 2, {2, 8}},
    [VWM] = {"VWM", 3, 5, {1, 2, 4, 8, 16}},
    [VWN] = {"VWN", 3, 5, {1, 2, 4, 8, 16}},
    [STRM] = {"STRM", 1, 2, {0, 1}},
    [STRN] = {"STRN", 1, 2, {0, 1}},
    [SA] = {"SA", 1, 2, {0, 1}},
    [SB] = {"SB", 1, 2, {0, 1}},
};

static unsigned
encode(const parameter_set *set)
{
    unsigned tuning = 0;

    for (int i = PARAMETERS; i-- > 0;)
        tuning = tuning << parameters[i].bits | set->choice[i];
    return tuning;
}

/* Turns a number into a set. Returns false if no set has that number. */
static bool
decode(unsigned tuning, parameter_set *set)
{
    for (int i = 0; i < PARAMETERS; i++) {
        set->choice[i] = (uint8_t)(tuning & ((1u << parameters[i].bits) - 1));
        tuning >>= parameters[i].bits;
        if (set->choice[i] >= parameters[i].choices)
            return false;
    }
    return tuning == 0;
}

static unsigned
value_of(const parameter_set *set, parameter which)
{
    return parameters[which].values[set->choice[which]];
}

/* Returns whether CLBlast's own rules allow the set, and it fits the device. */
static bool
fits(const parameter_set *set, const yki_device_traits *traits)
{
    unsigned mwg = value_of(set, MWG), nwg = value_of(set, NWG);
    unsigned kwg = value_of(set, KWG), mdimc = value_of(set, MDIMC);
    unsigned ndimc = value_of(set, NDIMC), mdima = value_of(set, MDIMA);
    unsigned ndimb = value_of(set, NDIMB), vwm = value_of(set, VWM);
    unsigned vwn = value_of(set, VWN), items = mdimc * ndimc;
    unsigned local = 4 * kwg * (value_of(set, SA) * mwg + value_of(set, SB) * nwg);

    /* The rules of CLBlast's tuner: every loop of the kernel must have whole iterations. */
    return kwg % value_of(set, KWI) == 0 && mwg % (mdimc * vwm) == 0 && nwg % (ndimc * vwn) == 0 &&
           mwg % (mdima * vwm) == 0 && nwg % (ndimb * vwn) == 0 && items % mdima == 0 &&
           items % ndimb == 0 && kwg % (items / mdima) == 0 && kwg % (items / ndimb) == 0 &&
           items <= traits->max_group && local <= traits->local_memory;
}

static bool
valid(unsigned tuning, const yki_device_traits *traits)
{
    parameter_set set;

    return decode(tuning, &set) && fits(&set, traits);
}

static void
describe(unsigned tuning, char *text, size_t size)
{
    parameter_set set;
    size_t used = 0;

    text[0] = '\0';
    if (!decode(tuning, &set))
        return;
    for (int i = 0; i < PARAMETERS && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s=%u", i ? " " : "",
                                 parameters[i].name, value_of(&set, (parameter)i));
}

/* A number from values: MWG NWG KWG MDIMC NDIMC MDIMA NDIMB KWI VWM VWN STRM STRN SA SB, each as
 * an index into the table above. */
#define SEED(mwg, nwg, kwg, mdimc, ndimc, mdima, ndimb, kwi, vwm, vwn, strm, strn, sa, sb)         \
    ((mwg) | (nwg) << 2 | (kwg) << 4 | (mdimc) << 5 | (ndimc) << 7 | (mdima) << 9 |                \
     (ndimb) << 11 | (kwi) << 13 | (vwm) << 14 | (vwn) << 17 | (strm) << 20 | (strn) << 21 |       \
     (sa) << 22 | (sb) << 23)

static size_t
seeds(const unsigned **tunings)
{
    /* From small tiles and no vectors to large tiles and wide vectors, with and without local
     * memory. From one of them, a search comes near the best set of any device. */
    static const unsigned list[] = {
        SEED(1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1), /* 32 x 32, 8 x 8 work-items */
        SEED(2, 2, 1, 1, 1, 1, 1, 0, 2, 2, 0, 0, 0, 0), /* 64 x 64, vectors of 4 */
        SEED(2, 2, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1), /* the same with local memory */
        SEED(2, 2, 0, 2, 2, 2, 2, 0, 1, 1, 0, 0, 1, 1), /* 64 x 64, 16 x 16 work-items */
        SEED(3, 2, 1, 2, 2, 2, 2, 0, 2, 1, 0, 0, 1, 1), /* 128 x 64, 16 x 16 work-items */
        SEED(3, 3, 0, 2, 2, 2, 2, 0, 2, 2, 0, 0, 1, 1), /* 128 x 128, vectors of 4 */
        SEED(3, 3, 1, 1, 1, 1, 1, 0, 4, 3, 0, 0, 0, 0), /* 128 x 128, vectors of 16 */
    };

    *tunings = list;
    return YKI_COUNT(list);
}

/* Two parameters that are changed together, because one alone seldom gives a valid set. Where both
 * are the same, it is changed alone. */
static const struct {
    parameter a, b;
} moves[] = {
    {VWM, VWM},   {VWN, VWN},   {MWG, MWG},   {NWG, NWG},   {MDIMC, MDIMA}, {NDIMC, NDIMB},
    {SA, SA},     {SB, SB},     {KWG, KWG},   {KWI, KWI},   {MWG, VWM},     {NWG, VWN},
    {MDIMC, VWM}, {NDIMC, VWN}, {STRM, STRM}, {STRN, STRN}, {MDIMA, MDIMA}, {NDIMB, NDIMB},
};

/* Moves a parameter to a neighbouring value, up or down. Sizes are powers of two in order, so
 * several steps reach farther ones. Returns false if there is no such value. */
static bool
step(parameter_set *set, parameter which, int by)
{
    int choice = set->choice[which] + by;

    if (choice < 0 || choice >= (int)parameters[which].choices)
        return false;
    set->choice[which] = (uint8_t)choice;
    return true;
}

static size_t
neighbours(unsigned tuning, unsigned move, unsigned found[YKI_MAX_NEIGHBOURS])
{
    static const int steps[YKI_MAX_NEIGHBOURS][2] = {{1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    parameter a = moves[move].a, b = moves[move].b;
    size_t count = 0;

    for (size_t i = 0; i < (a == b ? 2 : YKI_COUNT(steps)); i++) {
        parameter_set set;

        if (decode(tuning, &set) && step(&set, a, steps[i][0]) &&
            (a == b || step(&set, b, steps[i][1])))
            found[count++] = encode(&set);
    }
    return count;
}

/* ---- what CLBlast keeps for a device ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    cl_device_id device;
    unsigned tuning;
    bool pinned;
} devices[MAX_DEVICES];
static size_t device_count;

static yoke_status
clblast_fail(yki_queue *queue, CLBlastStatusCode code, const char *what)
{
    yki_device_failed(yki_queue_device(queue));
    return yki_fail(code == CLBlastTempBufferAllocFailure ? YOKE_ERROR_OUT_OF_DEVICE_MEMORY
                                                          : YOKE_ERROR_DEVICE,
                    "CLBlast: %s fails with status %d on %s", what, (int)code,
                    yki_device_id(yki_queue_device(queue)));
}

/* Makes CLBlast use a set; `slot` is the device's row. The caller holds the lock. */
static yoke_status
override(yki_queue *queue, size_t slot, unsigned tuning)
{
    const char *names[CLBLAST_VALUES] = {"GEMMK", "KREG"};
    size_t values[CLBLAST_VALUES] = {0, 1};
    parameter_set set;
    CLBlastStatusCode code;

    if (!decode(tuning, &set))
        return yki_fail(YOKE_ERROR_VALUE, "CLBlast: %u is no set of parameters", tuning);
    for (int i = 0; i < PARAMETERS; i++) {
        names[i + 2] = parameters[i].name;
        values[i + 2] = value_of(&set, (parameter)i);
    }
    code = CLBlastOverrideParameters(devices[slot].device, "Xgemm", CLBlastPrecisionSingle,
                                     CLBLAST_VALUES, names, values);
    if (code != CLBlastSuccess)
        return clblast_fail(queue, code, "setting parameters");
    devices[slot].tuning = tuning;
    return YOKE_OK;
}

/* Makes sure that the device's products take the pinned path with the set. The caller holds the
 * lock. */
static yoke_status
use_set(yki_queue *queue, unsigned tuning)
{
    const char *name = "XGEMM_MIN_INDIRECT_SIZE";
    size_t never = 0, slot = 0;
    cl_device_id device;
    cl_int error =
        clGetCommandQueueInfo(yki_queue_raw(queue), CL_QUEUE_DEVICE, sizeof device, &device, NULL);

    if (error != CL_SUCCESS)
        return yki_fail(YOKE_ERROR_DEVICE, "a queue of %s does not know its device: error %d",
                        yki_device_id(yki_queue_device(queue)), error);
    while (slot < device_count && devices[slot].device != device)
        slot++;
    if (slot == MAX_DEVICES)
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "CLBlast: more than %d devices", MAX_DEVICES);
    if (slot == device_count) {
        devices[slot].device = device;
        devices[slot].tuning = OWN;
        devices[slot].pinned = false;
        device_count++;
    }
    if (!devices[slot].pinned) {
        CLBlastStatusCode code = CLBlastOverrideParameters(
            device, "GemmRoutine", CLBlastPrecisionSingle, 1, &name, &never);

        if (code != CLBlastSuccess)
            return clblast_fail(queue, code, "pinning the kernel");
        devices[slot].pinned = true;
    }
    if (devices[slot].tuning == tuning)
        return YOKE_OK;
    /* Once replaced, CLBlast's own set cannot be put back. */
    if (tuning == OWN)
        return yki_fail(YOKE_ERROR_STATE,
                        "CLBlast's own parameters are gone on %s since others were set",
                        yki_device_id(yki_queue_device(queue)));
    return override(queue, slot, tuning);
}

static yoke_status
use(yki_queue *queue, unsigned tuning)
{
    yoke_status status;

    pthread_mutex_lock(&lock);
    status = use_set(queue, tuning);
    pthread_mutex_unlock(&lock);
    return status;
}

static bool
in_force(yki_queue *queue, unsigned *tuning)
{
    cl_device_id device;
    bool found = false;

    if (clGetCommandQueueInfo(yki_queue_raw(queue), CL_QUEUE_DEVICE, sizeof device, &device,
                              NULL) != CL_SUCCESS)
        return false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < device_count; i++)
        if (devices[i].device == device && devices[i].tuning != OWN) {
            *tuning = devices[i].tuning;
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- the call ---- */

typedef struct call_data {
    yki_expr m, k;
    int64_t n, lda, ldb;
    bool transpose_a, transpose_b;
    unsigned tuning;
    uint32_t out, scratch; /* slots */
} call_data;

_Static_assert(sizeof(call_data) <= sizeof((yki_recipe *)0)->call_data, "call_data fits");

static yoke_status
multiply(yki_queue *queue, yki_buffer *const *slots, const call_data *d, size_t m, size_t k)
{
    cl_command_queue raw = yki_queue_raw(queue);
    CLBlastTranspose ta = d->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    CLBlastTranspose tb = d->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    size_t n = (size_t)d->n, lda = (size_t)d->lda, ldb = (size_t)d->ldb, needed = 0;
    CLBlastStatusCode code;

    YKI_TRY(use_set(queue, d->tuning));
    code = CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, ta, tb, m, n, k, 0, lda, 0, ldb, 0, n,
                                      &raw, &needed);
    if (code != CLBlastSuccess)
        return clblast_fail(queue, code, "asking for scratch");
    if (needed > yki_buffer_size(slots[d->scratch]))
        return yki_fail_bug("CLBlast wants %zu bytes of scratch for %zux%zux%zu", needed, m, n, k);
    code = CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, ta, tb, m, n, k, 1.0f,
                                      yki_buffer_raw(slots[0]), 0, lda, yki_buffer_raw(slots[1]), 0,
                                      ldb, 0.0f, yki_buffer_raw(slots[d->out]), 0, n, &raw, NULL,
                                      yki_buffer_raw(slots[d->scratch]));
    if (code != CLBlastSuccess)
        return clblast_fail(queue, code, "a matrix product");
    return YOKE_OK;
}

static yoke_status
run(yki_queue *queue, yki_buffer *const *slots, yki_extents extents, const void *data)
{
    const call_data *d = data;
    int64_t m = yki_expr_value(d->m, extents), k = yki_expr_value(d->k, extents);
    yoke_status status;

    if (m == 0)
        return YOKE_OK;
    if (k == 0) /* CLBlast refuses empty sums */
        return yki_queue_fill(queue, slots[d->out], 0, (uint64_t)(m * d->n) * 4, 0, YKI_NO_WAIT,
                              NULL);
    pthread_mutex_lock(&lock);
    status = multiply(queue, slots, d, (size_t)m, (size_t)k);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Builds by running the product: CLBlast has no other way to build one routine. */
static yoke_status
prepare(yki_queue *queue, yki_buffer *const *slots, yki_extents max, const void *data)
{
    YKI_TRY(run(queue, slots, max, data));
    return yki_queue_finish(queue);
}

static const yki_library_call sgemm = {"CLBlast SGEMM", prepare, run};

/* ---- the solver ---- */

/* Whether the strides are those of a row-major matrix, or of the transpose of one; false:
 * neither. */
static bool
as_matrix(int64_t row, int64_t column, yki_expr rows, yki_expr columns, yki_extents max,
          bool *transpose, int64_t *ld)
{
    *transpose = column != 1;
    *ld = *transpose ? column : row;
    return (column == 1 && row >= yki_expr_value(columns, max)) ||
           (row == 1 && column >= yki_expr_value(rows, max));
}

static bool
find_call(const yki_problem *problem, yki_gemm *g, call_data *d)
{
    yki_extents max = problem->max;

    memset(d, 0, sizeof *d);
    if (!yki_gemm_of(problem, g) || g->outer + g->sum > 0 || g->gate || g->sums)
        return false;
    d->m = g->m;
    d->k = g->k;
    d->n = yki_expr_value(g->n, max);
    d->out = problem->input_count;
    return as_matrix(g->a_m, g->a_k, g->m, g->k, max, &d->transpose_a, &d->lda) &&
           as_matrix(g->b_k, g->b_n, g->k, g->n, max, &d->transpose_b, &d->ldb);
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_gemm g;
    call_data d;

    return traits->max_group >= OWN_GROUP && find_call(problem, &g, &d);
}

static double
work(const yki_problem *problem, char *text, size_t size)
{
    int64_t m, k;
    yki_gemm g;
    call_data d;

    if (!find_call(problem, &g, &d))
        return 0;
    m = yki_expr_value(d.m, problem->max);
    k = yki_expr_value(d.k, problem->max);
    snprintf(text, size, "%lldx%lldx%lld", (long long)m, (long long)d.n, (long long)k);
    return 2.0 * (double)m * (double)d.n * (double)k;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_extents max = problem->max;
    int64_t m, n, k, elements;
    yki_gemm g;
    call_data d;

    if (!find_call(problem, &g, &d))
        return yki_fail_bug("a solver of products was asked for another operator");
    /* All three operands are padded to the largest tile, and each begins at a vector's boundary. */
    m = yki_round_up(yki_expr_value(d.m, max), MAX_TILE);
    n = yki_round_up(d.n, MAX_TILE);
    k = yki_round_up(yki_expr_value(d.k, max), MAX_KWG);
    elements = m * n + m * k + n * k + 4 * MAX_VECTOR;
    yki_recipe_start(recipe, problem);
    d.scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * elements));
    d.tuning = tuning;
    recipe->call = &sgemm;
    memcpy(recipe->call_data, &d, sizeof d);
    yki_gemm_cost(&recipe->call_flops, &recipe->call_bytes, problem, &g);
    if (g.bias || g.relu)
        yki_gemm_emit_finish(recipe, problem, &g, traits, d.out, 1);
    return recipe->status;
}

/* ---- measuring a set ---- */

typedef struct trial {
    yki_queue *queue;
    const yki_problem *problem;
    yki_buffer *buffers[YKI_MAX_INPUTS + 1];
    float *values[YKI_MAX_INPUTS + 1];
    yki_runner *runner;
} trial;

static yoke_status
make_operands(trial *t)
{
    for (uint32_t i = 0; i <= t->problem->input_count; i++) {
        bool is_out = i == t->problem->input_count;
        const yki_operand *operand = is_out ? &t->problem->out : &t->problem->in[i];
        int64_t count = yki_operand_count(operand, t->problem->max);
        uint32_t word = 2463534242u + i; /* xorshift gives numbers without a pattern */

        t->values[i] = yki_alloc((size_t)count, sizeof(float), "a product to check");
        if (!t->values[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
        for (int64_t j = 0; j < count; j++) {
            word ^= word << 13;
            word ^= word >> 17;
            word ^= word << 5;
            t->values[i][j] = (float)(word >> 8) / 8388608.0f - 1;
        }
        YKI_TRY(yki_buffer_create(yki_queue_device(t->queue), (uint64_t)count * 4, 0,
                                  "a product to check", &t->buffers[i]));
        YKI_TRY(yki_buffer_put(t->buffers[i], 0, (uint64_t)count * 4, t->values[i]));
    }
    return YOKE_OK;
}

static double
expected(const trial *t, const yki_gemm *g, int64_t row, int64_t column, int64_t k, double *size)
{
    double sum = 0, terms = 0;

    for (int64_t i = 0; i < k; i++) {
        double a = (double)t->values[0][row * g->a_m + i * g->a_k];
        double term = a * (double)t->values[1][i * g->b_k + column * g->b_n];

        sum += term;
        terms += term * term;
    }
    if (g->bias)
        sum += (double)t->values[2][column];
    *size = sqrt(terms);
    return g->relu && sum < 0 ? 0 : sum;
}

/* Compares a sample of elements, the last row and column among them. */
static yoke_status
check(trial *t, unsigned tuning)
{
    uint32_t out = t->problem->input_count;
    yki_extents max = t->problem->max;
    int64_t m, n, k;
    uint64_t count;
    yki_gemm g;

    if (!yki_gemm_of(t->problem, &g))
        return yki_fail_bug("a solver of products was asked for another operator");
    m = yki_expr_value(g.m, max);
    n = yki_expr_value(g.n, max);
    k = yki_expr_value(g.k, max);
    count = (uint64_t)(m * n);
    YKI_TRY(yki_buffer_get(t->buffers[out], 0, count * 4, t->values[out]));
    for (uint64_t i = 0; i < SAMPLES && i < count; i++) {
        uint64_t at = count <= SAMPLES ? i : count - 1 - i * (count / SAMPLES);
        double size, e = expected(t, &g, (int64_t)at / n, (int64_t)at % n, k, &size);

        if (!(fabs((double)t->values[out][at] - e) <= 1e-5 * size + 1e-6))
            return yki_fail(YOKE_ERROR_VALUE,
                            "CLBlast with parameters %u on %s: element %llu of %lldx%lldx%lld is "
                            "%g, not %g",
                            tuning, yki_device_id(yki_queue_device(t->queue)),
                            (unsigned long long)at, (long long)m, (long long)n, (long long)k,
                            (double)t->values[out][at], e);
    }
    return YOKE_OK;
}

static yoke_status
try_set(trial *t, unsigned tuning, const yki_recipe *recipe, double *seconds)
{
    yki_extents max = t->problem->max;
    double least = 0;
    int together = 1; /* short runs are, as in a plan: the host's wait takes longer than some */

    YKI_TRY(make_operands(t));
    YKI_TRY(yki_runner_create(t->queue, t->problem, recipe, t->buffers, NULL, &t->runner));
    YKI_TRY(yki_runner_enqueue(t->runner, YKI_PHASE_RUN, max, NULL));
    YKI_TRY(yki_queue_finish(t->queue));
    YKI_TRY(check(t, tuning));
    for (int i = 0; i < RUNS; i++) {
        double start = yki_now(), took;

        for (int k = 0; k < together; k++)
            YKI_TRY(yki_runner_enqueue(t->runner, YKI_PHASE_RUN, max, NULL));
        YKI_TRY(yki_queue_finish(t->queue));
        took = (yki_now() - start) / together;
        least = i == 0 ? took : YKI_MIN(least, took);
        if (i == 0 && took > 0)
            together = (int)YKI_MIN(1 + LONG_ENOUGH / took, MOST_TOGETHER);
    }
    *seconds = least;
    return YOKE_OK;
}

static yoke_status
measure(yki_queue *queue, const yki_problem *problem, unsigned tuning, double *seconds)
{
    const yki_device_traits *traits = yki_device_get_traits(yki_queue_device(queue));
    trial t = {.queue = queue, .problem = problem};
    yki_recipe recipe = {.status = YOKE_OK};
    double least = 0;
    yoke_status status = emit(problem, traits, tuning, &recipe);

    if (status == YOKE_OK)
        status = try_set(&t, tuning, &recipe, &least);
    yki_runner_destroy(t.runner);
    for (size_t i = 0; i < YKI_COUNT(t.buffers); i++) {
        yki_buffer_destroy(t.buffers[i]);
        yki_free(t.values[i]);
    }
    yki_recipe_clear(&recipe);
    if (status == YOKE_OK)
        *seconds = least;
    return status;
}

/* ---- the rows ---- */

static const yki_parameter_sets sets = {
    .title = "CLBlast",
    .own = OWN,
    .moves = YKI_COUNT(moves),
    .work = work,
    .seeds = seeds,
    .valid = valid,
    .neighbours = neighbours,
    .describe = describe,
    .measure = measure,
    .use = use,
    .in_force = in_force,
};

static const yki_op *const op = &yki_op_matmul;

const yki_solver yki_solver_gemm_clblast = {
    .name = "gemm-clblast",
    .op = &op,
    .sets = &sets,
    .applies = applies,
    .emit = emit,
};
