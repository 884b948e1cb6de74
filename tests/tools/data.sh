#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# data.sh - `yoke data`: counts, ranges and classes of small sets that are known, the picture of
# samples, and what is refused. It needs no device.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data

expect 0 -- data "$digits"
says "$out" '^train: 1437 samples$'
says "$out" '^test: 360 samples$'
says "$out" '^a sample: image u8 \(1, 8, 8\), label u8 \(\)$'
says "$out" '^all +0 +255 +77\.[0-9]+ +9[0-9]\.[0-9]+$'
says "$out" '^0 +14[0-9] +3[0-9]$'
says "$out" '^9 +1[0-9]+ +3[0-9]$'

# Each column by itself; names of classes.
cat >"$work/table.csv" <<'CSV'
length,width,kind
1,10,round
3,30,square
5,50,round
CSV
expect 0 -- data "$work/table.csv"
says "$out" '^train: 3 samples$'
lacks "$out" '^test'
says "$out" '^0 +1 +5 +3 +1\.633$'
says "$out" '^1 +10 +50 +30 +16\.33$'
says "$out" '^round +2$'
says "$out" '^square +1$'
expect 0 -- data --json "$work/table.csv"
says "$out" '"not_finite": 0'
says "$out" '"name": "square"'

# Two samples of two floats, 1 and NaN, 3 and infinity, without labels.
{
    printf '\223NUMPY\001\000v\000'
    printf "%-117s\\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
    printf '\000\000\200\077\000\000\300\177\000\000\100\100\000\000\200\177'
} >"$work/odd.npy"
expect 0 -- data "$work/odd.npy"
says "$out" '^0 +1 +3 +2 +1 +0$'
says "$out" '^1 +- +- +- +- +2$'
lacks "$out" 'CLASS'

# Targets have ranges as data have.
printf 'a,price\n1,100\n2,250.5\n' >"$work/prices.csv"
expect 0 -- data "$work/prices.csv"
says "$out" '^all +100 +250\.5 +175\.25 +75\.25$'

# Sixteen images of 8 x 8, eight times as large, in four rows, with gaps of two.
expect 0 -- data --out="$work/sheet.pgm" "$digits"
[ "$(head -c 15 "$work/sheet.pgm" | tr '\n' ' ')" = "P5 266 266 255 " ] || fail "the picture is no PGM of 266 x 266"
[ "$(wc -c <"$work/sheet.pgm")" = $((15 + 266 * 266)) ] || fail "the picture has another size"
# Its first pixel is grey, as gaps are; the first image has each of its pixels as 8 x 8 equal ones.
[ "$(od -An -tu1 -j15 -N1 "$work/sheet.pgm" | tr -d ' ')" = 128 ] || fail "gaps are not grey"
row=$(od -An -v -w64 -tu1 -j$((15 + 2 * 266 + 2)) -N64 "$work/sheet.pgm")
pixels=$(gzip -dc "$digits/train-images-idx3-ubyte.gz" | od -An -v -w8 -tu1 -j16 -N8)
[ "$(echo "$row" | tr -s ' ' '\n' | sed -n '2~8p' | tr '\n' ' ')" = "$(echo "$pixels" | tr -s ' ' '\n' | sed 1d | tr '\n' ' ')" ] ||
    fail "the first row of the first image is $row, not $pixels"
expect 1 -- data --out="$work/sheet.jpg" "$digits"
says "$err" 'sheet.jpg: must end in .png, .ppm or .pgm'
expect 1 -- data --out="$work/sheet.pgm" "$work/table.csv"
says "$err" '--out draws images'
expect 1 -- data --out="$work/none/sheet.pgm" "$digits"
says "$err" 'cannot be written'

expect 2 -- data
says "$err" 'no data is given'
expect 1 -- data "$work/none"
says "$err" 'there is no such file or folder'

finish
