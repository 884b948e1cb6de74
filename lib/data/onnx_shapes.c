/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_shapes.c - imports what moves elements and gives them other shapes. The batch stays the
 * first axis; what would move it is refused.
 */
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

enum { MOST_ROWS = 64 };

/* ---- other shapes of the same elements ---- */

/* Makes a node of the same elements with these sizes, of which -1 is the batch; `joined` elements
 * follow it where they are joined to it. */
static yoke_status
give_shape(yki_onnx_importer *im, yoke_node *x, int64_t joined, int32_t rank, const int64_t *dim)
{
    yki_onnx_batch batch = {0, joined > 1};
    int64_t sizes[YKI_ONNX_RANK + 2];
    int32_t own = 0, found = 0;

    for (int32_t i = 0; i < rank && own < YOKE_MAX_RANK; i++) {
        if (!x->batched || dim[i] != -1) {
            sizes[own++] = dim[i];
            continue;
        }
        batch.at = i;
        found++;
        if (batch.joined)
            sizes[own++] = joined;
    }
    if (found != x->batched || own >= YOKE_MAX_RANK)
        return yki_onnx_refuse(im,
                               "its result has %d axes; must have at most %d, one of them the "
                               "batch",
                               (int)rank, YOKE_MAX_RANK);
    if (x->shape.rank != own || memcmp(x->shape.dim, sizes, (size_t)own * sizeof *sizes) != 0)
        x = yoke_reshape(im->graph, x, yoke_shape_of((size_t)own, sizes));
    return yki_onnx_give_moved(im, x, batch);
}

/* How many elements are joined to the batch of a value. */
static int64_t
joined_to(const yki_onnx_item *item)
{
    return item->batch.joined ? item->node->shape.dim[item->batch.at] : 1;
}

/* The sizes that a Reshape asks for. */
typedef struct target {
    int64_t dim[YKI_ONNX_RANK];
    int32_t rank;
    int32_t batch;  /* the axis that the batch is to be; -1: not known yet */
    int64_t joined; /* how many elements are joined to it; 0: not known yet */
} target;

/* Reads input 1; a size of 0 is that of the input. */
static yoke_status
get_target(yki_onnx_importer *im, target *t)
{
    yki_onnx_item *shape = im->in[1];
    const bool keep_zeros = yki_onnx_get_int(im, "allowzero", 0);
    int64_t in[YKI_ONNX_RANK];
    const int32_t has = yki_onnx_dims(im->in[0], in);
    const bool constant = im->in[0]->kind == YKI_ONNX_CONSTANT;

    YKI_TRY(yki_onnx_numbers(im, shape));
    if (shape->is_float || shape->rank != 1 || shape->count > YKI_ONNX_RANK)
        return yki_onnx_refuse(im, "\"%s\" is no shape; must be a list of at most %d whole numbers",
                               shape->name, YKI_ONNX_RANK);
    *t = (target){.rank = (int32_t)shape->count, .batch = -1};
    for (int32_t i = 0; i < t->rank; i++) {
        const bool batch = shape->batches && shape->batches[i];
        const bool copied = shape->ints[i] == 0 && !keep_zeros && i < has;

        t->dim[i] = copied ? in[i] : shape->ints[i];
        if (!batch && !(copied && !constant && in[i] == -1))
            continue;
        if (t->batch >= 0)
            return yki_onnx_refuse(im, "\"%s\" has the size of the batch twice", shape->name);
        t->batch = i;
        t->joined = batch ? shape->ints[i] : joined_to(im->in[0]);
    }
    return YOKE_OK;
}

/* Which axis is the batch, where the shape does not say it by its size: the one that stays as it is
 * in the file, the one that is left open, or where the batch is now. */
static void
find_batch(const yki_onnx_importer *im, target *t)
{
    const int32_t at = im->in[0]->batch.at;
    const int64_t now = at < t->rank ? t->dim[at] : -1;

    if (t->batch < 0 && im->batch > 0 && now == im->batch * joined_to(im->in[0])) {
        t->batch = at;
        t->joined = joined_to(im->in[0]);
    }
    for (int32_t i = 0; t->batch < 0 && i < t->rank; i++)
        if (t->dim[i] == -1)
            t->batch = i;
    if (t->batch < 0 && im->batch > 0 && now > 0 && now % im->batch == 0) {
        t->batch = at;
        t->joined = now / im->batch;
    }
}

/* Finds what is left open, of `count` elements besides the batch. */
static yoke_status
resolve(yki_onnx_importer *im, int64_t count, target *t)
{
    int64_t product = t->batch >= 0 && t->joined > 0 ? t->joined : 1;
    int64_t *open = t->batch >= 0 && t->joined == 0 ? &t->joined : NULL;

    for (int32_t i = 0; i < t->rank; i++) {
        if (i == t->batch)
            continue;
        if (t->dim[i] == -1 && !open)
            open = &t->dim[i];
        else if (t->dim[i] < 1 || product > INT32_MAX / t->dim[i])
            return yki_onnx_refuse(im, "it asks for the size %lld in axis %d", (long long)t->dim[i],
                                   (int)i);
        else
            product *= t->dim[i];
    }
    if (open)
        *open = count / product;
    if (open ? count % product != 0 : count != product)
        return yki_onnx_refuse(im,
                               "a sample of %lld elements does not get the shape that it asks "
                               "for without a change of the batch",
                               (long long)count);
    return YOKE_OK;
}

static yoke_status
make_reshape(yki_onnx_importer *im)
{
    const yki_onnx_item *item = im->in[0];
    int64_t before = 1, now = 1;
    yoke_node *x;
    target t;

    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    YKI_TRY(get_target(im, &t));
    if (!x->batched) {
        YKI_TRY(resolve(im, yki_shape_count(x->shape), &t));
        return give_shape(im, x, 1, t.rank, t.dim);
    }
    find_batch(im, &t);
    if (t.batch < 0)
        return yki_onnx_refuse(im, "it leaves no axis for the batch; must have one");
    YKI_TRY(resolve(im, yki_shape_count(x->shape), &t));
    /* As many elements stand before the batch as did. */
    for (int32_t i = 0; i < item->batch.at; i++)
        before *= x->shape.dim[i];
    for (int32_t i = 0; i < t.batch; i++)
        now *= t.dim[i];
    if (before != now)
        return yki_onnx_refuse(im, "it joins the batch with axes before it; must not");
    t.dim[t.batch] = -1;
    return give_shape(im, x, t.joined, t.rank, t.dim);
}

static yoke_status
fold_reshape(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];
    target t;

    YKI_TRY(get_target(im, &t));
    if (t.batch >= 0)
        return yki_onnx_refuse(im, "it gives a constant the size of the batch");
    YKI_TRY(resolve(im, x->count, &t));
    return yki_onnx_fold_move(im, x, t.rank, t.dim, NULL);
}

/* All axes from `axis` on become one, and all before it, which must be the batch alone. */
static yoke_status
make_flatten(yki_onnx_importer *im)
{
    const int64_t given = yki_onnx_get_int(im, "axis", 1);
    int32_t axis;
    int64_t before = 1;
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    if (given == x->shape.rank + 1)
        axis = x->shape.rank + 1; /* behind all of them */
    else
        YKI_TRY(yki_onnx_axis(im, given, x->shape.rank + 1, &axis));
    for (int32_t i = 1; i < axis; i++)
        before *= x->shape.dim[i - 1];
    if (!x->batched || axis == 0 || before != 1)
        return yki_onnx_refuse(im, "it joins the batch with other axes; must have the axis 1");
    return yki_onnx_give(im, x->shape.rank == 1 ? x : yoke_flatten(im->graph, x));
}

/* Marks the axes in input 1 or the attribute, of `rank` axes. */
static yoke_status
mark_axes(yki_onnx_importer *im, int32_t rank, bool marked[2 * YKI_ONNX_RANK], size_t *count)
{
    const int64_t *list;
    int32_t axis;

    YKI_TRY(yki_onnx_list(im, 1, "axes", &list, count));
    memset(marked, 0, 2 * YKI_ONNX_RANK * sizeof *marked);
    for (size_t i = 0; i < *count; i++) {
        YKI_TRY(yki_onnx_axis(im, list[i], rank, &axis));
        marked[axis] = true;
    }
    return YOKE_OK;
}

static yoke_status
give_dims(yki_onnx_importer *im, int32_t rank, const int64_t *dim)
{
    yoke_node *x;

    if (im->in[0]->kind == YKI_ONNX_CONSTANT)
        return yki_onnx_fold_move(im, im->in[0], rank, dim, NULL);
    if (im->in[0]->node->type == YOKE_F32)
        YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    return give_shape(im, im->in[0]->node, joined_to(im->in[0]), rank, dim);
}

static yoke_status
make_squeeze(yki_onnx_importer *im)
{
    int64_t in[YKI_ONNX_RANK], dim[YKI_ONNX_RANK];
    const int32_t in_rank = yki_onnx_dims(im->in[0], in);
    bool marked[2 * YKI_ONNX_RANK];
    int32_t rank = 0;
    size_t count;

    YKI_TRY(mark_axes(im, in_rank, marked, &count));
    for (int32_t i = 0; i < in_rank; i++) {
        if (count > 0 && marked[i] && in[i] != 1)
            return yki_onnx_refuse(im, "axis %d has not the size 1; must have", (int)i);
        if (count > 0 ? !marked[i] : in[i] != 1)
            dim[rank++] = in[i];
    }
    return give_dims(im, rank, dim);
}

static yoke_status
make_unsqueeze(yki_onnx_importer *im)
{
    int64_t in[YKI_ONNX_RANK], dim[2 * YKI_ONNX_RANK];
    const int32_t in_rank = yki_onnx_dims(im->in[0], in);
    bool marked[2 * YKI_ONNX_RANK];
    const int64_t *list;
    size_t count;
    int32_t rank, next = 0;

    YKI_TRY(yki_onnx_list(im, 1, "axes", &list, &count));
    if (!list || count > YKI_ONNX_RANK || in_rank + (int32_t)count > YKI_ONNX_RANK)
        return yki_onnx_refuse(im, "its result has more than %d axes", YKI_ONNX_RANK);
    rank = in_rank + (int32_t)count;
    YKI_TRY(mark_axes(im, rank, marked, &count));
    for (int32_t i = 0; i < rank; i++)
        dim[i] = marked[i] || next == in_rank ? 1 : in[next++];
    return give_dims(im, rank, dim);
}

/* ---- transposition ---- */

static yoke_status
get_order(yki_onnx_importer *im, int32_t rank, int32_t order[YKI_ONNX_RANK])
{
    const yki_onnx_attr *perm = yki_onnx_get_attr(im, "perm");
    uint32_t seen = 0;

    for (int32_t i = 0; i < rank; i++) {
        order[i] = rank - 1 - i;
        if (perm && perm->count == (size_t)rank)
            YKI_TRY(yki_onnx_axis(im, perm->ints[i], rank, &order[i]));
        seen |= 1u << order[i];
    }
    if ((perm && perm->count != (size_t)rank) || seen != (1u << rank) - 1)
        return yki_onnx_refuse(im, "\"perm\" is no order of %d axes; must have each once",
                               (int)rank);
    return YOKE_OK;
}

/* The batch may come to another axis, from which a later operator has to bring it back. What is
 * joined to it goes with it. */
static yoke_status
make_transpose(yki_onnx_importer *im)
{
    const yki_onnx_batch from = im->in[0]->batch;
    int32_t order[YKI_ONNX_RANK], axes[YOKE_MAX_RANK + 1] = {0}, own = 0, rank;
    yki_onnx_batch batch = {0, from.joined};
    bool moves = false;
    yoke_node *x;

    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    rank = x->shape.rank + x->batched - from.joined;
    YKI_TRY(get_order(im, rank, order));
    for (int32_t i = 0; i < rank; i++) {
        if (!x->batched || order[i] != from.at) {
            axes[own++] = order[i] - (x->batched && !from.joined && order[i] > from.at);
            continue;
        }
        batch.at = i;
        if (from.joined)
            axes[own++] = from.at;
    }
    for (int32_t i = 0; i < own; i++)
        moves = moves || axes[i] != i;
    return yki_onnx_give_moved(im, moves ? yoke_transpose(im->graph, x, axes) : x, batch);
}

static yoke_status
fold_transpose(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];
    int32_t order[YKI_ONNX_RANK];
    int64_t dim[YKI_ONNX_RANK], step[YKI_ONNX_RANK], *from, index[YKI_ONNX_RANK] = {0}, at = 0;

    YKI_TRY(get_order(im, x->rank, order));
    from = yki_onnx_keep(im->model, (size_t)x->count, sizeof *from);
    if (!from)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int32_t i = 0; i < x->rank; i++) {
        dim[i] = x->dim[order[i]];
        step[i] = 1;
        for (int32_t k = order[i] + 1; k < x->rank; k++)
            step[i] *= x->dim[k];
    }
    for (int64_t i = 0; i < x->count; i++) {
        from[i] = at;
        for (int32_t k = x->rank - 1; k >= 0; k--) {
            at += step[k];
            if (++index[k] < dim[k])
                break;
            at -= step[k] * dim[k];
            index[k] = 0;
        }
    }
    YKI_TRY(yki_onnx_fold_move(im, x, x->rank, dim, from));
    if (x->rank == 2 && order[0] == 1)
        im->out->turned_of = x;
    return YOKE_OK;
}

/* ---- parts ---- */

static yoke_status
make_concat(yki_onnx_importer *im)
{
    yoke_node *parts[YKI_ONNX_MOST_INPUTS], *first = NULL;
    yki_onnx_item *item = NULL;
    int32_t axis;

    for (size_t i = 0; i < im->in_count && !first; i++)
        if (im->in[i] && im->in[i]->kind == YKI_ONNX_NODE && im->in[i]->node->batched)
            YKI_TRY(yki_onnx_node_of(im, item = im->in[i], &first));
    if (!first)
        return yki_onnx_refuse(im, "it joins parameters; must join values of the data");
    YKI_TRY(yki_onnx_node_axis(im, yki_onnx_get_int(im, "axis", 0), item, &axis));
    for (size_t i = 0; i < im->in_count; i++) {
        if (!im->in[i])
            return yki_onnx_refuse(im, "an input is left out; must be there");
        YKI_TRY(yki_onnx_operand(im, im->in[i], first, &parts[i]));
        if (parts[i]->shape.rank != first->shape.rank)
            return yki_onnx_refuse(im, "\"%s\" has other axes than \"%s\"; must have the same",
                                   im->in[i]->name, im->in[0]->name);
    }
    return yki_onnx_give(im, yoke_concat(im->graph, parts, im->in_count, axis));
}

/* Takes a range of an axis of the node. */
static yoke_status
take_range(yki_onnx_importer *im, yoke_node **x, int32_t axis, int64_t begin, int64_t end)
{
    if (begin == 0 && end == (*x)->shape.dim[axis])
        return YOKE_OK;
    *x = yoke_slice(im->graph, *x, axis, begin, end);
    return *x ? YOKE_OK : yki_onnx_refuse(im, "%s", im->graph->detail);
}

/* A place in an axis of `size`: negative ones count from its end. */
static int64_t
place_in(int64_t place, int64_t size)
{
    place = place < 0 ? (place < -size ? 0 : place + size) : place;
    return YKI_MIN(place, size);
}

/* The lists of a Slice: starts, ends, axes and steps. */
static yoke_status
get_slices(yki_onnx_importer *im, int32_t rank, const int64_t *lists[4], size_t *count)
{
    size_t counts[4];

    for (size_t i = 0; i < 4; i++)
        YKI_TRY(yki_onnx_list(im, i + 1, NULL, &lists[i], &counts[i]));
    *count = counts[0];
    for (size_t i = 1; i < 4; i++)
        if (lists[i] ? counts[i] != *count : i == 1)
            return yki_onnx_refuse(im, "its lists have different lengths; must have the same");
    if (*count > (size_t)rank)
        return yki_onnx_refuse(im, "it has more ranges than axes");
    return YOKE_OK;
}

static yoke_status
make_slice(yki_onnx_importer *im)
{
    const yki_onnx_item *item = im->in[0];
    const int64_t *lists[4];
    size_t count;
    yoke_node *x;
    int32_t axis, rank;

    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    rank = x->shape.rank + x->batched - item->batch.joined;
    YKI_TRY(get_slices(im, rank, lists, &count));
    for (size_t i = 0; i < count; i++) {
        int64_t size;

        if (lists[3] && lists[3][i] != 1)
            return yki_onnx_refuse(im, "a step is %lld; must be 1", (long long)lists[3][i]);
        YKI_TRY(yki_onnx_axis(im, lists[2] ? lists[2][i] : (int64_t)i, rank, &axis));
        if (x->batched && axis == item->batch.at && lists[0][i] == 0 && lists[1][i] >= INT32_MAX)
            continue; /* all samples */
        YKI_TRY(yki_onnx_node_axis(im, axis, item, &axis));
        size = x->shape.dim[axis];
        YKI_TRY(take_range(im, &x, axis, place_in(lists[0][i], size), place_in(lists[1][i], size)));
    }
    return yki_onnx_give_moved(im, x, item->batch);
}

/* Where a range of an axis of `size` begins, its step, and how many elements it has. */
static int64_t
count_range(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *begin)
{
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;

    start = start < 0 ? (start < -size ? low : start + size) : start;
    end = end < 0 ? (end < -size ? low : end + size) : end;
    *begin = start = YKI_MIN(YKI_MAX(start, 0), high);
    end = YKI_MIN(YKI_MAX(end, low), high + (step < 0));
    if (step > 0 ? end <= start : end >= start)
        return 0;
    return step > 0 ? (end - start - 1) / step + 1 : (start - end - 1) / -step + 1;
}

static yoke_status
fold_slice(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0];
    int64_t dim[YKI_ONNX_RANK], begin[YKI_ONNX_RANK] = {0}, step[YKI_ONNX_RANK], total = 1, *from;
    const int64_t *lists[4];
    size_t count;
    int32_t axis;

    YKI_TRY(get_slices(im, x->rank, lists, &count));
    memcpy(dim, x->dim, sizeof dim);
    for (int32_t i = 0; i < YKI_ONNX_RANK; i++)
        step[i] = 1;
    for (size_t i = 0; i < count; i++) {
        YKI_TRY(yki_onnx_axis(im, lists[2] ? lists[2][i] : (int64_t)i, x->rank, &axis));
        step[axis] = lists[3] ? lists[3][i] : 1;
        if (step[axis] == 0 || step[axis] < -INT32_MAX || step[axis] > INT32_MAX)
            return yki_onnx_refuse(im, "a step is %lld; must not be", (long long)step[axis]);
        dim[axis] = count_range(x->dim[axis], lists[0][i], lists[1][i], step[axis], &begin[axis]);
    }
    for (int32_t i = 0; i < x->rank; i++)
        total *= dim[i];
    from = yki_onnx_keep(im->model, (size_t)total, sizeof *from);
    if (!from)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, width = 1;

        for (int32_t k = x->rank - 1; k >= 0; k--) {
            from[i] += (begin[k] + rest % dim[k] * step[k]) * width;
            rest /= dim[k];
            width *= x->dim[k];
        }
    }
    return yki_onnx_fold_move(im, x, x->rank, dim, from);
}

/* Parts of the sizes that are given, or equal ones. */
static yoke_status
make_split(yki_onnx_importer *im)
{
    const size_t outputs = im->node->output_count;
    int64_t begin = 0, end, whole, size, equal;
    const int64_t *sizes;
    yoke_node *x, *part;
    yki_onnx_item *out;
    size_t count;
    int32_t axis;

    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    YKI_TRY(yki_onnx_node_axis(im, yki_onnx_get_int(im, "axis", 0), im->in[0], &axis));
    YKI_TRY(yki_onnx_list(im, 1, "split", &sizes, &count));
    if (sizes && count != outputs)
        return yki_onnx_refuse(im, "it has %zu sizes and %zu outputs; must have as many", count,
                               outputs);
    whole = x->shape.dim[axis];
    equal = (whole + (int64_t)outputs - 1) / (int64_t)outputs;
    for (size_t i = 0; i < outputs; i++, begin = end) {
        size = sizes ? sizes[i] : equal;
        end = size < 1 || size > whole - begin ? whole : begin + size;
        if (size < 1 || begin >= whole || (sizes && end - begin != size))
            return yki_onnx_refuse(im, "its sizes do not fit the axis of %lld", (long long)whole);
        out = yki_onnx_output(im, i);
        if (!out)
            continue;
        part = x;
        YKI_TRY(take_range(im, &part, axis, begin, end));
        im->out = out;
        YKI_TRY(yki_onnx_give_moved(im, part, im->in[0]->batch));
    }
    return YOKE_OK;
}

/* ---- rows of a table, and parts by their numbers ---- */

static yoke_status
make_embedding(yki_onnx_importer *im)
{
    yki_onnx_item *table = im->in[0], *index = im->in[1];
    yoke_embedding_options o = {.rows = table->dim[0], .width = table->dim[1]};
    yoke_node *y;

    YKI_TRY(yki_onnx_numbers(im, table));
    if (!table->is_float || table->rank != 2 || yki_onnx_get_int(im, "axis", 0) != 0 ||
        index->node->type != YOKE_I32 || table->parameter)
        return yki_onnx_refuse(im, "it is no look-up of rows; must have a table of two axes that "
                                   "no layer has, and whole numbers of the data");
    o.name = yki_onnx_layer_name(im, table);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    y = yoke_embedding(im->graph, index->node, &o);
    YKI_TRY(yki_onnx_give(im, y));
    table->parameter = y->inputs[1];
    table->parameter->frozen = table->literal;
    return yki_onnx_set_part(im, o.name, "weight", table->floats);
}

/* Parts of a node, by constant numbers. */
static yoke_status
make_gather(yki_onnx_importer *im)
{
    yki_onnx_batch batch = im->in[0]->batch;
    yki_onnx_item *index = im->in[1];
    yoke_node *x, *parts[MOST_ROWS];
    yoke_shape shape;
    int32_t axis;
    int64_t size;

    if (index->kind == YKI_ONNX_NODE && im->in[0]->kind == YKI_ONNX_CONSTANT)
        return make_embedding(im);
    YKI_TRY(yki_onnx_moved_node(im, im->in[0], &x));
    YKI_TRY(yki_onnx_numbers(im, index));
    if (im->in[0]->kind == YKI_ONNX_CONSTANT)
        return yki_onnx_refuse(im, "it takes parts of a constant");
    YKI_TRY(yki_onnx_node_axis(im, yki_onnx_get_int(im, "axis", 0), im->in[0], &axis));
    if (index->is_float || index->batches || index->rank > 1 || index->count < 1 ||
        index->count > MOST_ROWS)
        return yki_onnx_refuse(im,
                               "\"%s\" is no list of constant numbers; must have between 1 and "
                               "%d",
                               index->name, MOST_ROWS);
    size = x->shape.dim[axis];
    for (int64_t i = 0; i < index->count; i++) {
        const int64_t at = index->ints[i] < 0 ? index->ints[i] + size : index->ints[i];

        parts[i] = yoke_slice(im->graph, x, axis, at, at + 1);
    }
    if (index->rank == 1)
        return yki_onnx_give_moved(im,
                                   index->count == 1
                                       ? parts[0]
                                       : yoke_concat(im->graph, parts, (size_t)index->count, axis),
                                   batch);
    shape = x->shape;
    for (int32_t i = axis; i + 1 < shape.rank; i++)
        shape.dim[i] = shape.dim[i + 1];
    shape.dim[--shape.rank] = 0;
    batch.at -= axis < batch.at;
    return yki_onnx_give_moved(im, parts[0] ? yoke_reshape(im->graph, parts[0], shape) : NULL,
                               batch);
}

/* Of a list: shapes. */
static yoke_status
fold_gather(yki_onnx_importer *im)
{
    yki_onnx_item *x = im->in[0], *index = im->in[1];
    int64_t *from;

    YKI_TRY(yki_onnx_numbers(im, index));
    if (x->rank != 1 || index->is_float)
        return yki_onnx_refuse(im, "it takes parts of a constant of %d axes; must have one",
                               (int)x->rank);
    from = yki_onnx_keep(im->model, (size_t)index->count, sizeof *from);
    if (!from)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < index->count; i++) {
        from[i] = index->ints[i] < 0 ? index->ints[i] + x->count : index->ints[i];
        if (from[i] < 0 || from[i] >= x->count)
            return yki_onnx_refuse(im, "\"%s\" has the number %lld; must be below %lld",
                                   index->name, (long long)index->ints[i], (long long)x->count);
    }
    return yki_onnx_fold_move(im, x, index->rank, index->dim, from);
}

/* ---- nothing ---- */

static yoke_status
make_identity(yki_onnx_importer *im)
{
    return yki_onnx_pass(im, im->in[0]);
}

static yoke_status
make_dropout(yki_onnx_importer *im)
{
    double ratio = 0.5;
    bool single = true;
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    if (im->in_count > 1 && im->in[1])
        YKI_TRY(yki_onnx_single(im, im->in[1], &single, &ratio));
    if (!single)
        return yki_onnx_refuse(im, "its ratio is no number; must be one constant");
    return yki_onnx_give(im, ratio > 0 ? yoke_dropout(im->graph, x, (float)ratio) : x);
}

/* Between floats, which yoke has in one width. */
static yoke_status
make_cast(yki_onnx_importer *im)
{
    const int32_t to = (int32_t)yki_onnx_get_int(im, "to", 0);
    const yki_onnx_item *x = im->in[0];

    if (x->node->type == YOKE_F32 ? yki_onnx_is_float(to)
                                  : to == YKI_ONNX_I32 || to == YKI_ONNX_I64)
        return yki_onnx_pass(im, im->in[0]);
    return yki_onnx_refuse(im,
                           "it makes %s of %s; yoke has floats of one width, and computes "
                           "nothing else",
                           yki_onnx_type_name(to),
                           x->node->type == YOKE_F32 ? "floats" : "whole numbers");
}

const yki_onnx_row yki_onnx_shapes[] = {
    {"Reshape", 2, 2, make_reshape, fold_reshape},
    {"Flatten", 1, 1, make_flatten, NULL},
    {"Squeeze", 1, 2, make_squeeze, make_squeeze},
    {"Unsqueeze", 1, 2, make_unsqueeze, make_unsqueeze},
    {"Transpose", 1, 1, make_transpose, fold_transpose},
    {"Concat", 1, YKI_ONNX_MOST_INPUTS, make_concat, yki_onnx_fold_concat},
    {"Slice", 3, 5, make_slice, fold_slice},
    {"Split", 1, 2, make_split, NULL},
    {"Gather", 2, 2, make_gather, fold_gather},
    {"Identity", 1, 1, make_identity, make_identity},
    {"Dropout", 1, 3, make_dropout, NULL},
    {"Cast", 1, 1, make_cast, yki_onnx_fold_cast},
    {"CastLike", 2, 2, yki_onnx_cast_like, yki_onnx_cast_like},
    {NULL, 0, 0, NULL, NULL},
};
