#include "session/data_facts.h"

#include <cmath>
#include <optional>

#include "data/baselines.h"
#include "data/synthetic_source.h"
#include "data/token_file.h"

namespace trireme {
namespace {

constexpr int64_t kMostCounted = int64_t{1} << 20;  // tokens; counting takes a tenth of a second

std::optional<TokenFile> add_file(const char* use, const std::string& path,
                                  std::optional<double> share, const OpenInput& open_input,
                                  DataFacts& facts) {
  auto file = TokenFile::open_named(path, open_input, 0);
  if (!file.ok()) return std::nullopt;
  const TokenFileHeader& header = file->header();
  facts.files.push_back({use, path, header.num_tokens, header.num_documents, share});
  return std::move(*file);
}

void add_baselines(const TokenFile& train, const TokenFile& val, DataFacts& facts) {
  // Counts of all tokens cannot be compared with a loss over some of them.
  if (train.header().has_loss_mask || val.header().has_loss_mask) return;
  const auto measured = measure_baselines(train, val, kMostCounted);
  if (!measured.ok()) return;
  facts.unigram = measured->unigram_nats;
  facts.bigram = measured->bigram_nats;
  facts.counted_tokens = measured->train_tokens;
  facts.bytes_per_token = double(val.header().text_bytes) / double(val.num_tokens());
}

}  // namespace

DataFacts data_facts(const RunConfig& config, int64_t vocab_size, const OpenInput& open_input) {
  DataFacts facts;
  facts.uniform = std::log(double(vocab_size));
  const DataConfig& data = config.data;
  if (reads_images(config.model.family)) return facts;
  if (data.source == DataSource::Synthetic) {
    facts.entropy = SyntheticSource(config.run.seed, vocab_size).entropy_rate();
    return facts;
  }
  double weights = 0.0;
  for (const WeightedFile& file : data.train_mixture) weights += file.weight;
  std::optional<TokenFile> train;
  if (data.train_mixture.empty())
    train = add_file("training data", data.train, {}, open_input, facts);
  for (const WeightedFile& file : data.train_mixture) {
    auto opened = add_file("training data", file.path, file.weight / weights, open_input, facts);
    if (!train) train = std::move(opened);
  }
  if (data.val.empty()) return facts;
  const std::optional<TokenFile> val = add_file("validation data", data.val, {}, open_input, facts);
  try {
    // Counts of pairs over the borders of documents cannot be compared with a loss without them.
    if (train && val && !data.document_mask) add_baselines(*train, *val, facts);
  } catch (const IoError&) {
    // The run itself reports damaged files.
  }
  return facts;
}

}  // namespace trireme
