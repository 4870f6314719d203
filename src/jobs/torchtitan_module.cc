#include <fmt/format.h>

#include "jobs/export_forms.h"

namespace trireme {
namespace {

constexpr std::string_view kImports =
    R"("""Layout of `trireme plan` for torchtitan: --module FILE --config trireme."""

from functools import partial

import torch.nn as nn

from torchtitan.components.optimizer import default_adamw
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import {activation_checkpoint}
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
)";

constexpr std::string_view kModel = R"(
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
)";

std::string python_text(const ForeignValue& value) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag != nullptr) return *flag ? "True" : "False";
  return literal_text(value);
}

// "TRAINING = dict(" and a line for each setting of the section.
std::string dict_text(std::string_view name, std::string_view section, const ForeignJob& job) {
  std::string text = fmt::format("{} = dict(\n", name);
  for (const ForeignSetting& setting : job.settings()) {
    if (!setting.key.starts_with(section)) continue;
    text +=
        fmt::format("    {}={},\n", setting.key.substr(section.size()), python_text(setting.value));
  }
  return text + ")\n";
}

std::string sizes_constants(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const bool is_scaled = model.rope_scaling_factor != 1.0;
  std::string rope = fmt::format("    max_context_length={},\n    theta={},\n", model.seq_len,
                                 literal_text(model.rope_theta));
  if (is_scaled) {
    rope += fmt::format(
        "    scaling=\"llama\",\n    scaling_factor={},\n    low_freq_factor={},\n"
        "    high_freq_factor={},\n    original_max_position_embeddings={},\n",
        literal_text(model.rope_scaling_factor), literal_text(model.rope_low_freq_factor),
        literal_text(model.rope_high_freq_factor), model.rope_original_seq_len);
  }
  return fmt::format(
      "DIM = {}\nN_LAYERS = {}\nN_HEADS = {}\nN_KV_HEADS = {}\nHEAD_DIM = {}\nHIDDEN_DIM = {}\n"
      "VOCAB_SIZE = {}\nTIED_HEAD = {}\nNORM_EPS = {}\nLR = {}\nROPE = dict(\n{})\n",
      model.d_model, model.layers, model.heads, model.kv_heads, model.head_dim, model.d_ff,
      model.vocab_size, python_text(model.tied_head), literal_text(model.norm_eps),
      literal_text(config.optim.lr), rope);
}

}  // namespace

std::string torchtitan_module(const JobWriter& writer) {
  const RunConfig& config = writer.config();
  const Recompute recompute = config.memory.recompute;
  std::string imports(kImports);
  const std::string mark = "{activation_checkpoint}";
  imports.replace(imports.find(mark), mark.size(),
                  recompute == Recompute::Full ? "FullAC" : "SelectiveAC");
  const std::string_view policy = recompute == Recompute::None   ? "None"
                                  : recompute == Recompute::Full ? "FullAC.Config()"
                                                                 : "SelectiveAC.Config()";
  return fmt::format("{}\n{}\n{}\n{}\nACTIVATION_CHECKPOINT = {}\n\n{}", imports,
                     sizes_constants(config), dict_text("TRAINING", "training.", writer.job()),
                     dict_text("PARALLELISM", "parallelism.", writer.job()), policy, kModel);
}

}  // namespace trireme
