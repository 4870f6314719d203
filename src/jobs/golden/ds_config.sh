#!/usr/bin/env bash
# Layout of `trireme plan` for Megatron-DeepSpeed.

ARGS=(
  --micro-batch-size 1
  --global-batch-size 8
  --train-iters 20
  --bf16
  --lr 0.003
  --min-lr 0
  --adam-beta1 0.9
  --adam-beta2 0.95
  --adam-eps 1e-08
  --weight-decay 0.1
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 2
  --ds-sequence-parallel-size 1
  --num-layers 4
  --hidden-size 64
  --num-attention-heads 8
  --num-key-value-heads 4
  --kv-channels 8
  --ffn-hidden-size 192
  --seq-length 64
  --normalization rmsnorm
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --layernorm-epsilon 1e-05
  --init-method-std 0.02
  --vocab-size 256
  --tokenizer-type NullTokenizer
  --make-vocab-size-divisible-by 1
  --max-position-embeddings 64
  --swiglu
  --use-rotary-position-embeddings
  --rotary-position-embeddings-theta 10000
  --hidden-dropout 0
  --attention-dropout 0
  --deepspeed
  --deepspeed_config "$(dirname "$0")/ds_config.json"
  --zero-stage 1
)

deepspeed --num_nodes 1 --num_gpus 4 pretrain_gpt.py "${ARGS[@]}" "$@"
