#include "reproduce/published_run.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

// FLOPs of the forward pass of one token, by what recomputation repeats.
struct ForwardFlops {
  double products = 0.0;   // of all layers, attention apart
  double second = 0.0;     // of these, every second product: of keys, of attention and of the MLP
  double attention = 0.0;  // scores and their product with the values, not causal
  double head = 0.0;
};

ForwardFlops forward_flops(const GptShape& model) {
  const double h = double(model.d_model), layers = double(model.layers);
  const double kv = model.kv_heads > 0 ? h * double(model.kv_heads) / double(model.heads) : h;
  const double mlp = model.is_llama() ? 3.0 * double(model.d_ff) : 8.0 * h;
  const double second_of_mlp = model.is_llama() ? double(model.d_ff) : 4.0 * h;
  return {.products = 2.0 * h * (2.0 * h + 2.0 * kv + mlp) * layers,
          .second = 2.0 * h * (kv + h + second_of_mlp) * layers,
          .attention = 4.0 * double(model.seq_len) * h * layers,
          .head = 2.0 * h * double(model.vocab_size)};
}

double tokens_of(const PublishedRun& run) {
  return double(run.global_sequences) * double(run.model.seq_len);
}

}  // namespace

RunConfig config_of(const PublishedRun& run) {
  RunConfig config;
  config.model.family = run.model.is_llama() ? ModelFamily::Llama : ModelFamily::Gpt2;
  config.model.layers = run.model.layers;
  config.model.d_model = run.model.d_model;
  config.model.heads = run.model.heads;
  config.model.seq_len = run.model.seq_len;
  config.model.vocab_size = run.model.vocab_size;
  config.model.dropout = run.model.dropout;
  config.model.d_ff = run.model.d_ff;
  config.model.kv_heads = run.model.kv_heads;
  config.model.tied_head = !run.model.is_llama() && !run.model.unties_head;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = run.global_sequences;
  config.batch.micro_sequences = run.micro_sequences;
  config.parallel = run.parallel;
  config.optim.post_validate = run.post_validates;
  config.memory.recompute = run.recompute;
  config.precision.compute = ComputeChoice::Bf16;
  return config;
}

std::vector<int64_t> layers_of_stages(const PublishedRun& run) {
  if (!run.layers_of_stage.empty()) return run.layers_of_stage;
  const size_t num_stages = size_t(run.parallel.pp) * size_t(std::max(run.parallel.chunks, 1));
  TRIREME_CHECK(run.model.layers % int64_t(num_stages) == 0,
                "the stages of a published run have the same number of layers");
  return std::vector<int64_t>(num_stages, run.model.layers / int64_t(num_stages));
}

double model_flops(const PublishedRun& run) {
  const ForwardFlops forward = forward_flops(run.model);
  return tokens_of(run) * 3.0 * (forward.products + forward.attention + forward.head);
}

double executed_flops(const PublishedRun& run) {
  const ForwardFlops forward = forward_flops(run.model);
  double again = 0.0;
  const bool is_selective = run.recompute == Recompute::Selective;
  if (is_selective && run.practice.selective == SelectivePractice::EveryOtherProduct) {
    again += forward.second;
  } else if (run.recompute != Recompute::None) {
    again += forward.attention;
  }
  if (run.recompute == Recompute::Full) again += forward.products;
  return model_flops(run) + tokens_of(run) * again;
}

}  // namespace trireme
