/* SPDX-License-Identifier: Apache-2.0
 *
 * random_words.cl - random words by which numbers are rounded up or down, in vectors of VEC.
 *
 * A word follows from the number of an element and from two keys alone, so it is the same on every
 * device, in vectors of any width. Two multiplications mix it well enough for rounding, where ten
 * rounds of Philox would take longer than what is rounded.
 */
#ifndef VEC
#define VEC 16
#endif

__constant uint lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Those of VEC elements that follow one another. */
YKI_PASTE(uint, VEC) random_words(uint first, uint key0, uint key1)
{
    YKI_PASTE(uint, VEC) x = (YKI_PASTE(vload, VEC)(0, lanes) + first) * 0x9e3779b1u ^ key0;

    x = (x ^ x >> 16) * 0x7feb352du ^ key1;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}
