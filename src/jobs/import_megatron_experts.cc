#include <fmt/format.h>

#include <algorithm>

#include "jobs/import_megatron.h"
#include "jobs/layer_pattern.h"

namespace trireme {
namespace {

// Reads which layers have experts: all, or those of a list such as "([0]*1+[1]*27)".
void read_layers_with_experts(JobReader& job) {
  constexpr std::string_view kKey = "--moe-layer-freq";
  const std::string text = job.word(kKey).value_or("1");
  if (text == "1") return;
  const int64_t layers = job.integer("--num-layers").value_or(0);
  const auto pattern = parse_layer_pattern(text, size_t(std::clamp<int64_t>(layers, 0, 1 << 16)));
  if (!pattern || int64_t(pattern->size()) != layers) {
    return job.refuse(kKey, fmt::format("it is no list of {} layers, each 0 or 1", layers),
                      "write it as \"([0]*1+[1]*27)\"");
  }
  const auto first = std::find(pattern->begin(), pattern->end(), 1);
  const bool is_leading = std::count(pattern->begin(), first, 0) == first - pattern->begin() &&
                          std::count(first, pattern->end(), 1) == pattern->end() - first;
  if (!is_leading || first == pattern->end()) {
    return job.refuse(kKey, "only the first layers may be without experts here",
                      "write it as \"([0]*1+[1]*27)\"");
  }
  if (first == pattern->begin()) return;
  job.assign("model.dense_layers", int64_t(first - pattern->begin()), kKey);
  job.assign("model.dense_d_ff", megatron_dense_d_ff(job), "--ffn-hidden-size");
}

}  // namespace

void read_megatron_experts(JobReader& job) {
  job.number("model.experts", "--num-experts");
  read_layers_with_experts(job);
  job.assign("model.top_k", job.integer("--moe-router-topk").value_or(2), "--moe-router-topk");
  job.flag("--moe-router-pre-softmax");
  const std::string score = job.word("--moe-router-score-function").value_or("softmax");
  if (score != "softmax" && score != "sigmoid") {
    job.refuse("--moe-router-score-function", "our routers are softmax and sigmoid", "use one");
  }
  job.assign("model.router", score, "--moe-router-score-function");
  const std::string balance = job.word("--moe-router-load-balancing-type").value_or("aux_loss");
  if (balance != "aux_loss" && balance != "seq_aux_loss" && balance != "none") {
    job.refuse("--moe-router-load-balancing-type", "we have the loss of a sequence, or none",
               "use seq_aux_loss");
  }
  job.assign("model.aux_loss", 0.0);
  if (balance != "none") job.number("model.aux_loss", "--moe-aux-loss-coeff");
  job.has("--moe-aux-loss-coeff");
  job.number("model.z_loss", "--moe-z-loss-coeff");
  const int64_t width = job.integer("--moe-shared-expert-intermediate-size").value_or(0);
  const int64_t d_ff =
      job.integer("--moe-ffn-hidden-size").value_or(job.integer("--ffn-hidden-size").value_or(0));
  if (width > 0 && (d_ff < 1 || width % d_ff != 0)) {
    job.refuse("--moe-shared-expert-intermediate-size",
               fmt::format("our shared experts are as wide as the others, {}", d_ff),
               "take a multiple");
  } else if (width > 0) {
    job.assign("model.shared_experts", width / d_ff, "--moe-shared-expert-intermediate-size");
  }
  job.number("model.routed_scaling", "--moe-router-topk-scaling-factor");
  job.number("model.expert_groups", "--moe-router-num-groups");
  job.number("model.top_groups", "--moe-router-group-topk");
  if (job.flag("--moe-router-enable-expert-bias")) {
    job.assign("model.balance_rate", 1e-3, "--moe-router-enable-expert-bias");
    job.number("model.balance_rate", "--moe-router-bias-update-rate");
  }
  job.number("model.capacity_factor", "--moe-expert-capacity-factor");
  if (job.word("--moe-token-drop-policy").value_or("position") != "position") {
    job.note("tokens above an expert's capacity are dropped by position here");
  }
  for (const char* harmless : {"--moe-grouped-gemm", "--moe-token-dispatcher-type"}) {
    job.has(harmless);
  }
  const int64_t tp = job.integer("--tensor-model-parallel-size").value_or(1);
  if (const auto etp = job.integer("--expert-tensor-parallel-size"); etp && *etp != tp) {
    job.refuse("--expert-tensor-parallel-size",
               fmt::format("experts are split like the other layers here, over tp = {}", tp),
               fmt::format("price it with {}", tp));
  }
}

}  // namespace trireme
