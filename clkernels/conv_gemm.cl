/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_gemm.cl - convolutions as implicit matrix products, in plain layout, with any
 * kernel, stride, pad, dilation and groups.
 *
 * Each of the three is a product A B of matrices that exist only as rules for finding
 * an element: positions of the output against channels, summed over taps. A work-group
 * of TS x TS work-items computes a tile of 4 TS x 4 TS in registers. In each step of
 * KT, the pieces of both operands go through local memory, with zeros where a tap
 * falls outside the image. Groups loop over tiles, so any grid works. No gradient
 * scatters: the input's gradient gathers what reaches it.
 *
 * Letters: x (N, C, H, W), weight (O, CG, KH, KW), y (N, O, OH, OW); CG = C / groups,
 * OG = O / groups.
 *
 * Where the quotient is needed too, a remainder is written n - n / m * m. Compilers do
 * the same by themselves, but leave an instruction behind that simulators cannot run.
 */
#ifndef TS
#define TS 16
#endif
#define KT 16
#define RM 4
#define BM (TS * RM)
#define ITEMS (TS * TS)

/* acc[i][j] += A[k][row i] * B[k][column j]. The rows and columns of a work-item are TS apart,
 * so that neighbours read adjacent words of local memory. */
#define TILE_PRODUCT(a, b, acc)                                                               \
    for (int k_ = 0; k_ < KT; k_++) {                                                         \
        float u_[RM], v_[RM];                                                                 \
        for (int i_ = 0; i_ < RM; i_++)                                                       \
            u_[i_] = a[k_][ly + i_ * TS];                                                     \
        for (int i_ = 0; i_ < RM; i_++)                                                       \
            v_[i_] = b[k_][lx + i_ * TS];                                                     \
        for (int i_ = 0; i_ < RM; i_++)                                                       \
            for (int j_ = 0; j_ < RM; j_++)                                                   \
                acc[i_][j_] = YKI_FMA(u_[i_], v_[j_], acc[i_][j_]);                           \
    }

#define ZERO_TILE(acc)                                                                        \
    for (int i_ = 0; i_ < RM; i_++)                                                           \
        for (int j_ = 0; j_ < RM; j_++)                                                       \
            acc[i_][j_] = 0.f;

float
activated(float value, int act)
{
    return act == 1 && value <= 0.f ? 0.f : value;
}

/* y[n][o][oh][ow]: rows are output channels of a group, columns are positions of all samples. */
__kernel YKI_GROUP(TS, TS) void
yki_conv_gemm_forward(__global const float *x, __global const float *weight,
                      __global const float *bias, __global float *y, int samples, int groups,
                      int cg, int og, int h, int w, int oh, int ow, int kh, int kw, int sh, int sw,
                      int ph, int pw, int dh, int dw, int has_bias, int act)
{
    __local float a[KT][BM + 1], b[KT][BM + 1];
    int lx = get_local_id(0), ly = get_local_id(1), item = ly * TS + lx;
    int area = oh * ow, depth = cg * kh * kw;
    long columns = (long)samples * area;

    for (int g = get_group_id(2); g < groups; g += get_num_groups(2))
        for (int m0 = get_group_id(1) * BM; m0 < og; m0 += get_num_groups(1) * BM)
            for (long p0 = (long)get_group_id(0) * BM; p0 < columns;
                 p0 += (long)get_num_groups(0) * BM) {
                float acc[RM][RM];

                ZERO_TILE(acc)
                for (int k0 = 0; k0 < depth; k0 += KT) {
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        int m = m0 + i / KT, k = k0 + i % KT;

                        a[i % KT][i / KT] = m < og && k < depth
                                                ? weight[(long)(g * og + m) * depth + k]
                                                : 0.f;
                    }
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        long p = p0 + i % BM;
                        int k = k0 + i / BM;
                        float value = 0.f;

                        if (p < columns && k < depth) {
                            long n = p / area;
                            int q = (int)(p - n * area), oy = q / ow, r = k / kw, c = r / kh;
                            int iy = oy * sh - ph + (r - c * kh) * dh;
                            int ix = (q - oy * ow) * sw - pw + (k - r * kw) * dw;

                            if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                                value = x[((n * groups + g) * cg + c) * h * w +
                                          (long)iy * w + ix];
                        }
                        b[i / BM][i % BM] = value;
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    TILE_PRODUCT(a, b, acc)
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                for (int i = 0; i < RM; i++)
                    for (int j = 0; j < RM; j++) {
                        int m = m0 + ly + i * TS;
                        long p = p0 + lx + j * TS, n = p / area;

                        if (m < og && p < columns)
                            y[(n * groups * og + g * og + m) * area + (p - n * area)] =
                                activated(acc[i][j] + (has_bias ? bias[g * og + m] : 0.f), act);
                    }
            }
}

/* dx[n][c][h][w]: rows are input channels of a group, columns are positions of the input. A tap
 * counts where its position in dy is a whole number. */
__kernel YKI_GROUP(TS, TS) void
yki_conv_gemm_grad_input(__global const float *dy, __global const float *weight,
                         __global const float *bias, __global float *dx, int samples, int groups,
                         int cg, int og, int h, int w, int oh, int ow, int kh, int kw, int sh,
                         int sw, int ph, int pw, int dh, int dw, int has_bias, int act)
{
    __local float a[KT][BM + 1], b[KT][BM + 1];
    int lx = get_local_id(0), ly = get_local_id(1), item = ly * TS + lx;
    int area = h * w, taps = kh * kw, depth = og * taps;
    long columns = (long)samples * area;

    for (int g = get_group_id(2); g < groups; g += get_num_groups(2))
        for (int m0 = get_group_id(1) * BM; m0 < cg; m0 += get_num_groups(1) * BM)
            for (long p0 = (long)get_group_id(0) * BM; p0 < columns;
                 p0 += (long)get_num_groups(0) * BM) {
                float acc[RM][RM];

                ZERO_TILE(acc)
                for (int k0 = 0; k0 < depth; k0 += KT) {
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        int m = m0 + i / KT, k = k0 + i % KT, o = k / taps;

                        a[i % KT][i / KT] =
                            m < cg && k < depth
                                ? weight[((long)(g * og + o) * cg + m) * taps + (k - o * taps)]
                                : 0.f;
                    }
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        long p = p0 + i % BM;
                        int k = k0 + i / BM;
                        float value = 0.f;

                        if (p < columns && k < depth) {
                            long n = p / area;
                            int q = (int)(p - n * area), iy = q / w, r = k / kw, o = r / kh;
                            int ty = iy + ph - (r - o * kh) * dh, oy = ty / sh;
                            int tx = q - iy * w + pw - (k - r * kw) * dw, ox = tx / sw;

                            if (ty >= 0 && tx >= 0 && oy * sh == ty && ox * sw == tx && oy < oh &&
                                ox < ow)
                                value = dy[((n * groups + g) * og + o) * oh * ow + (long)oy * ow +
                                           ox];
                        }
                        b[i / BM][i % BM] = value;
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    TILE_PRODUCT(a, b, acc)
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                for (int i = 0; i < RM; i++)
                    for (int j = 0; j < RM; j++) {
                        int m = m0 + ly + i * TS;
                        long p = p0 + lx + j * TS, n = p / area;

                        if (m < cg && p < columns)
                            dx[(n * groups * cg + g * cg + m) * area + (p - n * area)] =
                                activated(acc[i][j] + (has_bias ? bias[g * cg + m] : 0.f), act);
                    }
            }
}

/* part[split][o][c][kh][kw]: rows are output channels of a group, columns are its (c, kh, kw).
 * The sum runs over the positions of this split's samples. Dimension 2 of the grid is (group,
 * split). */
__kernel YKI_GROUP(TS, TS) void
yki_conv_gemm_grad_weight(__global const float *x, __global const float *dy, __global float *part,
                          int samples, int groups, int cg, int og, int h, int w, int oh, int ow,
                          int kh, int kw, int sh, int sw, int ph, int pw, int dh, int dw,
                          int splits)
{
    __local float a[KT][BM + 1], b[KT][BM + 1];
    int lx = get_local_id(0), ly = get_local_id(1), item = ly * TS + lx;
    int area = oh * ow, columns = cg * kh * kw;

    for (int gs = get_group_id(2); gs < groups * splits; gs += get_num_groups(2)) {
        int g = gs / splits, split = gs - g * splits;
        long first = (long)samples * split / splits * area;
        long end = (long)samples * (split + 1) / splits * area;

        for (int m0 = get_group_id(1) * BM; m0 < og; m0 += get_num_groups(1) * BM)
            for (int p0 = get_group_id(0) * BM; p0 < columns; p0 += get_num_groups(0) * BM) {
                float acc[RM][RM];

                ZERO_TILE(acc)
                for (long k0 = first; k0 < end; k0 += KT) {
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        int m = m0 + i / KT;
                        long k = k0 + i % KT, n = k / area;

                        a[i % KT][i / KT] =
                            m < og && k < end
                                ? dy[((n * groups + g) * og + m) * area + (k - n * area)]
                                : 0.f;
                    }
                    for (uint i = item; i < BM * KT; i += ITEMS) {
                        int p = p0 + i / KT;
                        long k = k0 + i % KT;
                        float value = 0.f;

                        if (p < columns && k < end) {
                            long n = k / area;
                            int q = (int)(k - n * area), oy = q / ow, r = p / kw, c = r / kh;
                            int iy = oy * sh - ph + (r - c * kh) * dh;
                            int ix = (q - oy * ow) * sw - pw + (p - r * kw) * dw;

                            if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                                value = x[((n * groups + g) * cg + c) * h * w +
                                          (long)iy * w + ix];
                        }
                        b[i % KT][i / KT] = value;
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    TILE_PRODUCT(a, b, acc)
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                for (int i = 0; i < RM; i++)
                    for (int j = 0; j < RM; j++) {
                        int m = m0 + ly + i * TS, p = p0 + lx + j * TS;

                        if (m < og && p < columns)
                            part[((long)split * groups * og + g * og + m) * columns + p] =
                                acc[i][j];
                    }
            }
    }
}
