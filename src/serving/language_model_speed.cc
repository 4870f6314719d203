#include "serving/language_model_speed.h"

#include <algorithm>
#include <cmath>

#include "compile/unit_price.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

constexpr double kElementBytes = 2.0;  // bf16

// Parameters that a step reads if it decodes one token of `batch` requests. Each token visits its
// own experts, evenly. Of a table of tokens that the head does not use, it reads single rows.
double read_params(const ModelSpec& model, double batch) {
  const double all = double(num_params(model)), active = double(num_active_params(model));
  const double table = model.tied_head ? 0.0 : double(model.vocab_size) * double(model.d_model);
  if (model.experts <= model.top_k) return all - table;
  const double visited = double(model.top_k) / double(model.experts);
  const double experts = (all - active) / (1.0 - visited);
  const double met = 1.0 - std::pow(1.0 - visited, batch);
  return active - experts * visited + experts * met - table;
}

double cache_bytes_of_token(const ModelSpec& model) {
  const int64_t width = model.has_latents() ? model.kv_lora_rank + model.qk_rope_head_dim
                                            : model.k_width() + model.v_width();
  return kElementBytes * double(model.layers) * double(width);
}

double seen_tokens(const ModelSpec& model, double context) {
  return model.window > 0 ? std::min(context, double(model.window)) : context;
}

double prefill_seconds(ModelSpec model, const LanguageModelUse& use, const Hardware& hardware) {
  model.seq_len = use.prompt_tokens;
  model.dropout = 0.0;
  const StageShape shape{.micro_sequences = use.batch, .compute = DType::BF16};
  const UnitPrices prices = price_units(model, shape, hardware);
  double seconds = prices.embedding.f_s;
  for (const LayerRun& run : prices.kinds) {
    seconds += double(run.count) * prices.layers[size_t(run.kind)].f_s;
  }
  return seconds;
}

double decode_step_seconds(const ModelSpec& model, const LanguageModelUse& use,
                           const Hardware& hardware) {
  const double batch = double(use.batch);
  const double context =
      seen_tokens(model, double(use.prompt_tokens) + 0.5 * double(use.output_tokens));
  const double bytes =
      kElementBytes * read_params(model, batch) + batch * context * cache_bytes_of_token(model);
  const double scores = 2.0 * double(model.layers * model.heads) * context *
                        double(model.key_dim() + model.v_head_dim);
  const double flops = batch * (2.0 * double(num_active_params(model)) + scores);
  const double moves_s = bytes / (hardware.memory_bytes_per_s * hardware.memory_share);
  const double computes_s = flops / hardware.product_flops(DType::BF16);
  return hardware.is_processor() ? moves_s + computes_s : std::max(moves_s, computes_s);
}

}  // namespace

LanguageModelSpeed language_model_speed(const ModelSpec& model, const LanguageModelUse& use,
                                        const Hardware& hardware) {
  LanguageModelSpeed speed;
  speed.prefill_s = prefill_seconds(model, use, hardware);
  speed.decode_step_s = decode_step_seconds(model, use, hardware);
  speed.requests_per_s =
      double(use.batch) / (speed.prefill_s + double(use.output_tokens) * speed.decode_step_s);
  speed.weight_bytes = kElementBytes * double(num_params(model));
  speed.cache_bytes = double(use.batch) * cache_bytes_of_token(model) *
                      seen_tokens(model, double(use.prompt_tokens + use.output_tokens));
  return speed;
}

}  // namespace trireme
