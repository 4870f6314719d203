#include "data/mixture_source.h"

#include <algorithm>

namespace trireme {

Result<FileSource> MixtureSource::part(TokenFile file, uint64_t seed, size_t source,
                                       int64_t seq_len) {
  const PhiloxCounter words = philox(rng_key(seed, "data.source"), counter_of(source, 0));
  return FileSource::make(std::move(file), uint64_t{words[0]} << 32 | words[1], seq_len);
}

Result<MixtureSource> MixtureSource::make(uint64_t seed, std::vector<FileSource> files,
                                          std::span<const double> weights) {
  const TokenFile& first = files.front().file();
  for (const FileSource& source : files) {
    const TokenFile& file = source.file();
    if (file.header().tokenizer_hash == first.header().tokenizer_hash &&
        file.vocab_size() == first.vocab_size()) {
      continue;
    }
    return Error{ErrorKind::Usage, first.path() + " and " + file.path() +
                                       " are of different tokenizers; prepare both with the same"};
  }
  return MixtureSource(std::move(files), SourceOrder(seed, weights));
}

void MixtureSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                                std::span<int32_t> targets) const {
  const SourceOrder::Place place = order_.place_of(global_sample);
  files_[place.source].read_sample(place.sample, inputs, targets);
}

void MixtureSource::will_read(uint64_t first_sample, int64_t num_samples) const {
  const auto is_elsewhere = [](const FileSource& source) { return source.file().is_elsewhere(); };
  if (std::ranges::none_of(files_, is_elsewhere)) return;
  for (int64_t sample = 0; sample < num_samples; ++sample) {
    const SourceOrder::Place place = order_.place_of(first_sample + uint64_t(sample));
    files_[place.source].will_read(place.sample, 1);
  }
}

double MixtureSource::epochs_of(uint64_t num_samples) const {
  double most = 0.0;
  for (size_t source = 0; source < files_.size(); ++source) {
    most = std::max(most, files_[source].epochs_of(order_.count(source, num_samples)));
  }
  return most;
}

}  // namespace trireme
