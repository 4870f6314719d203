#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "models/decoder.h"
#include "tokenizer/tokenizer.h"
#include "train/engine.h"
#include "train/observer.h"

namespace trireme {

// Text that the model writes while it is trained, behind run.sample_prompt.
class TextSamples {
 public:
  // The sentences of `tell` say why there is no sample, or what is wrong with it.
  using Tell = std::function<void(const std::string&)>;
  // `params` are all parameters, on one rank. All references must outlive this object.
  TextSamples(const RunPlan& plan, Engine& engine, const Frame& params, const Tokenizer& tokenizer,
              Tell tell);
  // Decoder keeps the address of params_.
  TextSamples(const TextSamples&) = delete;
  TextSamples& operator=(const TextSamples&) = delete;

  // Returns no report if the prompt has no tokens of this tokenizer.
  std::optional<SampleReport> write(int64_t step);

 private:
  void tell_once(const std::string& sentence);

  const RunSection& run_;
  Engine& engine_;
  const Tokenizer& tokenizer_;
  Tell tell_;
  Frame params_;
  Decoder decoder_;
  std::set<std::string> told_;
};

}  // namespace trireme
