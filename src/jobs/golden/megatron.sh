#!/usr/bin/env bash
# Layout of `trireme plan` for Megatron-LM.
export CUDA_DEVICE_MAX_CONNECTIONS=1

ARGS=(
  --tensor-model-parallel-size 2
  --pipeline-model-parallel-size 2
  --context-parallel-size 1
  --expert-model-parallel-size 1
  --sequence-parallel
  --cp-comm-type p2p
  --num-virtual-stages-per-pipeline-rank 2
  --use-tp-pp-dp-mapping
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --global-batch-size 8
  --micro-batch-size 1
  --bf16
  --num-layers 4
  --hidden-size 64
  --num-attention-heads 8
  --seq-length 64
  --normalization RMSNorm
  --untie-embeddings-and-output-weights
  --norm-epsilon 1e-05
  --init-method-std 0.02
  --ffn-hidden-size 64
  --vocab-size 256
  --tokenizer-type NullTokenizer
  --make-vocab-size-divisible-by 1
  --swiglu
  --disable-bias-linear
  --hidden-dropout 0
  --attention-dropout 0
  --position-embedding-type rope
  --max-position-embeddings 64
  --rotary-base 10000
  --group-query-attention
  --num-query-groups 4
  --kv-channels 8
  --num-experts 4
  --moe-ffn-hidden-size 64
  --moe-router-topk 2
  --moe-router-score-function softmax
  --moe-router-load-balancing-type seq_aux_loss
  --moe-aux-loss-coeff 0.01
  --moe-z-loss-coeff 0.001
  --moe-shared-expert-intermediate-size 64
  --moe-token-dispatcher-type alltoall
  --moe-grouped-gemm
  --expert-tensor-parallel-size 2
  --optimizer adam
  --lr 0.003
  --min-lr 0
  --adam-beta1 0.9
  --adam-beta2 0.95
  --adam-eps 1e-08
  --weight-decay 0.1
  --sgd-momentum 0.9
  --lr-decay-style cosine
  --lr-warmup-iters 2
  --clip-grad 1
  --train-iters 20
)

torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py \
  "${ARGS[@]}" "$@"
