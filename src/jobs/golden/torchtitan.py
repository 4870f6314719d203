"""Layout of `trireme plan` for torchtitan: --module FILE --config trireme."""

from functools import partial

import torch.nn as nn

from torchtitan.components.optimizer import default_adamw
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import (
    get_attention_config,
    make_ffn_config,
    make_gqa_config,
)
from torchtitan.models.llama3 import Llama3Model, parallelize_llama
from torchtitan.models.llama3.model import Llama3TransformerBlock
from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

DIM = 64
N_LAYERS = 4
N_HEADS = 8
N_KV_HEADS = 4
HEAD_DIM = 8
HIDDEN_DIM = 192
VOCAB_SIZE = 256
TIED_HEAD = False
NORM_EPS = 1.0e-05
LR = 0.003
ROPE = dict(
    max_context_length=64,
    theta=10000.0,
)

TRAINING = dict(
    max_context_length=64,
    num_tokens_per_microbatch_per_dp_rank=64,
    num_tokens_per_train_step=512,
    disable_cuda_graphs=True,
    steps=20,
    max_norm=1.0,
    mixed_precision_param="bfloat16",
    enable_cpu_offload=False,
)

PARALLELISM = dict(
    data_parallel_replicate_degree=1,
    data_parallel_shard_degree=2,
    fsdp_reshard_after_forward="always",
    tensor_parallel_degree=1,
    pipeline_parallel_degree=2,
    context_parallel_degree=1,
    expert_parallel_degree=1,
    enable_sequence_parallel=False,
    pipeline_parallel_schedule="1F1B",
    num_pp_microbatches=4,
    module_fqns_per_model_part=[["tok_embeddings", "layers.0", "layers.1"], ["layers.2", "layers.3", "norm", "lm_head"]],
)

ACTIVATION_CHECKPOINT = FullAC.Config()


ONES = {"weight": nn.init.ones_}


def normal(std):
    return {"weight": partial(nn.init.trunc_normal_, std=std), "bias": nn.init.zeros_}


def norm():
    return RMSNorm.Config(normalized_shape=DIM, eps=NORM_EPS, param_init=ONES)


def layer(index):
    out = normal(0.02 / (2 * (index + 1)) ** 0.5)
    return Llama3TransformerBlock.Config(
        attention_norm=norm(),
        ffn_norm=norm(),
        attention=make_gqa_config(
            dim=DIM,
            n_heads=N_HEADS,
            n_kv_heads=N_KV_HEADS,
            head_dim=HEAD_DIM,
            wqkv_param_init=normal(0.02),
            wo_param_init=out,
            inner_attention=get_attention_config("flex"),
            fuse_qkv=True,
            rope=ComplexRoPE.Config(dim=HEAD_DIM, **ROPE),
        ),
        feed_forward=make_ffn_config(
            dim=DIM,
            hidden_dim=HIDDEN_DIM,
            w1_param_init=normal(0.02),
            w2w3_param_init=out,
        ),
    )


def model():
    return Llama3Model.Config(
        dim=DIM,
        vocab_size=VOCAB_SIZE,
        enable_weight_tying=TIED_HEAD,
        tok_embeddings=Embedding.Config(
            num_embeddings=VOCAB_SIZE,
            embedding_dim=DIM,
            param_init={"weight": partial(nn.init.normal_, std=0.02)},
        ),
        norm=norm(),
        lm_head=Linear.Config(
            in_features=DIM, out_features=VOCAB_SIZE, param_init=normal(DIM**-0.5)
        ),
        layers=[layer(index) for index in range(N_LAYERS)],
    )


def trireme():
    return Trainer.Config(
        model_spec=ModelSpec(
            name="llama3",
            flavor="trireme",
            model=model(),
            parallelize_fn=parallelize_llama,
            pipelining_fn=pipeline_llm,
            post_optimizer_build_fn=None,
            state_dict_adapter=Llama3StateDictAdapter,
        ),
        optimizer=default_adamw(lr=LR),
        training=TrainingConfig(**TRAINING),
        parallelism=ParallelismConfig(**PARALLELISM),
        activation_checkpoint=ACTIVATION_CHECKPOINT,
    )
