# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# list.sh - the faults: NAME FILE OLD NEW PROGRAM [CASE]; see mutants.sh, which reads it.

team=tests/team/check_team

# ---- what is divided by, and what is added up ----

mutant 'wrong divisor' clkernels/update.cl \
    '1.f, loss[1]) : 0.f' '1.f, loss[1] + 1.f) : 0.f' tests/replica/check_update
mutant 'divisor of one device' lib/team/crew.c \
    '.totals = m->totals,' '.totals = m->results,' $team halves
mutant 'mean of means' clkernels/team.cl \
    'float sum = PICK(i, 0), count = PICK(i, 1);' \
    'float count = PICK(i, 1) > 0.f, sum = count > 0.f ? PICK(i, 0) / PICK(i, 1) : 0.f;' \
    $team halves
mutant 'lost bucket' lib/team/exchange.c \
    'if (!m->sums[bucket].count)' 'if (!m->sums[bucket].count || bucket == 1)' $team halves
mutant 'bucket not waited for' lib/team/step.c \
    'if (task < begin || task >= end)' 'if (task < m->position || task >= end)' $team halves
mutant 'norm of one device' lib/team/crew.c \
    '.norm_parts = group->norm_parts}' '.norm_parts = NULL}' $team halves

# ---- who has which weights and samples ----

mutant 'stale replica' lib/team/exchange.c \
    'for (size_t g = 0; g < crew->group_count; g++) {
        yki_member *owner' \
    'for (size_t g = 0; g < 1; g++) {
        yki_member *owner' $team roots
mutant 'sample counted twice' lib/train/steps.c \
    'm->first = first;
        m->n = crew' \
    'm->first = first -= k == 1 && first > 0;
        m->n = crew' $team halves
mutant 'random numbers by device' lib/team/step.c \
    'r->first_sample = (uint64_t)m->first;' 'r->first_sample = 0;' $team halves
mutant 'unflushed queue' lib/device/queue.c \
    'error = clFlush(queue->cl);
    if (error != CL_SUCCESS)
        return' \
    'error = CL_SUCCESS;
    if (error != CL_SUCCESS)
        return' $team slices

# ---- stages ----

pipeline=tests/team/check_pipeline

mutant 'backward of two micro-batches at once' lib/team/pipeline_order.c \
    's->p->legs[*leg].backward ||' '' $pipeline order
mutant 'one micro-batch too many under way' lib/team/pipeline_order.c \
    'micro_batch - s->left[member] >= s->p->depth[member]' \
    'micro_batch - s->left[member] > s->p->depth[member]' $pipeline order
mutant 'a leg before what it reads' lib/team/pipeline_order.c \
    's->done[made] != micro_batch + 1' 's->done[made] == 0' $pipeline order
mutant 'micro-batches in the memory of one' lib/team/pipeline.c \
    'while (p->width % count)
        count++;' 'count = 1;' $pipeline bits
mutant 'gradients of the last micro-batch alone' lib/team/pipeline.c \
    'crew->buckets.first = micro_batch == 0;' 'crew->buckets.first = true;' $pipeline bits
mutant 'statistics of another micro-batch' lib/team/step.c \
    'crew->stages ? r->newest : r->training' 'r->training' $pipeline bits
mutant 'value on its way written over' lib/team/pipeline.c \
    'k < p->members && micro_batch >= p->width;' 'k < p->members && micro_batch > p->micro_batches;' \
    $pipeline bits
mutant 'gradients that forward writes' lib/team/pipeline_legs.c \
    'if (plan->values[task->slots[s]].bucket)' 'if (plan->values[task->slots[s]].bucket && 0)' $pipeline bits

mutant 'others wait for all of backward' lib/plan/hasten.c \
    'first[t] |= awaited' 'first[t] |= true || awaited' $pipeline bits
mutant 'what others wait for before what it is made of' lib/plan/hasten.c \
    's = 0; first[t] && s < slots' 's = task->problem.input_count; first[t] && s < slots' $pipeline bits

mutant 'one micro-batch in each stage' lib/team/cut.c \
    'bytes += depth_of(p, behind) * p->units[i].kept;' 'bytes += p->units[i].kept;' tests/team/check_cut
mutant 'only the sum of all stages' lib/team/cut.c \
    'to->list[i].longest <= one->longest && to->list[i].sum' 'to->list[i].sum' tests/team/check_cut
mutant 'what crosses on one side' lib/team/cut.c \
    'bytes_across(p, first) + bytes_across(p, end)) * p' 'bytes_across(p, first)) * p' tests/team/check_cut
mutant 'every device as fast' lib/team/cut_graph.c \
    'load->seconds * slowness(c, k)' 'load->seconds' tests/team/check_stages cuts
mutant 'statistics of unequal micro-batches' lib/team/stages.c \
    'batch % count == 0 ||' 'batch % count < count ||' tests/team/check_stages cuts
mutant 'rest of a batch left out' lib/train/steps.c \
    'm->n = yki_micro_batch_size(p->step->n, count, index);' 'm->n = p->step->n / count;' \
    tests/team/check_stages alike
mutant 'all checkpoints of one micro-batch' lib/train/checkpoint.c \
    'json_integer(t->options.accumulate)' 'json_integer(1)' tests/team/check_stages checkpoints

mutant 'sums of granules wait for the verdict' lib/train/steps.c \
    'return (crew->comm || crew->count > 1) &&' 'return false && (crew->comm || crew->count > 1) &&' \
    tests/team/check_comm

# ---- sequences ----

mutant 'positions of rows that are not there' clkernels/flat.cl \
    'there = min(used, end)' 'there = end' tests/replica/check_sequences replicas
mutant 'all rows instead of those of the step' lib/team/step.c \
    '{m->n, crew->length}' '{m->n, 0}' $team halves
mutant 'random numbers by row' lib/op/dropout/dropout_solver.c \
    'length ? YKI_PER_ROW(count / length)' 'length ? YKI_CONST(count)' \
    tests/replica/check_sequences replicas

# ---- language models ----

models=tests/files/check_hugging_face

mutant 'attention looks ahead' clkernels/attention.cl \
    '(intv)(k0 + k) > q0 + v * W + COUNT_UP' '(intv)(k0 + k) > 1 + q0 + v * W + COUNT_UP' $models models
mutant 'sum of the last block of keys' clkernels/attention.cl \
    'STORE(YKI_FMA(LOAD(sum + c), f, total), sum + c);' 'STORE(total, sum + c);' tests/op/check_attention
mutant 'shorter blocks of keys' clkernels/attention.cl \
    '#define BK 64' '#define BK 32' tests/op/check_canonical attention
mutant 'softmax without the sum of its gradient' clkernels/attention.cl \
    '(LOAD(dp + k * BQ + c) IF_DROP(*factors[k & 3]) - dot)' 'LOAD(dp + k * BQ + c)' $models models
mutant 'weights that backward does not drop' clkernels/attention.cl \
    'STORE(p IF_DROP(*factors[k & 3]), scores' 'STORE(p, scores' tests/op/check_attention
mutant 'attention drops in evaluation' lib/op/attention/attention.c \
    'a.dropout = (yki_dropout_attrs){0};' '' tests/replica/check_generator
mutant 'tiles look ahead' clkernels/attention_tiled.cl \
    '(float4)(-INFINITY),
                                      k0 + COLUMNS(j) >= end' \
    '(float4)(-INFINITY),
                                      k0 + COLUMNS(j) > end' tests/op/check_attention attention
mutant 'a key of tiles that its own query does not see' clkernels/attention_tiled.cl \
    'int first = causal ? k0 + TILE_ROW(i) : 0;' 'int first = causal ? k0 + TILE_ROW(i) + 1 : 0;' \
    tests/op/check_attention attention
mutant 'tiles of rows that are not there' clkernels/attention_tiled.cl \
    'TILE_ROW(i) < (there) ?' 'true ?' tests/op/check_attention attention
mutant 'attention sees what lies behind a short sample' clkernels/attention.cl \
    'int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        int blocks' \
    'int used = length;
        int blocks' tests/op/check_attention attention
mutant 'gradient from what lies behind a short sample' clkernels/attention.cl \
    'int used = has_lengths ? clamp(lengths[n], 0, length) : length;
        __global' \
    'int used = length;
        __global' tests/op/check_attention attention
mutant 'every sample has the length of the first' clkernels/attention.cl \
    'clamp(lengths[n], 0, length) : length;
        int blocks' \
    'clamp(lengths[0], 0, length) : length;
        int blocks' tests/op/check_attention attention
mutant 'old numbers behind the gradient of a short sample' clkernels/attention.cl \
    'yki_unpack(to + (long)used * width + (heads + g) * D, width, 0, length - used);' ';' \
    tests/op/check_attention attention
mutant 'tiles see keys behind a short sample' clkernels/attention_tiled.cl \
    'int end = causal ? min(q0 + TILE_ROW(i) + 1, used) : used;
                    float4 s' \
    'int end = causal ? q0 + TILE_ROW(i) + 1 : length;
                    float4 s' tests/op/check_attention tiles
mutant 'keys of tiles have the length of the first sample' clkernels/attention_tiled.cl \
    'clamp(lengths[n], 0, length) : length;
        int end' \
    'clamp(lengths[0], 0, length) : length;
        int end' tests/op/check_attention tiles
mutant 'gradient of the last of the heads that share keys' clkernels/attention.cl \
    'STORE((floatv)(0.f), dq + i);' \
    'STORE((floatv)(0.f), dq + i);
            for (long i = 0; i < (long)UP(used, BK) * DP; i += W) {
                STORE((floatv)(0.f), dk + i);
                STORE((floatv)(0.f), dv + i);
            }' tests/op/check_attention attention
mutant 'gradient from tiles of keys behind a short sample' clkernels/attention_tiled.cl \
    'int end = causal ? min(q0 + TILE_ROW(i) + 1, used) : used;

                p[' \
    'int end = causal ? q0 + TILE_ROW(i) + 1 : length;

                p[' tests/op/check_attention tiles
mutant 'tiles of the last of the heads that share keys' clkernels/attention_tiled.cl \
    'for (int h = g * ratio; h < (g + 1) * ratio; h++)' \
    'for (int h = (g + 1) * ratio - 1; h < (g + 1) * ratio; h++)' tests/op/check_attention tiles
mutant 'heads take turns at the keys that they share' clkernels/attention.cl \
    'int head = block / blocks, h = g * ratio + head,' \
    'int head = block / blocks, h = g + head * shared,' $models models
mutant 'exact gelu without the slope of its share' clkernels/unary.cl \
    'dy *YKI_FMA(v, pdf(v), cdf(v))' 'dy *cdf(v)' tests/op/check_unary
mutant 'gelu by tanh for the exact one' clkernels/unary.cl \
    'UNARY(gelu, x *cdf(x),' 'UNARY(gelu, x *gelu_share(x),' tests/op/check_unary
mutant 'gelu by tanh without the slope of its share' clkernels/unary.cl \
    'dy *YKI_FMA(v * gelu_share(v) * (1.f - gelu_share(v)), gelu_slope(v), gelu_share(v))' \
    'dy *gelu_share(v)' $models models
mutant 'gelu by tanh without its cube' clkernels/unary.cl '(floatv)(0.1029432397f)' '(floatv)(0.f)' \
    $models models
mutant 'gradient of the last chunk of a head' lib/op/loss/linear_loss_solver.c \
    'p.first == 0 ? dw : part' 'dw' tests/op/check_loss
mutant 'labels of the first chunk of a head' lib/op/loss/linear_loss_solver.c \
    '.first = p.first,' '.first = 0,' tests/op/check_loss
mutant 'slopes of each chunk in place of the first' lib/op/loss/linear_loss_solver.c \
    'copy_rows(&p, slope, dx, 0, p.first);' 'copy_rows(&p, slope, dx, 0, 0);' tests/op/check_loss
mutant 'chunks of canonical plans by memory' lib/op/loss/linear_loss_solver.c \
    'yki_conv_is_cpu(traits) || traits->canonical ||' 'yki_conv_is_cpu(traits) ||' \
    tests/gpu/check_planner candidates
mutant 'chunks beyond the quota' lib/device/selection.c \
    'part->quota ? part->quota : device->root->info.memory' 'device->root->info.memory' \
    tests/gpu/check_planner candidates
mutant 'turned on in backward' clkernels/rope.cl \
    'loadv(0, rest), &c) * sign;' 'loadv(0, rest), &c);' $models models
mutant 'pairs that lie apart for neighbours' lib/op/sequence/rope_solver.c \
    'flat.vector, flat.group, a.interleaved);' 'flat.vector, flat.group, 0);' tests/op/check_sequence
mutant 'neighbours in one order, and back in another' clkernels/rope.cl \
    'high.odd = second.hi;' 'high.odd = first.hi;' tests/op/check_sequence
mutant 'one frequency' clkernels/rope.cl \
    'frequency[pair + i] * (ulong)position' 'frequency[0] * (ulong)position' tests/op/check_sequence
mutant 'gradient of a norm from rows that are not there' lib/op/norm/layer_norm_solver.c \
    'yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "rows", f.rows);' \
    'yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "rows", a.rms ? YKI_CONST(rows) : f.rows);' tests/op/check_norm
mutant 'root mean square without weight' clkernels/layer_norm.cl \
    '((v) * (gamma))' '(v)' $models models
mutant 'gate and value exchanged' clkernels/swiglu.cl \
    'STOREV(gate * sigmoidv(gate) * up,' 'STOREV(up * sigmoidv(up) * gate,' $models models
mutant 'slope of a sigmoid for that of silu' clkernels/swiglu.cl \
    'up * s * YKI_FMA(gate, rest, (floatv)(1.f))' 'up * s * rest' $models models
mutant 'the label has no gradient' clkernels/loss_rows.cl \
    'grad[row * width + label] -= (1.f - smoothing) SCALED_BY;' ';' $models models
mutant 'ignored rows have a gradient' clkernels/loss_rows.cl \
    'yki_put_some(good && !ignored ? v SCALED_BY :' 'yki_put_some(true ? v SCALED_BY :' $models models
mutant 'the last of equal tokens' clkernels/embedding.cl \
    'sums[k] += rest[k];' 'sums[k] = rest[k];' $models models

fusion=tests/plan/check_fusion

mutant 'a tied head without the gradient of its embedding' lib/op/embedding/embedding_solver.c \
    'yki_arg_expr(recipe, "places", yki_operand_elements(&problem->in[0]));' \
    'yki_arg_expr(recipe, "places",
                 problem->input_count > 2 ? YKI_CONST(0) : yki_operand_elements(&problem->in[0]));' \
    $fusion dense
mutant 'an embedding without the gradient of its tied head' clkernels/embedding.cl \
    'row = more == out ? end : begin; row < end; row++) {
        __global const float *from = more + (long)row * width;
#define FIRST_VECTOR(v)  LOADV(v, from)
#define FIRST_ELEMENT(k) from[k]' \
    'row = begin; row < end; row++) {
#define FIRST_VECTOR(v)  (FLOATS)(0.f)
#define FIRST_ELEMENT(k) 0.f' $fusion dense
mutant 'an embedding adds to a table that others read' lib/plan/fuse_embedding.c \
    'yki_fusion_only_reader(f, other) != reader' 'false' $fusion dense
mutant 'a tied gradient is moved to where it belongs' lib/plan/fuse_embedding.c \
    'plan->values[other].storage = YKI_STORE_LENT;' ';' $fusion dense
mutant 'a square table of a Conv1D lies as it is' lib/data/weights_load.c \
    'if (is_conv1d(l, w))
            YKI_TRY(turn(w));' \
    'if (is_conv1d(l, w) && w->node->shape.dim[0] != w->node->shape.dim[1])
            YKI_TRY(turn(w));' $models weights
mutant 'every Conv1D is turned' lib/data/weights_load.c \
    'return l->conv1d && w->count == 1' 'return w->count == 1' $models weights
mutant 'a Conv1D shows how it lies only where it is wanted' lib/data/weights_load.c \
    'find_conv1d(l, tensor, &place);
    if (place.name[0] == '"'\\0'"' || !matches(l->options, place.name))
        return true;' \
    'if (place.name[0] == '"'\\0'"' || !matches(l->options, place.name))
        return true;
    find_conv1d(l, tensor, &place);' $models weights
mutant 'a Conv1D is written as it lies' lib/data/hugging_face_write.c \
    'from[i * p->shape[1] + o] = values[o * p->shape[0] + i];' \
    'from[i * p->shape[1] + o] = values[i * p->shape[1] + o];' tests/files/check_export
mutant 'buffers are weights' lib/data/hugging_face.c \
    'is_buffer(name) ? "" : name' 'name' $models weights
mutant 'frequencies of rope are weights' lib/data/hugging_face.c \
    ', "*.rotary_emb.inv_freq"};' '};' $models weights
mutant "a tied head of gpt is a weight" lib/data/hugging_face.c \
    'has(user, "wte.weight") || ' '' $models weights
mutant "a tied head of llama is a weight" lib/data/hugging_face.c \
    ' || has(user, "model.embed_tokens.weight")' '' $models weights
mutant 'a head that is not tied is skipped' lib/data/hugging_face.c \
    "    if (has(user, place->name))
        return;
    for (size_t p" \
    "    if (has(user, place->name) && strcmp(name, \"lm_head.weight\") != 0)
        return;
    for (size_t p" $models models

mutant 'alpha instead of its quotient' lib/op/matmul/lora.c \
    'o->alpha / (float)o->rank, 0)' 'o->alpha, 0)' tests/train/check_lora
mutant 'an adapter reads the bare layer' lib/op/matmul/lora.c \
    '*x = layer->inputs[0];' \
    '*x = layer->inputs[0]->op == &yki_op_binary ? layer->inputs[0]->inputs[0] : layer->inputs[0];' \
    tests/train/check_lora
mutant 'the base is trained' lib/op/matmul/lora.c \
    'node->frozen =
                !ends_in' \
    'node->frozen = false &&
                !ends_in' tests/train/check_lora
mutant 'an offset is no part of a factor' lib/op/matmul/lora.c \
    'factor.b == 0 && ' '' tests/train/check_lora
mutant 'what is inside may be read' lib/op/matmul/lora.c \
    'if (marks[node->id] != INSIDE)' 'if (marks)' tests/train/check_lora
mutant 'alpha of the first module' lib/data/adapter_file.c \
    '(float)(e->factors[p] / e->factors[first_part(e)])' '1' tests/train/check_lora
mutant 'any parts share an A' lib/data/adapter_file.c \
    'memcmp(values[0], values[1], e->a[0]->count * sizeof(float)) == 0' 'true' tests/train/check_lora
mutant 'adapters that the file lacks' lib/data/adapter_file.c \
    'if (e == f->count)' 'if (e > f->count)' tests/train/check_lora
mutant 'values seen too late' lib/data/adapter_file.c \
    'YKI_TRY(check_values(f, &f->entries[i]));' '(void)check_values;' tests/train/check_lora
mutant 'merged without the factor' lib/replica/adapters.c \
    '(double)adapter->factor * row[i]' 'row[i]' tests/train/check_lora

mutant 'tokens of a text that is as long as another' lib/data/token_file.c \
    'yki_hash_add(&hash, &file->time, sizeof file->time);' ';' tests/data/check_tokenizer
mutant 'tokens of a text that was changed in the same moment' lib/data/token_file.c \
    'yki_hash_add(&hash, &file->size, sizeof file->size);' ';' tests/data/check_tokenizer
mutant 'tokens of files in another order' lib/data/token_file.c \
    'yki_hash_string(&hash, corpus->folder ? file->path : "");' ';' tests/data/check_tokenizer
mutant 'tokens of another tokenizer' lib/data/token_file.c \
    'yki_tokenizer_hash(w->tokenizer, &hash);' '' tests/data/check_tokenizer
mutant 'windows of all seeds' lib/data/text_dataset.c \
    '{seed, 0x77696E64u}' '{seed & 0, 0x77696E64u}' tests/data/check_tokenizer
mutant 'training on what is to validate' lib/data/text_dataset.c \
    'return strstr(name, "val") || strstr(name, "test");' 'return strstr(name, "test");' \
    tests/data/check_tokenizer
mutant 'files of a folder without an end' lib/data/token_file.c \
    'if (w->end < 0)' 'if (w->end > 0)' tests/data/check_tokenizer
mutant 'large tokens in 16 bits' lib/data/token_file.c \
    'const size_t size = w->tokenizer->count <= 65536 ? 2 : 4;' 'const size_t size = 2;' \
    tests/data/check_tokenizer
mutant 'a short window predicts zeros' lib/data/text_dataset.c \
    'field ? -1 : 0' '0' tests/data/check_tokenizer
mutant 'as many digits as there are' lib/data/pieces.c \
    'run(l, 0, class, digits)' 'run(l, 0, class, digits ? SIZE_MAX : 1)' tests/data/check_tokenizer
mutant 'of equal pairs the last' lib/data/bpe.c \
    'a->at < b->at' 'a->at > b->at' tests/data/check_tokenizer
mutant 'a pair that is another by now' lib/data/bpe.c \
    '!m || m - t->merges != c.rank' '!m' tests/data/check_tokenizer
mutant 'a token does not see itself' clkernels/attention_step.cl \
    'at >= length ? 0 : at + 1' 'at >= length ? 0 : at' tests/replica/check_generator
mutant 'sum of the last block of a cache' clkernels/attention_step.cl \
    'sum = YKI_FMA(sum, factor, yki_lanes_sum(((s[0] + s[1]) + s[2]) + s[3]));' \
    'sum = yki_lanes_sum(((s[0] + s[1]) + s[2]) + s[3]);' tests/replica/check_generator
mutant 'all but the last part of a cache' clkernels/attention_step.cl \
    '(end + each - 1) / each' 'end / each' tests/op/check_rows
mutant 'a group of many does not see its token' clkernels/attention_step.cl \
    'rows == 1 && stop == end' 'rows == 1 && stop < end' tests/op/check_rows
mutant 'keys for values' clkernels/attention_step.cl \
    'from[shared * D + d]' 'from[d]' tests/replica/check_generator
mutant 'one token more than asked for' lib/replica/sampling.c \
    'YKI_MIN((int64_t)s->top_k, count)' 'YKI_MIN((int64_t)s->top_k + 1, count)' \
    tests/replica/check_generator generator
mutant 'without the token that reaches the part' lib/replica/sampling.c \
    'kept < (double)s->top_p * total)) {' 'kept + weights[order[0]] < (double)s->top_p * total)) {' \
    tests/replica/check_generator generator
mutant 'no part of the most probable' lib/replica/sampling.c 'total = kept;' '' \
    tests/replica/check_generator generator
mutant 'shards anywhere' lib/data/shards.c "strchr(text, '/') || " '' $models weights
mutant 'a tensor in two shards' lib/data/shards.c 'k < i; k++' 'k < 0; k++' $models weights
mutant 'a file of the index without its tensor' lib/data/shards.c \
    '!yki_safetensors_find(file, entry->tensor)' 'false' $models weights
mutant 'terms behind the last vector' clkernels/gemv.cl \
    'for (int t = at; t < k; t++)' 'for (int t = k; t < k; t++)' tests/replica/check_generator

# ---- statistics of the batch ----

mutant 'local statistics' lib/team/crew.c \
    '.merges = (crew->team->total > 1 || crew->exact.together)' '.merges = false' $team halves
mutant 'mean of the devices means' clkernels/team.cl \
    'part = QUOTIENT(float, more, total);' 'part = 0.5f;' $team halves
mutant 'variance within devices' clkernels/team.cl \
    'm2 += d * d * (n * part);' '' $team halves

# ---- steps in micro-batches ----

mutant 'loss of the last micro-batch' lib/team/step.c \
    'yki_crew_results(crew, false, index > 0)' 'yki_crew_results(crew, false, false)' $team halves
mutant 'gradients of the step before' lib/team/step.c 'if (crew->buckets.first)' \
    'if (!crew->buckets.count)' $team halves

# ---- evaluation ----

mutant 'remainder dropped' lib/train/evaluate.c \
    'first < n; first += size, i++' 'first + size <= n; first += size, i++' \
    tests/team/check_team_results
mutant 'evaluated twice' lib/train/evaluate.c \
    'first += count;' 'first += count - (count > 1);' tests/team/check_team_results

mutant 'stale scaling' lib/train/loaders.c \
    '&& loaders->version == dataset->version' '' tests/train/check_fit

# ---- numerical classes ----

mutant 'class of each device' lib/team/agree_classes.c \
    'return crew->team->total > 1' 'return false' tests/team/check_classes
mutant 'class of this process' lib/team/agree_classes.c \
    'status = merge_processes(crew, &sum);' 'status = YOKE_OK;' tests/team/check_classes

# ---- bfloat16 ----

mutant 'bfloat16 cut off' clkernels/dot.cl \
    ' + 0x7fffu + (bits >> 16 & 1u)' '' tests/op/check_bf16
mutant 'ties of bfloat16 go up' clkernels/dot.cl \
    '0x7fffu + (bits >> 16 & 1u)' '0x8000u' tests/op/check_bf16
mutant 'halves are cut off' clkernels/dot.cl \
    'size + 0xfffu + (bits >> 13 & 1u)' 'size' tests/op/check_bf16
mutant 'scale is not undone' clkernels/update.cl 'inverse_count(loss) * step[9]' \
    'inverse_count(loss)' tests/train/check_loss_scale scale
mutant 'one device does not skip' clkernels/update.cl \
    'if (!isfinite(norm))' 'if (!isfinite(norm) && ((__global uint *)step)[3] == 0u)' \
    tests/train/check_loss_scale overflow
mutant 'norm for clipping alone' lib/train/loss_scale.c 'clip_norm : FLT_MAX' 'clip_norm : 0' \
    tests/train/check_loss_scale overflow
mutant 'the scale of the step before last' lib/train/steps.c \
    'if (status == YOKE_OK && t->loss_scale.scales)' 'if (false)' tests/train/check_loss_scale scale
mutant 'claimed by two' lib/plan/rehearse.c 'found == key' 'found == 0' tests/replica/check_compile claims
mutant 'claimed and compiled' lib/plan/rehearse.c 'fresh && r->purpose == COMPILE_NEW' 'r->purpose == COMPILE_NEW' tests/replica/check_compile claims
mutant 'processes for nothing' lib/plan/rehearse.c \
    'o->level == YOKE_PLAN_ESTIMATE ||' '' tests/replica/check_compile processes
mutant 'processes each time' lib/plan/rehearse.c 'r.fresh < FEW' 'false' tests/replica/check_compile processes
mutant 'compiled for another plan' lib/plan/rehearse.c 'claim_all(known, &compiled);' '' \
    tests/replica/check_compile processes
mutant 'processes left behind' lib/replica/compilers.c \
    'return ended != 0;' 'return true;' tests/replica/check_compile processes
mutant 'skipped steps count' lib/replica/replica.c 'r->step - r->skipped' 'r->step' \
    tests/train/check_loss_scale scale
mutant 'a scale of 1 is not kept' lib/train/checkpoint.c '!yki_loss_scale_is_valid(scale)' \
    '!yki_loss_scale_is_valid(scale) || scale == 1' tests/train/check_loss_scale scale
mutant 'each step in vain is told' lib/train/loss_scale.c 's->warned |= in_vain;' '' \
    tests/train/check_loss_scale scale
mutant 'forward reads other numbers' clkernels/convert.cl 'STOREV(widen_all(h), i, out)' \
    'STOREV(LOADV(i, in), i, out)' tests/replica/check_halves halves
mutant 'digits cut off' clkernels/convert.cl 'bits + 0x7fffu + (bits >> 16 & 1u)' 'bits' \
    tests/op/check_convert convert
mutant 'halves on any split' lib/plan/halves.c ' && !plan->options.canonical' '' \
    tests/replica/check_halves halves
mutant 'noise decides' lib/plan/offers.c '#define TIE 0.03' '#define TIE 0.0' \
    tests/gpu/check_planner candidates
mutant 'maxima in half their bytes' lib/plan/halves.c '&yki_op_maxpool2d,' '' \
    tests/replica/check_halves halves
mutant 'small halves are 0' clkernels/dot.cl 'size < 0x38800000u ? low : high' \
    'size < 0x38800000u ? 0u : high' tests/op/check_bf16
mutant 'a half is never infinite' clkernels/dot.cl 'up > 0x477fe000u ?' 'up > 0x7f800000u ?' \
    tests/op/check_bf16
mutant 'NaN is not of bfloat16' clkernels/dot.cl \
    '(bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : up' 'up' tests/op/check_bf16
mutant 'last term counts twice' clkernels/gemm_cpu.cl \
    '2 * q + 1 < ks ? at[x_q] : 0.f' 'at[2 * q + 1 < ks ? x_q : 0]' tests/op/check_bf16
mutant 'gradients have no precision' lib/graph/gradient.c \
    'graph->origin = node;' 'graph->origin = NULL;' tests/plan/check_precision
mutant 'class of the other gradient' lib/plan/fuse_matmul.c \
    'return !plan->costs && yki_agreed_class' 'return yki_agreed_class' tests/plan/check_precision
mutant 'strict rounds nothing' lib/plan/offers.c \
    'o->strict                 ? 1u << task->rounds' 'o->strict ? 1u << YKI_CLASS_DIRECT' tests/plan/check_precision

# ---- copies ahead ----

tiles='tests/device/check_kernels tiles'

mutant 'two rows of copies in one place' clkernels/tile_ahead.cl \
    '^ (row / 4 % 2 * 2 + row / 8 % 2)' '| (row / 4 % 2 * 2 + row / 8 % 2)' $tiles
mutant 'two blocks of copies in one place' clkernels/tile_ahead.cl \
    '(row / 4 ^ k / TILE_OWN_TERMS % 4 * 2)' '(row / 4 | k / TILE_OWN_TERMS % 4 * 2)' $tiles
mutant 'copies over the round that is multiplied' clkernels/tile_ahead.cl \
    'tile_free = TILE_ROUNDS - 1, tile_k' 'tile_free = 0, tile_k' $tiles
mutant 'old numbers behind the last copy' clkernels/tile_ahead.cl \
    '#define TILE_THERE(there) (there)' '#define TILE_THERE(there) true' $tiles

# ---- shares ----

mutant 'smallest remainder' lib/shares/shares.c \
    'remainder > most' 'remainder < most' tests/shares/check_shares
mutant 'sample lost in rounding' lib/shares/shares.c \
    'left -= left > 0 ? 1 : -1;' 'left = 0;' tests/shares/check_shares
mutant 'changes of speed unseen' lib/shares/pace.c \
    'JUMP = 0.1;' 'JUMP = 10;' tests/shares/check_balance
mutant 'no hysteresis' lib/shares/balance.c \
    ' * (1 - s->hysteresis - DOUBTS * doubt(s))' '' tests/shares/check_balance
mutant 'outliers believed' lib/shares/pace.c \
    'median(values, collect(p, 0, AVERAGE, values))' 'b_of(p, 0)' tests/shares/check_balance
mutant 'probes tell nothing' lib/shares/pace.c \
    'set_model(p, fmax(before / slope' 'set_model(p, 0 * fmax(before / slope' tests/shares/check_balance
mutant 'no probes' lib/shares/balance.c \
    's->step >= s->member[k].probe_at' 's->step > UINT64_MAX - 1' tests/shares/check_balance

# ---- updates of two drivers ----

mutant 'root as the driver likes' clkernels/update.cl \
    'OVER(ROOT_OF(b), step[7])' 'OVER(pow(b, (floatv)(0.5f)), step[7])' tests/replica/check_replicas

mutant 'small state rounded to nearest' clkernels/update.cl \
    '? bits + random : kept' '? bits + 0x8000u : kept' tests/device/check_update_kernels
mutant 'small state numbered by its place' lib/replica/updater.c \
    '.number = number + part.offset - weight->offset' '.number = part.offset - own.offset' \
    tests/train/check_small_state
mutant 'states rounded alike' clkernels/update.cl \
    'packed(x, word >> 16)' 'packed(x, word & 0xffffu)' tests/device/check_update_kernels

# ---- core groups of one device, and memory ----

mutant 'own statistics of core groups' lib/train/trainer.c \
    'o->local_batch_norm && !t->core_groups.taken,' 'o->local_batch_norm,' tests/train/check_core_groups
mutant 'core groups for noise' lib/train/core_groups.c 'WORTH = 1.05;' 'WORTH = 1;' tests/train/check_core_groups
mutant 'core groups measured when reproducible' lib/train/core_groups.c \
    'c->measures = !c->known && o->reproducible != YOKE_REPRODUCIBLE_RUNS;' 'c->measures = !c->known;' tests/train/check_core_groups
mutant 'core groups without a quota' lib/device/quota.c \
    'return device->space->core_groups_of ? device->space->core_groups_of : device;' 'return device;' \
    tests/train/check_core_groups
mutant 'what is there does not count' lib/train/capacity.c \
    'now += yki_quota_left(' 'now = yki_quota_left(' tests/train/check_capacity
mutant 'room for the sample of rounding' lib/train/capacity.c \
    'return samples - 1;' 'return samples + samples / 50;' tests/train/check_capacity
mutant 'comm not kept' lib/team/team.c 'yki_comm_retain(comm)' 'comm' tests/team/check_comm
mutant 'sums in memory that is freed' lib/team/array.c \
    'float *sum = yki_comm_alloc(comm,' 'float *sum = yki_comm_alloc(NULL,' tests/team/check_comm
mutant 'usual algorithm' lib/team/exchange.c \
    'crew->buckets.algorithm, &t->request' '0, &t->request' tests/team/check_comm
mutant 'left at a half' lib/team/crew.c \
    'if (status == YOKE_OK && r->training && r->options.batch < wanted)' 'if (false)' \
    tests/train/check_capacity

# ---- the same bits on any split ----

granules=tests/train/check_granules
mutant 'granules cut by shares' lib/train/steps.c \
    'border = end == n ? n : YKI_MIN((end + granule / 2) / granule * granule, n);' 'border = end;' \
    tests/train/check_any_split splits
mutant 'bias first in canonical sums' clkernels/conv_blocked.cl \
    '#define FIRST(bias) (floatv)(0.f)' '#define FIRST(bias) bias' tests/op/check_canonical
mutant 'blocks of 8 channels in canonical sums' clkernels/common.cl \
    '#define YKI_CANONICAL_CHANNELS 16' '#define YKI_CANONICAL_CHANNELS 8' tests/op/check_canonical
mutant 'parts of large gradients in canonical plans' lib/op/conv/conv2d.c \
    '>= MANY_WEIGHTS ? 1 : PARTS' '>= MANY_WEIGHTS ? PARTS : PARTS' tests/op/check_canonical
mutant 'two parts of the weights of Winograd in canonical plans' lib/op/conv/winograd_weight.c \
    'traits->canonical      ? 1' 'traits->canonical      ? 2' tests/op/check_canonical
mutant 'canonical plans without Winograd' lib/plan/offers.c \
    '1u << yki_canonical_class(&task->problem)' 'DIRECT' tests/plan/check_canonical_plans
mutant "a device's own quotients in canonical plans" clkernels/exact.cl \
    '!(SETTLE || YKI_CANONICAL)' '!SETTLE' tests/op/check_canonical rough
mutant 'granules added as floats' clkernels/granule.cl '*to = first ? add : *to + add;' \
    '*to = first ? add : convert_wordv(YKI_PASTE(convert_float, VEC)(*to) +
                                       YKI_PASTE(convert_float, VEC)(add));' \
    tests/train/check_any_split splits
mutant 'groups added as floats' clkernels/team.cl \
    'sum += WHOLE(a1, number); ' \
    'sum = YKI_PASTE(YKI_PASTE(convert_, number), VEC)(YKI_PASTE(convert_float, VEC)(sum) + \
              YKI_PASTE(convert_float, VEC)(WHOLE(a1, number))); ' \
    tests/train/check_any_split splits
mutant 'units of the same step' lib/team/granules.c \
    'YKI_TRY(mark_strange(crew, largest));' \
    'YKI_TRY(take_exponents(crew, e->turn)); YKI_TRY(mark_strange(crew, largest));' $granules units
mutant 'sums that do not fit' lib/team/granules.c \
    'good &= fits(e->wire, e->exponents[i], found);' 'good &= e->exponents[i] > 0 || found == 0;' $granules units
mutant 'room for one granule' lib/team/granules.c \
    'return w->bits - w->growth - bits_of(crew->exact.most) - MANTISSA - exponent;' \
    'return w->bits - w->growth - MANTISSA - exponent;' $granules units
mutant 'room for less growth than is allowed' lib/team/granules.c \
    'found <= known + wire->growth' 'found <= known + wire->growth + 4' $granules units
mutant 'random numbers of a device' lib/team/granules.c \
    '{(uint32_t)first, ' '{(uint32_t)m->adder.count, ' tests/train/check_any_split integers
mutant 'rounding of sums, not of granules' clkernels/granule.cl \
    '(random & (((uintv)1u << right) - 1u))) >> right' \
    '(random & (((uintv)1u << right) - 1u)) + (uint)first) >> right' \
    tests/train/check_any_split integers
mutant 'units of one device' lib/team/granules.c \
    'largest[i] = YKI_MAX(largest[i], a->found[i]);' 'largest[i] = a->found[i];' $granules units
mutant 'losses added as they come' lib/team/granules.c \
    'crew->exact.totals[i] = (float)yki_exact_value(&sums[i]);' \
    'crew->exact.totals[i] = i ? (float)yki_exact_value(&sums[i])
                                   : (float)(crew->members[0].adder.loss[0] * 1.0001);' \
    tests/train/check_any_split splits
mutant 'no update of a device without a granule' lib/team/step.c \
    'YKI_TRY(yki_member_begin(crew, m, plan, (uint32_t)m->adder.count, rate_factor));' \
    'if (m->n) YKI_TRY(yki_member_begin(crew, m, plan, (uint32_t)m->adder.count, rate_factor));' \
    tests/train/check_any_split splits
mutant 'statistics of one granule' lib/team/passes.c \
    'yki_merge_rows(merge, into, from + i * count, count);' ';' tests/train/check_any_split splits
mutant 'running statistics of the last micro-batch' lib/team/granules.c \
    'crew->exact.kept = index + 1;' 'crew->exact.kept = 0;' tests/train/check_any_split splits

# ---- parts of the optimizer's state ----

mutant 'shard without the value at its border' lib/team/sharding.c \
    'YKI_TRY(yki_buffer_put(to->values, 0, own.offset,' \
    'YKI_TRY(yki_buffer_put(to->values, 0, own.offset - 4,' tests/train/check_shards
mutant 'shard at the beginning of its bucket' lib/team/sharding.c \
    '(float *)(void *)(to + range.offset)' '(float *)(void *)to' \
    tests/train/check_shards
mutant 'shard that is all' lib/replica/updater.c \
    'return yki_ranges_of(u->options.ranges, bucket, u->options.shard, 1);' \
    'return (yki_range){0, u->weights->buckets[bucket].size};' tests/train/check_shards
mutant 'mixture of averages told as whole' lib/train/average.c \
    't->crew.torn = true;' ';' tests/faults/check_team_faults averages

mutant 'bucket whose memory is used again too early' lib/plan/buckets.c \
    'b + lag < count ? memory_of(plan, b + lag)->last' 'b + lag < count ? memory->last' \
    tests/train/check_shards gradients
mutant 'bucket that begins with what was there' lib/plan/enqueue.c \
    'if (plan->tasks[t].opens)' 'if (!plan)' tests/train/check_shards gradients
mutant 'part of gradients at the beginning of its bucket' lib/team/sharding.c \
    'own.size / 4 * word, sum + own.offset / 4 * word' 'own.size / 4 * word, sum' \
    tests/train/check_shards gradients
mutant 'bucket that comes before another has left' lib/team/sharding.c 't->after = b + 1;' \
    't->after = 0;' tests/train/check_shards gradients
mutant 'sum of granules of which the beginning is rounded' lib/team/granules.c \
    'return yki_kernel_set_int(round, 5, (int64_t)(run + own.offset / 4 / RUN));' \
    'return yki_kernel_set_int(round, 5, (int64_t)run);' tests/train/check_shards gradients
mutant 'last bucket whose memory is used again too early' lib/plan/buckets.c \
    ': (int32_t)plan->task_count;' ': memory->last;' tests/train/check_shards gradients

mutant 'bucket of weights that does not come' lib/team/sharding.c \
    'if (!plan->stops[stop].out)' 'if (!plan->stops[stop].out || bucket == 0)' \
    tests/train/check_shards weights
mutant 'bucket of weights that leaves too early' lib/plan/gathers.c \
    'memory->last = YKI_MAX(memory->last, value->last);' 'memory->last = value->last - 1;' \
    tests/train/check_shards weights
mutant 'bucket of weights that comes too late' lib/plan/gathers.c \
    '.task = (size_t)memory->first,' '.task = (size_t)memory->first + 2,' \
    tests/train/check_shards weights
mutant 'bucket of weights that comes when it is read' lib/plan/gathers.c \
    'memory_of(plan, i)->first = memory_of(plan, i - 1)->first;' ';' \
    tests/train/check_gathers_ahead
mutant 'gather that waits for the one before' lib/team/sharding.c \
    'YKI_TRY(wait_passed(crew, s->turn));' 'YKI_TRY(wait_passed(crew, 1 - s->turn));' \
    tests/train/check_gathers_ahead
mutant 'buckets of weights in the order of parameters' lib/plan/gather_order.c \
    'first[order[at - 1]] > neighbour' 'first[order[at - 1]] > neighbour && false' \
    tests/train/check_divided networks
mutant 'weights that are read of an old gather' lib/team/sharding.c \
    ' && s->held_version == version' '' tests/team/check_comm trained
mutant 'weights that are gathered for each tensor' lib/team/sharding.c \
    's->held == bucket + 1' 's->held == bucket + 2' tests/team/check_comm trained
mutant 'level that is chosen without room for parts' lib/team/shard_level.c \
    'return room >= (double)divided;' 'return true;' tests/train/check_shards weights
mutant 'part of weights that begins like the parameter' lib/team/sharding.c \
    'values + (part.offset - weight->offset) / 4)' 'values)' tests/train/check_shards weights

# ---- devices that compute wrongly ----

recheck=tests/faults/check_recheck
mutant 'wrong bits are told and kept' lib/team/granules.c \
    '*good = take_verdicts(crew, e->message);' '*good = take_verdicts(crew, e->message) || true;' \
    $recheck flips
mutant 'one tensor compared' lib/team/recheck.c \
    'i < piece_count(crew) && !*tensor' 'i < 1 && !*tensor' $recheck flips
mutant 'statistics not compared' lib/team/recheck.c \
    'weight_count + 3;' 'weight_count + 2;' $recheck flips
mutant 'a device checks itself' lib/train/recheck.c \
    'chosen[1] = members[count > 1 ? 1 + shift : 0];' 'chosen[1] = members[0];' \
    $recheck broken
mutant 'the one that checks is right' lib/train/recheck.c \
    'for (size_t i = 0; i < 2; i++) {
        const bool right' \
    'for (size_t i = 0; i < 1; i++) {
        const bool right' $recheck broken
mutant 'back to the newest state' lib/train/verified.c \
    'there ? 1 - newest : newest;' 'there ? newest : newest;' $recheck broken
mutant 'every step has a check of all devices' lib/train/verified.c \
    'return t->options.recheck > 1 || (' 'return t->options.recheck > 1 || (0 && ' $recheck broken
mutant 'back without the position' lib/train/fit.c \
    'f->position = kept->position;' ';' $recheck broken

# ---- memory that is short, and what is on its way ----

mutant 'joined where memory is short' lib/plan/join.c \
    'plan->options.no_fusion || plan->options.no_join' 'plan->options.no_fusion' tests/gpu/check_planner
memory=tests/replica/check_memory
mutant 'chain without its beginning' lib/plan/again.c \
    'note_missing(a, &plan->tasks[a->todo[i]], &count);' ';' $memory budget
mutant 'second run into the memory of the first' lib/plan/again.c \
    '*slot = r->copy[*slot];' ';' $memory budget
mutant 'budget of a bound' lib/plan/budget.c \
    'if (bytes <= most) {' 'if (bytes) {' $memory budget
mutant 'no capacity within a budget' lib/plan/plan.c \
    'if (options.most && status' 'if (false && status' $memory budget
mutant 'budget of each core group' lib/train/trainer.c \
    'o->recompute_bytes / t->core_groups.taken' 'o->recompute_bytes' tests/train/check_core_groups
mutant 'feed not waited for' lib/replica/staging.c \
    'size, (yki_wait){&sent, 1}, &s->busy);' 'size, YKI_NO_WAIT, &s->busy);' tests/gpu/check_budgets

# ---- augmentation ----

feed=tests/replica/check_loader
mutant 'shifted by the number of the shift' clkernels/feed.cl \
    '(int)(c3 >> 8) < shifted' '(int)(c1 >> 8) < shifted' $feed
mutant 'all are shifted' clkernels/feed.cl \
    '(int)(c3 >> 8) < shifted ? shift : 0;' 'shift;' $feed
mutant 'a cut shifts all' lib/replica/match_fields.c \
    'cut.shift_part = a->shift_part;' '' $feed

# ---- timelines ----

mutant 'clocks by the first round' lib/train/timeline_clocks.c \
    'low = YKI_MAX(low, all[0].entered - own.left);' \
    'low = round ? low : all[0].entered - own.left;' tests/train/check_clocks

# ---- failures ----

mutant 'wrong device blamed' lib/team/step.c \
    'crew->at = k;
        YKI_TRY(yki_member_run' \
    'crew->at = 0;
        YKI_TRY(yki_member_run' tests/faults/check_team_faults halves
mutant 'update behind a sum that failed' lib/team/landing.c \
    'l->bucket == RESULTS && l->whole' 'l->bucket == RESULTS && !l->whole' tests/team/check_landing roots
mutant 'half an update' lib/team/step.c \
    'crew->updating = true;' 'crew->updating = false;' tests/faults/check_team_faults parts
mutant 'forecast without the way of inputs' lib/replica/staging.c \
    '.passing ? 0 : size' '.passing ? 0 : 0' tests/train/check_forecast
mutant 'forecast of a full batch' lib/train/forecast.c \
    'seconds * (double)n /' 'seconds * (double)plan->options.max.batch /' tests/train/check_forecast
mutant 'forecast of less memory than stages take' lib/train/forecast.c \
    '.memory = usage.used,' '.memory = usage.used / 100 * (t->crew.stages ? 96 : 100),' \
    tests/train/check_fit_memory
mutant 'forecast without the update' lib/train/forecast.c \
    'return update + (t->' 'return (t->' tests/train/check_forecast
mutant 'forecast without gathers' lib/train/forecast.c \
    'slowest + sums_of(t) + gathers_of(t, rows)' 'slowest + sums_of(t)' tests/train/check_forecast
mutant 'gathers of one micro-batch' lib/train/forecast.c \
    'return (double)most * t->options.accumulate;' 'return (double)most;' tests/train/check_forecast
mutant 'budget of all that is left' lib/team/shard_level.c \
    '- (double)row->rest[level] - part' '- part' tests/train/check_fit_memory ways
mutant 'values computed again before weights are divided' lib/team/shard_level.c \
    '{YOKE_SHARD_WEIGHTS, false},  {YOKE_SHARD_STATE, true},' \
    '{YOKE_SHARD_STATE, true},  {YOKE_SHARD_WEIGHTS, false},' tests/train/check_fit_memory ways
mutant 'weights never divided where values are computed again' lib/team/shard_level.c \
    '{YOKE_SHARD_GRADIENTS, true}, {YOKE_SHARD_WEIGHTS, true}' \
    '{YOKE_SHARD_GRADIENTS, true}, {YOKE_SHARD_GRADIENTS, true}' tests/train/check_fit_memory ways
mutant 'another way than was asked for' lib/train/fit_memory.c \
    'o->recompute == YOKE_RECOMPUTE_AUTO && !o->recompute_bytes' 'true' tests/train/check_fit_memory ways
mutant 'stages that keep nothing for evaluations' lib/team/cut.c \
    '(p->evaluates ? evaluation + across / 2 : 0)' '0' tests/team/check_cut
mutant 'parts share weights' lib/team/crew.c \
    '!crew->stages && !options->own_weights' '!crew->stages' tests/train/check_own_weights
mutant 'a frozen base for each part' lib/plan/weights.c \
    'if (w->lender)
            pool->values' \
    'if (w->lender && i < w->pool_count)
            pool->values' tests/train/check_own_weights
