#pragma once

#include <memory>
#include <utility>

#include "interchange/foreign_model.h"
#include "tokenizer/bpe_tokenizer.h"

namespace trireme {

// Returns a small model, which tests write in the formats of other programs. Its context has 16
// tokens, and its tokens are the bytes and two pairs of them.
inline InterchangeModel small_foreign_model(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 32;
  config.heads = 2;
  config.vocab_size = 300;
  config.seq_len = 16;
  InterchangeModel model{.config = config, .weights = Weights(*resolve_model(config, 0))};
  for (const ParamSpec& param : model.weights.params()) {
    float value = 0.1f;
    for (float& element : model.weights.at(param.name))
      element = (value = value * 7.7f - float(int(value * 7.7f))) - 0.4f;
  }
  model.tokenizer = std::make_unique<BpeTokenizer>(*BpeTokenizer::make({{64, 65}, {220, 256}}));
  return model;
}

}  // namespace trireme
