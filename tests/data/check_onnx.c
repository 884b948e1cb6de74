/* SPDX-License-Identifier: Apache-2.0
 *
 * check_onnx.c - the reader of ONNX: models that the writer's functions compose here; each length
 * in them that is wrong, each prefix of one, and what yoke does not compute are refused with a
 * sentence, and data outside the model's folder are not read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/onnx.h"
#include "fuzz/fuzz.h"
#include "op/ops.h"
#include "support/scratch.h"
#include "support/support.h"

/* ---- models by hand ---- */

enum { GRAPH_NODE = 1, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

/* An attribute: a number, a float, or a list of numbers that ends with END. */
enum { END = -99, MOST_INTS = 8 };
typedef struct attr {
    const char *name;
    int64_t i;
    int64_t ints[MOST_INTS]; /* used where `is_list` */
    bool is_list;
} attr;

static void
add_attr(yki_wire_out *node, const attr *a)
{
    yki_wire_out out = {0};

    yki_wire_put_text(&out, 1, a->name);
    if (a->is_list)
        for (size_t i = 0; i < MOST_INTS && a->ints[i] != END; i++)
            yki_wire_put_int(&out, 8, a->ints[i]);
    else
        yki_wire_put_int(&out, 3, a->i);
    yki_wire_put_int(&out, 20, a->is_list ? 7 : 2);
    yki_wire_put_message(node, 5, &out);
}

/* Adds a node; `in` are names with commas between them. */
static void
add_node(yki_wire_out *graph, const char *op, const char *in, const char *out, const attr *a)
{
    yki_wire_out node = {0};
    char names[200], *name, *rest = names;

    snprintf(names, sizeof names, "%s", in);
    while ((name = strsep(&rest, ",")) != NULL)
        yki_wire_put_text(&node, 1, name);
    yki_wire_put_text(&node, 2, out);
    yki_wire_put_text(&node, 3, "it");
    yki_wire_put_text(&node, 4, op);
    if (a)
        add_attr(&node, a);
    yki_wire_put_message(graph, GRAPH_NODE, &node);
}

static void
add_value(yki_wire_out *graph, uint32_t number, const char *name, int64_t type, const int64_t *dim)
{
    yki_wire_out value = {0}, kind = {0}, tensor = {0}, shape = {0}, size = {0};

    for (; *dim != END; dim++) {
        if (*dim < 0)
            yki_wire_put_text(&size, 2, "N");
        else
            yki_wire_put_int(&size, 1, *dim);
        yki_wire_put_message(&shape, 1, &size);
    }
    yki_wire_put_int(&tensor, 1, type);
    yki_wire_put_message(&tensor, 2, &shape);
    yki_wire_put_message(&kind, 1, &tensor);
    yki_wire_put_text(&value, 1, name);
    yki_wire_put_message(&value, 2, &kind);
    yki_wire_put_message(graph, number, &value);
}

/* Adds floats of this shape, or whole numbers, as bytes. */
static void
add_tensor(yki_wire_out *graph, const char *name, int64_t type, const int64_t *dim,
           const void *data, size_t size)
{
    yki_wire_out tensor = {0};

    for (; *dim != END; dim++)
        yki_wire_put_int(&tensor, 1, *dim);
    yki_wire_put_int(&tensor, 2, type);
    yki_wire_put_text(&tensor, 8, name);
    if (data)
        yki_wire_put_bytes(&tensor, 9, data, size);
    yki_wire_put_message(graph, GRAPH_TENSOR, &tensor);
}

static void
finish_model(yki_wire_out *model, yki_wire_out *graph, int64_t opset)
{
    yki_wire_out set = {0};

    yki_wire_put_int(model, 1, 8);
    yki_wire_put_int(&set, 2, opset);
    yki_wire_put_message(model, 8, &set);
    yki_wire_put_message(model, 7, graph);
}

static const int64_t image[] = {-1, 2, 4, 4, END}, row[] = {-1, 3, END};
static const int64_t square[] = {3, 3, END}, three[] = {3, END};
static const float numbers[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* The input "x" of this shape, and the output "y". */
static yki_wire_out
start_graph(const int64_t *dim)
{
    static const int64_t any[] = {-1, END};
    yki_wire_out graph = {0};

    add_value(&graph, GRAPH_INPUT, "x", 1, dim);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, any);
    return graph;
}

static yoke_status
import(const yki_wire_out *bytes, const char *path)
{
    yki_onnx model;
    yki_onnx_imported made = {0};
    yoke_status status = yki_onnx_parse(bytes->data, bytes->size, path, &model);

    if (status == YOKE_OK)
        status = yki_onnx_import(&model, &made);
    yki_onnx_imported_clear(&made);
    yki_onnx_clear(&model);
    return status;
}

/* Refuses the graph with this sentence, which begins with the file's name. */
static void
refuse(yki_wire_out *graph, yoke_status status, const char *sentence)
{
    yki_wire_out model = {0};

    finish_model(&model, graph, 17);
    ASSERT_REFUSED(status, sentence, import(&model, "m.onnx"));
    ck_assert_msg(strncmp(yoke_last_error(), "m.onnx", 6) == 0, "%s", yoke_last_error());
    yki_wire_clear(&model);
}

/* A model with a weight in each of two layers. */
static yki_wire_out
whole_model(void)
{
    const attr turned = {"transB", 1, {0}, false};
    yki_wire_out graph = start_graph(row), model = {0};

    add_tensor(&graph, "fc.weight", 1, square, numbers, 36);
    add_tensor(&graph, "fc.bias", 1, three, numbers, 12);
    add_node(&graph, "Gemm", "x,fc.weight,fc.bias", "a", &turned);
    add_node(&graph, "Relu", "a", "y", NULL);
    finish_model(&model, &graph, 17);
    return model;
}

/* ---- bytes ---- */

START_TEST(every_prefix)
{
    yki_wire_out model = whole_model();

    ASSERT_OK(import(&model, "m.onnx"));
    for (size_t size = 0; size < model.size; size++) {
        unsigned char *bytes = malloc(size + 1); /* of its own size, so that none beyond is read */
        yki_wire_out prefix = {bytes, size, size, false};

        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, model.data, size);
        ASSERT_REFUSED(YOKE_ERROR_FORMAT, "m.onnx", import(&prefix, "m.onnx"));
        fuzz_onnx(bytes, size);
        free(bytes);
    }
    yki_wire_clear(&model);
}
END_TEST

/* Each byte with each bit turned: refused or accepted, but nothing breaks. */
START_TEST(every_bit)
{
    yki_wire_out model = whole_model();

    for (size_t i = 0; i < 8 * model.size; i++) {
        model.data[i / 8] ^= (unsigned char)(1u << i % 8);
        fuzz_onnx(model.data, model.size);
        model.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    yki_wire_clear(&model);
}
END_TEST

/* The first field of some bytes, and what is left of them. */
START_TEST(fields)
{
    static const struct {
        const char *bytes;
        size_t size, left;
        bool good;
        uint64_t value;
    } rows[] = {
        {"\x08\x05", 2, 0, true, 5},
        {"\x08\xac\x02\x08", 4, 1, true, 300},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 0, true, UINT64_MAX},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, 0, false, 0},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, 0, false, 0},
        {"\x08\x80", 2, 0, false, 0},
        {"\x0a\x02"
         "ab",
         4, 0, true, 0},
        {"\x0a\x02"
         "abc",
         5, 1, true, 0},
        {"\x0a\x03"
         "ab",
         4, 0, false, 0},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
         "ab",
         13, 0, false, 0},
        {"\x0d\x01\x02\x03\x04", 5, 0, true, 0x04030201},
        {"\x0d\x01\x02\x03", 4, 0, false, 0},
        {"\x09\x01\0\0\0\0\0\0\x80", 9, 0, true, 1 | 1ull << 63},
        {"\x09\x01\0\0\0\0\0\0", 8, 0, false, 0},
        {"\x0b\x0c", 2, 0, false, 0}, /* a group */
        {"\x0e\x00", 2, 0, false, 0},
        {"\x00\x00", 2, 0, false, 0}, /* number 0 */
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        unsigned char *bytes = malloc(rows[i].size); /* of its own size */
        yki_wire_span span = {bytes, rows[i].size};
        yki_wire_field field;

        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, rows[i].bytes, rows[i].size);
        ck_assert_msg(yki_wire_next(&span, &field) == rows[i].good, "row %zu", i);
        if (rows[i].good) {
            ck_assert_uint_eq(field.number, 1);
            ck_assert_uint_eq(field.value, rows[i].value);
            ck_assert_uint_eq(span.size, rows[i].left);
        }
        free(bytes);
    }
}
END_TEST

START_TEST(operator_sets)
{
    static const int64_t sets[] = {12, 13, 20, 21};

    for (size_t i = 0; i < YKI_COUNT(sets); i++) {
        yki_wire_out graph = start_graph(row), model = {0};

        add_node(&graph, "Relu", "x", "y", NULL);
        finish_model(&model, &graph, sets[i]);
        if (sets[i] == 12 || sets[i] == 21)
            ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "must be between 13 and 20",
                           import(&model, "m.onnx"));
        else
            ASSERT_OK(import(&model, "m.onnx"));
        yki_wire_clear(&model);
    }
}
END_TEST

START_TEST(wrong_sizes)
{
    static const struct {
        int64_t dim[4];
        size_t size;
        const char *sentence;
    } bad[] = {
        {{3, 3, END}, 35, "has 35 bytes; must have 36"},
        {{3, 3, END}, 40, "has 40 bytes; must have 36"},
        {{3, -3, END}, 36, "has the size -3 in axis 1"},
        {{INT64_MAX, 9, END}, 36, "has the size 9223372036854775807 in axis 0"},
        {{1 << 30, 1 << 30, END}, 36, "has the size 1073741824 in axis 1"},
        {{0, 3, END}, 0, "has no floats"},
    };

    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        yki_wire_out graph = start_graph(row);

        add_tensor(&graph, "w", 1, bad[i].dim, numbers, bad[i].size);
        add_node(&graph, "MatMul", "x,w", "y", NULL);
        refuse(&graph, i == 5 ? YOKE_ERROR_UNSUPPORTED : YOKE_ERROR_FORMAT, bad[i].sentence);
    }
}
END_TEST

/* Graphs in attributes of nodes in graphs: they are not opened. */
START_TEST(deep_nesting)
{
    yki_wire_out graph = start_graph(row), inner = {0}, attribute = {0}, node = {0};

    for (int depth = 0; depth < 2000; depth++) {
        yki_wire_put_text(&attribute, 1, "body");
        yki_wire_put_message(&attribute, 6, &inner);
        yki_wire_put_message(&node, 5, &attribute);
        yki_wire_put_message(&inner, GRAPH_NODE, &node);
    }
    yki_wire_put_text(&node, 1, "x");
    yki_wire_put_text(&node, 2, "y");
    yki_wire_put_text(&node, 4, "Loop");
    yki_wire_put_text(&attribute, 1, "body");
    yki_wire_put_message(&attribute, 6, &inner);
    yki_wire_put_message(&node, 5, &attribute);
    yki_wire_put_message(&graph, GRAPH_NODE, &node);
    refuse(&graph, YOKE_ERROR_UNSUPPORTED, "node 0 (Loop): yoke has no such operator");
}
END_TEST

/* ---- the order of nodes ---- */

START_TEST(order)
{
    static const struct {
        const char *nodes[2][3]; /* operator, inputs, output */
        const char *sentence;
    } bad[] = {
        {{{"Add", "x,b", "a"}, {"Relu", "a", "b"}},
         "node \"it\" (Add): its input \"b\" is made by no node before it"},
        {{{"Relu", "a", "a"}, {"Relu", "a", "y"}}, "its input \"a\" is made by no node before it"},
        {{{"Relu", "gone", "a"}, {"Relu", "a", "y"}}, "its input \"gone\" is missing"},
        {{{"Relu", "x", "y"}, {"Relu", "x", "y"}}, "another value is called \"y\" too"},
        {{{"Relu", "x", "x"}, {"Relu", "x", "y"}}, "another value is called \"x\" too"},
        {{{"Relu", "x", "a"}, {"Relu", "a", "b"}}, "the output \"y\" is made by no node"},
        {{{"Relu", "x,x", "a"}, {"Relu", "a", "y"}}, "it has 2 inputs and 1 outputs"},
    };

    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        yki_wire_out graph = start_graph(row);

        for (int k = 0; k < 2; k++)
            add_node(&graph, bad[i].nodes[k][0], bad[i].nodes[k][1], bad[i].nodes[k][2], NULL);
        refuse(&graph, YOKE_ERROR_UNSUPPORTED, bad[i].sentence);
    }
}
END_TEST

/* ---- layers ---- */

/* Loads a graph that is written to a file. */
static yoke_model *
load(yki_wire_out *graph)
{
    yki_wire_out model = {0};
    yoke_model *m = NULL;

    finish_model(&model, graph, 17);
    scratch_write(scratch_path("m.onnx"), model.data, model.size);
    ASSERT_OK(yoke_model_load_onnx(scratch_path("m.onnx"), &m));
    yki_wire_clear(&model);
    return m;
}

static void
check_values(const yoke_model *m, const char *name, const float *wanted, int64_t count)
{
    float got[16];

    ASSERT_OK(yoke_model_read(m, name, got, count));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(!(got[i] < wanted[i]) && !(got[i] > wanted[i]), "%s[%d] is %g", name, (int)i,
                      (double)got[i]);
}

/* Matrices of (in, units) are turned, and what is added to their product is a bias. */
START_TEST(dense_layers)
{
    static const float turned[6] = {1, 4, 2, 5, 3, 6}, twice[6] = {2, 4, 6, 8, 10, 12};
    static const int64_t wide[] = {-1, 2, END}, matrix[] = {2, 3, END}, high[] = {3, 2, END};
    const attr turn = {"transB", 1, {0}, false};
    yki_wire_out graph = start_graph(wide);
    yoke_model *m;

    add_tensor(&graph, "w", 1, matrix, numbers, 24);
    add_tensor(&graph, "b", 1, three, numbers, 12);
    add_node(&graph, "MatMul", "x,w", "a", NULL);
    add_node(&graph, "Add", "b,a", "y", NULL);
    m = load(&graph);
    ck_assert_uint_eq(yoke_graph_parameter_count(yoke_model_get_graph(m)), 2);
    check_values(m, "w.weight", turned, 6);
    check_values(m, "w.bias", numbers, 3);
    yoke_model_destroy(m);
    graph = start_graph(wide);
    add_tensor(&graph, "fc.weight", 1, high, twice, 24);
    add_node(&graph, "Gemm", "x,fc.weight", "y", &turn);
    m = load(&graph);
    check_values(m, "fc.weight", twice, 6);
    yoke_model_destroy(m);
}
END_TEST

/* What one end of an axis is padded more than the other is joined to the image. */
START_TEST(padding)
{
    static const struct {
        const char *text;
        int64_t kernel, stride, size, pad;
        bool before;
    } rows[] = {
        {"SAME_UPPER", 4, 1, 5, 1, false}, {"SAME_LOWER", 4, 1, 5, 1, true},
        {"SAME_UPPER", 3, 2, 5, 0, false}, {"SAME_UPPER", 3, 1, 4, 1, false},
        {"VALID", 3, 1, 4, 0, false},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const int64_t kernel = rows[i].kernel, dim[] = {1, 2, kernel, kernel, END};
        yki_wire_out graph = start_graph(image), node = {0}, text = {0};
        const yoke_node *conv, *x;
        yki_conv_attrs attrs;
        yoke_model *m;

        add_tensor(&graph, "conv.weight", 1, dim, numbers, (size_t)(8 * kernel * kernel));
        yki_wire_put_text(&node, 1, "x");
        yki_wire_put_text(&node, 1, "conv.weight");
        yki_wire_put_text(&node, 2, "y");
        yki_wire_put_text(&node, 4, "Conv");
        yki_wire_put_text(&text, 1, "auto_pad");
        yki_wire_put_text(&text, 4, rows[i].text);
        yki_wire_put_int(&text, 20, 3);
        yki_wire_put_message(&node, 5, &text);
        add_attr(&node, &(attr){"strides", 0, {rows[i].stride, rows[i].stride, END}, true});
        yki_wire_put_message(&graph, GRAPH_NODE, &node);
        m = load(&graph);
        conv = yoke_graph_get_node(yoke_model_get_graph(m), "conv");
        attrs = yki_conv_attrs_get(&conv->attrs);
        x = conv->inputs[0];
        ck_assert_int_eq(x->shape.dim[2], rows[i].size);
        ck_assert_int_eq(attrs.pad[0], rows[i].pad);
        if (rows[i].size > 4)
            ck_assert_int_eq(x->inputs[0]->op == &yki_op_unary, rows[i].before);
        yoke_model_destroy(m);
    }
}
END_TEST

/* What Resize makes of an image of (2, 4, 4): by scales or by sizes, of all axes; NULL: it has the
 * size (2, 8, 12). */
START_TEST(resized)
{
    static const int64_t four[] = {4, END}, two[] = {2, END};
    static const float scales[] = {1, 1, 2, 3}, part[] = {1, 1, 2, 2.5f}, channels[] = {1, 2, 2, 3};
    static const int64_t sizes[] = {9, 2, 8, 12};
    static const struct {
        const char *mode, *place, *round;
        const void *numbers;
        const char *sentence;
    } rows[] = {
        {"nearest", "asymmetric", "floor", scales, NULL},
        {"nearest", "asymmetric", "floor", sizes, NULL},
        {"nearest", "half_pixel", "round_prefer_floor", scales, NULL},
        {"linear", "pytorch_half_pixel", "floor", sizes, NULL},
        {"linear", "half_pixel", "floor", scales, NULL},
        {"nearest", "asymmetric", "ceil", scales, "it places or rounds pixels otherwise"},
        {"nearest", "half_pixel", "floor", scales, "it places or rounds pixels otherwise"},
        {"linear", "align_corners", "floor", scales, "it places or rounds pixels otherwise"},
        {"cubic", "half_pixel", "floor", scales, "it places or rounds pixels otherwise"},
        {"nearest", "asymmetric", "floor", part, "its factor is 2.5; must be a whole number"},
        {"nearest", "asymmetric", "floor", channels, "along the batch or the channels"},
        {"nearest", "asymmetric", "floor", two, "\"n\" has 2 numbers; must have 4"},
        {"nearest", "asymmetric", "floor", NULL, "it has neither scales nor sizes"},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const bool whole = rows[i].numbers == sizes, short_list = rows[i].numbers == two;
        const char *const names[] = {"mode", "coordinate_transformation_mode", "nearest_mode"};
        const char *const values[] = {rows[i].mode, rows[i].place, rows[i].round};
        yki_wire_out graph = start_graph(image), node = {0};
        yoke_shape shape;
        yoke_model *m;

        if (rows[i].numbers)
            add_tensor(&graph, "n", whole ? 7 : 1, short_list ? two : four,
                       short_list ? (const void *)scales : rows[i].numbers,
                       whole        ? sizeof sizes
                       : short_list ? 8
                                    : sizeof scales);
        yki_wire_put_text(&node, 1, "x");
        for (int k = 0; rows[i].numbers && k < (whole ? 2 : 1); k++)
            yki_wire_put_text(&node, 1, "");
        if (rows[i].numbers)
            yki_wire_put_text(&node, 1, "n");
        yki_wire_put_text(&node, 2, "y");
        yki_wire_put_text(&node, 4, "Resize");
        for (int k = 0; k < 3; k++) {
            yki_wire_out text = {0};

            yki_wire_put_text(&text, 1, names[k]);
            yki_wire_put_text(&text, 4, values[k]);
            yki_wire_put_int(&text, 20, 3);
            yki_wire_put_message(&node, 5, &text);
        }
        yki_wire_put_message(&graph, GRAPH_NODE, &node);
        if (rows[i].sentence) {
            refuse(&graph, YOKE_ERROR_UNSUPPORTED, rows[i].sentence);
            continue;
        }
        m = load(&graph);
        shape = yoke_model_get_graph(m)->outputs[0].node->shape;
        ck_assert(yki_shape_equal(shape, yoke_shape(2, 8, 12)));
        yoke_model_destroy(m);
    }
}
END_TEST

/* ---- operators that are refused ---- */

START_TEST(refused_operators)
{
    static const int64_t shapes[] = {2, END};
    static const struct {
        const int64_t *input;
        const char *op, *in;
        attr a;
        const char *sentence;
    } bad[] = {
        {row, "NonZero", "x", {0}, "node \"it\" (NonZero): yoke has no such operator"},
        {row, "Erf", "x", {0}, "yoke has erf(x) as part of a GELU alone"},
        {row, "Softmax", "x", {"axis", 0, {0}, false}, "it works along the batch"},
        {row, "Softmax", "x", {"axis", 2, {0}, false}, "its axis is 2; must be between -2 and 1"},
        {image,
         "Transpose",
         "x",
         {"perm", 0, {1, 0, 2, 3, END}, true},
         "has the batch in axis 1; must be in the first"},
        {image, "Transpose", "x", {"perm", 0, {0, 1, 1, 3, END}, true}, "is no order of 4 axes"},
        {image, "Flatten", "x", {"axis", 2, {0}, false}, "it joins the batch with other axes"},
        {image, "ReduceMean", "x", {"axes", 0, {0, 1, END}, true}, "it works along the batch"},
        {image, "ReduceMean", "x", {0}, "it sums over all axes, the batch too"},
        {row, "Reshape", "x,shape", {0}, "it leaves no axis for the batch"},
        {row, "Pow", "x,w", {0}, "its exponent is no number"},
        {row, "MatMul", "w,x", {0}, "must have fewer, or 1 as its first size"},
        {row, "Add", "x,shape", {0}, "has whole numbers; must have floats"},
        {row, "Conv", "x,w", {0}, "a sample has 1 axes; must be an image"},
        {image, "Conv", "x,w", {0}, "its weight \"w\" has 2 axes; must have 4"},
        {image, "MaxPool", "x", {"kernel_shape", 0, {0, 2, END}, true}, "are out of range"},
        {image, "MaxPool", "x", {"kernel_shape", 0, {2, END}, true}, "has 1 numbers; must have 2"},
        {image, "MaxPool", "x", {"kernel_shape", 0, {9, 9, END}, true}, "maxpool"},
        {row, "BatchNormalization", "x,w,w,w,w", {0}, "has 9 elements; must have 3 floats"},
        {row, "Gather", "w,x", {0}, "it is no look-up of rows"},
        {row, "Cast", "x", {"to", 7, {0}, false}, "it makes int64 of floats"},
        {row, "Split", "x", {"axis", 1, {0}, false}, ""},
        {row, "Clip", "x,w", {0}, "its bound \"w\" is no number"},
        {row, "Shape", "x", {0}, "does not depend on the data"},
        {row, "Constant", "", {0}, "it has 1 inputs"},
    };

    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        yki_wire_out graph = start_graph(bad[i].input), model = {0};

        add_tensor(&graph, "w", 1, square, numbers, 36);
        add_tensor(&graph, "shape", 7, shapes, "\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0", 16);
        add_node(&graph, bad[i].op, bad[i].in, "y", bad[i].a.name ? &bad[i].a : NULL);
        if (*bad[i].sentence) {
            refuse(&graph, YOKE_ERROR_UNSUPPORTED, bad[i].sentence);
            continue;
        }
        finish_model(&model, &graph, 17);
        ASSERT_OK(import(&model, "m.onnx"));
        yki_wire_clear(&model);
    }
}
END_TEST

START_TEST(refused_inputs)
{
    static const struct {
        int64_t type, dim[5];
        const char *sentence;
    } bad[] = {
        {1, {END}, "has no axes; must have the batch as its first"},
        {1, {-1, 3, -1, END}, "has the size \"N\" in axis 2; must be a number"},
        {9, {-1, 3, END}, "has type bool; must be float, uint8, int32 or int64"},
        {8, {-1, 3, END}, "has type string"},
    };

    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        yki_wire_out graph = {0};

        add_value(&graph, GRAPH_INPUT, "x", bad[i].type, bad[i].dim);
        add_value(&graph, GRAPH_OUTPUT, "y", 1, row);
        add_node(&graph, "Relu", "x", "y", NULL);
        refuse(&graph, YOKE_ERROR_UNSUPPORTED, bad[i].sentence);
    }
}
END_TEST

/* A small file does not get much memory. */
START_TEST(large_constants)
{
    static const int64_t shapes[] = {2, END};
    static const unsigned char large[16] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
    yki_wire_out graph = start_graph(row);

    add_tensor(&graph, "shape", 7, shapes, large, sizeof large);
    add_node(&graph, "ConstantOfShape", "shape", "a", NULL);
    refuse(&graph, YOKE_ERROR_UNSUPPORTED, "its result is too large");
    graph = start_graph(row);
    add_tensor(&graph, "shape", 7, shapes, "\0\0\1\0\0\0\0\0\0\1\0\0\0\0\0", 16);
    add_node(&graph, "ConstantOfShape", "shape", "a", NULL);
    add_node(&graph, "Sqrt", "a", "b", NULL);
    add_node(&graph, "Sqrt", "b", "y", NULL);
    refuse(&graph, YOKE_ERROR_UNSUPPORTED, "its result has 16777216 elements; constants that are");
    graph = start_graph(row);
    add_tensor(&graph, "w", 1, three + 1, numbers, 4);
    add_tensor(&graph, "shape", 7, shapes, "\0\0\1\0\0\0\0\0\0\4\0\0\0\0\0", 16);
    add_node(&graph, "Expand", "w,shape", "y", NULL);
    refuse(&graph, YOKE_ERROR_UNSUPPORTED, "its result has 67108864 elements; constants that are");
}
END_TEST

/* ---- external data ---- */

/* A model whose weight is in a file of this name. */
static void
external_model(const char *location, const char *offset, const char *length, yki_wire_out *model)
{
    const char *const entries[][2] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    yki_wire_out graph = start_graph(row), tensor = {0}, entry = {0};

    for (int i = 0; i < 2; i++)
        yki_wire_put_int(&tensor, 1, 3);
    yki_wire_put_int(&tensor, 2, 1);
    yki_wire_put_text(&tensor, 8, "fc.weight");
    for (size_t i = 0; i < YKI_COUNT(entries); i++) {
        if (!entries[i][1])
            continue;
        yki_wire_put_text(&entry, 1, entries[i][0]);
        yki_wire_put_text(&entry, 2, entries[i][1]);
        yki_wire_put_message(&tensor, 13, &entry);
    }
    yki_wire_put_int(&tensor, 14, 1);
    yki_wire_put_message(&graph, GRAPH_TENSOR, &tensor);
    add_node(&graph, "MatMul", "x,fc.weight", "y", NULL);
    finish_model(model, &graph, 17);
}

START_TEST(external_data)
{
    static const struct {
        const char *location, *offset, *length, *sentence;
    } rows[] = {
        {"w.bin", NULL, NULL, NULL},
        {"inner/w.bin", "4", "36", NULL},
        {"w.bin", "0", "35", "has 35 bytes of external data; must have 36"},
        {"w.bin", "29", "36", "are bytes 29 to 65 of"},
        {"w.bin", "999999999999999999", NULL, "are bytes 999999999999999999 to"},
        {"w.bin", "-4", NULL, "an offset or a length that is no number"},
        {"w.bin", "4x", NULL, "an offset or a length that is no number"},
        {"../w.bin", NULL, NULL, "must be a file inside the model's folder"},
        {"inner/../../w.bin", NULL, NULL, "must be a file inside the model's folder"},
        {"/etc/passwd", NULL, NULL, "must be a file inside the model's folder"},
        {"inner\\w.bin", NULL, NULL, "must be a file inside the model's folder"},
        {"", NULL, NULL, "must be a file inside the model's folder"},
        {NULL, NULL, NULL, "must be a file inside the model's folder"},
        {"out", NULL, NULL, "must be a file inside the model's folder"}, /* a link */
        {"inner", NULL, NULL, "is a folder; must be a file"},
        {"gone.bin", NULL, NULL, "gone.bin, which is not there; get all files of the model"},
    };
    char folder[600], path[700], file[800];

    snprintf(folder, sizeof folder, "%s/model", scratch_dir());
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(file, sizeof file, "%s/inner", folder);
    ck_assert(mkdir(folder, 0777) == 0 && mkdir(file, 0777) == 0);
    scratch_write(scratch_path("w.bin"), numbers, 64);
    snprintf(file, sizeof file, "%s/w.bin", folder);
    scratch_write(file, numbers, 64);
    snprintf(file, sizeof file, "%s/inner/w.bin", folder);
    scratch_write(file, numbers, 64);
    snprintf(file, sizeof file, "%s/out", folder);
    ck_assert_int_eq(symlink("../w.bin", file), 0);
    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        yki_wire_out model = {0};
        yoke_status status;

        external_model(rows[i].location, rows[i].offset, rows[i].length, &model);
        status = import(&model, path);
        if (rows[i].sentence) {
            ck_assert_int_ne(status, YOKE_OK);
            ASSERT_DETAIL(rows[i].sentence);
        } else {
            ck_assert_msg(status == YOKE_OK, "%s", yoke_last_error());
        }
        yki_wire_clear(&model);
    }
}
END_TEST

/* ---- a file ---- */

START_TEST(files)
{
    yki_wire_out model = whole_model();
    yoke_model *m = NULL;
    float weight[9];

    scratch_write(scratch_path("m.onnx"), model.data, model.size);
    ASSERT_OK(yoke_model_load_onnx(scratch_path("m.onnx"), &m));
    ASSERT_OK(yoke_model_read(m, "fc.weight", weight, 9));
    ck_assert_mem_eq(weight, numbers, sizeof weight);
    yoke_model_destroy(m);
    scratch_write(scratch_path("m.onnx"), "\x1f\x8b\x08\0", 4);
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "is compressed by gzip",
                   yoke_model_load_onnx(scratch_path("m.onnx"), &m));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "none.onnx",
                   yoke_model_load_onnx(scratch_path("none.onnx"), &m));
    ASSERT_INVALID(yoke_model_load_onnx(NULL, &m));
    yki_wire_clear(&model);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("onnx");
    TCase *bytes = test_case(suite, "bytes"), *graphs = test_case(suite, "graphs");
    TCase *on_disk = test_case(suite, "files");

    tcase_add_test(bytes, fields);
    tcase_add_test(bytes, every_prefix);
    tcase_add_test(bytes, every_bit);
    tcase_add_test(bytes, operator_sets);
    tcase_add_test(bytes, wrong_sizes);
    tcase_add_test(bytes, deep_nesting);
    tcase_add_test(graphs, order);
    tcase_add_test(graphs, refused_operators);
    tcase_add_test(graphs, refused_inputs);
    tcase_add_test(graphs, large_constants);
    tcase_add_checked_fixture(on_disk, scratch_set_up, scratch_tear_down);
    tcase_add_test(on_disk, dense_layers);
    tcase_add_test(on_disk, padding);
    tcase_add_test(on_disk, resized);
    tcase_add_test(on_disk, external_data);
    tcase_add_test(on_disk, files);
    return suite;
}
