#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "interchange/weights.h"
#include "spec/run_config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// A model on its way between formats: what a checkpoint and every foreign file have in common.
struct InterchangeModel {
  ModelConfig config;  // resolves to weights.model()
  Weights weights;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none, or none that we can represent
  DType dtype = DType::F32;              // in which the file kept the matrices
  std::vector<std::string> notes;        // what a user should know, a sentence each
};

}  // namespace trireme
