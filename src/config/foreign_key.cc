#include "config/foreign_key.h"

#include <algorithm>
#include <vector>

#include "base/nearest_name.h"

namespace trireme {
namespace {

struct ForeignName {
  std::string_view name;
  std::string_view key;
};

// Names from Megatron-LM, DeepSpeed, Hugging Face and nanoGPT.
constexpr ForeignName kForeignNames[] = {
    {"num_layers", "model.layers"},
    {"n_layer", "model.layers"},
    {"hidden_size", "model.d_model"},
    {"n_embd", "model.d_model"},
    {"ffn_hidden_size", "model.d_ff"},
    {"intermediate_size", "model.d_ff"},
    {"num_heads", "model.heads"},
    {"num_attention_heads", "model.heads"},
    {"n_head", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"seq_length", "model.seq_len"},
    {"max_position_embeddings", "model.seq_len"},
    {"block_size", "model.seq_len"},
    {"context_length", "model.seq_len"},
    {"num_experts", "model.experts"},
    {"data_path", "data.train"},
    {"batch_size", "batch.global_sequences"},
    {"global_batch_size", "batch.global_sequences"},
    {"micro_batch_size", "batch.micro_sequences"},
    {"optimizer", "optim.name"},
    {"learning_rate", "optim.lr"},
    {"min_learning_rate", "optim.min_lr"},
    {"warmup_iters", "optim.warmup_steps"},
    {"clip_grad", "optim.clip_norm"},
    {"grad_clip", "optim.clip_norm"},
    {"max_grad_norm", "optim.clip_norm"},
    {"data_parallel_size", "parallel.dp"},
    {"tensor_parallel_size", "parallel.tp"},
    {"tensor_model_parallel_size", "parallel.tp"},
    {"pipeline_parallel_size", "parallel.pp"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"context_parallel_size", "parallel.cp"},
    {"expert_parallel_size", "parallel.ep"},
    {"expert_model_parallel_size", "parallel.ep"},
    {"data_parallel", "parallel.dp"},
    {"tensor_parallel", "parallel.tp"},
    {"pipeline_parallel", "parallel.pp"},
    {"context_parallel", "parallel.cp"},
    {"expert_parallel", "parallel.ep"},
    {"sequence_parallel", "parallel.sequence"},
    {"zero_stage", "parallel.zero"},
    {"dtype", "precision.compute"},
    {"recompute_granularity", "memory.recompute"},
    {"save_interval", "checkpoint.every"},
    {"train_iters", "run.steps"},
    {"max_steps", "run.steps"},
    {"eval_interval", "run.eval_every"},
};

std::string with_underscores(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace

std::string key_of_foreign_name(std::string_view name) {
  const std::string wanted = with_underscores(name);
  for (const ForeignName& foreign : kForeignNames) {
    if (foreign.name == wanted) return std::string(foreign.key);
  }
  return "";
}

std::string key_near_foreign_name(std::string_view name) {
  return key_of_foreign_name(nearest_name(with_underscores(name), foreign_key_names()));
}

std::vector<std::string> foreign_key_names() {
  std::vector<std::string> names;
  for (const ForeignName& foreign : kForeignNames) names.emplace_back(foreign.name);
  return names;
}

}  // namespace trireme
