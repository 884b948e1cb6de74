#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# near.sh - a slip in a name is answered with the name that was meant; what is near nothing is not.
# Needs no device.

. "$YOKE_SRCDIR/tests/tools/lib.sh"

# meant NAME STATUS ARGUMENT...: the message asks whether it was that
meant() {
    name=$1
    expected=$2
    shift 2
    expect "$expected" -- "$@"
    says "$err" "; did you mean \"$name\"\\?"
}

# not STATUS ARGUMENT...
unlike() {
    expected=$1
    shift
    expect "$expected" -- "$@"
    lacks "$err" 'did you mean'
}

data=--data=$YOKE_SRCDIR/examples/data
meant train 2 tain
meant predict 2 predcit
unlike 2 wash
meant devices 2 bench devises
meant --optimizer 2 train --model=lenet "$data" --optimiser=adam
meant --epochs 2 train --epoch-s=3
meant --help 2 info --hlep
unlike 2 train --resume=yes
unlike 2 train --colour
meant lenet 2 train --model=lenett "$data"
unlike 2 train --model=alexnet "$data"
meant resnet18 2 verify resnet_18
meant simplecnn 2 tune simplecn
meant adamw 2 train --model=lenet "$data" --optimizer=adamww
unlike 2 train --model=lenet "$data" --optimizer=lion
meant momentum 2 train --model=lenet "$data" --optimizer=sgd,momentun=0.9
meant cosine 2 train --model=lenet "$data" --schedule=cosin
meant one-cycle 2 train --model=lenet "$data" --schedule=onecycle
meant warmup 2 train --model=lenet "$data" --schedule=cosine,warmpu=1
meant flip 2 train --model=lenet "$data" --augment=filp
meant local 2 train --model=lenet "$data" --batch-norm=locl
meant patient 2 tune lenet --level=pateint
meant estimate 2 bench tiny --level=estimat
# Names that options had before.
meant --batch-norm 2 train --model=lenet "$data" --bn=local
meant --batch-norm=local 2 bench tiny --local-norm
meant --recompute 2 bench tiny --memory=small
meant --lr 2 verify tiny --rate=0.1
meant --reproducible=runs 2 train --model=lenet "$data" --freeze
unlike 2 tune tiny --rate=0.1

# graph NODE REST: a file of JSON
graph() {
    printf '{"nodes": [{"op": "input", "name": "image", "type": "f32", "shape": [4]}, %s]%s}\n' \
        "$1" "$2" >"$work/graph.json"
}

graph '{"op": "dese", "units": 3}' ''
meant dense 1 info "$work/graph.json"
graph '{"op": "dense", "unit": 3}' ''
meant units 1 info "$work/graph.json"
graph '{"op": "relu", "inputs": ["imgae"]}' ''
meant image 1 info "$work/graph.json"
graph '{"op": "relu", "name": "last"}' ', "loss": "lats"'
meant last 1 info "$work/graph.json"
graph '{"op": "relu"}' ', "output": {}'
meant outputs 1 info "$work/graph.json"
graph '{"op": "sparsemax"}' ''
unlike 1 info "$work/graph.json"
finish
