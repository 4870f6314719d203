#include "reproduce/published_run.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

// FLOPs of the forward pass of one token, by what recomputation repeats.
struct ForwardFlops {
  double products = 0.0;   // of all layers, attention apart
  double attention = 0.0;  // scores and their product with the values, not causal
  double head = 0.0;
};

ForwardFlops forward_flops(const GptShape& model) {
  const double h = double(model.d_model);
  return {.products = 24.0 * h * h * double(model.layers),
          .attention = 4.0 * double(model.seq_len) * h * double(model.layers),
          .head = 2.0 * h * double(model.vocab_size)};
}

double tokens_of(const PublishedRun& run) {
  return double(run.global_sequences) * double(run.model.seq_len);
}

}  // namespace

RunConfig config_of(const PublishedRun& run) {
  RunConfig config;
  config.model.family = ModelFamily::Gpt2;
  config.model.layers = run.model.layers;
  config.model.d_model = run.model.d_model;
  config.model.heads = run.model.heads;
  config.model.seq_len = run.model.seq_len;
  config.model.vocab_size = run.model.vocab_size;
  config.model.dropout = run.model.dropout;
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
  if (run.recompute != Recompute::None) again += forward.attention;
  if (run.recompute == Recompute::Full) again += forward.products;
  return model_flops(run) + tokens_of(run) * again;
}

}  // namespace trireme
