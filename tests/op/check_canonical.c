/* SPDX-License-Identifier: Apache-2.0
 *
 * check_canonical.c - canonical solvers give the same bits on every device: those that apply agree
 * with one another, in every layout, tuning and vector width, and the bits of each node of many
 * small graphs are those in canonical_bits.h. So one table holds all implementations to one
 * another.
 *
 * That holds for devices that do not promise to round quotients, too: it is tried with sources
 * whose quotients and roots are rough.
 *
 * YOKE_TEST_BITS=FILE appends the rows that are wrong or missing to a file, to be put into the
 * table when an order changes on purpose.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "small_graphs.h"
#include "support/scratch.h"

typedef struct bits_row {
    const char *graph, *node; /* a node has the number of the small graph, or of the case below */
    uint64_t hash;
} bits_row;

static const bits_row bits[] = {
#include "canonical_bits.h"
};

static char graph_name[64];

static void
report(const char *node, uint64_t hash)
{
    const char *path = getenv("YOKE_TEST_BITS");
    FILE *file = path ? fopen(path, "a") : NULL;

    if (!file)
        ck_abort_msg("\"%s\", \"%s\": the bits are 0x%016llx, which is not what the table says",
                     graph_name, node, (unsigned long long)hash);
    fprintf(file, "{\"%s\", \"%s\", 0x%016llx},\n", graph_name, node, (unsigned long long)hash);
    fclose(file);
}

static void
hold_to_table(const yoke_node *node, uint64_t hash)
{
    char name[96];

    snprintf(name, sizeof name, "%u %s", node->id, node->op->name);
    for (size_t i = 0; i < YKI_COUNT(bits); i++)
        if (strcmp(bits[i].graph, graph_name) == 0 && strcmp(bits[i].node, name) == 0) {
            if (bits[i].hash != hash)
                report(name, hash);
            return;
        }
    report(name, hash);
}

/* Kernels whose vectors have another width are the same but for a number, and compile longest where
 * they add up products. Of these some larger graphs below have each width. */
enum { ONLY_OWN_WIDTH = 3 };

static bool
has_larger(const op_small_graph *row)
{
    return strcmp(row->word, "dense") == 0 || strcmp(row->word, "attention") == 0 ||
           (strcmp(row->word, "conv2d") == 0 && strcmp(row->note, "depthwise") != 0);
}

static void
check_small(const op_small_graph *row, unsigned skipped_widths)
{
    bool labels = row->target == OP_LABELS;
    yoke_graph *g;
    yoke_node *x;

    if (strcmp(row->word, "custom") == 0)
        return; /* canonical plans refuse them */
    snprintf(graph_name, sizeof graph_name, "%s%s%s", row->word, *row->note ? " " : "", row->note);
    ASSERT_OK(yoke_graph_create(&g));
    x = op_small_input(g, row);
    op_check_graph(g, row->make(g, x),
                   &(op_check_options){.canonical = hold_to_table,
                                       .no_differences = true,
                                       .no_gradient = row->stops_nan != NULL && row->target,
                                       .positive = strcmp(row->word, "cross_entropy") == 0 ||
                                                   strcmp(row->word, "binary_cross_entropy") == 0,
                                       .skipped_widths = skipped_widths,
                                       .labels = labels ? OP_SMALL_CLASSES : 7,
                                       .targets = "target"});
}

START_TEST(small_graphs_have_their_bits)
{
    const op_small_graph *row = &op_small_graphs[_i];

    if (strcmp(row->word, "attention") != 0) /* which has a test of its own */
        check_small(row, has_larger(row) ? ONLY_OWN_WIDTH : 0);
}
END_TEST

/* ---- larger ones, in which sums are long enough to have another order ---- */

static yoke_node *
floats(yoke_graph *g, yoke_shape shape)
{
    return yoke_input(g, "x", YOKE_F32, shape);
}

static yoke_node *
dense_case(yoke_graph *g)
{
    return yoke_dense(g, floats(g, yoke_shape(67)), &(yoke_dense_options){.units = 41});
}

static yoke_node *
dense_of_rows_case(yoke_graph *g)
{
    return yoke_dense(g, floats(g, yoke_shape(9, 33)), &(yoke_dense_options){.units = 18});
}

/* A sum of more terms than gemm_cpu.c takes at a time. */
static yoke_node *
long_sum_case(yoke_graph *g)
{
    return yoke_dense(g, floats(g, yoke_shape(1300)), &(yoke_dense_options){.units = 3});
}

static yoke_node *
conv_case(yoke_graph *g)
{
    return yoke_relu(
        g, yoke_conv2d(g, floats(g, yoke_shape(19, 7, 6)),
                       &(yoke_conv2d_options){.filters = 21, .kernel = {3, 3}, .pad = {1, 1}}));
}

/* The same with so few filters that Winograd's algorithm would not pay. */
static yoke_node *
direct_conv_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(19, 7, 6)),
                       &(yoke_conv2d_options){.filters = 15, .kernel = {3, 3}, .pad = {1, 1}});
}

/* So small that simulators run it. */
static yoke_node *
one_tile_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(16, 4, 4)),
                       &(yoke_conv2d_options){.filters = 17, .kernel = {3, 3}, .pad = {1, 1}});
}

/* More tiles than winograd_weight.c transforms together, and several blocks of channels. */
static yoke_node *
many_tiles_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(37, 19, 22)),
                       &(yoke_conv2d_options){.filters = 70, .kernel = {3, 3}, .pad = {0, 1}});
}

/* An image of more positions than conv_blocked_weight.cl sums at a time. */
static yoke_node *
wide_conv_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(2, 30, 31)),
                       &(yoke_conv2d_options){.filters = 3, .kernel = {3, 3}, .pad = {1, 1}});
}

/* So many weights that the sum over samples has one part. */
static yoke_node *
many_weights_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(130, 3, 2)),
                       &(yoke_conv2d_options){.filters = 120, .kernel = {3, 3}, .pad = {1, 1}});
}

static yoke_node *
strided_conv_case(yoke_graph *g)
{
    return yoke_conv2d(
        g, floats(g, yoke_shape(5, 9, 9)),
        &(yoke_conv2d_options){.filters = 18, .kernel = {5, 3}, .stride = {2, 2}, .pad = {2, 0}});
}

static yoke_node *
dilated_conv_case(yoke_graph *g)
{
    return yoke_conv2d(
        g, floats(g, yoke_shape(4, 8, 8)),
        &(yoke_conv2d_options){
            .filters = 6, .kernel = {3, 2}, .dilation = {2, 1}, .groups = 2, .pad = {2, 1}});
}

static yoke_node *
pointwise_conv_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(20, 4, 4)),
                       &(yoke_conv2d_options){.filters = 17, .kernel = {1, 1}});
}

/* The last 16 channels of a sum are one: its steps end within them. */
static yoke_node *
strided_pointwise_case(yoke_graph *g)
{
    return yoke_conv2d(
        g, floats(g, yoke_shape(17, 5, 5)),
        &(yoke_conv2d_options){.filters = 20, .kernel = {1, 1}, .stride = {2, 2}, .no_bias = true});
}

static yoke_node *
depthwise_case(yoke_graph *g)
{
    return yoke_conv2d(
        g, floats(g, yoke_shape(6, 8, 8)),
        &(yoke_conv2d_options){.filters = 6, .kernel = {3, 3}, .pad = {1, 1}, .groups = 6});
}

/* One group with one channel and one filter: both depthwise and general solvers could take it. */
static yoke_node *
one_channel_case(yoke_graph *g)
{
    return yoke_conv2d(g, floats(g, yoke_shape(1, 8, 8)),
                       &(yoke_conv2d_options){.filters = 1, .kernel = {3, 3}, .pad = {1, 1}});
}

static yoke_node *
maxpool_case(yoke_graph *g)
{
    return yoke_maxpool2d(g, floats(g, yoke_shape(17, 8, 8)),
                          &(yoke_pool2d_options){.kernel = {2, 2}, .stride = {2, 2}});
}

static yoke_node *
avgpool_case(yoke_graph *g)
{
    return yoke_avgpool2d(g, floats(g, yoke_shape(17, 8, 8)),
                          &(yoke_pool2d_options){.kernel = {2, 2}, .stride = {2, 2}});
}

static yoke_node *
global_avgpool_case(yoke_graph *g)
{
    return yoke_global_avgpool(g, floats(g, yoke_shape(17, 9, 9)));
}

static yoke_node *
softmax_case(yoke_graph *g)
{
    return yoke_softmax(g, floats(g, yoke_shape(3, 131)), 1);
}

static yoke_node *
layer_norm_case(yoke_graph *g)
{
    return yoke_layer_norm(g, floats(g, yoke_shape(7, 68)),
                           &(yoke_layer_norm_options){.axes = 1, .epsilon = 1e-5f});
}

static yoke_node *
attention_case(yoke_graph *g)
{
    return yoke_attention(g, floats(g, yoke_shape(21, 4 * 3 * 8)), NULL,
                          &(yoke_attention_options){.heads = 4, .causal = true});
}

/* More keys than a block has, so that the blocks order the sums. */
static yoke_node *
attention_blocks_case(yoke_graph *g)
{
    return yoke_attention(g, floats(g, yoke_shape(150, (2 + 2) * 8)), NULL,
                          &(yoke_attention_options){.heads = 2, .shared = 1, .causal = true});
}

static yoke_node *
embedding_case(yoke_graph *g)
{
    return yoke_embedding(g, yoke_input(g, "words", YOKE_I32, yoke_shape(40)),
                          &(yoke_embedding_options){.rows = 7, .width = 12});
}

static yoke_node *
logits_case(yoke_graph *g)
{
    return yoke_softmax_cross_entropy(g, floats(g, yoke_shape(131)),
                                      yoke_target(g, "target", YOKE_I32, yoke_shape()), NULL);
}

static yoke_node *
rows_of_logits_case(yoke_graph *g)
{
    return yoke_softmax_cross_entropy(g, floats(g, yoke_shape(9, 37)),
                                      yoke_target(g, "target", YOKE_I32, yoke_shape(37)), NULL);
}

static yoke_node *
mean_case(yoke_graph *g)
{
    return yoke_mean(g, floats(g, yoke_shape(3, 517)), (int32_t[]){1}, 1);
}

static const struct {
    const char *name;
    yoke_node *(*make)(yoke_graph *g);
} cases[] = {
    {"large dense", dense_case},
    {"dense of rows", dense_of_rows_case},
    {"long sum", long_sum_case},
    {"large conv", conv_case},
    {"direct conv", direct_conv_case},
    {"one tile", one_tile_case},
    {"many tiles", many_tiles_case},
    {"wide conv", wide_conv_case},
    {"many weights", many_weights_case},
    {"strided conv", strided_conv_case},
    {"dilated conv", dilated_conv_case},
    {"pointwise conv", pointwise_conv_case},
    {"strided pointwise conv", strided_pointwise_case},
    {"large depthwise", depthwise_case},
    {"one channel", one_channel_case},
    {"large maxpool", maxpool_case},
    {"large avgpool", avgpool_case},
    {"large global_avgpool", global_avgpool_case},
    {"large softmax", softmax_case},
    {"large layer_norm", layer_norm_case},
    {"large embedding", embedding_case},
    {"large logits", logits_case},
    {"rows of logits", rows_of_logits_case},
    {"large mean", mean_case},
};

static void
check_larger(const char *name, yoke_node *(*make)(yoke_graph *g), unsigned skipped_widths)
{
    yoke_graph *g;

    snprintf(graph_name, sizeof graph_name, "%s", name);
    ASSERT_OK(yoke_graph_create(&g));
    op_check_graph(g, make(g),
                   &(op_check_options){.canonical = hold_to_table,
                                       .no_differences = true,
                                       .labels = 7,
                                       .targets = "target",
                                       .skipped_widths = skipped_widths,
                                       .simulator_flops = 500000});
}

/* Beside the processor's own width one other in turn; of convolutions there are many. */
START_TEST(larger_graphs_have_their_bits)
{
    check_larger(cases[_i].name, cases[_i].make, _i % 2 ? 1 : 2);
}
END_TEST

START_TEST(attention_has_its_bits)
{
    SKIP_SLOW_ATTENTION;
    for (size_t i = 0; i < op_small_graph_count; i++)
        if (strcmp(op_small_graphs[i].word, "attention") == 0)
            check_small(&op_small_graphs[i], ONLY_OWN_WIDTH);
}
END_TEST

START_TEST(larger_attention_has_its_bits)
{
    SKIP_SLOW_ATTENTION;
    check_larger("attention in blocks", attention_blocks_case, 0);
    check_larger("large attention", attention_case, 0);
}
END_TEST

/* ---- devices that do not promise to round quotients and roots ---- */

/* Makes the device's own quotients and roots wrong by 1 to 3 units of the last place, by text in
 * front of exact.cl; that of $YOKE_CL_DIR, if it has one. */
static void
make_rough(void)
{
    static const char before[] =
        "#undef YKI_ROUNDED_DIVIDE\n"
        "#define YKI_ROUNDED_DIVIDE 0\n"
        "#define TURNED(T, a) select((T)(0x1.000002p0f), (T)(0x1.fffffcp-1f), fabs(a) < (T)(.7f))\n"
        "#define OWN_QUOTIENT(T, a, b) ((a) / (b) * TURNED(T, (a) / (b)))\n"
        "#define OWN_ROOT(T, a) (sqrt(a) * TURNED(T, a))\n";
    const char *dir = getenv("YOKE_CL_DIR");
    char path[1024], *exact, *text;
    size_t size;

    snprintf(path, sizeof path, "%s/exact.cl", dir ? dir : "");
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/clkernels/exact.cl", getenv("YOKE_SRCDIR"));
    exact = scratch_read(path, &size);
    text = malloc(sizeof before + size);
    size = (size_t)sprintf(text, "%s%s", before, exact);
    scratch_write(scratch_path("exact.cl"), text, size);
    setenv("YOKE_CL_DIR", scratch_dir(), 1);
    free(text);
    free(exact);
}

/* Those of the graphs and cases above that have quotients. */
static const char divide[] =
    ",div,avgpool2d,global_avgpool,softmax,layer_norm,rms_norm,batch_norm,attention,swiglu,sigmoid,"
    "tanh,gelu_tanh,silu,elu,log,sqrt,binary_cross_entropy,softmax_cross_entropy,"
    "linear_cross_entropy,cross_entropy,large global_avgpool,large softmax,large layer_norm,"
    "large logits,rows of logits,";

static bool
divides(const char *name)
{
    char part[64];

    snprintf(part, sizeof part, ",%s,", name);
    return strstr(divide, part) != NULL;
}

/* Whether quotients of the selected devices are put right in any case. */
static bool
are_rough_here(void)
{
    yoke_selection *selection;
    yoke_context *context;
    bool rough = false;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        rough |= !yki_device_get_traits(yoke_selection_get(selection, i))->rounded;
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return rough;
}

/* Small graphs, then larger ones, in the processor's own width: others have the same text. */
START_TEST(rough_quotients_change_no_bits)
{
    const bool small = (size_t)_i < op_small_graph_count;
    const size_t i = (size_t)_i - (small ? 0 : op_small_graph_count);

    if (!divides(small ? op_small_graphs[i].word : cases[i].name) || test_in_short())
        return;
    if (are_rough_here())
        TEST_NOT_HERE("the device promises no rounding, so other tests see this");
    make_rough();
    if (small)
        check_small(&op_small_graphs[i], ONLY_OWN_WIDTH);
    else
        check_larger(cases[i].name, cases[i].make, ONLY_OWN_WIDTH);
    unsetenv("YOKE_CL_DIR");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("canonical");
    TCase *tcase = test_case(suite, "canonical"), *attention = test_case(suite, "attention");
    TCase *rough = test_case(suite, "rough");

    tcase_add_loop_test(tcase, small_graphs_have_their_bits, 0, (int)op_small_graph_count);
    tcase_add_loop_test(tcase, larger_graphs_have_their_bits, 0, (int)YKI_COUNT(cases));
    tcase_add_test(attention, attention_has_its_bits);
    tcase_add_test(attention, larger_attention_has_its_bits);
    tcase_add_checked_fixture(rough, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(rough, rough_quotients_change_no_bits, 0,
                        (int)(op_small_graph_count + YKI_COUNT(cases)));
    return suite;
}
