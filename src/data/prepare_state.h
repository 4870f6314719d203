#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "data/text_reader.h"

namespace trireme {

// The progress of a preparation, stored beside its part files.
struct PrepareState {
  uint64_t inputs_hash = 0;  // of everything that affects the tokens
  TextReader::Position position;
  TextReader::Report report;
  int64_t train_tokens = 0;
  int64_t val_tokens = 0;
};

Status save_prepare_state(const PrepareState& state, const std::string& path);
// Returns nullopt if there is no such file, it belongs to other inputs, or it is damaged; then the
// preparation cannot be resumed.
std::optional<PrepareState> load_prepare_state(const std::string& path, uint64_t inputs_hash);

}  // namespace trireme
