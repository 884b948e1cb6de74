#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# report.sh - `yoke report` makes one page of a run: it is well-formed, needs nothing else, has all
# sections, its figures are those of the other commands, and names that are markup stay text.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data

expect 2 -- report
says "$err" '^yoke: report: no run is given'
expect 2 -- report a b
expect 1 -- report "$work/none"
says "$err" "^yoke: report: $work/none"

take_pocl

# page FILE [MISSING]...: a page that needs nothing else, with all sections but these
page() {
    file=$1
    shift
    xml "$file"
    lacks "$file" '<script|<link|<iframe|<object|https?://[^w]|url\(|@import| on[a-z]+="'
    for id in course test samples model graph devices run; do
        case " $* " in
        *" $id "*) lacks "$file" "<section id=\"$id\">" ;;
        *) says "$file" "<section id=\"$id\">" ;;
        esac
    done
}

# ---- a run of two devices, with layers whose names are markup ----

write_graph "$work/graph.json" '{"op": "dense", "name": "<script>alert(1)</script>\"&", "units": 16}, {"op": "relu"},'
mkdir "$work/run"
expect 0 -- train --model="$work/graph.json" --data="$digits" --epochs=2 --batch=64 --normalize \
    --devices=cpu:0/1+1 --shares=3,1 --level=estimate --checkpoint="$work/run/saved" \
    --log="$work/run/log.jsonl" --out="$work/run/model" --reproducible=any-split
hash=$(sed -n 's/^weights \([0-9a-f]*\)$/\1/p' "$out")
expect 0 -- report --out="$work/page.html" "$work/run/model"
empty "$out"
empty "$err"
page "$work/page.html"
says "$work/page.html" "<td>${hash:-none}</td>"
says "$work/page.html" '<td>cpu:0/1\+1\.0</td><td class="number">75\.0 %</td>'
says "$work/page.html" '&#60;script&#62;alert\(1\)&#60;/script&#62;&#34;&#38;: dense 16'
says "$work/page.html" '<tr><th>shares</th><td>3,1</td></tr>'
says "$work/page.html" '^<pre>shares: auto'
says "$work/page.html" '>speed of training</text>'
says "$work/page.html" 'prefers-color-scheme:dark'

# the figures of yoke eval and yoke info
expect 0 -- eval --data="$digits" --devices=cpu:0/1+1 "$work/run/model"
checks=$((checks + 1))
sed 's/&#[0-9]*;/./g' "$work/page.html" >"$work/plain"
while read -r line; do
    grep -q -F -e "$line" "$work/plain" || fail "the page has no line: $line"
done <"$out"
expect 0 -- eval --data="$digits" --json --devices=cpu:0/1+1 "$work/run/model"
for label in 0 1 2 3 4 5 6 7 8 9; do
    right=$("$pick" "classification.confusion.$label.$label" <"$out")
    all=$("$pick" "classification.classes.$label.samples" <"$out")
    [ "$right" = 0 ] ||
        says "$work/page.html" "title=\"$label is taken for $label: $right of $all\">$right</td>"
done
says "$work/page.html" '<td class="good" style="--part:0'
expect 0 -- info "$work/run/model"
says "$work/page.html" "^$(sed -n 's/^\(parameters [0-9]*\)$/\1/p' "$out")$"

# the worst samples begin with the largest loss, the best with the least
checks=$((checks + 1))
lacks "$work/page.html" '<br/>loss [0-9](\.[0-9]{1,2})?<' # as everywhere: four digits
sed -n 's/.*loss \([0-9.e+-]*\)<\/span><\/li>$/\1/p' "$work/page.html" | awk '
    NR == 13 { if (!($1 <= last)) bad = 1; last = $1 }
    NR > 1 && NR != 13 && (NR < 13 ? $1 > last : $1 < last) { bad = 1 }
    { last = $1 }
    END { exit bad || NR != 24 }' || fail "the samples are not in order, or not 24"

# the folder of checkpoints, moved with its log
mv "$work/run" "$work/<b>&run"
expect 0 -- report "$work/<b>&run/saved"
cp "$out" "$work/moved.html"
page "$work/moved.html"
says "$work/moved.html" '<h1>.*&#60;b&#62;&#38;run/saved</h1>'
says "$work/moved.html" "<td>$hash</td>"
says "$work/moved.html" '^step +46$'

# ---- what is not there is left out ----

cp "$work/<b>&run/model" "$work/$(printf 'alone\377')"
expect 0 -- report --out="$work/alone.html" "$work/$(printf 'alone\377')"
says "$err" 'the data of the run are not found; --data=DIR names them'
page "$work/alone.html" test samples
says "$work/alone.html" 'There is no log'
says "$work/alone.html" "<td>$hash</td>"
says "$work/alone.html" '<h1>.*alone\?</h1>'
echo '{"kind": "start"}' >"$work/<b>&run/log.jsonl"
expect 0 -- report --out="$work/short.html" "$work/<b>&run/model"
says "$err" 'log.jsonl: has no step of a training'
page "$work/short.html"
says "$work/short.html" 'There is no log'
expect 1 -- report --out="$work/not.html" --data="$work/none" "$work/<b>&run/model"
expect 1 -- report --out="$work/not.html" --log="$work/graph.json" "$work/<b>&run/model"
says "$err" "^yoke: report: $work/graph.json: line 1 "
checks=$((checks + 1))
[ ! -e "$work/not.html" ] || fail "a report that failed left a page"
expect 1 -- report --out="$work/no/page.html" "$work/<b>&run/model"
says "$err" "^yoke: report: $work/no/page.html: the page cannot be written"

# ---- values and texts have no samples of classes ----

awk -v count=200 -f "$YOKE_SRCDIR/tests/tools/prices.awk" >"$work/prices.csv"
expect 0 -- train --model=mlp --data="$work/prices.csv" --epochs=1 --devices=cpu:0 \
    --level=estimate --out="$work/prices"
expect 0 -- report --out="$work/prices.html" "$work/prices"
page "$work/prices.html" samples
says "$work/prices.html" '^RMSE '

# ---- the pictures are PNG, and classes whose names are markup ----

n=0
sed -n 's/.*src="data:image\/png;base64,\([^"]*\)".*/\1/p' "$work/page.html" >"$work/images"
while read -r image; do
    n=$((n + 1))
    folder=$work/set/'<i>&"cat'
    [ $n -le 12 ] || folder=$work/set/"dog'<b>"
    mkdir -p "$folder"
    echo "$image" | base64 -d >"$folder/$(printf %02d $n).png"
done <"$work/images"
if "$yoke" data "$work/set" 2>&1 | grep -q 'this build of yoke cannot read'; then
    skip "this build reads no PNG"
    finish
fi
expect 0 -- data "$work/set"
says "$out" '24 samples'
# of the same pixels the model says the same
expect 0 -- predict --data="$work/set" --devices=cpu:0 "$work/<b>&run/model"
checks=$((checks + 1))
cut -f2 "$out" >"$work/answers"
sed -n -e 's/.*"\/>\(.*\)<br\/><span>sample.*/\1/' -e 's/.*taken for \(.*\)<\/span>/\1/' -e '/^[0-9]$/p' \
    "$work/page.html" >"$work/shown"
cmp -s "$work/answers" "$work/shown" || fail "the answers are: $(paste "$work/answers" "$work/shown")"
expect 0 -- train --model=tiny --data="$work/set" --epochs=1 --devices=cpu:0 --level=estimate \
    --out="$work/animals"
expect 0 -- report --out="$work/animals.html" "$work/animals"
page "$work/animals.html"
says "$work/animals.html" '&#60;i&#62;&#38;&#34;cat'
lacks "$work/animals.html" '<i>'

finish
