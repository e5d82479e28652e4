#!/bin/sh
# Tune all weights of the public model by PPO on one GPU: GLAM and NPAE, five seeds each, one after another. The variables
# WORLD, LR and FRAMES change the small room, the rate and the length; DEVICE=cpu tries it without a GPU.
#     WORLD=BabyAI-MixedTrainLocal-v0 sh tools/public_model_gpu.sh OUT [--set key=value ...]
# A call ends after LIMIT seconds (500) with a checkpoint, and the same call continues. Exit code 75: there is more to do.
set -eu
out=$1; shift
end=$(($(date +%s) + ${LIMIT:-500}))
for method in glam npae; do
    for seed in 0 1 2 3 4; do
        left=$((end - $(date +%s)))
        [ "$left" -gt 20 ] || exit 75
        code=0
        timeout -s TERM "$left" groundlab run "$method" --world "${WORLD:-BabyAI-GoToLocalS8N4-v0}" --seed "$seed" \
            --out "$out/$method-$seed" --set model=smollm2-135m-instruct --set device="${DEVICE:-cuda}" --set dtype=bfloat16 \
            --set action_list=true --set temperature=1 --set lr="${LR:-1e-5}" --set epochs=1 --set frames="${FRAMES:-49152}" "$@" || code=$?
        case $code in 0) ;; 75 | 124 | 143) exit 75 ;; *) exit "$code" ;; esac
    done
done
