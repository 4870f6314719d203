#include "session/add_data_facts.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/failure.h"
#include "data/documents.h"
#include "session/session_data.h"

namespace trireme {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 18;

double mean_document_keys(const TokenSource& source, int64_t seq_len) {
  const int64_t num_samples = std::max<int64_t>(1, kMostTokens / seq_len);
  std::vector<int32_t> inputs(static_cast<size_t>(seq_len)), targets(inputs.size());
  std::vector<int32_t> first(inputs.size()), position(inputs.size());
  int64_t keys = 0;
  for (int64_t sample = 0; sample < num_samples; ++sample) {
    source.read_sample(uint64_t(sample), inputs, targets);
    place_documents(inputs, seq_len, source.document_end(), first, position);
    // A query sees the tokens of its document before it, and itself.
    keys += std::accumulate(position.begin(), position.end(), seq_len);
  }
  return double(keys) / double(num_samples * seq_len);
}

}  // namespace

Result<double> measure_document_keys(const RunConfig& config, const ModelSpec& model,
                                     const OpenInput& open_input) {
  try {
    TRIREME_TRY(data, open_session_data(config, model.vocab_size, open_input));
    return mean_document_keys(*data.train, model.seq_len);
  } catch (const IoError& error) {
    return damaged(error.what());
  }
}

Status add_data_facts(const RunConfig& config, const OpenInput& open_input, HostFacts& host) {
  TRIREME_TRY(vocab_size, data_vocab_size(config, open_input));
  host.data_vocab_size = vocab_size;
  host.document_keys = 0.0;
  if (!config.data.document_mask) return Done{};
  const Result<ModelSpec> model = resolve_model(config.model, vocab_size);
  if (!model.ok()) return Done{};  // the plan says what is wrong
  // The text of the plan says what is wrong with the data, and the run itself refuses them.
  const Result<double> keys = measure_document_keys(config, *model, open_input);
  if (keys.ok()) host.document_keys = *keys;
  return Done{};
}

}  // namespace trireme
