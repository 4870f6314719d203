#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "interchange/weights.h"
#include "schema/run_config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// A model during conversion: what a checkpoint and every foreign file have in common.
struct InterchangeModel {
  ModelConfig config;  // resolves to weights.model()
  Weights weights;
  std::unique_ptr<Tokenizer> tokenizer;  // null: none, or one that we cannot represent
  DType dtype = DType::F32;              // of the matrices in the file
  std::vector<std::string> notes;        // notes for the user, one sentence each
};

}  // namespace trireme
