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

bool names_data(const DataConfig& data) {
  return data.source == DataSource::Synthetic || !data.train.empty() || !data.train_mixture.empty();
}

}  // namespace

Status add_data_facts(const RunConfig& config, const OpenInput& open_input, HostFacts& host) {
  TRIREME_TRY(vocab_size, data_vocab_size(config, open_input));
  host.data_vocab_size = vocab_size;
  host.document_keys = 0.0;
  if (!config.data.document_mask || !names_data(config.data)) return Done{};
  const Result<ModelSpec> model = resolve_model(config.model, vocab_size);
  if (!model.ok()) return Done{};  // the plan says what is wrong
  try {
    const auto data = open_session_data(config, model->vocab_size, open_input);
    if (data.ok()) host.document_keys = mean_document_keys(*data->train, model->seq_len);
  } catch (const IoError&) {
    // The run itself reports damaged files.
  }
  return Done{};
}

}  // namespace trireme
