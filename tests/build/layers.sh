#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# layers.sh - the rules of lib/ about who may know whom (docs/design.md, "The layers"):
#
#   - a room uses the rooms before it in the table below, and none behind it;
#   - of another room it includes only the headers that the table names;
#   - lib/plan/ names no solver: it knows the table of all of them;
#   - attributes of operators are copied (YKI_ATTRS in lib/graph/graph.h), never cast;
#   - OpenCL's headers are included in lib/device/ and lib/op/matmul/clblast.c, MPI's nowhere;
#   - mpi/, tools/ and examples/ include of lib/ the public headers only, but for base/near.h,
#     which finds near names for the command as well;
#   - in a room no more than three files lead to one another in a circle.

set -u
cd "$YOKE_SRCDIR" || exit 1
failed=0
fail() {
    echo "FAIL: $*"
    failed=1
}

# room: headers that others may include
rooms='
base     base/base.h base/near.h
device   device/device.h device/cl.h device/trace.h
graph    graph/graph.h
op       op/ops.h op/flat.h op/custom/custom.h
zoo
plan     plan/plan.h
data     data/adapter_file.h data/dataset.h data/json.h data/graph_json.h data/onnx.h data/safetensors.h data/shards.h data/weights_file.h
shares   shares/shares.h shares/ranges.h
replica  replica/updater.h replica/replica.h replica/loader.h replica/model.h
team     team/team.h team/crew.h team/sharding.h team/stages.h team/pipeline.h
train
'

# ---- includes ----

room_includes() {
    for file in $(find lib -name '*.[ch]'); do
        sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file" | sed "s|^|$file |"
    done
}
report=$(room_includes | awk -v rooms="$rooms" '
    BEGIN {
        count = split(rooms, line, "\n")
        for (i = 1; i <= count; i++) {
            words = split(line[i], word, " ")
            if (words) place[word[1]] = ++n
            for (k = 2; k <= words; k++) open[word[k]] = 1
        }
    }
    {
        split($1, from, "/"); split($2, to, "/")
        if (!(from[2] in place) || !(to[1] in place) || from[2] == to[1]) next
        if (place[to[1]] > place[from[2]])
            print $1 " includes " $2 ", of a room behind its own"
        else if (!($2 in open))
            print $1 " includes " $2 ", which is for lib/" to[1] " alone"
    }')
[ -z "$report" ] || fail "$report"

for room in $(find lib -mindepth 1 -maxdepth 1 -type d | sed 's|lib/||'); do
    echo "$rooms" | grep -q "^$room\( \|\$\)" || fail "lib/$room is not in the table of $0"
done
for file in $(grep -rlE '#include [<"](CL/|clblast)' lib | grep -v '^lib/device/'); do
    [ "$file" = lib/op/matmul/clblast.c ] || fail "$file includes OpenCL's headers"
done
for file in $(grep -rlE '#include [<"]mpi\.h' lib); do
    fail "$file includes MPI's header"
done
for line in $(grep -rnE 'yki_solver_[a-z0-9_]+' lib/plan |
    grep -vE 'yki_solver_(emit|ends|suits)\b' | tr ' ' '_'); do
    fail "lib/plan names a solver: $line"
done
for line in $(grep -rnE 'attrs(\.|->)bytes' lib tests --include='*.[ch]' |
    grep -vE '^lib/graph/(graph\.[ch]|digest\.c):' | tr ' ' '_'); do
    fail "attributes are read and written by the functions of YKI_ATTRS alone: $line"
done
for line in $(grep -rhoE '#include "(base|device|graph|op|zoo|plan|data|shares|replica|team|train)/[^"]*' \
    mpi tools examples | grep -v 'base/near\.h' | sort -u | tr ' ' '_'); do
    fail "outside of lib/: $line"
done

# ---- circles ----

# room_calls ROOM: "FILE FILE", the first uses a symbol of the second. Objects without a source are
# left from before a move.
room_calls() {
    find "$YOKE_BUILDDIR/lib/$1" -path "$objects" | while read -r object; do
        [ ! -f "lib/$1/$(basename "$object" .o).c" ] || echo "$object"
    done | xargs -r ${NM:-nm} -A | awk '
        {
            file = $1
            sub(/\.o:.*/, "", file)
            sub(/.*\//, "", file)
            if ($(NF - 1) ~ /^[TDBRC]$/) home[$NF] = file
            else if ($(NF - 1) == "U") { user[++n] = file; symbol[n] = $NF }
        }
        END {
            for (i = 1; i <= n; i++)
                if (symbol[i] in home && home[symbol[i]] != user[i]) print user[i], home[symbol[i]]
        }' | sort -u
}

objects='*/.libs/*.o' # those of a shared library; a build without one has others
[ -n "$(find "$YOKE_BUILDDIR/lib" -path "$objects" | head -n 1)" ] || objects='*.o'
seen=0
for room in $(echo "$rooms" | awk 'NF { print $1 }'); do
    calls=$(room_calls "$room")
    [ -z "$calls" ] || seen=1
    report=$(echo "$calls" | awk '
        NF == 2 { reach[$1, $2] = 1; file[$1] = 1; file[$2] = 1 }
        END {
            for (k in file) for (i in file) if ((i, k) in reach)
                for (j in file) if ((k, j) in reach) reach[i, j] = 1
            for (i in file) if ((i, i) in reach && !(i in told)) {
                circle = ""; size = 0
                for (j in file) if ((i, j) in reach && (j, i) in reach) {
                    told[j] = 1; circle = circle " " j; size++
                }
                if (size > 3) print "a circle of " size " files:" circle
            }
        }')
    [ -z "$report" ] || fail "lib/$room: $report"
done
[ $seen = 1 ] || fail "the objects of the build tell no symbols"
exit $failed
