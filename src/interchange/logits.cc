#include "interchange/logits.h"

#include <algorithm>

#include "comm/local/sole_rank.h"
#include "device/stream.h"
#include "kernels/kernel_table.h"
#include "models/decoder.h"

namespace trireme {
namespace {

constexpr int64_t kProbeTokens = 8;

}  // namespace

std::vector<int32_t> probe_tokens(const ModelSpec& model) {
  const int64_t count = std::min(kProbeTokens, model.seq_len);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((2 * i + 1) * model.vocab_size / (2 * count)));
  }
  return tokens;
}

std::vector<float> logits_of(const Weights& weights, std::span<const int32_t> tokens,
                             int num_threads) {
  ThreadTeam team(num_threads);
  const Buffer workspace = Buffer::allocate(num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  const std::vector<Isa> isas = supported_isas();
  SoleRank rank;
  Ctx ctx{stream,       isas.empty() ? reference_kernels() : cpu_kernels(isas.back()),
          rank.group(), rank.group(),
          rank.group(), rank.group()};
  ModelSpec model = weights.model();
  // Shortens the context, so that no cache for millions of positions is allocated.
  if (model.rope) model.seq_len = static_cast<int64_t>(tokens.size());
  Decoder decoder(model, weights.frame(), DType::F32);
  std::vector<float> logits;
  for (const int32_t& token : tokens) {
    const std::span<const float> next = decoder.append(ctx, {&token, 1});
    logits.insert(logits.end(), next.begin(), next.end());
  }
  return logits;
}

}  // namespace trireme
