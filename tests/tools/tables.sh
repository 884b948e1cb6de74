#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tables.sh - tables with text and missing values: `yoke train --columns`, and `yoke eval` and `yoke
# predict` with the encoding that the model has.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

pocl=OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES POCL_DEVICES NO_COLOR

# What is bought depends on the city alone.
awk 'BEGIN {
    split("Rome Oslo Bonn Rome", city, " ")
    print "id,city,age,bought"
    for (i = 0; i < 60; i++)
        print "c" i "," city[i % 4 + 1] "," (i % 7 ? 20 + i : "") "," (i % 4 % 3 ? "no" : "yes")
}' >"$work/people.csv"

expect 1 -- data "$work/people.csv"
says "$err" 'line 2, column 1: "c0" is not a number'
expect 0 -- data --columns='id=drop,*=auto' "$work/people.csv"
says "$out" '^a sample: x f32 \(4\), label i32 \(\)$'
expect 1 -- data --columns='id=dropped' "$work/people.csv"
says "$err" '"id=dropped" is no rule for columns'

expect 0 "$pocl" -- train --model=tiny --devices=cpu:0 --level=estimate --epochs=60 --batch=8 \
    --data="$work/people.csv" --columns='id=drop,*=auto' --out="$work/model"
says "$out" '^test accuracy 100.00 %'
expect 0 "$pocl" -- eval --data="$work/people.csv" --devices=cpu:0 "$work/model"
says "$out" '^accuracy 100.00 %'

# New people: other columns, in another order, and no labels.
printf 'age,height,city\n50,1.8,Oslo\n,1.7,Rome\n33,1.6,Bonn\n' >"$work/new.csv"
expect 0 "$pocl" -- predict --data="$work/new.csv" --devices=cpu:0 "$work/model"
checks=$((checks + 1))
[ "$(cut -f2 "$out" | tr '\n' ' ')" = 'no yes no ' ] || fail "other classes"
for file in "$work/new.csv" "$work/new"; do
    expect 2 -- predict --data="$work/new.csv" --out="${file%.csv}.txt" "$work/model"
    says "$err" 'must end with .csv or .npy$'
done
expect 0 "$pocl" -- predict --data="$work/new.csv" --devices=cpu:0 --out="$work/told.csv" "$work/model"
empty "$out"
checks=$((checks + 1))
awk -F, 'NR == 1 { good = $0 == "sample,no,yes"; next }
    { sum = $2 + $3; good = good && $1 == NR - 2 && sum > 0.9999 && sum < 1.0001 && ($3 > $2) == (NR == 3) }
    END { exit !(good && NR == 4) }' "$work/told.csv" || fail "another table: $(cat "$work/told.csv")"
expect 0 "$pocl" -- predict --data="$work/new.csv" --devices=cpu:0 --first=1 --out="$work/told.npy" "$work/model"
checks=$((checks + 1))
[ "$(wc -c <"$work/told.npy")" = $((128 + 2 * 2 * 4)) ] || fail "another size: $(wc -c <"$work/told.npy")"
expect 0 -- data "$work/told.npy"
says "$out" '2 samples$'
says "$out" '^a sample: [a-z]* f32 \(2\)'
printf 'age,town\n50,Oslo\n' >"$work/town.csv"
expect 1 "$pocl" -- predict --data="$work/town.csv" --devices=cpu:0 "$work/model"
says "$err" 'town.csv has no column "city"$'

finish
