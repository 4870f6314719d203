#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"

// Internal to this folder: include it only from .cc files.
namespace trireme {

// Parses the fields of our own tokenizer.json with kind "bpe". BpeTokenizer::to_json is the
// reverse.
Result<BpeTokenizer> parse_bpe_fields(const nlohmann::json& object);

}  // namespace trireme
