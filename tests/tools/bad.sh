#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bad.sh - files that are not what they should be, through the command: each is
# answered by one sentence that names the file and says what was expected, by exit
# status 1, and by nothing on standard output. (Disks that are full or may not be
# written: check_signals.)

. "$YOKE_SRCDIR/tests/tools/lib.sh"

digits=$YOKE_SRCDIR/examples/data
graph=$work/graph.json
cat >"$graph" <<'END'
{"nodes": [
  {"op": "input", "name": "image", "type": "f32", "shape": [1, 8, 8]},
  {"op": "flatten"},
  {"op": "dense", "name": "fc", "units": 5},
  {"op": "target", "name": "label", "type": "i32", "shape": []},
  {"op": "softmax_cross_entropy", "name": "ce", "inputs": ["fc", "label"]}],
 "outputs": {"logits": "fc"}, "loss": "ce"}
END

# refused FILE PATTERN ARGUMENT...: status 1, and a sentence about the file
refused() {
    named=$1
    pattern=$2
    shift 2
    expect 1 -- "$@"
    says "$err" "^yoke: [a-z]+: .*/$named.*$pattern"
    empty "$out"
    checks=$((checks + 1))
    [ "$(grep -vc ': note: ' "$err")" = 1 ] || fail "more than a sentence"
}

# data FILE PATTERN: as samples to train with
data() {
    refused "$1" "$2" train --model=mlp --data="$work/$1"
}

# idx NAME DIMENSION...: the header of an IDX file of bytes, dimensions as four octal bytes
header() {
    name=$1
    shift
    printf "\\000\\000\\010\\00$#" >"$work/$name"
    for size in "$@"; do
        # shellcheck disable=SC2059 # escapes are what it is for
        printf "$size" >>"$work/$name"
    done
}

one='\000\000\000\001'
ten='\000\000\000\012'

# ---- samples ----

data none 'there is no such file or folder'
mkdir "$work/folder"
data folder 'no data here'
: >"$work/empty.idx"
data empty.idx 'is none of IDX, .npy by its first bytes'
head -c 200 /dev/zero >"$work/zeros.idx"
data zeros.idx 'is none of IDX, .npy by its first bytes'
header short-images-idx3-ubyte "$ten" "$ten" "$ten"
head -c 500 /dev/zero >>"$work/short-images-idx3-ubyte"
data short-images-idx3-ubyte 'has 516 bytes; must have 1016, as its header says'
header huge-images-idx3-ubyte '\200\000\000\000' '\000\000\000\034' '\000\000\000\034'
head -c 784 /dev/zero >>"$work/huge-images-idx3-ubyte"
data huge-images-idx3-ubyte 'has 800 bytes; must have 1683627180048, as its header says'
header many-images-idx3-ubyte '\377\377\377\377' '\377\377\377\377' '\377\377\377\377'
data many-images-idx3-ubyte 'axis 1 has size 4294967295'
header alone-images-idx3-ubyte "$one" "$ten" "$ten"
head -c 100 /dev/zero >>"$work/alone-images-idx3-ubyte"
data alone-images-idx3-ubyte 'has samples but neither labels nor targets'
head -c 3000 "$digits/train-images-idx3-ubyte.gz" >"$work/cut-images-idx3-ubyte.gz"
data cut-images-idx3-ubyte.gz 'is cut short: the compressed data ends at byte'
printf 'not zipped at all' >"$work/plain.gz"
data plain.gz 'is none of IDX, .npy'

# a folder whose parts do not belong together, or are none
mkdir "$work/odd"
cp "$digits/train-images-idx3-ubyte.gz" "$work/odd"
cp "$digits/t10k-labels-idx1-ubyte.gz" "$work/odd/train-labels-idx1-ubyte.gz"
data odd 'has 1437 samples, .*train-labels-idx1-ubyte.gz has 360'
mkdir -p "$work/nested/train-images-idx3-ubyte" "$work/nested/train-labels-idx1-ubyte"
refused nested/train-images-idx3-ubyte 'is a folder; must be a file' \
    train --model=mlp --data="$work/nested"

printf '\223NUMPY\001\000\166\000{"descr": "|O"' >"$work/objects.npy"
data objects.npy 'it is not of numbers'
printf '\223NUMPZ' >"$work/magic.npy"
data magic.npy 'is none of IDX, .npy'
head -c 3000 /dev/zero >"$work/odd.bin"
data odd.bin 'has 3000 bytes; must have a multiple of 3073, as CIFAR-10 has'

printf 'a,b,label\n1,2,0\n3,nan,1\n' >"$work/nan.csv"
data nan.csv 'line 3, column 2: "nan" is not a number'
printf 'a,b,label\n1,2,0\n3,4,1\n5,6\n' >"$work/ragged.csv"
data ragged.csv 'line 4, column 2: the row ends, with fewer columns than the 3'
printf 'a,b,label\n1,2,0\n3,4,1,9\n' >"$work/wide.csv"
data wide.csv 'line 3, column 4: more columns than the 3'
printf 'a,b,label\n1,2,0\n3,,1\n' >"$work/hole.csv"
data hole.csv 'line 3, column 2: the cell is empty; must be a number'
printf 'a,b,label\n1,"2,0\n3,4,1\n' >"$work/quote.csv"
data quote.csv 'line 2, column 2: a quote is not closed'

# more classes than the model has
refused data 'sample [0-9]+ has the label [5-9]; must be between 0 and 4' \
    train --model="$graph" --data="$digits" --devices=cpu:0

# ---- models ----

echo '{"nodes": [' >"$work/open.json"
echo '{"nodes": [{"op": "imput", "name": "x", "shape": [1]}]}' >"$work/op.json"
echo '{"nodes": [{"op": "input", "name": "x", "shape": [-1]}]}' >"$work/shape.json"
for row in 'open:line 2, column 0' 'op:there is no operator "imput"; did you mean "input"\?' 'shape:input needs "type"'; do
    file=${row%%:*}.json
    refused "$file" "${row#*:}" info "$work/$file"
    refused "$file" "${row#*:}" train --data="$digits" --model="$work/$file"
done
refused none.json 'No such file' train --model="$work/none.json" --data="$digits"
refused folder 'is a folder, not a file; must be a graph as JSON' train --model="$work/folder" --data="$digits"

: >"$work/empty"
head -c 100 /dev/zero >"$work/zeros"
printf '\377\377\377\377\377\377\377\377{}' >"$work/absurd"
printf '\020\000\000\000\000\000\000\000{"a": ' >"$work/cut"
printf 'PK\003\004\000\000\010\010\000\000\000\000' >"$work/zip"
for row in 'none:No such file' 'folder:is a folder' 'empty:no safetensors file: it has 0 bytes' \
    'zeros:no safetensors file: the length of its header is 0; must be between 2 and 92' \
    'absurd:the length of its header is 18446744073709551615; must be between 2 and 2' \
    'cut:no safetensors file: the length of its header is 16; must be between 2 and 6' \
    'zip:but a zip archive, as torch.save writes; save the weights with safetensors'; do
    file=${row%%:*}
    wrong=${row#*:}
    refused $file "$wrong" info "$work/$file"
    refused $file "$wrong" eval --data="$digits" "$work/$file"
    refused $file "$wrong" predict --data="$digits" "$work/$file"
done
refused cut 'the length of its header is 16; must be' \
    train --model="$graph" --data="$digits" --devices=cpu:0 --init="$work/cut"
refused none 'No such file' plot "$work/none"
refused folder 'is a folder, not a file; must be a log that yoke train --log wrote' plot "$work/folder"
refused zeros 'has no step of a training' plot "$work/zeros"
refused none 'the model cannot be written: No such file' train --model=mlp --data="$digits" --out="$work/none/model"
refused folder 'is a folder; must be a file for --out' train --model=mlp --data="$digits" --out="$work/folder"
refused folder 'the log cannot be written: Is a directory' train --model=mlp --data="$digits" --log="$work/folder"

finish
