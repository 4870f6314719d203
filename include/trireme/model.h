#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::api {

// A trained model, ready to generate. One thread at a time may use it.
class Model {
 public:
  // A checkpoint, or a run directory: its newest good one. num_threads 0: all cores.
  static Model load(const std::string& path, int num_threads = 0);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::int64_t num_params() const;
  std::int64_t vocab_size() const;
  std::int64_t seq_len() const;  // tokens of context

  // The tokenizer that the model was trained with; a Failure where there was none.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

  // Of the token behind `tokens` (1 .. seq_len), one for each of the vocabulary.
  std::vector<float> logits(std::span<const std::int32_t> tokens);

  struct Content;  // of the library alone
  Content& content() { return *content_; }

 private:
  explicit Model(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

}  // namespace trireme::api
