#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "data/text_reader.h"

namespace trireme {

// How far a preparation has come; kept beside its part files.
struct PrepareState {
  uint64_t inputs_hash = 0;  // of everything that decides the tokens
  TextReader::Position position;
  TextReader::Report report;
  int64_t train_tokens = 0;
  int64_t val_tokens = 0;
};

Status save_prepare_state(const PrepareState& state, const std::string& path);
// None where there is no such file, or it is of other inputs, or damaged: then there is nothing to
// go on from.
std::optional<PrepareState> load_prepare_state(const std::string& path, uint64_t inputs_hash);

}  // namespace trireme
